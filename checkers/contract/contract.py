"""The contract: which anomalies the configured guarantees forbid, permit, or only report.

CONTRACT is one table, read from top to bottom; the first row that applies decides. A row that
permits a loss asks for its cause in the record: "acks=1 and something failed somewhere" is no
cause. The table is printed in every report. It is the authority; everything else quotes it.

Sources: the Kafka documentation of `acks`, `min.insync.replicas`, `enable.idempotence` and
`unclean.leader.election.enable`; KIP-98 (idempotence), KIP-101 and KIP-279 (truncation by epoch),
KIP-207 (end offsets after an election), KIP-320 (consumers and truncation), KIP-966 (eligible
leader replicas); Adya's and Elle's names for reads that must not be.
"""

from dataclasses import replace

from checkers.causes.producer_epochs import IN_FLIGHT
from checkers.causes.state_loss import Toll
from checkers.contract import permissions
from checkers.contract.cluster_rules import CLUSTER_RULES
from checkers.contract.rules import (
    ACKNOWLEDGED,
    Context,
    Judgement,
    Rule,
    in_doubt,
    in_force,
    open_rules,
    rule,
)

__all__ = ["CONTRACT", "Context", "Judgement", "Rule", "in_force", "judge"]

FORBIDDEN, PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED
INFORMATIONAL, UNKNOWN = Judgement.INFORMATIONAL, Judgement.UNKNOWN


def _state_loss_rules(anomaly: str, reason: str, *, acks_all: bool = False) -> tuple[Rule, ...]:
    """The rows that permit what follows when all that held a record lost it together."""
    who = "acks=all, " if acks_all else ""
    in_memory = "and all in-sync replicas had lost power together, or had before the others left"

    def counts(c: Context, toll: Toll) -> bool:
        return c.toll is toll and (c.acks == -1 or not acks_all)

    return (
        rule(
            f"{who}min ISR m of 2 or more, no flush before the acknowledgement, and m in-sync or "
            "eligible replicas or more lost power together", anomaly, PERMITTED,
            f"{reason}: so many had it in memory alone",
            "Kafka: min.insync.replicas, flush.messages; KIP-966",
            lambda c: counts(c, Toll.POWER),
            permissions.UNFLUSHED,
        ),
        rule(
            f"{who}min ISR 1, no flush before the acknowledgement, {in_memory}", anomaly, PERMITTED,
            f"{reason}: the last replica standing had it in memory alone, and leads again",
            "KIP-966: last replica standing; min ISR - 1 losses of power are tolerated",
            lambda c: counts(c, Toll.LAST_STANDING) and c.min_insync_replicas <= 1,
            permissions.ONE_UNFLUSHED,
        ),
        rule(
            f"{who}eligible leader replicas off, no flush before the acknowledgement, {in_memory}",
            anomaly, PERMITTED,
            f"{reason}: the last replica standing had it in memory alone, and leads again",
            "KIP-966: last replica standing",
            lambda c: counts(c, Toll.LAST_STANDING),
            permissions.LAST_UNFLUSHED,
        ),
        rule(
            f"{who}no in-sync or eligible replica was left with a whole disk (and its power, "
            "without a flush before the acknowledgement)", anomaly, PERMITTED,
            f"{reason}: nobody whose disk was whole had it",
            "the original replication design",
            lambda c: counts(c, Toll.DISKS),
            permissions.DISKS_LOST,
        ),
        rule(
            "a majority of the metadata quorum's voters lost their disks together", anomaly,
            PERMITTED,
            f"{reason}: who led, in which epoch, and who was in sync may be forgotten",
            "KIP-853; KAFKA-14077",
            lambda c: c.forgotten,
            permissions.QUORUM_LOST,
        ),
    )  # fmt: skip


