"""Transactions that are seen in part, twice, or against their end are found."""

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.transactions import End, Transactions


def written(end: End) -> Transactions:
    """One transaction that wrote to partitions 0 and 2."""
    made = Transactions()
    transaction = made.begin()
    transaction.partitions = [0, 2]
    transaction.end = end
    return made


WHOLE = {0: [0], 1: [], 2: [0]}
NOWHERE: dict[int, list[int]] = {0: [], 1: [], 2: []}
TORN = {0: [0], 1: [], 2: []}
TWICE = {0: [0, 0], 1: [], 2: [0]}
ELSEWHERE = {0: [0], 1: [0], 2: [0]}


@pytest.mark.parametrize(
    ("end", "seen"),
    [
        (End.COMMITTED, WHOLE),
        (End.ABORTED, NOWHERE),
        (End.UNKNOWN, WHOLE),
        (End.UNKNOWN, NOWHERE),
    ],
)
def test_whole_transactions_are_sound(end: End, seen: dict[int, list[int]]) -> None:
    """All or nothing, as the producer was told."""
    written(end).check(seen)


@pytest.mark.parametrize(
    ("end", "seen"),
    [
        *((End.COMMITTED, seen) for seen in (NOWHERE, TORN, TWICE, ELSEWHERE)),
        *((End.ABORTED, seen) for seen in (WHOLE, TORN)),
        *((End.UNKNOWN, seen) for seen in (TORN, TWICE, ELSEWHERE)),
    ],
)
def test_everything_else_is_found(end: End, seen: dict[int, list[int]]) -> None:
    """Torn, doubled, in a partition that was not written, or against its end."""
    with pytest.raises(InvariantBroken, match="transaction 0"):
        written(end).check(seen)


def test_a_new_transaction_counts_as_aborted() -> None:
    """Until its producer tries to commit it, nobody may see it."""
    made = Transactions()
    made.begin()
    assert made.count(End.ABORTED) == 1


@pytest.mark.parametrize("end", [End.COMMITTED, End.ABORTED])
def test_an_acknowledged_end_is_acknowledged_again(end: End) -> None:
    """Only another producer with the transactional id may be in the way."""
    made = written(end)
    made.repeated(made.begun[0], ErrorCode.none)
    made.repeated(made.begun[0], ErrorCode.producer_fenced)
    with pytest.raises(InvariantBroken, match="INVALID_TXN_STATE when it is repeated"):
        made.repeated(made.begun[0], ErrorCode.invalid_txn_state)


def test_an_end_that_comes_in_the_next_transaction_must_not_end_that_one() -> None:
    """A coordinator that does not know the next transaction may acknowledge the end again."""
    made = written(End.COMMITTED)
    made.late(made.begun[0], ErrorCode.producer_fenced, ended_another=True)
    made.late(made.begun[0], ErrorCode.none, ended_another=False)
    with pytest.raises(InvariantBroken, match="sent again in the next, ended that one"):
        made.late(made.begun[0], ErrorCode.none, ended_another=True)
