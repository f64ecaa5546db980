"""The offsets of a client that commits and deletes alone: what it may read, and what it may not."""

from collections.abc import Callable

import pytest

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.commits import NOTHING
from harness.simulation.invariants.kept_offsets import KeptOffsets


def kept(
    *steps: Callable[[KeptOffsets], None], expires: bool = False, deletions_stay: bool = True
) -> KeptOffsets:
    """The offsets after these steps; offset 5 of partition 0 was committed before."""
    made = KeptOffsets("g", may_have_expired=lambda: expires, deletions_stay=deletions_stay)
    made.committed(0, 5)
    for step in steps:
        step(made)
    return made


def commit(offset: int) -> Callable[[KeptOffsets], None]:
    """A commit without a transaction."""
    return lambda made: made.committed(0, offset)


def send(offset: int) -> Callable[[KeptOffsets], None]:
    """A commit in the transaction."""
    return lambda made: made.sent(0, offset)


def end(*, commit: bool) -> Callable[[KeptOffsets], None]:
    """The end of the transaction."""
    return lambda made: made.ended(commit=commit)


def delete(made: KeptOffsets) -> None:
    """Delete the offset."""
    made.deleted(0)


@pytest.mark.parametrize(
    ("steps", "offset"),
    [
        ((), 5),
        ((commit(6),), 6),
        ((delete,), NOTHING),
        ((send(6), end(commit=True)), 6),
        ((send(6), end(commit=False)), 5),
        ((send(6), commit(7), end(commit=True)), 7),
        ((commit(6), send(7), end(commit=True)), 7),
        ((send(6), commit(7), send(8), end(commit=True)), 8),
        ((send(6), delete, end(commit=True)), NOTHING),
        ((delete, send(6), end(commit=True)), 6),
        ((send(6), delete, commit(7), end(commit=True)), 7),
    ],
)
def test_only_the_last_offset_in_the_log_may_be_read(
    steps: tuple[Callable[[KeptOffsets], None], ...], offset: int
) -> None:
    """Of a commit and one that was pending, the later one counts, not the one that ends later."""
    kept(*steps).read(0, offset)
    for wrong in {NOTHING, 5, 6, 7, 8} - {offset}:
        with pytest.raises(InvariantBroken, match="commits-stay"):
            kept(*steps).read(0, wrong)


def test_old_offsets_may_expire_and_do_not_come_back() -> None:
    """If the plan lets them."""
    made = kept(expires=True)
    made.read(0, 5)
    made.read(0, NOTHING)
    with pytest.raises(InvariantBroken, match="commits-stay"):
        made.read(0, 5)


@pytest.mark.parametrize(
    ("steps", "back"),
    [
        ((), set()),
        ((commit(6),), set()),
        ((delete,), {5}),
        ((commit(6), delete), {5, 6}),
        ((delete, commit(6)), set()),
        ((send(6), end(commit=False)), {6}),
        ((send(6), end(commit=False), commit(7)), set()),
        ((send(6), end(commit=False), send(7), end(commit=True)), set()),
        ((send(6), commit(7), end(commit=False)), set()),
        ((send(6), delete, end(commit=True)), {5, 6}),
        ((send(6), commit(7), delete, end(commit=False)), {5, 6, 7}),
    ],
)
def test_what_a_removal_that_was_compacted_away_removed_may_be_back(
    steps: tuple[Callable[[KeptOffsets], None], ...], back: set[int]
) -> None:
    """If deletions do not stay: a replica that lagged misses tombstones and markers."""
    (right,) = {NOTHING, 5, 6, 7, 8} - _refused(kept(*steps), {NOTHING, 5, 6, 7, 8})
    lasting = _refused(kept(*steps, deletions_stay=False), {NOTHING, 5, 6, 7, 8})
    assert lasting == {NOTHING, 5, 6, 7, 8} - {right} - back


def _refused(made: KeptOffsets, offsets: set[int]) -> set[int]:
    """Those of these offsets that may not be read."""
    refused = set()
    for offset in offsets:
        try:
            made.read(0, offset)
        except InvariantBroken:
            refused.add(offset)
    return refused


@pytest.mark.parametrize("stay", [True, False])
def test_an_offset_that_may_have_expired_may_have_an_earlier_one_behind_it(*, stay: bool) -> None:
    """Nobody read before the tombstone was compacted away."""
    made = kept(commit(6), expires=True, deletions_stay=stay)
    assert _refused(made, {5, 7}) == ({5, 7} if stay else {7})


def test_an_offset_that_was_told_as_stable_may_not_change() -> None:
    """If a reader was told one while another was pending, the transaction must be aborted."""
    told = kept(send(6), lambda made: made.read(0, 5))
    with pytest.raises(InvariantBroken, match="stable-offsets-stay"):
        told.ended(commit=True)
    told = kept(send(6), lambda made: made.read(0, 5), end(commit=False))
    told.read(0, 5)


def test_the_partitions_of_a_group_are_those_with_an_offset() -> None:
    """Committed or pending: without one, there is no group."""
    assert list(kept(lambda made: made.sent(1, 3)).partitions) == [0, 1]
    assert list(kept(delete).partitions) == []