_LOST = (
    rule(
        "acks=0", "lost-write", PERMITTED,
        "no acknowledgement was asked for; counted",
        "Kafka: acks",
        lambda c: c.acks == 0,
        permissions.ACKS_0,
    ),
    rule(
        "acks=1, a new leader's epoch starts at or below the write, and its predecessor may not "
        "have known yet", "lost-write", PERMITTED,
        "the leader alone had the write, and leadership went to another replica",
        "Kafka: acks; KIP-101",
        lambda c: c.acks == 1 and c.deposed,
        permissions.ACKS_1,
    ),
    rule(
        "acks=1, the leader lost its disk", "lost-write", PERMITTED,
        "the leader alone had the write for sure, and it led again without it",
        "Kafka: acks",
        lambda c: c.acks == 1 and c.leader_lost_disk,
        permissions.ACKS_1,
    ),
    rule(
        "acks=1, the leader lost power without a flush before the acknowledgement", "lost-write",
        PERMITTED,
        "the leader alone had the write for sure, and it led again without it",
        "Kafka: acks, flush.messages",
        lambda c: c.acks == 1 and c.leader_lost_state,
        permissions.ACKS_1_UNFLUSHED,
    ),
    rule(
        "unclean election on, and one took place", "lost-write", PERMITTED,
        "a replica outside the in-sync replicas was elected",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.acks in (1, -1) and c.unclean,
        permissions.UNCLEAN,
    ),
    rule(
        "acks=all, min ISR 1, the ISR was the leader alone and another was elected", "lost-write",
        PERMITTED,
        "the only in-sync replica was lost",
        "Kafka: min.insync.replicas; KIP-966",
        lambda c: c.acks == -1 and c.min_insync_replicas <= 1 and c.sole_isr_lost,
        permissions.ONE_IN_SYNC,
    ),
    *_state_loss_rules("lost-write", "the write is gone", acks_all=True),
    rule(
        "acks=1, leader epochs not recorded", "lost-write", UNKNOWN,
        "whether leadership changed is not in the record",
        "-",
        lambda c: c.acks == 1 and not c.cause_recorded,
    ),
    *open_rules("lost-write"),
    rule(
        "acks=1", "lost-write", FORBIDDEN,
        "no change of leadership within the write's reach is in the record, and no loss of what "
        "its leader had",
        "Kafka: acks",
        lambda c: c.acks == 1,
    ),
    rule(
        "acks=all, min ISR 1", "lost-write", FORBIDDEN,
        "the record does not show that the ISR was the leader alone and that it was lost",
        "Kafka: min.insync.replicas",
        lambda c: c.acks == -1 and c.min_insync_replicas <= 1,
    ),
    rule(
        "acks=all, min ISR 2 or more, fewer power losses than min ISR or a flush before the "
        "acknowledgement", "lost-write", FORBIDDEN,
        "every in-sync replica had the write; kills, pauses, partitions, clocks and an election "
        "from the eligible or the last known leader replicas do not excuse its loss",
        "Kafka: acks, min.insync.replicas; KIP-966; the original replication design",
    ),
    rule(
        "any", "unseen", UNKNOWN,
        "the final read of the partition did not reach the end",
        "-",
    ),
)  # fmt: skip


def _by_acknowledgement(row: Rule) -> Rule:
    """What a row says of an offset that was acknowledged and then used again, said of two offsets
    that were acknowledged in the wrong order: one of the two may be gone."""
    return replace(
        row,
        configuration=f"known by acknowledgements alone; {row.configuration}",
        anomaly="reordered-send",
        reason=(
            "what was acknowledged is gone, and its offset is used again"
            if row.judgement is PERMITTED
            else row.reason
        ),
        applies=lambda c: c.aspect == ACKNOWLEDGED and row.applies(c),
    )


_ORDER = (
    rule(
        "idempotence, and the client began a new producer epoch with the write in flight, because "
        "it had itself sent ahead of a failed batch (not of this write), or because another "
        "partition had lost records that might be lost", "duplicate", PERMITTED,
        "sequences tell a repeated batch within one producer epoch only",
        "KIP-98; KIP-360; librdkafka issue 4953",
        lambda c: c.idempotence and c.aspect == IN_FLIGHT,
        permissions.EPOCH_LEFT,
    ),
    rule(
        "idempotence, and the client began a new producer epoch since a partition did not know "
        "it whose leader epochs are not recorded", "duplicate", UNKNOWN,
        "whether that partition had lost records that might be lost is not in the record",
        "KIP-360",
        lambda c: c.idempotence and not c.cause_recorded,
    ),
    rule(
        "idempotence", "duplicate", FORBIDDEN,
        "the broker must know a batch that it already has by its sequence",
        "KIP-98",
        lambda c: c.idempotence,
    ),
    rule(
        "no idempotence", "duplicate", PERMITTED,
        "a write whose answer was lost is sent again",
        "Kafka: enable.idempotence",
        permission=permissions.NOT_IDEMPOTENT,
    ),
    rule(
        "idempotence", "reordered-send", FORBIDDEN,
        "the broker must refuse a batch whose predecessor it lacks",
        "KIP-98",
        lambda c: c.idempotence,
    ),
    rule(
        "no idempotence, retries, more than one in flight", "reordered-send", PERMITTED,
        "a later batch may land while an earlier one is tried again",
        "Kafka: max.in.flight.requests.per.connection",
        lambda c: c.max_in_flight > 1,
        permissions.NOT_IN_LINE,
    ),
    rule(
        "one in flight", "reordered-send", FORBIDDEN,
        "the next batch leaves only when the last one is answered",
        "Kafka: max.in.flight.requests.per.connection",
    ),
)  # fmt: skip

