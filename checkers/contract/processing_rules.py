"""Rows of the contract about groups, and about the copies that they make.

These rows are part of the one table in `contract`. They depend on what the workload promises of the
records that its groups read (`Settings.processing`).

Sources: the Kafka documentation of delivery semantics; KIP-98 (transactions), KIP-447 (offsets that
are sent to a transaction with the generation of the group).
"""

from typing import Final

from checkers.contract import permissions
from checkers.contract.conditions import (
    ANY,
    BELOW_COMMIT,
    BOTH_COMMITTED,
    COMMIT_LOST,
    DELIVERED_AGAIN,
    IN_TRANSACTION,
    INPUT_CUT,
    MEMBER_CUT,
    SENT_AGAIN,
    WENT_BACK,
    Condition,
    otherwise,
)
from checkers.contract.rules import (
    Judgement,
    Rule,
    forgotten_rules,
    open_forgotten_rules,
    rule,
    when,
)
from checkers.history.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    OFFSETS_TOPIC,
)

_FORBIDDEN, _PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED
_INFORMATIONAL = Judgement.INFORMATIONAL

NO_PROMISE = Condition(
    "the workload does not say how it processes records", lambda c: c.processing is None
)
LOST_COMMIT: Final = "lost-commit"
DELIVERED: Final = "delivered-again"
STALE_COMMIT: Final = "stale-commit"
PHANTOM_COMMIT: Final = "phantom-commit"
KEPT_WITH_OFFSETS: Final = (LOST_COMMIT, DELIVERED, STALE_COMMIT, PHANTOM_COMMIT)
"""These anomalies are judged by the settings of the topic with groups and committed offsets."""
_SEMANTICS = "Kafka: message delivery semantics"


_AFTER_A_CUT: Final = Condition(
    "the log was cut below the group's place", lambda c: c.aspect == INPUT_CUT
)


def _after_a_cut(anomaly: str) -> Rule:
    """The row for records that were delivered again because their log was cut."""
    return rule(
        _AFTER_A_CUT, anomaly, _INFORMATIONAL,
        "what the log lost is judged instead; the client begins again",
        "Kafka: auto.offset.reset; KIP-320",
    )  # fmt: skip


def _repetition_rules(anomaly: str) -> tuple[Rule, ...]:
    """The rows for copies that are there because a record was delivered again."""
    return (
        rule(
            NO_PROMISE, anomaly, _INFORMATIONAL,
            "whether this is wrong depends on when the group commits",
            "-",
        ),
        rule(
            Condition("the commit was lost", lambda c: c.aspect == COMMIT_LOST),
            anomaly, _INFORMATIONAL,
            "lost-commit is judged instead",
            "-",
        ),
        _after_a_cut(anomaly),
        rule(
            Condition(
                "processing=at-least-once, and the record was delivered again",
                lambda c: c.processing == AT_LEAST_ONCE and c.aspect == DELIVERED_AGAIN,
            ), anomaly, _PERMITTED,
            "a record that was processed and not committed is delivered, and processed, again",
            _SEMANTICS,
            permissions.AT_LEAST_ONCE,
        ),
        rule(
            Condition(
                "processing=exactly-once without group metadata, the record was delivered again",
                lambda c: c.processing == EXACTLY_ONCE
                and not c.group_metadata
                and c.aspect == DELIVERED_AGAIN,
            ), anomaly, _PERMITTED,
            "a member that has lost its partitions may still commit its transaction",
            "KIP-447",
            permissions.NO_GROUP_METADATA,
        ),
        *when(
            Condition("the record was delivered again", lambda c: c.aspect == DELIVERED_AGAIN),
            forgotten_rules(anomaly, OFFSETS_TOPIC, "the commit"),
        ),
        rule(
            otherwise("any other processing"), anomaly, _FORBIDDEN,
            "the group copies each record once, and a partition in order",
            f"{_SEMANTICS}; KIP-98; KIP-447",
        ),
    )  # fmt: skip


def _forgotten(anomaly: str, what: str) -> tuple[Rule, ...]:
    """The rows for a coordinator that forgot what its topic had lost, or may have lost."""
    return (
        *forgotten_rules(anomaly, OFFSETS_TOPIC, what),
        *open_forgotten_rules(anomaly, OFFSETS_TOPIC, what),
    )


_IS_BELOW_COMMIT: Final = Condition("below a commit", lambda c: c.aspect == BELOW_COMMIT)

