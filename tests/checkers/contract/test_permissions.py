"""What a row names as permitting and as preventing is true: it is held against the contract."""

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product

import pytest

from checkers.causes.cause import Cause, CauseKind
from checkers.causes.producer_epochs import IN_FLIGHT
from checkers.causes.retention import Removal
from checkers.causes.state_loss import StateLoss
from checkers.contract.conditions import (
    AT_READ_UNCOMMITTED,
    BEHIND_OPEN,
    DELIVERED_AGAIN,
    IN_TRANSACTION,
    MEMBER_ENDED,
    UNANSWERED_COMMIT,
)
from checkers.contract.contract import CONTRACT, Context, Judgement, judge
from checkers.contract.permissions import (
    ACKS_ALL,
    CLEAN_ELECTIONS,
    FLUSH,
    RETENTION,
    Permission,
    as_properties,
)
from checkers.history.recorded_faults import LostState
from checkers.history.settings import PROCESSING, Settings
from tests.checkers.causes.test_state_loss import together

POWER, DISK = LostState.UNFLUSHED, LostState.DISK
SETTINGS = {each.name for each in fields(Settings)}
PERMITTED = [row for row in CONTRACT if row.judgement is Judgement.PERMITTED]
KINDS = list(dict.fromkeys(row.anomaly for row in PERMITTED))
ROWS = {kind: [row for row in CONTRACT if row.anomaly == kind] for kind in KINDS}
"""`judge` goes through all rows for each kind in 25,000 contexts."""
ASPECTS = (None, "acknowledged", "damaged", "outside", "bereft", "final", "newest",
           "overtaken", "outlasted", "answered-at-once", IN_FLIGHT)  # fmt: skip
SEEN = ("lost-write", "duplicate", "torn-transaction", "false-abort", "aborted-read",
        "uncopied", "copied-twice", "copied-out-of-order", "hanging-transaction",
        "skipped-record", "delivered-again", "lost-output", "duplicated-output")  # fmt: skip
OF_TRANSACTIONS = (None, IN_TRANSACTION, AT_READ_UNCOMMITTED, BEHIND_OPEN, UNANSWERED_COMMIT)
LOST = (
    None,
    together({1: POWER}, {1}, set()),
    together({1: POWER}, {1}, {2}),
    together({1: POWER}, {1, 2, 3}, set()),
    together({1: POWER, 2: POWER}, {1, 2, 3}, set()),
    together({1: DISK}, {1}, set()),
    together({1: DISK, 2: DISK}, {1, 2}, set()),
)


def cause(lost: StateLoss | None, *, unclean: bool, sole: bool, kind: CauseKind) -> Cause:
    return Cause(
        kind=kind, topic="t", partition=0, text="", from_ns=0, near_until_ns=1, deposed=1,
        leader=1 if lost else 2, left_isr=unclean, sole_isr=sole, lost=lost,
    )  # fmt: skip


CAUSES = [None] + [
    cause(lost, unclean=unclean, sole=sole, kind=kind)
    for lost, unclean, sole, kind in product(
        LOST, (False, True), (False, True), (CauseKind.ELECTION, CauseKind.QUORUM_LOSS)
    )
]


def contexts() -> Iterator[Context]:
    """Every setting with every cause."""
    switches = [(False, True)] * 4
    for acks, isr, (unclean, flush, elr, idempotent) in product(
        (0, 1, -1), (1, 2), product(*switches)
    ):
        if idempotent and acks != -1:
            continue
        for why, aspect in product(CAUSES, ASPECTS):
            yield Context(
                acks=acks, min_insync_replicas=isr, unclean_election=unclean,
                flush_before_ack=flush, eligible_leader_replicas=elr, idempotence=idempotent,
                cause=why, aspect=aspect, quorum_lost=False,
            )  # fmt: skip
        yield Context(acks=acks, idempotence=idempotent, removal=Removal.BY_SIZE)
    for version, aspect in product((0, 1, 2), OF_TRANSACTIONS):
        yield Context(
            acks=-1, min_insync_replicas=2, aspect=aspect, transaction_version=version,
            requests_delayed=True,
        )  # fmt: skip
    for processing, metadata, aspect in product(
        (None, *PROCESSING), (False, True), (None, DELIVERED_AGAIN, IN_TRANSACTION, MEMBER_ENDED)
    ):
        yield Context(acks=-1, processing=processing, group_metadata=metadata, aspect=aspect)


@pytest.fixture(scope="module")
def permitted() -> list[tuple[str, Context, Permission]]:
    """Every kind in every context that permits it."""
    found = []
    for context in contexts():
        for kind in KINDS:
            row = judge(kind, context, ROWS[kind])
            if row.judgement is Judgement.PERMITTED:
                assert row.permission is not None
                found.append((kind, context, row.permission))
    return found


def test_exactly_the_rows_that_permit_say_what_permits_and_what_prevents() -> None:
    """In words, and where they are settings, in settings that there are."""
    for row in CONTRACT:
        assert (row.permission is not None) == (row.judgement is Judgement.PERMITTED), row.text
    for row in PERMITTED:
        assert row.permission is not None
        assert row.permission.permitted_by
        assert row.permission.prevented_by
        assert all(row.permission.prevented_by)
        for values in (row.permission.values, *(r.values for r in row.permission.remedies)):
            assert set(values) <= SETTINGS


def test_the_settings_that_are_named_are_those_in_force(
    permitted: list[tuple[str, Context, Permission]],
) -> None:
    """Nothing is laid to a setting that was not so."""
    for _, context, permission in permitted:
        for name, value in permission.values.items():
            assert getattr(context, name) == value, (permission, context)


def test_each_remedy_takes_the_row_out_of_force(
    permitted: list[tuple[str, Context, Permission]],
) -> None:
    """By itself: with it, and everything else as it was, the row does not permit it any more."""
    for kind, context, permission in permitted:
        for remedy in permission.remedies:
            if remedy.values:
                row = judge(kind, replace(context, **remedy.values), ROWS[kind])
                assert row.permission is not permission, (kind, remedy, context)


def test_every_permission_was_looked_at(
    permitted: list[tuple[str, Context, Permission]],
) -> None:
    """All that a cause of a loss can reach; the rest is about disks and files."""
    seen = {id(permission) for _, _, permission in permitted}
    loses = [row for row in PERMITTED if row.anomaly in SEEN]
    assert [row.text for row in loses if id(row.permission) not in seen] == []


def test_lost_writes_of_acks_all_are_kept_by_all_remedies_together() -> None:
    """A careful configuration leaves nothing but the loss of disks, and retention."""
    careful = {**ACKS_ALL.values, **CLEAN_ELECTIONS.values, **FLUSH.values}
    for context in contexts():
        row = judge("lost-write", replace(context, **careful))
        if row.judgement is Judgement.PERMITTED:
            assert row.permission is not None
            assert row.permission is RETENTION or "disk" in row.permission.permitted_by


def test_properties_are_kafkas() -> None:
    """As they are written in a file of properties."""
    assert as_properties({"acks": -1, "min_insync_replicas": 2}) == (
        "acks=all with min.insync.replicas=2"
    )
    assert as_properties({"unclean_election": True}) == "unclean.leader.election.enable=true"
    assert as_properties({"flush_before_ack": True}) == "flush.messages=1"
    assert "no flush" in as_properties({"flush_before_ack": False})