_OFFSETS = (
    rule(
        "acks=1, acknowledged by a leader that was then deposed", "inconsistent-offset", PERMITTED,
        "the acknowledged copy was cut off with the deposed leader's tail; another copy (a retry "
        "without idempotence, or a resend) lies elsewhere",
        "KIP-101",
        lambda c: c.aspect == ACKNOWLEDGED and c.acks == 1 and c.deposed,
        permissions.ACKS_1,
    ),
    rule(
        "unclean election on, and one took place", "inconsistent-offset", PERMITTED,
        "offsets above the new leader's end are used again",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.unclean,
        permissions.UNCLEAN,
    ),
    rule(
        "min ISR 1, the ISR was the leader alone and another was elected", "inconsistent-offset",
        PERMITTED,
        "the only in-sync replica was lost, and its offsets are used again",
        "Kafka: min.insync.replicas; KIP-966",
        lambda c: c.min_insync_replicas <= 1 and c.sole_isr_lost,
        permissions.ONE_IN_SYNC,
    ),
    rule(
        "acks=1, acknowledged by a leader that lost its disk", "inconsistent-offset", PERMITTED,
        "the acknowledged copy is gone; another copy lies elsewhere",
        "Kafka: acks",
        lambda c: c.aspect == ACKNOWLEDGED and c.acks == 1 and c.leader_lost_disk,
        permissions.ACKS_1,
    ),
    rule(
        "acks=1, acknowledged by a leader that lost power without a flush", "inconsistent-offset",
        PERMITTED,
        "the acknowledged copy is gone; another copy lies elsewhere",
        "Kafka: acks, flush.messages",
        lambda c: c.aspect == ACKNOWLEDGED and c.acks == 1 and c.leader_lost_state,
        permissions.ACKS_1_UNFLUSHED,
    ),
    *_state_loss_rules("inconsistent-offset", "the offset is used again"),
    rule(
        "acks=1, leader epochs not recorded", "inconsistent-offset", UNKNOWN,
        "whether leadership changed is not in the record",
        "-",
        lambda c: c.aspect == ACKNOWLEDGED and c.acks == 1 and not c.cause_recorded,
    ),
    *open_rules("inconsistent-offset"),
    rule(
        "any", "inconsistent-offset", FORBIDDEN,
        "an offset that was read, or acknowledged for good, keeps its value",
        "Kafka: replication; KIP-279",
    ),
    rule(
        "unclean election on, and one took place", "truncated-read", PERMITTED,
        "a replica outside the in-sync replicas was elected and cut the log",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.unclean,
        permissions.UNCLEAN,
    ),
    rule(
        "min ISR 1, the ISR was the leader alone and another was elected", "truncated-read",
        PERMITTED,
        "the only in-sync replica was lost; below its HW was what it alone had",
        "Kafka: min.insync.replicas; KIP-966",
        lambda c: c.min_insync_replicas <= 1 and c.sole_isr_lost,
        permissions.ONE_IN_SYNC,
    ),
    *_state_loss_rules("truncated-read", "what was read is gone"),
    *open_rules("truncated-read"),
    rule(
        "any", "truncated-read", FORBIDDEN,
        "consumers see only records below the high watermark, whatever the producer's acks, and "
        "those are on every in-sync replica",
        "the original replication design; KIP-101",
    ),
)  # fmt: skip

