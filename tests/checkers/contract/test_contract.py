"""The contract row by row: what is permitted needs its cause, everything else is forbidden."""

from typing import Any

import pytest

from checkers.causes.cause import Cause, CauseKind
from checkers.contract.contract import CONTRACT, Context, Judgement, in_force, judge
from checkers.history.settings import acks_number, topic_settings

ELECTION = Cause(
    kind=CauseKind.ELECTION, topic="t", partition=0, text="", from_ns=0, near_until_ns=1
)
UNCLEAN = Cause(
    kind=CauseKind.ELECTION, topic="t", partition=0, text="", from_ns=0, near_until_ns=1,
    left_isr=True,
)  # fmt: skip
SOLE = Cause(
    kind=CauseKind.ELECTION, topic="t", partition=0, text="", from_ns=0, near_until_ns=1,
    left_isr=True, sole_isr=True,
)  # fmt: skip
FAULT = Cause(kind=CauseKind.FAULT, topic="t", partition=0, text="", from_ns=0, near_until_ns=1)
FORGOTTEN = Cause(
    kind=CauseKind.QUORUM_LOSS, topic="t", partition=0, text="", from_ns=0, near_until_ns=1
)
DELAYED: dict[str, Any] = {"transaction_version": 1, "requests_delayed": True}
AGAIN: dict[str, Any] = {"aspect": "delivered-again"}
WENT_BACK: dict[str, Any] = {"aspect": "generation-went-back"}
WITHOUT_METADATA: dict[str, Any] = {"processing": "exactly-once", "group_metadata": False}
NOT_RECORDED = {"cause_recorded": False}


