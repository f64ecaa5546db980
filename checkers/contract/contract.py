"""The contract: which anomalies the configured guarantees forbid, permit, or only report.

CONTRACT is one table, read from top to bottom; the first row that applies decides. A row that
permits a loss asks for a recorded cause: "acks=1, and something failed somewhere" is not a cause.
Every report prints the table. The table is the authority; all other texts quote it.

Sources: the Kafka documentation of `acks`, `min.insync.replicas`, `enable.idempotence` and
`unclean.leader.election.enable`; KIP-98 (idempotence), KIP-101 and KIP-279 (truncation by epoch),
KIP-207 (end offsets after an election), KIP-320 (consumers and truncation), KIP-966 (eligible
leader replicas); Adya's and Elle's names for forbidden reads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from checkers.contract import permissions
from checkers.contract.cluster_rules import CLUSTER_RULES
from checkers.contract.conditions import (
    ACKNOWLEDGED,
    ACKS_0,
    ACKS_1,
    ACKS_ALL,
    ANY,
    FINAL,
    LEADER_LOST_DISK,
    LEADER_LOST_POWER,
    MIN_ISR_1,
    NO_CAUSE_RECORDABLE,
    NOT_SETTLED,
    ONLY_IN_SYNC_REPLICA_LOST,
    QUORUM_LOST,
    REMOVAL_NOT_RECORDED,
    REMOVED_BY_RETENTION,
    RISKY_SETTINGS_OR_FAULTS,
    UNCLEAN_ELECTION,
    ZOOKEEPER_LOST,
    Condition,
    Context,
    in_force,
    otherwise,
)
from checkers.contract.key_rules import key_rules
from checkers.contract.order_rules import ORDER_RULES
from checkers.contract.output_rules import OUTPUT_RULES
from checkers.contract.processing_rules import PROCESSING_RULES
from checkers.contract.rules import (
    Judgement,
    Rule,
    in_doubt,
    open_rules,
    rule,
    state_loss_rules,
)
from checkers.contract.transaction_rules import TRANSACTION_RULES

__all__ = ["CONTRACT", "Context", "Judgement", "Rule", "in_force", "judge"]

FORBIDDEN, PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED
INFORMATIONAL, UNKNOWN = Judgement.INFORMATIONAL, Judgement.UNKNOWN


def _retention_rules(anomaly: str) -> tuple[Rule, ...]:
    """The rows for records below the start of the log."""
    return (
        rule(
            REMOVED_BY_RETENTION, anomaly, PERMITTED,
            "retention removes the oldest records, acknowledged or not",
            "Kafka: retention.ms, retention.bytes",
            permissions.RETENTION,
        ),
        rule(
            REMOVAL_NOT_RECORDED, anomaly, UNKNOWN,
            "retention may have removed the records, or not",
            "-",
        ),
    )  # fmt: skip


_LOST = (
    *_retention_rules("lost-write"),
    rule(
        ACKS_0, "lost-write", PERMITTED,
        "the producer asked for no acknowledgement; the losses are counted",
        "Kafka: acks",
        permissions.ACKS_0,
    ),
    rule(
        ACKS_1 & Condition(
            "the epoch of a new leader starts at or below the write, and the old leader may not "
            "have known of it", lambda c: c.leader_replaced,
        ), "lost-write", PERMITTED,
        "only the old leader had the write, and another replica became leader",
        "Kafka: acks; KIP-101",
        permissions.ACKS_1,
    ),
    rule(
        ACKS_1 & LEADER_LOST_DISK, "lost-write", PERMITTED,
        "only the leader had the write for certain, and it led again without the write",
        "Kafka: acks",
        permissions.ACKS_1,
    ),
    rule(
        ACKS_1 & LEADER_LOST_POWER, "lost-write", PERMITTED,
        "only the leader had the write for certain, and it led again without the write",
        "Kafka: acks, flush.messages",
        permissions.ACKS_1_UNFLUSHED,
    ),
    rule(
        Condition("acks=1 or acks=all", lambda c: c.acks in (1, -1)) & UNCLEAN_ELECTION,
        "lost-write", PERMITTED,
        "a replica outside the in-sync replicas was elected",
        "Kafka: unclean.leader.election.enable",
        permissions.UNCLEAN,
    ),
    rule(
        ACKS_ALL & MIN_ISR_1 & ONLY_IN_SYNC_REPLICA_LOST, "lost-write", PERMITTED,
        "the only in-sync replica was lost",
        "Kafka: min.insync.replicas; KIP-966",
        permissions.ONE_IN_SYNC,
    ),
    *state_loss_rules("lost-write", "the write is gone", acks_all=True),
    rule(
        ACKS_1 & NO_CAUSE_RECORDABLE, "lost-write", UNKNOWN,
        "the leader may have been replaced; the record cannot show it",
        "-",
    ),
    *open_rules("lost-write"),
    rule(
        ACKS_1, "lost-write", FORBIDDEN,
        "the record shows no new leader that could have removed the write, and its leader lost no "
        "data",
        "Kafka: acks",
    ),
    rule(
        ACKS_ALL & MIN_ISR_1, "lost-write", FORBIDDEN,
        "the record does not show that the leader was the only in-sync replica and was lost",
        "Kafka: min.insync.replicas",
    ),
    rule(
        otherwise(
            "acks=all, min.insync.replicas=2 or more, and either fewer power losses than that or a "
            "flush before the acknowledgement"
        ), "lost-write", FORBIDDEN,
        "every in-sync replica had the write; its loss is not excused by kills, pauses, "
        "partitions, clocks, or an election from the eligible or last known leader replicas",
        "Kafka: acks, min.insync.replicas; KIP-966; the original replication design",
    ),
    rule(
        ANY, "unseen", UNKNOWN,
        "the final read of the partition did not reach the end",
        "-",
    ),
)  # fmt: skip


def _by_acknowledgement(row: Rule) -> Rule:
    """Turn a row about an acknowledged offset that was used again into a row about two offsets that
    were acknowledged in the wrong order: one of these two writes may be gone."""
    return replace(
        row,
        configuration=f"known from acknowledgements only; {row.configuration}",
        anomaly="reordered-send",
        reason=(
            "an acknowledged write is gone, and its offset is used again"
            if row.judgement is PERMITTED
            else row.reason
        ),
        applies=lambda c: c.aspect == ACKNOWLEDGED and row.applies(c),
    )


_ACKED_BY_1 = Condition("acks=1", lambda c: c.aspect == ACKNOWLEDGED and c.acks == 1)
"""An acknowledgement with acks=1 contradicts another one, or the log."""

_OFFSETS = (
    rule(
        _ACKED_BY_1 & Condition(
            "acknowledged by a leader that was then replaced", lambda c: c.leader_replaced
        ), "inconsistent-offset", PERMITTED,
        "the old leader discarded the acknowledged copy; another copy (a retry without "
        "idempotence, or a resend) is at another offset",
        "KIP-101",
        permissions.ACKS_1,
    ),
    rule(
        UNCLEAN_ELECTION, "inconsistent-offset", PERMITTED,
        "offsets above the end of the new leader's log are used again",
        "Kafka: unclean.leader.election.enable",
        permissions.UNCLEAN,
    ),
    rule(
        MIN_ISR_1 & ONLY_IN_SYNC_REPLICA_LOST, "inconsistent-offset", PERMITTED,
        "the only in-sync replica was lost, and its offsets are used again",
        "Kafka: min.insync.replicas; KIP-966",
        permissions.ONE_IN_SYNC,
    ),
    rule(
        _ACKED_BY_1 & LEADER_LOST_DISK, "inconsistent-offset", PERMITTED,
        "the acknowledged copy is gone; another copy is at another offset",
        "Kafka: acks",
        permissions.ACKS_1,
    ),
    rule(
        _ACKED_BY_1 & LEADER_LOST_POWER, "inconsistent-offset", PERMITTED,
        "the acknowledged copy is gone; another copy is at another offset",
        "Kafka: acks, flush.messages",
        permissions.ACKS_1_UNFLUSHED,
    ),
    *state_loss_rules("inconsistent-offset", "the offset is used again"),
    rule(
        _ACKED_BY_1 & NO_CAUSE_RECORDABLE, "inconsistent-offset", UNKNOWN,
        "the leader may have been replaced; the record cannot show it",
        "-",
    ),
    *open_rules("inconsistent-offset"),
    rule(
        ANY, "inconsistent-offset", FORBIDDEN,
        "an offset keeps its value once the value was read, or acknowledged as committed",
        "Kafka: replication; KIP-279",
    ),
    *_retention_rules("truncated-read"),
    rule(
        UNCLEAN_ELECTION, "truncated-read", PERMITTED,
        "a replica outside the in-sync replicas was elected, and the log was truncated",
        "Kafka: unclean.leader.election.enable",
        permissions.UNCLEAN,
    ),
    rule(
        MIN_ISR_1 & ONLY_IN_SYNC_REPLICA_LOST, "truncated-read", PERMITTED,
        "the only in-sync replica was lost; only it had the records below its high watermark",
        "Kafka: min.insync.replicas; KIP-966",
        permissions.ONE_IN_SYNC,
    ),
    *state_loss_rules("truncated-read", "the records that were read are gone"),
    *open_rules("truncated-read"),
    rule(
        ANY, "truncated-read", FORBIDDEN,
        "consumers get only records below the high watermark, whatever the producer's acks, and "
        "every in-sync replica has those records",
        "the original replication design; KIP-101",
    ),
)  # fmt: skip

_READING = (
    rule(
        ANY, "aborted-read", FORBIDDEN,
        "a send that certainly failed is in no log",
        "Adya: G1a",
    ),
    rule(
        ANY, "phantom", FORBIDDEN,
        "every record comes from a send, unchanged",
        "Kafka: CRC-32C of the record batch",
    ),
    rule(
        otherwise("a client whose history was cut"), "unrecorded", INFORMATIONAL,
        "the send was in flight when the client's recorder was killed",
        "-",
    ),
    rule(
        ANY, "poll-skip", FORBIDDEN,
        "a consumer gets every record from its position on",
        "Kafka: consumer position",
    ),
    rule(
        ANY, "nonmonotonic-poll", FORBIDDEN,
        "a position goes back only by an assignment, a seek, or a reported reset",
        "Kafka: consumer position; KIP-320",
    ),
    rule(
        Condition("answered by a leader of an older epoch", lambda c: c.aspect == "deposed"),
        "watermark-regression", INFORMATIONAL,
        "a replaced leader that does not know it yet may still answer with its older end",
        "KIP-207; KIP-320",
    ),
    rule(
        Condition(
            "answers without leader epochs, near a leader change",
            lambda c: c.aspect is None and c.leader_replaced,
        ), "watermark-regression", INFORMATIONAL,
        "a replaced leader may have answered",
        "KIP-207; KIP-320",
    ),
    rule(
        UNCLEAN_ELECTION, "watermark-regression", PERMITTED,
        "a replica outside the in-sync replicas was elected, and the log was truncated",
        "Kafka: unclean.leader.election.enable",
        permissions.UNCLEAN,
    ),
    rule(
        Condition("the records below an end are gone in the end", lambda c: c.aspect == FINAL)
        & MIN_ISR_1 & ONLY_IN_SYNC_REPLICA_LOST, "watermark-regression", PERMITTED,
        "the only in-sync replica was lost; only it had the records below its high watermark",
        "Kafka: min.insync.replicas; KIP-966",
        permissions.ONE_IN_SYNC,
    ),
    *state_loss_rules("watermark-regression", "the log ends earlier"),
    rule(
        Condition(
            "no leader epochs recorded at all", lambda c: c.aspect is None and not c.cause_recorded
        ), "watermark-regression", UNKNOWN,
        "the leader may have been replaced; the record cannot show it",
        "-",
    ),
    *open_rules("watermark-regression"),
    rule(
        ANY, "watermark-regression", FORBIDDEN,
        "the high watermark of one leader never goes back, a new leader does not report its own "
        "before it has caught up, and all in-sync replicas have what is below it",
        "the original replication design; KIP-207",
    ),
)  # fmt: skip

_REPLICAS = (
    rule(
        Condition(NOT_SETTLED.text, lambda c: c.aspect == "short" and not c.settled),
        "divergent-replicas", INFORMATIONAL,
        "a replica may lack records that it is about to fetch",
        "-",
    ),
    rule(
        Condition(
            "a fault flipped a bit in the log of one of the two replicas",
            lambda c: c.aspect == "damaged",
        ), "divergent-replicas", PERMITTED,
        "the checksum reveals the damage when the batch is read, and not before",
        "Kafka: record batches have checksums; recovery reads what is beyond the recovery point",
        permissions.BIT_FLIPPED,
    ),
    rule(
        NOT_SETTLED & RISKY_SETTINGS_OR_FAULTS, "divergent-replicas", UNKNOWN,
        "a replica that is not in sync may still have records that the cluster has lost since with "
        "permission, and would discard them before it serves again",
        "KIP-101; KIP-966",
    ),
    in_doubt("divergent-replicas"),
    rule(
        QUORUM_LOST, "divergent-replicas", PERMITTED,
        "leader epochs may be used a second time, and then do not distinguish logs any more",
        "KIP-853; KAFKA-14077",
        permissions.QUORUM_LOST,
    ),
    rule(
        ANY, "divergent-replicas", FORBIDDEN,
        "below the high watermark all replicas are the same, byte for byte",
        "the original replication design; KIP-101; KIP-279",
    ),
    rule(
        ANY, "unequal-ends", INFORMATIONAL,
        "beyond the high watermark a follower may lag",
        "-",
    ),
    rule(
        ANY, "unavailable", INFORMATIONAL,
        "the longest time without an acknowledged write",
        "-",
    ),
    rule(
        ANY, "recovery", INFORMATIONAL,
        "from the start or the heal of a fault to the next acknowledged write",
        "-",
    ),
)  # fmt: skip

_KNOWN_FROM_ACKNOWLEDGEMENTS = tuple(
    _by_acknowledgement(row)
    for row in _OFFSETS
    if row.anomaly == "inconsistent-offset" and row.judgement is not FORBIDDEN
)

_KEYS = key_rules(
    [row for row in _LOST if row.anomaly == "lost-write"],
    [row for row in _OFFSETS if row.anomaly == "truncated-read"],
)


def _left_open_by_zookeeper(rows: Sequence[Rule]) -> Iterator[Rule]:
    """Yield the rows. What a quorum without its data permits, and a row forbids, is open where
    ZooKeeper lost transactions: brokers obeyed them."""
    anomalies = {row.anomaly for row in rows if row.permission is permissions.QUORUM_LOST}
    for row in rows:
        if row.judgement is FORBIDDEN and row.anomaly in anomalies:
            yield rule(
                ZOOKEEPER_LOST & Condition(row.configuration, row.applies), row.anomaly, UNKNOWN,
                "brokers may have obeyed decisions that ZooKeeper took back",
                "ZOOKEEPER-4394, -4643, -4646, -4925",
            )  # fmt: skip
        yield row


_ROWS = (
    *_LOST, *_KEYS, *_KNOWN_FROM_ACKNOWLEDGEMENTS, *ORDER_RULES, *_OFFSETS, *TRANSACTION_RULES,
    *_READING, *PROCESSING_RULES, *OUTPUT_RULES, *_REPLICAS, *CLUSTER_RULES,
)  # fmt: skip
CONTRACT: tuple[Rule, ...] = tuple(_left_open_by_zookeeper(_ROWS))


SENT_TWICE = "sent twice"
"""The aspect of an anomaly that depends on a value which the workload sent twice."""


def judge(anomaly: str, context: Context, rules: Sequence[Rule] = CONTRACT) -> Rule:
    """Return the first row for this anomaly that applies; UNKNOWN when a value was sent twice.

    rules: the contract, with the rows of other packages if need be. Raises LookupError for an
    anomaly without a row in the table: that is a bug of this program.
    """
    if context.aspect == SENT_TWICE:
        condition = otherwise("the workload sent the value twice")
        return rule(condition, anomaly, UNKNOWN, "the reads do not distinguish the two", "-")
    for row in rules:
        if row.anomaly == anomaly and row.applies(context):
            return row
    raise LookupError(f"the contract has no row for {anomaly!r}")
