"""Which last values of a key its producer allows."""

import pytest

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.keyed_values import KeyedValues, Value
from harness.simulation.invariants.transactions import End


def values(*transactions: tuple[Value, End]) -> KeyedValues:
    """Transactions that wrote the key k."""
    made = KeyedValues()
    for value, end in transactions:
        begun = made.begin()
        begun.values[b"k"], begun.end = value, end
    return made


def test_last_committed_value_is_the_only_one() -> None:
    made = values((b"1", End.COMMITTED), (b"2", End.COMMITTED), (b"3", End.ABORTED))
    made.check({b"k": b"2"})
    for wrong in (b"1", b"3", None):
        with pytest.raises(InvariantBroken, match="compacted-values-stay"):
            made.check({b"k": wrong})


def test_unknown_end_leaves_both_values_possible() -> None:
    made = values((b"1", End.COMMITTED), (b"2", End.UNKNOWN))
    made.check({b"k": b"1"})
    made.check({b"k": b"2"})
    with pytest.raises(InvariantBroken):
        made.check({})


def test_deleted_key_must_not_come_back() -> None:
    made = values((b"1", End.COMMITTED), (None, End.COMMITTED))
    made.check({})
    made.check({b"k": None})
    with pytest.raises(InvariantBroken):
        made.check({b"k": b"1"})


def test_key_that_nobody_wrote_is_found() -> None:
    with pytest.raises(InvariantBroken):
        values().check({b"k": b"1"})


@pytest.mark.parametrize("stay", [True, False])
def test_a_deletion_that_was_compacted_away_may_be_missed_by_a_replica(*, stay: bool) -> None:
    """Then its leader shows the value before; never one that was replaced by another value."""
    made = KeyedValues(deletions_stay=stay)
    for value in (b"1", b"2", None):
        each = made.begin()
        each.values[b"k"], each.end = value, End.COMMITTED
    assert (b"2" in made.possible(b"k")) is not stay
    assert b"1" not in made.possible(b"k")