@pytest.mark.parametrize(
    ("anomaly", "context", "judgement"),
    [
        ("lost-write", Context(acks=0), "permitted"),
        ("lost-write", Context(acks=1), "forbidden"),
        ("lost-write", Context(acks=1, cause=ELECTION), "permitted"),
        ("lost-write", Context(acks=1, cause=FAULT), "forbidden"),
        ("lost-write", Context(acks=1, cause_recorded=False), "unknown"),
        ("lost-write", Context(acks=-1, min_insync_replicas=2, cause=ELECTION), "forbidden"),
        ("lost-write", Context(acks=-1, min_insync_replicas=2, cause=SOLE), "forbidden"),
        ("lost-write", Context(acks=-1, min_insync_replicas=2, cause_recorded=False), "forbidden"),
        ("lost-write", Context(acks=-1, min_insync_replicas=1, cause=ELECTION), "forbidden"),
        ("lost-write", Context(acks=-1, min_insync_replicas=1, cause=UNCLEAN), "forbidden"),
        ("lost-write", Context(acks=-1, min_insync_replicas=1, cause=SOLE), "permitted"),
        ("lost-write", Context(acks=-1, min_insync_replicas=1, cause_recorded=False), "unknown"),
        (
            "lost-write",
            Context(acks=-1, min_insync_replicas=2, unclean_election=True, cause=UNCLEAN),
            "permitted",
        ),
        (
            "lost-write",
            Context(acks=-1, min_insync_replicas=2, unclean_election=True, cause=ELECTION),
            "forbidden",
        ),
        ("unseen", Context(acks=-1), "unknown"),
        ("duplicate", Context(acks=-1, idempotence=True), "forbidden"),
        ("duplicate", Context(acks=-1, idempotence=True, aspect="client-epoch"), "permitted"),
        ("duplicate", Context(acks=1), "permitted"),
        ("duplicate", Context(acks=1, aspect="answered-at-once"), "forbidden"),
        (
            "duplicate",
            Context(acks=1, aspect="answered-at-once", cause_recorded=False),
            "unknown",
        ),
        ("duplicate", Context(acks=-1, aspect="transaction"), "forbidden"),
        ("reordered-send", Context(acks=-1, idempotence=True), "forbidden"),
        ("reordered-send", Context(acks=1), "permitted"),
        ("reordered-send", Context(acks=1, aspect="answered-at-once"), "forbidden"),
        ("reordered-send", Context(acks=-1, aspect="transaction"), "forbidden"),
        ("reordered-send", Context(acks=1, max_in_flight=1), "forbidden"),
        ("inconsistent-offset", Context(acks=1, aspect="read", cause=ELECTION), "forbidden"),
        ("inconsistent-offset", Context(acks=1, aspect="acknowledged"), "forbidden"),
        (
            "inconsistent-offset",
            Context(acks=1, aspect="acknowledged", cause=ELECTION),
            "permitted",
        ),
        (
            "inconsistent-offset",
            Context(acks=-1, aspect="acknowledged", cause=ELECTION),
            "forbidden",
        ),
        ("truncated-read", Context(acks=1, cause=ELECTION, min_insync_replicas=2), "forbidden"),
        ("truncated-read", Context(acks=0, cause=SOLE, min_insync_replicas=1), "permitted"),
        ("aborted-read", Context(acks=0), "forbidden"),
        ("aborted-read", Context(acks=-1, aspect="read-uncommitted"), "permitted"),
        ("aborted-read", Context(acks=-1, aspect="transaction"), "forbidden"),
        ("aborted-read", Context(acks=-1, aspect="transaction", **DELAYED), "permitted"),
        ("aborted-read", Context(acks=-1, **DELAYED), "forbidden"),
        ("aborted-read", Context(acks=-1, aspect="open"), "forbidden"),
        ("aborted-read", Context(acks=-1, aspect="open", **DELAYED), "permitted"),
        ("aborted-read", Context(acks=-1, aspect="open", cause=SOLE), "permitted"),
        ("aborted-read", Context(acks=-1, aspect="behind-open"), "forbidden"),
        ("aborted-read", Context(acks=-1, aspect="behind-open", **DELAYED), "permitted"),
        ("torn-transaction", Context(acks=-1), "forbidden"),
        ("torn-transaction", Context(acks=-1, cause_recorded=False), "unknown"),
        ("torn-transaction", Context(acks=-1, requests_delayed=True), "forbidden"),
        ("torn-transaction", Context(acks=-1, transaction_version=1), "forbidden"),
        ("torn-transaction", Context(acks=-1, **DELAYED), "permitted"),
        ("torn-transaction", Context(acks=-1, min_insync_replicas=1, cause=SOLE), "permitted"),
        ("torn-transaction", Context(acks=-1, min_insync_replicas=2, cause=SOLE), "forbidden"),
        ("false-abort", Context(acks=-1), "forbidden"),
        ("false-abort", Context(acks=-1, **DELAYED), "permitted"),
        ("zombie-write", Context(acks=-1, **DELAYED), "forbidden"),
        ("zombie-write", Context(acks=-1, aspect="commit", **DELAYED), "forbidden"),
        ("zombie-write", Context(acks=-1, aspect="commit-unanswered"), "forbidden"),
        ("zombie-write", Context(acks=-1, aspect="commit-unanswered", **DELAYED), "permitted"),
        ("uncopied", Context(acks=-1), "informational"),
        ("uncopied", Context(acks=-1, processing="at-most-once"), "permitted"),
        ("uncopied", Context(acks=-1, processing="at-least-once"), "forbidden"),
        ("uncopied", Context(acks=-1, processing="exactly-once"), "forbidden"),
        ("lost-output", Context(acks=-1, processing="at-most-once"), "permitted"),
        ("lost-output", Context(acks=-1, processing="at-least-once"), "forbidden"),
        ("lost-output", Context(acks=-1, processing="exactly-once"), "forbidden"),
        ("duplicated-output", Context(acks=-1, processing="at-most-once"), "forbidden"),
        ("duplicated-output", Context(acks=-1, processing="at-least-once"), "permitted"),
        ("duplicated-output", Context(acks=-1, processing="exactly-once"), "forbidden"),
        ("reordered-output", Context(acks=-1, ordered=True), "forbidden"),
        ("reordered-output", Context(acks=-1), "informational"),
        ("torn-output", Context(acks=-1, processing="at-most-once"), "forbidden"),
        ("unknown-output", Context(acks=-1, processing="at-most-once"), "forbidden"),
        ("late-output", Context(acks=-1, processing="at-most-once"), "forbidden"),
        ("late-output", Context(acks=-1, settled=False), "unknown"),
        ("copied-twice", Context(acks=-1), "informational"),
        ("copied-twice", Context(acks=-1, processing="at-most-once", **AGAIN), "forbidden"),
        ("copied-twice", Context(acks=-1, processing="at-least-once"), "forbidden"),
        ("copied-twice", Context(acks=-1, processing="at-least-once", **AGAIN), "permitted"),
        ("copied-twice", Context(acks=-1, processing="exactly-once", **AGAIN), "forbidden"),
        ("copied-twice", Context(acks=-1, **WITHOUT_METADATA, **AGAIN), "permitted"),
        ("copied-twice", Context(acks=-1, **WITHOUT_METADATA), "forbidden"),
        ("copied-out-of-order", Context(acks=-1, processing="exactly-once"), "forbidden"),
        ("copied-out-of-order", Context(acks=-1, processing="at-least-once", **AGAIN), "permitted"),
        ("lost-commit", Context(acks=None), "forbidden"),
        ("lost-commit", Context(acks=None, aspect="sent-again"), "permitted"),
        ("lost-commit", Context(acks=None, **NOT_RECORDED), "unknown"),
        ("lost-commit", Context(acks=None, cause=SOLE), "permitted"),
        ("lost-commit", Context(acks=None, cause=SOLE, min_insync_replicas=2), "forbidden"),
        ("lost-commit", Context(acks=None, cause=ELECTION), "forbidden"),
        ("lost-commit", Context(acks=None, cause=UNCLEAN), "forbidden"),
        ("lost-commit", Context(acks=None, cause=UNCLEAN, unclean_election=True), "permitted"),
        ("lost-commit", Context(acks=None, cause=FORGOTTEN), "permitted"),
        ("lost-commit", Context(acks=None, state_loss_uncertain=True), "unknown"),
        ("lost-commit", Context(acks=None, min_insync_replicas=2), "forbidden"),
        (
            "lost-commit",
            Context(acks=None, min_insync_replicas=2, state_lost=True, **NOT_RECORDED),
            "unknown",
        ),
        ("lost-commit", Context(acks=None, min_insync_replicas=2, state_lost=True), "forbidden"),
        ("phantom-commit", Context(acks=None), "forbidden"),
        ("phantom-commit", Context(acks=None, cause=SOLE), "forbidden"),
        ("phantom-commit", Context(acks=None, aspect="member-cut"), "unknown"),
        ("phantom-commit", Context(acks=None, aspect="refused", cause=SOLE), "forbidden"),
        ("phantom-commit", Context(acks=None, aspect="transaction", cause=SOLE), "permitted"),
        (
            "phantom-commit",
            Context(acks=None, aspect="transaction", cause=SOLE, min_insync_replicas=2),
            "forbidden",
        ),
        ("phantom-commit", Context(acks=None, aspect="transaction", **NOT_RECORDED), "unknown"),
        ("stale-commit", Context(acks=1), "forbidden"),
        ("stale-commit", Context(acks=1, **WITHOUT_METADATA), "forbidden"),
        ("stale-commit", Context(acks=1, aspect="transaction", **WITHOUT_METADATA), "permitted"),
        ("stale-commit", Context(acks=1, **WENT_BACK), "forbidden"),
        ("stale-commit", Context(acks=1, **WENT_BACK, **NOT_RECORDED), "unknown"),
        ("stale-commit", Context(acks=1, **NOT_RECORDED), "forbidden"),
        ("stale-commit", Context(acks=1, cause=SOLE), "permitted"),
        ("stale-commit", Context(acks=1, min_insync_replicas=2, **WENT_BACK), "forbidden"),
        (
            "copied-twice",
            Context(acks=-1, processing="exactly-once", aspect="commit-lost"),
            "informational",
        ),
        ("hanging-transaction", Context(acks=None), "forbidden"),
        ("hanging-transaction", Context(acks=None, **NOT_RECORDED), "unknown"),
        ("hanging-transaction", Context(acks=None, cause=SOLE), "permitted"),
        ("false-abort", Context(acks=-1, cause=SOLE), "permitted"),
        ("zombie-write", Context(acks=-1, cause=FORGOTTEN), "permitted"),
        ("zombie-write", Context(acks=-1, **NOT_RECORDED), "forbidden"),
        ("aborted-read", Context(acks=-1, cause=SOLE), "permitted"),
        ("hanging-transaction", Context(acks=None, min_insync_replicas=2), "forbidden"),
        (
            "hanging-transaction",
            Context(acks=None, min_insync_replicas=2, settled=False),
            "unknown",
        ),
        ("hanging-transaction", Context(acks=None, **DELAYED), "permitted"),
        ("skipped-record", Context(acks=1), "informational"),
        ("skipped-record", Context(acks=1, processing="at-most-once"), "forbidden"),
        (
            "skipped-record",
            Context(acks=1, processing="at-most-once", aspect="rebalanced"),
            "permitted",
        ),
        (
            "skipped-record",
            Context(acks=1, processing="at-least-once", aspect="rebalanced"),
            "forbidden",
        ),
        (
            "skipped-record",
            Context(acks=1, processing="exactly-once", aspect="member-ended"),
            "forbidden",
        ),
        (
            "skipped-record",
            Context(acks=1, processing="at-least-once", aspect="member-cut"),
            "unknown",
        ),
        ("delivered-again", Context(acks=None, aspect="rebalanced"), "informational"),
        (
            "delivered-again",
            Context(acks=None, processing="at-least-once", aspect="rebalanced"),
            "permitted",
        ),
        (
            "delivered-again",
            Context(acks=None, processing="exactly-once", aspect="member-ended"),
            "informational",
        ),
        ("delivered-again", Context(acks=None, aspect="below-commit"), "forbidden"),
        ("delivered-again", Context(acks=None, aspect="below-commit", **NOT_RECORDED), "unknown"),
        ("delivered-again", Context(acks=None, aspect="below-commit", cause=SOLE), "permitted"),
        (
            "delivered-again",
            Context(
                acks=None,
                processing="at-least-once",
                aspect="below-commit",
                min_insync_replicas=2,
            ),
            "forbidden",
        ),
        ("delivered-again", Context(acks=None, aspect="commit-lost"), "informational"),
        ("two-owners", Context(acks=1), "informational"),
        ("two-owners", Context(acks=1, aspect="both-committed"), "forbidden"),
        ("phantom", Context(acks=0), "forbidden"),
        ("unrecorded", Context(acks=0), "informational"),
        ("poll-skip", Context(acks=0), "forbidden"),
        ("nonmonotonic-poll", Context(acks=0), "forbidden"),
        ("watermark-regression", Context(acks=1), "forbidden"),
        ("watermark-regression", Context(acks=1, cause=ELECTION), "informational"),
        (
            "watermark-regression",
            Context(acks=1, aspect="advanced", cause=ELECTION),
            "forbidden",
        ),
        ("watermark-regression", Context(acks=1, aspect="deposed"), "informational"),
        ("uncommitted-read", Context(acks=1, cause_recorded=False), "unknown"),
        ("uncommitted-read", Context(acks=1, cause=SOLE), "informational"),
        ("uncommitted-read", Context(acks=1, state_loss_uncertain=True), "unknown"),
        ("uncommitted-read", Context(acks=1, aspect="bereft"), "informational"),
        ("uncommitted-read", Context(acks=1), "forbidden"),
        ("contradicted-evidence", Context(acks=1, aspect="files"), "forbidden"),
        ("contradicted-evidence", Context(acks=1, aspect="files", settled=False), "unknown"),
        ("contradicted-evidence", Context(acks=1, aspect="reads", settled=False), "unknown"),
        ("contradicted-evidence", Context(acks=1, aspect="answers", settled=False), "forbidden"),
        ("contradicted-evidence", Context(acks=1, aspect="isr", settled=False), "forbidden"),
        ("contradicted-evidence", Context(acks=1, aspect="changed-bytes"), "permitted"),
        ("contradicted-evidence", Context(acks=1, aspect="isr", quorum_lost=True), "permitted"),
        ("refused-head", Context(acks=-1, cause_recorded=False), "unknown"),
        (
            "refused-head",
            Context(acks=-1, cause_recorded=False, min_insync_replicas=2),
            "forbidden",
        ),
        (
            "refused-head",
            Context(acks=-1, min_insync_replicas=2, state_loss_uncertain=True),
            "unknown",
        ),
        (
            "divergent-replicas",
            Context(acks=0, aspect="bytes", settled=False, min_insync_replicas=2),
            "forbidden",
        ),
        ("divergent-replicas", Context(acks=0, aspect="bytes", settled=False), "unknown"),
        ("divergent-replicas", Context(acks=0, aspect="bytes"), "forbidden"),
        ("divergent-replicas", Context(acks=0, aspect="short"), "forbidden"),
        ("divergent-replicas", Context(acks=0, aspect="short", settled=False), "informational"),
        ("lost-write", Context(acks=-1, min_insync_replicas=3, cause=FORGOTTEN), "permitted"),
        ("truncated-read", Context(acks=1, min_insync_replicas=3, cause=FORGOTTEN), "permitted"),
        ("divergent-replicas", Context(acks=0, aspect="bytes", quorum_lost=True), "permitted"),
        ("two-leaders", Context(acks=None, quorum_lost=True), "permitted"),
        ("two-leaders", Context(acks=None), "forbidden"),
        ("isr-broken", Context(acks=None, quorum_lost=True), "permitted"),
        ("metadata-rollback", Context(acks=None, quorum_lost=True), "permitted"),
        ("isr-broken", Context(acks=None, zookeeper_lost=True), "unknown"),
        ("two-leaders", Context(acks=None, zookeeper_lost=True), "unknown"),
        ("divergent-replicas", Context(acks=0, aspect="bytes", zookeeper_lost=True), "unknown"),
        ("lost-write", Context(acks=-1, min_insync_replicas=2, zookeeper_lost=True), "unknown"),
        ("lost-write", Context(acks=0, zookeeper_lost=True), "permitted"),
        ("reordered-send", Context(acks=1, max_in_flight=5, zookeeper_lost=True), "permitted"),
        ("reordered-send", Context(acks=1, idempotence=True, zookeeper_lost=True), "unknown"),
        ("phantom", Context(acks=-1, zookeeper_lost=True), "forbidden"),
        ("unequal-ends", Context(acks=0), "informational"),
        ("unavailable", Context(acks=1), "informational"),
        ("recovery", Context(acks=1), "informational"),
    ],
)
def test_judgement(anomaly: str, context: Context, judgement: str) -> None:
    """What the contract says of one anomaly in one setting."""
    assert judge(anomaly, context).judgement.value == judgement