_READING = (
    rule(
        "any", "aborted-read", FORBIDDEN,
        "a send that surely failed is in no log",
        "Adya: G1a",
    ),
    rule(
        "any", "phantom", FORBIDDEN,
        "every record comes from a send, unchanged",
        "Kafka: CRC-32C of the record batch",
    ),
    rule(
        "a client whose history was cut", "unrecorded", INFORMATIONAL,
        "its send was in flight when its recorder was killed",
        "-",
    ),
    rule(
        "any", "poll-skip", FORBIDDEN,
        "a consumer is given every record from its position on",
        "Kafka: consumer position",
    ),
    rule(
        "any", "nonmonotonic-poll", FORBIDDEN,
        "a position goes back only by an assignment, a seek, or a reset that is told",
        "Kafka: consumer position; KIP-320",
    ),
    rule(
        "answered by a leader of an older epoch", "watermark-regression", INFORMATIONAL,
        "a deposed leader that has not learned of it may still answer with its older end",
        "KIP-207; KIP-320",
        lambda c: c.aspect == "deposed",
    ),
    rule(
        "answers without leader epochs, around a change of leadership", "watermark-regression",
        INFORMATIONAL,
        "it may have been a deposed leader that answered",
        "KIP-207; KIP-320",
        lambda c: c.aspect is None and c.deposed,
    ),
    rule(
        "unclean election on, and one took place", "watermark-regression", PERMITTED,
        "a replica outside the in-sync replicas was elected and cut the log",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.unclean,
        permissions.UNCLEAN,
    ),
    *_state_loss_rules("watermark-regression", "the log ends earlier"),
    rule(
        "no leader epochs recorded at all", "watermark-regression", UNKNOWN,
        "whether leadership changed is not in the record",
        "-",
        lambda c: c.aspect is None and not c.cause_recorded,
    ),
    *open_rules("watermark-regression"),
    rule(
        "any", "watermark-regression", FORBIDDEN,
        "the high watermark of one leader never goes back, and a new leader does not tell it "
        "before it has caught up",
        "KIP-207",
    ),
)  # fmt: skip

_REPLICAS = (
    rule(
        "replicas did not settle", "divergent-replicas", INFORMATIONAL,
        "a replica may still lack what it is about to fetch",
        "-",
        lambda c: c.aspect == "short" and not c.settled,
    ),
    rule(
        "a fault flipped a bit in the log of one of the two", "divergent-replicas", PERMITTED,
        "the damage is found by its checksum when the batch is read, and not before",
        "Kafka: record batches have checksums; recovery reads what is beyond the recovery point",
        lambda c: c.aspect == "damaged",
        permissions.BIT_FLIPPED,
    ),
    rule(
        "replicas did not settle; unclean election on, min ISR 1, or nodes lost power or disks",
        "divergent-replicas", UNKNOWN,
        "a replica that was not in sync when the record ended may have kept what was lost since, "
        "as it may be, and what it would cut before it serves again",
        "KIP-101; KIP-966",
        lambda c: not c.settled and c.excusable,
    ),
    in_doubt("divergent-replicas"),
    rule(
        "a majority of the metadata quorum's voters lost their disks together",
        "divergent-replicas", PERMITTED,
        "leader epochs that were given may be given again, and tell logs apart no more",
        "KIP-853; KAFKA-14077",
        lambda c: c.quorum_lost,
        permissions.QUORUM_LOST,
    ),
    rule(
        "any", "divergent-replicas", FORBIDDEN,
        "below the high watermark all replicas are the same, byte for byte",
        "the original replication design; KIP-101; KIP-279",
    ),
    rule(
        "any", "unequal-ends", INFORMATIONAL,
        "beyond the high watermark a follower may lag",
        "-",
    ),
    rule(
        "any", "unavailable", INFORMATIONAL,
        "the longest time without an acknowledged write",
        "-",
    ),
    rule(
        "any", "recovery", INFORMATIONAL,
        "from a fault's start or heal to the next acknowledged write",
        "-",
    ),
)  # fmt: skip

_UNDONE = tuple(
    _by_acknowledgement(row)
    for row in _OFFSETS
    if row.anomaly == "inconsistent-offset" and row.judgement is not FORBIDDEN
)

CONTRACT: tuple[Rule, ...] = (
    *_LOST, *_UNDONE, *_ORDER, *_OFFSETS, *_READING, *_REPLICAS, *CLUSTER_RULES
)  # fmt: skip


SENT_TWICE = "sent twice"
"""The aspect of what rests on a value that the workload sent twice."""


def judge(anomaly: str, context: Context) -> Rule:
    """The first row for this anomaly that applies; none does where a value was sent twice.

    An anomaly that the table does not speak of is a mistake of ours: raises LookupError.
    """
    if context.aspect == SENT_TWICE:
        told = "the two cannot be told apart by what was read"
        return rule("the workload sent the value twice", anomaly, UNKNOWN, told, "-")
    for row in CONTRACT:
        if row.anomaly == anomaly and row.applies(context):
            return row
    raise LookupError(f"the contract does not speak of {anomaly!r}")
