"""Rows of the contract about transactions.

These rows are part of the one table in `contract`. The row that forbids every other aborted read
stands there.

Sources: KIP-98 (transactions); KIP-360 (fencing); KIP-890 and KAFKA-17754 (a delayed request of an
earlier transaction counts for the next one, before transaction version 2).
"""

from typing import Final

from checkers.contract import permissions
from checkers.contract.conditions import (
    ANY,
    AT_READ_UNCOMMITTED,
    BEHIND_OPEN,
    IN_TRANSACTION,
    MIN_ISR_1,
    NOT_SETTLED,
    ONLY_IN_SYNC_REPLICA_LOST,
    OPEN,
    UNANSWERED_COMMIT,
    UNCLEAN_ELECTION,
    Condition,
)
from checkers.contract.rules import (
    Judgement,
    Rule,
    forgotten_rules,
    open_forgotten_rules,
    open_rules,
    rule,
    state_loss_rules,
    when,
)
from checkers.history.settings import TRANSACTIONS_TOPIC

_FORBIDDEN, _PERMITTED = Judgement.FORBIDDEN, Judgement.PERMITTED

HANGING: Final = "hanging-transaction"
"""The anomaly that is judged by the settings of the topic with the states of transactions."""

DELAYED_REQUEST = Condition(
    "the cluster or the client has transaction.version=0 or 1, and a fault may have made a request "
    "so late that it arrived in this transaction, or after it",
    lambda c: c.transaction_version < 2 and c.requests_delayed,
)


def _delayed_rule(anomaly: str, condition: Condition = DELAYED_REQUEST) -> Rule:
    return rule(
        condition, anomaly, _PERMITTED,
        "a delayed request of an earlier transaction may be taken for one of the next transaction",
        "KIP-890; KAFKA-17754",
        permissions.OLD_TRANSACTIONS,
    )  # fmt: skip


def _forgotten_rules(anomaly: str) -> tuple[Rule, ...]:
    """The rules for a coordinator that forgot a transaction which its topic had lost."""
    return forgotten_rules(anomaly, TRANSACTIONS_TOPIC, "the transaction")


MARKER_LOST: Final = Condition(
    "the partition itself may have lost the marker",
    lambda c: c.cause is not None and c.cause.topic != TRANSACTIONS_TOPIC,
)


def _marker_rules(anomaly: str) -> tuple[Rule, ...]:
    """The rules for a partition that lost the marker of a transaction, and kept its records."""
    reason = "the partition lost the marker, so the transaction is open again there"
    return when(
        MARKER_LOST,
        (
            rule(
                UNCLEAN_ELECTION, anomaly, _PERMITTED,
                f"{reason}: a replica outside the in-sync replicas was elected",
                "Kafka: unclean.leader.election.enable; KIP-664",
                permissions.UNCLEAN,
            ),
            rule(
                MIN_ISR_1 & ONLY_IN_SYNC_REPLICA_LOST, anomaly, _PERMITTED,
                f"{reason}: the only in-sync replica was lost",
                "Kafka: min.insync.replicas; KIP-966; KIP-664",
                permissions.ONE_IN_SYNC,
            ),
            *state_loss_rules(anomaly, reason),
        ),
    )  # fmt: skip


TRANSACTION_RULES: tuple[Rule, ...] = (
    rule(
        UNCLEAN_ELECTION, "torn-transaction", _PERMITTED,
        "a replica outside the in-sync replicas was elected",
        "Kafka: unclean.leader.election.enable",
        permissions.UNCLEAN,
    ),
    rule(
        MIN_ISR_1 & ONLY_IN_SYNC_REPLICA_LOST, "torn-transaction", _PERMITTED,
        "the only in-sync replica was lost",
        "Kafka: min.insync.replicas; KIP-966",
        permissions.ONE_IN_SYNC,
    ),
    *state_loss_rules("torn-transaction", "a part of the transaction is gone"),
    _delayed_rule("torn-transaction"),
    *open_rules("torn-transaction"),
    rule(
        ANY, "torn-transaction", _FORBIDDEN,
        "a transaction is written to all of its partitions, or to none",
        "KIP-98",
    ),
    _delayed_rule("false-abort"),
    *_marker_rules("false-abort"),
    *_forgotten_rules("false-abort"),
    rule(
        ANY, "false-abort", _FORBIDDEN,
        "a transaction whose abort was acknowledged, or whose commit was refused, is not committed",
        "KIP-98",
    ),
    _delayed_rule(HANGING),
    rule(
        NOT_SETTLED, HANGING, Judgement.UNKNOWN,
        "a marker can be written only when the partition has a leader",
        "-",
    ),
    *_marker_rules(HANGING),
    *_forgotten_rules(HANGING),
    *open_forgotten_rules(HANGING, TRANSACTIONS_TOPIC, "the transaction"),
    rule(
        ANY, HANGING, _FORBIDDEN,
        "a coordinator ends each transaction by its timeout, with a marker in every partition",
        "KIP-98; KIP-664; KIP-890",
    ),
    _delayed_rule(
        "zombie-write",
        Condition(
            f"a commit without an answer, {DELAYED_REQUEST.text}",
            lambda c: c.aspect == UNANSWERED_COMMIT and DELAYED_REQUEST.holds(c),
        ),
    ),
    *forgotten_rules("zombie-write", TRANSACTIONS_TOPIC, "the producer epoch"),
    rule(
        ANY, "zombie-write", _FORBIDDEN,
        "init-producer raises the producer epoch, and a producer of an older epoch is refused",
        "KIP-98; KIP-360",
    ),
    rule(
        Condition(
            "the reader asked for isolation.level=read_uncommitted",
            lambda c: c.aspect == AT_READ_UNCOMMITTED,
        ), "aborted-read", _PERMITTED,
        "read_uncommitted returns the records of open and of aborted transactions, too",
        "KIP-98; Kafka: isolation.level",
        permissions.READ_UNCOMMITTED,
    ),
    _delayed_rule(
        "aborted-read",
        Condition(
            f"a send in a transaction, {DELAYED_REQUEST.text}",
            lambda c: c.aspect in (IN_TRANSACTION, OPEN, BEHIND_OPEN) and DELAYED_REQUEST.holds(c),
        ),
    ),
    *_marker_rules("aborted-read"),
    *_forgotten_rules("aborted-read"),
    rule(
        Condition(
            "the reader asked for isolation.level=read_committed, and nobody had asked to end the "
            "transaction yet", lambda c: c.aspect in (OPEN, BEHIND_OPEN),
        ), "aborted-read", _FORBIDDEN,
        "the last stable offset is below the first record of an open transaction",
        "KIP-98; Kafka: isolation.level",
    ),
)  # fmt: skip
