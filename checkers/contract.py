"""The contract: which anomalies the configured guarantees forbid, permit, or only report.

CONTRACT is one table, read from top to bottom; the first row that applies decides. A row that
permits a loss asks for its cause in the record: "acks=1 and something failed somewhere" is no
cause. The table is printed in every report. It is the authority; everything else quotes it.

Sources: the Kafka documentation of `acks`, `min.insync.replicas`, `enable.idempotence` and
`unclean.leader.election.enable`; KIP-98 (idempotence), KIP-101 and KIP-279 (truncation by epoch),
KIP-207 (end offsets after an election), KIP-320 (consumers and truncation), KIP-966 (eligible
leader replicas); Adya's and Elle's names for reads that must not be.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum

from checkers.causes import Cause, CauseKind
from checkers.producer_epochs import IN_FLIGHT
from checkers.settings import Settings
from checkers.state_loss import Toll


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

    cause: the recorded cause, if any. cause_recorded: the record could have shown a cause.
    state_taken: some fault of the run took something from a node for good. settled: all replicas
    were in sync again. exceeds_bound: an unavailability longer than the plan's bound; None without
    a bound.
    """

    aspect: str | None = None
    cause: Cause | None = None
    cause_recorded: bool = True
    state_taken: bool = False
    settled: bool = True
    exceeds_bound: bool | None = None

    @property
    def deposed(self) -> bool:
        """Leadership went to another replica within the write's reach."""
        return self.cause is not None and self.cause.kind is CauseKind.ELECTION

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
    def toll(self) -> Toll | None:
        """Why what replicas lost together may have been all that there was of the write."""
        if self.cause is None or self.cause.lost is None:
            return None
        return self.cause.lost.toll(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the contract; `configuration` and `reason` are for people, `applies` decides."""

    configuration: str
    anomaly: str
    judgement: Judgement
    reason: str
    source: str
    applies: Callable[[Context], bool]

    def as_json(self) -> dict[str, str]:
        """The row as the report prints it."""
        return {
            "configuration": self.configuration,
            "anomaly": self.anomaly,
            "judgement": self.judgement.value,
            "reason": self.reason,
            "source": self.source,
        }

    @property
    def text(self) -> str:
        """One line that names the row in a verdict."""
        return f"{self.configuration}: {self.anomaly} {self.judgement.value}: {self.reason}"


def in_force(settings: Settings) -> Context:
    """A context of these settings, to be filled in."""
    return Context(**{each.name: getattr(settings, each.name) for each in fields(Settings)})


def _rule(
    configuration: str,
    anomaly: str,
    judgement: Judgement,
    reason: str,
    source: str,
    applies: Callable[[Context], bool] = lambda _: True,
) -> Rule:
    return Rule(
        configuration=configuration,
        anomaly=anomaly,
        judgement=judgement,
        reason=reason,
        source=source,
        applies=applies,
    )


FORBIDDEN, PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED
INFORMATIONAL, UNKNOWN = Judgement.INFORMATIONAL, Judgement.UNKNOWN


def _state_loss_rules(anomaly: str, reason: str, *, acks_all: bool = False) -> tuple[Rule, ...]:
    """The rows that permit what follows when all that held a record lost it together."""
    who = "acks=all, " if acks_all else ""

    def counts(c: Context, toll: Toll) -> bool:
        return c.toll is toll and (c.acks == -1 or not acks_all)

    return (
        _rule(
            f"{who}min ISR m of 2 or more, no flush before the acknowledgement, and m in-sync or "
            "eligible replicas or more lost power together", anomaly, PERMITTED,
            f"{reason}: so many had it in memory alone",
            "Kafka: min.insync.replicas, flush.messages; KIP-966",
            lambda c: counts(c, Toll.POWER),
        ),
        _rule(
            f"{who}no flush before the acknowledgement, min ISR 1 or eligible leader replicas off, "
            "and all of the in-sync replicas lost power together", anomaly, PERMITTED,
            f"{reason}: the last replica standing had it in memory alone, and leads again",
            "KIP-966: last replica standing",
            lambda c: counts(c, Toll.LAST_STANDING),
        ),
        _rule(
            f"{who}no in-sync or eligible replica was left with a whole disk (and its power, "
            "without a flush before the acknowledgement)", anomaly, PERMITTED,
            f"{reason}: nobody whose disk was whole had it",
            "the original replication design",
            lambda c: counts(c, Toll.DISKS),
        ),
    )  # fmt: skip


_LOST = (
    _rule(
        "acks=0", "lost-write", PERMITTED,
        "no acknowledgement was asked for; counted",
        "Kafka: acks",
        lambda c: c.acks == 0,
    ),
    _rule(
        "acks=1, a new leader's epoch starts at or below the write, and its predecessor may not "
        "have known yet", "lost-write", PERMITTED,
        "the leader alone had the write, and leadership went to another replica",
        "Kafka: acks; KIP-101",
        lambda c: c.acks == 1 and c.deposed,
    ),
    _rule(
        "acks=1, the leader lost its disk, or its power without a flush before the acknowledgement",
        "lost-write", PERMITTED,
        "the leader alone had the write for sure, and it led again without it",
        "Kafka: acks, flush.messages",
        lambda c: c.acks == 1 and c.leader_lost_state,
    ),
    _rule(
        "unclean election on, and one took place", "lost-write", PERMITTED,
        "a replica outside the in-sync replicas was elected",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.acks in (1, -1) and c.unclean,
    ),
    _rule(
        "acks=all, min ISR 1, the ISR was the leader alone and another was elected", "lost-write",
        PERMITTED,
        "the only in-sync replica was lost",
        "Kafka: min.insync.replicas; KIP-966",
        lambda c: c.acks == -1 and c.min_insync_replicas <= 1 and c.sole_isr_lost,
    ),
    *_state_loss_rules("lost-write", "the write is gone", acks_all=True),
    _rule(
        "acks=1, leader epochs not recorded", "lost-write", UNKNOWN,
        "whether leadership changed is not in the record",
        "-",
        lambda c: c.acks == 1 and not c.cause_recorded,
    ),
    _rule(
        "acks=all, min ISR 1, leader epochs not recorded", "lost-write", UNKNOWN,
        "whether the only in-sync replica was lost is not in the record",
        "-",
        lambda c: c.acks == -1 and c.min_insync_replicas <= 1 and not c.cause_recorded,
    ),
    _rule(
        "acks=all, nodes lost power or disks, leader epochs not recorded", "lost-write", UNKNOWN,
        "whether so many in-sync replicas lost it together is not in the record",
        "-",
        lambda c: c.acks == -1 and c.state_taken and not c.cause_recorded,
    ),
    _rule(
        "acks=1", "lost-write", FORBIDDEN,
        "no change of leadership within the write's reach is in the record, and no loss of what "
        "its leader had",
        "Kafka: acks",
        lambda c: c.acks == 1,
    ),
    _rule(
        "acks=all, min ISR 1", "lost-write", FORBIDDEN,
        "the record does not show that the ISR was the leader alone and that it was lost",
        "Kafka: min.insync.replicas",
        lambda c: c.acks == -1 and c.min_insync_replicas <= 1,
    ),
    _rule(
        "acks=all, min ISR 2 or more, fewer power losses than min ISR or a flush before the "
        "acknowledgement", "lost-write", FORBIDDEN,
        "every in-sync replica had the write; kills, pauses, partitions, clocks and an election "
        "from the eligible leader replicas do not excuse its loss",
        "Kafka: acks, min.insync.replicas; the original replication design",
    ),
    _rule(
        "any", "unseen", UNKNOWN,
        "the final read of the partition did not reach the end",
        "-",
    ),
)  # fmt: skip

_ORDER = (
    _rule(
        "idempotence, and the client began a new producer epoch with the write in flight, because "
        "it had itself sent ahead of a failed batch (not of this write), or because another "
        "partition had lost records that might be lost", "duplicate", PERMITTED,
        "sequences tell a repeated batch within one producer epoch only",
        "KIP-98; KIP-360; librdkafka issue 4953",
        lambda c: c.idempotence and c.aspect == IN_FLIGHT,
    ),
    _rule(
        "idempotence", "duplicate", FORBIDDEN,
        "the broker must know a batch that it already has by its sequence",
        "KIP-98",
        lambda c: c.idempotence,
    ),
    _rule(
        "no idempotence", "duplicate", PERMITTED,
        "a write whose answer was lost is sent again",
        "Kafka: enable.idempotence",
    ),
    _rule(
        "idempotence", "reordered-send", FORBIDDEN,
        "the broker must refuse a batch whose predecessor it lacks",
        "KIP-98",
        lambda c: c.idempotence,
    ),
    _rule(
        "no idempotence, retries, more than one in flight", "reordered-send", PERMITTED,
        "a later batch may land while an earlier one is tried again",
        "Kafka: max.in.flight.requests.per.connection",
        lambda c: c.max_in_flight > 1,
    ),
    _rule(
        "one in flight", "reordered-send", FORBIDDEN,
        "the next batch leaves only when the last one is answered",
        "Kafka: max.in.flight.requests.per.connection",
    ),
)  # fmt: skip

_OFFSETS = (
    _rule(
        "acks=1, acknowledged by a leader that was then deposed", "inconsistent-offset", PERMITTED,
        "the acknowledged copy was cut off with the deposed leader's tail; another copy (a retry "
        "without idempotence, or a resend) lies elsewhere",
        "KIP-101",
        lambda c: c.aspect == "acknowledged" and c.acks == 1 and c.deposed,
    ),
    _rule(
        "unclean election on, and one took place", "inconsistent-offset", PERMITTED,
        "offsets above the new leader's end are used again",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.unclean,
    ),
    _rule(
        "min ISR 1, the ISR was the leader alone and another was elected", "inconsistent-offset",
        PERMITTED,
        "the only in-sync replica was lost, and its offsets are used again",
        "Kafka: min.insync.replicas; KIP-966",
        lambda c: c.min_insync_replicas <= 1 and c.sole_isr_lost,
    ),
    _rule(
        "acks=1, acknowledged by a leader that lost its disk, or its power without a flush",
        "inconsistent-offset", PERMITTED,
        "the acknowledged copy is gone; another copy lies elsewhere",
        "Kafka: acks, flush.messages",
        lambda c: c.aspect == "acknowledged" and c.acks == 1 and c.leader_lost_state,
    ),
    *_state_loss_rules("inconsistent-offset", "the offset is used again"),
    _rule(
        "acks=1, leader epochs not recorded", "inconsistent-offset", UNKNOWN,
        "whether leadership changed is not in the record",
        "-",
        lambda c: c.aspect == "acknowledged" and c.acks == 1 and not c.cause_recorded,
    ),
    _rule(
        "any", "inconsistent-offset", FORBIDDEN,
        "an offset that was read, or acknowledged for good, keeps its value",
        "Kafka: replication; KIP-279",
    ),
    _rule(
        "unclean election on, and one took place", "truncated-read", PERMITTED,
        "a replica outside the in-sync replicas was elected and cut the log",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.unclean,
    ),
    _rule(
        "min ISR 1, the ISR was the leader alone and another was elected", "truncated-read",
        PERMITTED,
        "the only in-sync replica was lost; below its HW was what it alone had",
        "Kafka: min.insync.replicas; KIP-966",
        lambda c: c.min_insync_replicas <= 1 and c.sole_isr_lost,
    ),
    *_state_loss_rules("truncated-read", "what was read is gone"),
    _rule(
        "any", "truncated-read", FORBIDDEN,
        "consumers see only records below the high watermark, whatever the producer's acks, and "
        "those are on every in-sync replica",
        "the original replication design; KIP-101",
    ),
)  # fmt: skip

_READING = (
    _rule(
        "any", "aborted-read", FORBIDDEN,
        "a send that surely failed is in no log",
        "Adya: G1a",
    ),
    _rule(
        "any", "phantom", FORBIDDEN,
        "every record comes from a send, unchanged",
        "Kafka: CRC-32C of the record batch",
    ),
    _rule(
        "a client whose history was cut", "unrecorded", INFORMATIONAL,
        "its send was in flight when its recorder was killed",
        "-",
    ),
    _rule(
        "any", "poll-skip", FORBIDDEN,
        "a consumer is given every record from its position on",
        "Kafka: consumer position",
    ),
    _rule(
        "any", "nonmonotonic-poll", FORBIDDEN,
        "a position goes back only by an assignment, a seek, or a reset that is told",
        "Kafka: consumer position; KIP-320",
    ),
    _rule(
        "answered by a leader of an older epoch", "watermark-regression", INFORMATIONAL,
        "a deposed leader that has not learned of it may still answer with its older end",
        "KIP-207; KIP-320",
        lambda c: c.aspect == "deposed",
    ),
    _rule(
        "answers without leader epochs, around a change of leadership", "watermark-regression",
        INFORMATIONAL,
        "it may have been a deposed leader that answered",
        "KIP-207; KIP-320",
        lambda c: c.aspect is None and c.deposed,
    ),
    _rule(
        "unclean election on, and one took place", "watermark-regression", PERMITTED,
        "a replica outside the in-sync replicas was elected and cut the log",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.unclean,
    ),
    *_state_loss_rules("watermark-regression", "the log ends earlier"),
    _rule(
        "no leader epochs recorded at all", "watermark-regression", UNKNOWN,
        "whether leadership changed is not in the record",
        "-",
        lambda c: c.aspect is None and not c.cause_recorded,
    ),
    _rule(
        "any", "watermark-regression", FORBIDDEN,
        "the high watermark of one leader never goes back, and a new leader does not tell it "
        "before it has caught up",
        "KIP-207",
    ),
)  # fmt: skip

_REPLICAS = (
    _rule(
        "replicas did not settle", "divergent-replicas", INFORMATIONAL,
        "a replica may still lack what it is about to fetch",
        "-",
        lambda c: c.aspect == "short" and not c.settled,
    ),
    _rule(
        "a fault flipped a bit in the log of one of the two", "divergent-replicas", PERMITTED,
        "the damage is found by its checksum when the batch is read, and not before",
        "Kafka: record batches have checksums; recovery reads what is beyond the recovery point",
        lambda c: c.aspect == "damaged",
    ),
    _rule(
        "any", "divergent-replicas", FORBIDDEN,
        "below the high watermark all replicas are the same, byte for byte",
        "the original replication design; KIP-101; KIP-279",
    ),
    _rule(
        "any", "unequal-ends", INFORMATIONAL,
        "beyond the high watermark a follower may lag",
        "-",
    ),
    _rule(
        "a bound in the plan", "unavailable", FORBIDDEN,
        "no write was acknowledged for longer than the plan allows",
        "the plan: bounds.unavailable_ms",
        lambda c: c.exceeds_bound is True,
    ),
    _rule(
        "any", "unavailable", INFORMATIONAL,
        "the longest time without an acknowledged write",
        "-",
    ),
    _rule(
        "any", "recovery", INFORMATIONAL,
        "from a fault's start or heal to the next acknowledged write",
        "-",
    ),
)  # fmt: skip

CONTRACT: tuple[Rule, ...] = (*_LOST, *_ORDER, *_OFFSETS, *_READING, *_REPLICAS)


def judge(anomaly: str, context: Context) -> Rule:
    """The first row for this anomaly that applies.

    An anomaly that the table does not speak of is a mistake of ours: raises LookupError.
    """
    for rule in CONTRACT:
        if rule.anomaly == anomaly and rule.applies(context):
            return rule
    raise LookupError(f"the contract does not speak of {anomaly!r}")
