"""Rows of the contract about the decisions of a cluster, and about real time.

These rows are part of the one table in `contract`.
"""

from checkers.contract import permissions
from checkers.contract.conditions import (
    ANY,
    BEREFT,
    NEWEST,
    NO_CAUSE_RECORDABLE,
    NOT_SETTLED,
    QUORUM_LOST,
    TAKEN_AS_UNKNOWN,
    Condition,
)
from checkers.contract.rules import Judgement, Rule, in_doubt, open_rules, rule

_FORBIDDEN, _PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED
_INFORMATIONAL, _UNKNOWN = Judgement.INFORMATIONAL, Judgement.UNKNOWN

REAL_TIME: tuple[Rule, ...] = (
    rule(
        ANY, "reordered-ack", _FORBIDDEN,
        "a write that begins after an acknowledgement is appended behind the acknowledged write, "
        "whichever client sends it",
        "Kafka: log; Herlihy and Wing: linearizability",
    ),
    rule(
        Condition(
            "the partition lost records with permission after the read, and no later read reached "
            "that end again", lambda c: c.aspect == BEREFT,
        ), "uncommitted-read", _INFORMATIONAL,
        "the log may end earlier than before ever after; records that were read and are gone are "
        "another anomaly",
        "KIP-101; KIP-207; KIP-966",
    ),
    rule(
        Condition(
            "a replaced leader answered, or one that may have been replaced near a leader change",
            lambda c: c.aspect == "deposed" or (c.leader_replaced and c.aspect != NEWEST),
        ), "uncommitted-read", _INFORMATIONAL,
        "a replaced leader that does not know it yet may still report its older high watermark",
        "KIP-207; KIP-320",
    ),
    rule(
        Condition(
            "near an event that may lose records with permission", lambda c: c.cause is not None
        ), "uncommitted-read", _INFORMATIONAL,
        "the log may end earlier than before; records that were read and are gone are another "
        "anomaly",
        "KIP-207; KIP-966",
    ),
    rule(
        Condition("no leader epochs recorded at all", NO_CAUSE_RECORDABLE.holds),
        "uncommitted-read", _UNKNOWN,
        "the leader may have been replaced; the record cannot show it",
        "-",
    ),
    in_doubt("uncommitted-read"),
    rule(
        ANY, "uncommitted-read", _FORBIDDEN,
        "consumers get only records below the high watermark, and an acks=all write is answered "
        "only when the high watermark is beyond it",
        "the original replication design; KIP-207",
    ),
    rule(
        ANY, "stale-read", _INFORMATIONAL,
        "how long before the poll began the first record that it missed was committed",
        "-",
    ),
)  # fmt: skip


def _after_quorum_loss(anomaly: str, reason: str) -> Rule:
    """The row that permits the anomaly because the metadata quorum lost its data."""
    return rule(
        QUORUM_LOST, anomaly, _PERMITTED,
        reason,
        "KIP-853; KAFKA-14077",
        permissions.QUORUM_LOST,
    )  # fmt: skip


LEADERSHIP: tuple[Rule, ...] = (
    _after_quorum_loss("two-leaders", "leader epochs may be used a second time"),
    _after_quorum_loss("isr-broken", "the new controllers may not know the in-sync replicas"),
    _after_quorum_loss("metadata-rollback", "the committed metadata was on these disks"),
    rule(
        ANY, "two-leaders", _FORBIDDEN,
        "an epoch has one leader",
        "the original replication design; KIP-101; KIP-595",
    ),
    rule(
        Condition(
            "unclean elections enabled", lambda c: c.aspect == "outside" and c.unclean_election
        ), "isr-broken", _PERMITTED,
        "a replica outside the in-sync replicas was elected",
        "Kafka: unclean.leader.election.enable",
        permissions.UNCLEAN,
    ),
    rule(
        ANY, "isr-broken", _FORBIDDEN,
        "leaders are elected from the in-sync and the eligible leader replicas, and no fenced "
        "broker is among them",
        "KIP-841; KIP-903; KIP-966",
    ),
    rule(
        Condition(
            "nodes lost power or disks", lambda c: c.state_lost or c.state_loss_uncertain
        ), "metadata-rollback", _UNKNOWN,
        "a majority of the controllers may have lost their disks",
        "KIP-595; KIP-853",
    ),
    rule(
        ANY, "metadata-rollback", _FORBIDDEN,
        "metadata stays once the quorum has committed it and nodes have applied it",
        "KIP-595",
    ),
)  # fmt: skip

EVIDENCE: tuple[Rule, ...] = (
    _after_quorum_loss("contradicted-evidence", "leader epochs may be used a second time"),
    rule(
        Condition(
            "a fault changed bytes in the log of a replica", lambda c: c.aspect == "changed-bytes"
        ), "contradicted-evidence", _PERMITTED,
        "the leader epoch in the header of a batch is not covered by its checksum",
        "Kafka: record batches",
        permissions.BIT_FLIPPED,
    ),
    rule(
        Condition(
            NOT_SETTLED.text, lambda c: c.aspect in ("files", "reads") and not c.settled
        ), "contradicted-evidence", _UNKNOWN,
        "the leader may have truncated its log after its answer",
        "KIP-101",
    ),
    rule(
        ANY, "contradicted-evidence", _FORBIDDEN,
        "what a broker answers about leader epochs and in-sync replicas is what the logs and the "
        "metadata log have; clients truncate and resume by it",
        "KIP-101; KIP-279; KIP-320",
    ),
)  # fmt: skip

PROGRESS: tuple[Rule, ...] = (
    rule(
        Condition("any", lambda c: c.aspect == "reassignment"), "stuck", _UNKNOWN,
        "all faults were healed, and a reassignment did not end; there is no limit on how long one "
        "may take",
        "KIP-455",
    ),
    rule(
        ANY, "stuck", _UNKNOWN,
        "all faults were healed, and no operation succeeded; set a limit with the expectation "
        "unavailable_ms",
        "-",
    ),
    rule(
        Condition(
            "the partition had lost records with permission, and has no acknowledged write of the "
            "producer since", lambda c: c.aspect == BEREFT,
        ), "refused-head", _PERMITTED,
        "the producer's state was lost with the records",
        "KIP-360",
        permissions.RECORDS_LOST,
    ),
    rule(
        TAKEN_AS_UNKNOWN, "refused-head", _PERMITTED,
        "a producer that the leader does not know may begin with any sequence: it is new, its "
        "earlier records may have been removed, or it was idle for too long",
        "KIP-360",
        permissions.UNKNOWN_PRODUCER,
    ),
    *open_rules("refused-head"),
    rule(
        ANY, "refused-head", _FORBIDDEN,
        "the broker knows the last batch of a producer and accepts the next one",
        "KIP-98",
    ),
)  # fmt: skip

CLUSTER_RULES: tuple[Rule, ...] = (*REAL_TIME, *LEADERSHIP, *EVIDENCE, *PROGRESS)
