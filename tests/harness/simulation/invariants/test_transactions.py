"""Transactions that are seen in part, twice, or against their end are found."""

import pytest

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
