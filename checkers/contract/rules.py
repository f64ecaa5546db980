"""What a row of the contract consists of."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from checkers.contract import permissions
from checkers.contract.conditions import (
    ACKS_ALL,
    ALL_LOST_DISKS,
    ENOUGH_LOST_POWER,
    LAST_LOST_POWER,
    MIN_ISR_1,
    NO_CAUSE_RECORDABLE,
    ONLY_IN_SYNC_REPLICA_LOST,
    QUORUM_LOST_SINCE,
    RISKY_SETTINGS_OR_FAULTS,
    STATE_LOSS_UNCERTAIN,
    UNCLEAN_ELECTION,
    Condition,
    Context,
    otherwise,
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


def when(condition: Condition, rows: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rows for the case that the condition holds, too."""
    return tuple(
        replace(
            row,
            configuration=f"{condition.text}, {row.configuration}",
            applies=(condition & Condition(row.configuration, row.applies)).holds,
        )
        for row in rows
    )


def state_loss_rules(anomaly: str, reason: str, *, acks_all: bool = False) -> tuple[Rule, ...]:
    """The rows for the case that all replicas which held a record lost it."""

    def only(condition: Condition) -> Condition:
        return ACKS_ALL & condition if acks_all else condition

    return (
        rule(
            only(ENOUGH_LOST_POWER), anomaly, Judgement.PERMITTED,
            f"{reason}: all of these replicas had the record only in memory",
            "Kafka: min.insync.replicas, flush.messages; KIP-966",
            permissions.UNFLUSHED,
        ),
        rule(
            only(MIN_ISR_1 & LAST_LOST_POWER), anomaly, Judgement.PERMITTED,
            f"{reason}: the last in-sync replica had the record only in memory, and leads again",
            "KIP-966: last replica standing; min ISR - 1 power losses are tolerated",
            permissions.ONE_UNFLUSHED,
        ),
        rule(
            only(otherwise("eligible.leader.replicas.version=0") & LAST_LOST_POWER),
            anomaly, Judgement.PERMITTED,
            f"{reason}: the last in-sync replica had the record only in memory, and leads again",
            "KIP-966: last replica standing",
            permissions.LAST_UNFLUSHED,
        ),
        rule(
            only(ALL_LOST_DISKS), anomaly, Judgement.PERMITTED,
            f"{reason}: no replica with an intact disk had the record",
            "the original replication design",
            permissions.DISKS_LOST,
        ),
        rule(
            QUORUM_LOST_SINCE, anomaly, Judgement.PERMITTED,
            f"{reason}: the new controllers may not know the leaders, the epochs and the in-sync "
            "replicas",
            "KIP-853; KAFKA-14077",
            permissions.QUORUM_LOST,
        ),
    )  # fmt: skip


def forgotten_rules(anomaly: str, topic: str, what: str) -> tuple[Rule, ...]:
    """The rules for what a coordinator has forgotten because its partition of an internal topic
    lost it. what: what the topic lost, in words."""

    def of_topic(row: Rule) -> Rule:
        return replace(row, configuration=f"{topic}: {row.configuration}")

    return tuple(
        map(
            of_topic,
            (
                rule(
                    UNCLEAN_ELECTION, anomaly, Judgement.PERMITTED,
                    f"the topic lost {what}: a replica outside the in-sync replicas was elected",
                    "Kafka: unclean.leader.election.enable",
                    permissions.UNCLEAN,
                ),
                rule(
                    MIN_ISR_1 & ONLY_IN_SYNC_REPLICA_LOST, anomaly, Judgement.PERMITTED,
                    f"the topic lost {what}: the only in-sync replica was lost",
                    "Kafka: min.insync.replicas; KIP-966",
                    permissions.ONE_IN_SYNC,
                ),
                *state_loss_rules(anomaly, f"the topic lost {what}"),
            ),
        )
    )  # fmt: skip


def open_forgotten_rules(anomaly: str, topic: str, what: str) -> tuple[Rule, ...]:
    """The rules for the same without a recorded cause, in a record that may lack the cause."""
    unrecorded = RISKY_SETTINGS_OR_FAULTS & NO_CAUSE_RECORDABLE
    return (
        rule(
            Condition(f"{topic}: {unrecorded.text}", unrecorded.holds), anomaly, Judgement.UNKNOWN,
            f"the topic may have lost {what} with permission; the record does not show its leaders",
            "-",
        ),
        in_doubt(anomaly),
    )  # fmt: skip


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