def test_anomaly_without_a_row_is_an_error() -> None:
    """Nothing is silently ignored."""
    with pytest.raises(LookupError, match="has no row for 'novelty'"):
        judge("novelty", Context(acks=-1))


def test_rows_are_printable_and_not_repeated() -> None:
    """Every row has all its texts, and no row is there twice."""
    texts = ("configuration", "anomaly", "judgement", "reason", "source")
    rows = [tuple(rule.as_json()[name] for name in texts) for rule in CONTRACT]
    assert all(all(text.strip() for text in row) for row in rows)
    assert len(set(rows)) == len(rows)


def test_every_anomaly_ends_in_a_row_without_condition() -> None:
    """The last row of each anomaly always applies: no setting falls through."""
    last = {rule.anomaly: rule for rule in CONTRACT}
    for rule in last.values():
        assert rule.applies(Context(acks=None))


def test_topic_settings_read_the_plan() -> None:
    """Topic settings come before broker settings, those before Kafka's defaults."""
    plan = {
        "broker": {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"},
        "topics": [
            {"name": "a", "acks": "all", "idempotence": True, "min_insync_replicas": 3},
            {"name": "b", "acks": 1, "configs": {"unclean.leader.election.enable": False}},
        ],
        "workload": {"max_in_flight": 1},
    }
    a, b, none = (in_force(topic_settings(plan, name)) for name in ("a", "b", "c"))
    assert (a.acks, a.idempotence, a.min_insync_replicas, a.unclean_election) == (-1, True, 3, True)
    assert (b.acks, b.idempotence, b.min_insync_replicas, b.unclean_election) == (
        1,
        False,
        2,
        False,
    )
    assert (none.acks, none.max_in_flight) == (None, 1)


def test_acks_numbers() -> None:
    """Kafka writes -1 also as `all`."""
    assert [acks_number(acks) for acks in ("all", -1, "0", 1, None)] == [-1, -1, 0, 1, None]


def test_judgements_are_what_the_report_expects() -> None:
    """The words of verdict.json."""
    assert {j.value for j in Judgement} == {"forbidden", "permitted", "informational", "unknown"}
