"""Rows of the contract on what a cluster decides, and on what time and the clock of a run show.

Part of the one table in `contract`.
"""

from checkers.contract import permissions
from checkers.contract.rules import Judgement, Rule, in_doubt, open_rules, rule

_FORBIDDEN, _PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED
_INFORMATIONAL, _UNKNOWN = Judgement.INFORMATIONAL, Judgement.UNKNOWN

REAL_TIME: tuple[Rule, ...] = (
    rule(
        "any", "reordered-ack", _FORBIDDEN,
        "what is sent after an acknowledgement is appended behind it, whoever sends it",
        "Kafka: log; Herlihy and Wing: linearizability",
    ),
    rule(
        "a deposed leader, or around a change of leadership", "uncommitted-read", _INFORMATIONAL,
        "a deposed leader that does not know it may still tell its older high watermark",
        "KIP-207; KIP-320",
        lambda c: c.aspect == "deposed" or c.deposed,
    ),
    rule(
        "around a change of leadership by which records might be lost", "uncommitted-read",
        _INFORMATIONAL,
        "the log may end earlier than it did; what was read and is gone is judged as such",
        "KIP-207; KIP-966",
        lambda c: c.cause is not None,
    ),
    rule(
        "no leader epochs recorded at all", "uncommitted-read", _UNKNOWN,
        "whether leadership changed is not in the record",
        "-",
        lambda c: not c.cause_recorded,
    ),
    in_doubt("uncommitted-read"),
    rule(
        "any", "uncommitted-read", _FORBIDDEN,
        "consumers are given records below the high watermark only",
        "the original replication design; KIP-207",
    ),
    rule(
        "any", "stale-read", _INFORMATIONAL,
        "how long a committed record had lain behind the end of a poll when that began",
        "-",
    ),
)  # fmt: skip


def _forgotten(anomaly: str, reason: str) -> Rule:
    """The row that permits it where the metadata quorum lost its memory."""
    return rule(
        "a majority of the metadata quorum's voters lost their disks together", anomaly, _PERMITTED,
        reason,
        "KIP-853; KAFKA-14077",
        lambda c: c.quorum_lost,
        permissions.QUORUM_LOST,
    )  # fmt: skip


LEADERSHIP: tuple[Rule, ...] = (
    _forgotten("two-leaders", "epochs that were given may be given again"),
    _forgotten("isr-broken", "who was in sync may be forgotten"),
    _forgotten("metadata-rollback", "what was committed was on their disks"),
    rule(
        "any", "two-leaders", _FORBIDDEN,
        "an epoch has one leader",
        "the original replication design; KIP-101; KIP-595",
    ),
    rule(
        "unclean election on", "isr-broken", _PERMITTED,
        "a replica outside the in-sync replicas was elected",
        "Kafka: unclean.leader.election.enable",
        lambda c: c.aspect == "outside" and c.unclean_election,
        permissions.UNCLEAN,
    ),
    rule(
        "any", "isr-broken", _FORBIDDEN,
        "leaders are elected from the in-sync and the eligible leader replicas, and no fenced "
        "broker is among them",
        "KIP-841; KIP-903; KIP-966",
    ),
    rule(
        "nodes lost power or disks", "metadata-rollback", _UNKNOWN,
        "whether the disks of a majority of the controllers were lost is not told here",
        "KIP-595; KIP-853",
        lambda c: c.state_taken or c.state_in_doubt,
    ),
    rule(
        "any", "metadata-rollback", _FORBIDDEN,
        "what the quorum has committed, and nodes have acted on, stays",
        "KIP-595",
    ),
)  # fmt: skip

PROGRESS: tuple[Rule, ...] = (
    rule(
        "any", "stuck", _UNKNOWN,
        "everything was healed, and a reassignment did not end; how long one may take is not said",
        "KIP-455",
        lambda c: c.aspect == "reassignment",
    ),
    rule(
        "any", "stuck", _UNKNOWN,
        "everything was healed, and there was no success; how long that may take is a matter of "
        "the user's expectation (unavailable_ms)",
        "-",
    ),
    rule(
        "the partition had permittedly lost records", "refused-head", _PERMITTED,
        "what it knew of the producer went with its records",
        "KIP-360",
        lambda c: c.aspect == "bereft",
        permissions.RECORDS_LOST,
    ),
    *open_rules("refused-head"),
    rule(
        "any", "refused-head", _FORBIDDEN,
        "the broker knows the last batch of a producer, and takes the next",
        "KIP-98",
    ),
)  # fmt: skip

CLUSTER_RULES: tuple[Rule, ...] = (*REAL_TIME, *LEADERSHIP, *PROGRESS)