_DELIVERIES = (
    rule(
        NO_PROMISE, "skipped-record", _INFORMATIONAL,
        "whether this is wrong depends on when the group commits",
        "-",
    ),
    rule(
        Condition(
            "processing=at-most-once, and a member ended or had to give up the partition",
            lambda c: c.processing == AT_MOST_ONCE and c.aspect is not None,
        ), "skipped-record", _PERMITTED,
        "an offset is committed before its record is processed",
        _SEMANTICS,
        permissions.AT_MOST_ONCE,
    ),
    rule(
        Condition(
            "the record of a member ends before another member went on",
            lambda c: c.aspect == MEMBER_CUT,
        ), "skipped-record", Judgement.UNKNOWN,
        "the member may have got the record",
        "-",
    ),
    rule(
        otherwise("any other processing"), "skipped-record", _FORBIDDEN,
        "a group gets every record below the offsets that its members commit",
        f"{_SEMANTICS}; Kafka: consumer position",
    ),
    rule(
        Condition("the commit was lost", lambda c: c.aspect == COMMIT_LOST),
        DELIVERED, _INFORMATIONAL,
        "lost-commit is judged instead",
        "-",
    ),
    _after_a_cut(DELIVERED),
    *when(_IS_BELOW_COMMIT, _forgotten(DELIVERED, "the commit")),
    rule(
        _IS_BELOW_COMMIT, DELIVERED, _FORBIDDEN,
        "a member goes on from the last commit of its group",
        "Kafka: group coordinator, OffsetFetch",
    ),
    rule(
        Condition("processing=at-least-once", lambda c: c.processing == AT_LEAST_ONCE),
        DELIVERED, _PERMITTED,
        "a record that was not committed when its member lost the partition is delivered again",
        _SEMANTICS,
        permissions.AT_LEAST_ONCE,
    ),
    rule(
        otherwise("any other processing"), DELIVERED, _INFORMATIONAL,
        "the record was not committed, so it has no effect yet; copies show what was done twice",
        _SEMANTICS,
    ),
    rule(
        Condition(
            "both committed as owners", lambda c: c.aspect == BOTH_COMMITTED
        ), "two-owners", _FORBIDDEN,
        "a coordinator assigns a partition to one member at a time",
        "Kafka: group coordinator; KIP-429; KIP-848",
    ),
    rule(
        otherwise("any other overlap"), "two-owners", _INFORMATIONAL,
        "a member that was removed may not know it yet; the coordinator refuses its commits",
        "Kafka: session.timeout.ms, ILLEGAL_GENERATION",
    ),
)  # fmt: skip

PROCESSING_RULES: tuple[Rule, ...] = (
    rule(
        NO_PROMISE, "uncopied", _INFORMATIONAL,
        "whether this is wrong depends on when the group commits",
        "-",
    ),
    rule(
        Condition("processing=at-most-once", lambda c: c.processing == AT_MOST_ONCE),
        "uncopied", _PERMITTED,
        "a record whose offset was committed is not processed if the member ends before that",
        _SEMANTICS,
        permissions.AT_MOST_ONCE,
    ),
    rule(
        otherwise("processing=at-least-once or exactly-once"), "uncopied", _FORBIDDEN,
        "an offset is committed only with, or after, the copies of all records below it",
        f"{_SEMANTICS}; KIP-98",
    ),
    *_DELIVERIES,
    *_repetition_rules("copied-twice"),
    *_repetition_rules("copied-out-of-order"),
    rule(
        Condition(
            "a fault held up the commit of that position, and its client sends such a commit again",
            lambda c: c.aspect == SENT_AGAIN,
        ), LOST_COMMIT, _PERMITTED,
        "requests on two connections have no order, so the first one may arrive last",
        "Kafka: OffsetCommit",
        permissions.SENT_TWICE,
    ),
    *_forgotten(LOST_COMMIT, "the commit"),
    rule(
        ANY, LOST_COMMIT, _FORBIDDEN,
        "an acknowledged commit is written with acks=all, and read by every later coordinator",
        "Kafka: group coordinator, min.insync.replicas",
    ),
    rule(
        Condition(
            "processing=exactly-once without group metadata, a commit in a transaction",
            lambda c: c.processing == EXACTLY_ONCE
            and not c.group_metadata
            and c.aspect == IN_TRANSACTION,
        ), STALE_COMMIT, _PERMITTED,
        "the coordinator cannot know the generation of the member",
        "KIP-447",
        permissions.NO_GROUP_METADATA,
    ),
    *forgotten_rules(STALE_COMMIT, OFFSETS_TOPIC, "the later generation"),
    *when(
        Condition("the generation went back", lambda c: c.aspect == WENT_BACK),
        open_forgotten_rules(STALE_COMMIT, OFFSETS_TOPIC, "the later generation"),
    ),
    rule(
        ANY, STALE_COMMIT, _FORBIDDEN,
        "a coordinator refuses a commit of an older generation, or of a member that does not own "
        "the partition any more",
        "Kafka: ILLEGAL_GENERATION; KIP-447; KIP-848",
    ),
    rule(
        Condition(
            "the record of a member of the group ends early", lambda c: c.aspect == MEMBER_CUT
        ), PHANTOM_COMMIT, Judgement.UNKNOWN,
        "the member may have committed that offset",
        "-",
    ),
    *when(
        Condition(
            "every commit of it was refused, one in a transaction",
            lambda c: c.aspect == IN_TRANSACTION,
        ),
        _forgotten(PHANTOM_COMMIT, "the end of its transaction"),
    ),
    rule(
        ANY, PHANTOM_COMMIT, _FORBIDDEN,
        "a coordinator has an offset that a member committed, or none",
        "Kafka: OffsetCommit, OffsetFetch",
    ),
)  # fmt: skip
