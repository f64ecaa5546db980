"""What a row of the contract consists of."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from checkers.contract.conditions import (
    NO_CAUSE_RECORDABLE,
    RISKY_SETTINGS_OR_FAULTS,
    STATE_LOSS_UNCERTAIN,
    Condition,
    Context,
)
from checkers.contract.permissions import Permission


class Judgement(StrEnum):
    """What the contract says about an anomaly."""

    FORBIDDEN = "forbidden"
    PERMITTED = "permitted"
    INFORMATIONAL = "informational"
    UNKNOWN = "unknown"
    """Forbidden or permitted: the fact that decides is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the contract. `configuration` and `reason` are for people, `applies` decides.

    permission: for a row that permits, the settings or the event that permit the anomaly, and what
    would have prevented it.
    """

    configuration: str
    anomaly: str
    judgement: Judgement
    reason: str
    source: str
    applies: Callable[[Context], bool]
    permission: Permission | None = None

    def as_json(self) -> dict[str, Any]:
        """The row as the report prints it."""
        made: dict[str, Any] = {
            "configuration": self.configuration,
            "anomaly": self.anomaly,
            "judgement": self.judgement.value,
            "reason": self.reason,
            "source": self.source,
        }
        return made | (self.permission.as_json() if self.permission else {})

    @property
    def text(self) -> str:
        """One line that names the row in a verdict."""
        return f"{self.configuration}: {self.anomaly} {self.judgement.value}: {self.reason}"


def rule(
    condition: Condition,
    anomaly: str,
    judgement: Judgement,
    reason: str,
    source: str,
    permission: Permission | None = None,
) -> Rule:
    """Make a row; the arguments have the order in which people read the row."""
    return Rule(
        configuration=condition.text,
        anomaly=anomaly,
        judgement=judgement,
        reason=reason,
        source=source,
        applies=condition.holds,
        permission=permission,
    )


def open_rules(anomaly: str) -> tuple[Rule, ...]:
    """The rows for an anomaly without a recorded cause in a record that may lack the cause."""
    return (
        rule(
            RISKY_SETTINGS_OR_FAULTS & NO_CAUSE_RECORDABLE, anomaly, Judgement.UNKNOWN,
            "an event that permits this may have happened; the record cannot show it",
            "-",
        ),
        in_doubt(anomaly),
    )  # fmt: skip


def in_doubt(anomaly: str) -> Rule:
    """The row for a fault that may have destroyed data, without a proof that it did."""
    return rule(
        STATE_LOSS_UNCERTAIN, anomaly, Judgement.UNKNOWN,
        "the fault may have destroyed the records, or not",
        "-",
    )  # fmt: skip
