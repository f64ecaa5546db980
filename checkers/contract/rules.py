"""What a row of the contract is made of: judgements, what they look at, and the row itself."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from checkers.causes.cause import Cause, CauseKind
from checkers.causes.state_loss import Toll
from checkers.contract.permissions import Permission
from checkers.history.recorded_faults import Taken
from checkers.history.settings import Settings

ACKNOWLEDGED = "acknowledged"
"""The aspect of what an acknowledgement says against another, or against the log."""


class Judgement(StrEnum):
    """What the contract says of an anomaly."""

    FORBIDDEN = "forbidden"
    PERMITTED = "permitted"
    INFORMATIONAL = "informational"
    UNKNOWN = "unknown"
    """It would be one or the other, but what decides is not in the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Settings):
    """What the contract looks at besides the anomaly's kind: the topic's settings, and these.

    cause: the recorded cause, if any. cause_recorded: the record could have shown a cause, since
    who led is in it and, for what is explained by its offset, the leaders' epochs at the end were
    read. state_taken: some fault of the run took something from
    a node for good; state_in_doubt: one began to, and how far it came is not in the record.
    quorum_lost: a majority of the voters lost their disks together, at some time of the run.
    settled: all replicas were in sync again.
    """

    aspect: str | None = None
    cause: Cause | None = None
    cause_recorded: bool = True
    state_taken: bool = False
    state_in_doubt: bool = False
    quorum_lost: bool = False
    settled: bool = True

    @property
    def excusable(self) -> bool:
        """Something that may happen in such a run permits the loss of committed records."""
        return self.unclean_election or self.min_insync_replicas <= 1 or self.state_taken

    @property
    def deposed(self) -> bool:
        """Leadership went to another replica within the write's reach."""
        cause = self.cause
        if cause is None or cause.kind is not CauseKind.ELECTION:
            return False
        return cause.leader is None or cause.leader != cause.deposed

    @property
    def unclean(self) -> bool:
        """The new leader was not in the in-sync replicas, and that was configured."""
        return self.cause is not None and self.cause.left_isr and self.unclean_election

    @property
    def sole_isr_lost(self) -> bool:
        """The in-sync replicas were the leader alone, and another replica was elected."""
        return self.cause is not None and self.cause.sole_isr

    @property
    def leader_lost_state(self) -> bool:
        """The leader that took the write lost what it had, and then led again."""
        if self.cause is None or self.cause.lost is None:
            return False
        return self.cause.deposed in self.cause.lost.gone(self)

    @property
    def leader_lost_disk(self) -> bool:
        """It lost its disk: no flush would have kept the write."""
        if self.cause is None or self.cause.lost is None:
            return False
        losses = self.cause.lost.losses
        return any(e.node == self.cause.deposed and e.taken is Taken.DISK for e in losses)

    @property
    def forgotten(self) -> bool:
        """The metadata quorum had lost its memory within the write's reach."""
        return self.cause is not None and self.cause.kind is CauseKind.QUORUM_LOSS

    @property
    def toll(self) -> Toll | None:
        """Why what replicas lost together may have been all that there was of the write."""
        if self.cause is None or self.cause.lost is None:
            return None
        return self.cause.lost.toll(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the contract; `configuration` and `reason` are for people, `applies` decides.

    permission: of a row that permits, what it is that permits, and what would have prevented it.
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


def in_force(settings: Settings) -> Context:
    """A context of these settings, to be filled in."""
    return Context(**{each.name: getattr(settings, each.name) for each in fields(Settings)})


def rule(
    configuration: str,
    anomaly: str,
    judgement: Judgement,
    reason: str,
    source: str,
    applies: Callable[[Context], bool] = lambda _: True,
    permission: Permission | None = None,
) -> Rule:
    """A row in the order in which people read it."""
    return Rule(
        configuration=configuration,
        anomaly=anomaly,
        judgement=judgement,
        reason=reason,
        source=source,
        applies=applies,
        permission=permission,
    )


def open_rules(anomaly: str) -> tuple[Rule, ...]:
    """The rows for what has no cause in the record, where the record lacks what would show one."""
    return (
        rule(
            "unclean election on, min ISR 1, or nodes lost power or disks; leader epochs not "
            "recorded", anomaly, Judgement.UNKNOWN,
            "whether anything that permits it took place is not in the record",
            "-",
            lambda c: not c.cause_recorded and c.excusable,
        ),
        in_doubt(anomaly),
    )  # fmt: skip


def in_doubt(anomaly: str) -> Rule:
    """The row for what may have been lost while nobody recorded it."""
    return rule(
        "a fault that takes power or disks began", anomaly, Judgement.UNKNOWN,
        "what it took is not in the record",
        "-",
        lambda c: c.state_in_doubt,
    )  # fmt: skip
