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
    DELIVERED_AGAIN,
    IN_TRANSACTION,
    RISKY_SETTINGS_OR_FAULTS,
    Condition,
    otherwise,
)
from checkers.contract.rules import Judgement, Rule, rule
from checkers.history.settings import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE

_FORBIDDEN, _PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED
_INFORMATIONAL = Judgement.INFORMATIONAL

NO_PROMISE = Condition(
    "the workload does not say how it processes records", lambda c: c.processing is None
)
LOST_COMMIT: Final = "lost-commit"
"""The anomaly that is judged by the settings of the topic with the committed offsets."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
_SEMANTICS = "Kafka: message delivery semantics"


def _repetition_rules(anomaly: str) -> tuple[Rule, ...]:
    """The rows for copies that are there because a record was delivered again."""
    return (
        rule(
            NO_PROMISE, anomaly, _INFORMATIONAL,
            "whether this is wrong depends on when the group commits",
            "-",
        ),
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
        rule(
            otherwise("any other processing"), anomaly, _FORBIDDEN,
            "the group copies each record once, and a partition in order",
            f"{_SEMANTICS}; KIP-98; KIP-447",
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
    *_repetition_rules("copied-twice"),
    *_repetition_rules("copied-out-of-order"),
    rule(
        Condition(
            f"{OFFSETS_TOPIC}: {RISKY_SETTINGS_OR_FAULTS.text}", RISKY_SETTINGS_OR_FAULTS.holds
        ),
        LOST_COMMIT, Judgement.UNKNOWN,
        "the topic may have lost the commit with permission; the record does not show its leaders",
        "-",
    ),
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
        ), "stale-commit", _PERMITTED,
        "the coordinator cannot know the generation of the member",
        "KIP-447",
        permissions.NO_GROUP_METADATA,
    ),
    rule(
        ANY, "stale-commit", _FORBIDDEN,
        "a coordinator refuses a commit of an older generation, or of a member that does not own "
        "the partition any more",
        "Kafka: ILLEGAL_GENERATION; KIP-447; KIP-848",
    ),
)  # fmt: skip
