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
    """Then its leader shows any value before: the last ones may have been removed with the
    deletion. None may be shown that another value has replaced since.
    """
    made = KeyedValues(deletions_stay=stay)
    for value in (b"1", b"2", None):
        each = made.begin()
        each.values[b"k"], each.end = value, End.COMMITTED
    assert set(made.possible(b"k")) == ({None} if stay else {b"1", b"2", None})
    each = made.begin()
    each.values[b"k"], each.end = b"3", End.COMMITTED
    assert made.possible(b"k") == [b"3"]


def test_the_values_before_a_deletion_of_unknown_end_may_be_back() -> None:
    """It may be committed, and compacted away."""
    made = KeyedValues(deletions_stay=False)
    for value, end in ((b"1", End.COMMITTED), (b"2", End.COMMITTED), (None, End.UNKNOWN)):
        each = made.begin()
        each.values[b"k"], each.end = value, end
    assert set(made.possible(b"k")) == {b"1", b"2", None}


@pytest.mark.parametrize("stay", [True, False])
def test_values_of_an_aborted_transaction_may_be_shown_if_its_marker_may_be_missed(
    *, stay: bool
) -> None:
    """By the leader, until another value is committed."""
    made = KeyedValues(deletions_stay=stay)
    for value, end in ((b"1", End.COMMITTED), (b"2", End.ABORTED)):
        each = made.begin()
        each.values[b"k"], each.end = value, end
    assert made.possible(b"k") == ([b"1"] if stay else [b"2", b"1"])
    each = made.begin()
    each.values[b"k"], each.end = b"3", End.COMMITTED
    assert made.possible(b"k") == [b"3"]
