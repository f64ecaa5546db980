"""Idempotent producer state: duplicates, gaps, fencing."""

import pytest

from nodes.ids import Offset
from nodes.log.batch import MAX_SEQUENCE, BatchHeader, read_header
from nodes.log.errors import InvalidProducerEpoch, OutOfOrderSequence, UnknownProducer
from nodes.log.producer_state import Producers
from tests.support.nodes.batches import batch


def whole(_: BatchHeader) -> bool:
    """Nobody can have been forgotten."""
    return True


def trimmed(_: BatchHeader) -> bool:
    """Somebody may have been."""
    return False


def header(count: int, sequence: int, *, epoch: int = 0, producer_id: int = 9) -> BatchHeader:
    """The header of a producer's batch."""
    return read_header(batch(count, producer=(producer_id, epoch, sequence)))


def after(*batches: tuple[int, int, int], epoch: int = 0) -> Producers:
    """State after batches of (count, sequence, offset)."""
    producers = Producers()
    for count, sequence, offset in batches:
        producers.update(header(count, sequence, epoch=epoch), Offset(offset))
    return producers


def test_the_next_sequence_is_new_and_a_repeated_one_is_a_duplicate() -> None:
    """A retry is answered with the offsets of the first time."""
    producers = after((2, 0, 100), (3, 2, 110))
    assert producers.check(header(1, 5), whole) is None
    first = producers.check(header(2, 0), whole)
    assert first is not None
    assert (first.base_offset, first.last_offset) == (100, 101)


@pytest.mark.parametrize("sequence", [1, 3, 6, 7])
def test_any_other_sequence_is_out_of_order(sequence: int) -> None:
    """Gaps, and batches that overlap remembered ones in part."""
    producers = after((2, 0, 100), (3, 2, 110))
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(2, sequence), whole)


def test_the_last_five_batches_are_known_as_duplicates() -> None:
    """The sixth newest is no duplicate any more, and is out of order."""
    producers = after(*[(1, n, 10 + n) for n in range(6)])
    for n in range(1, 6):
        found = producers.check(header(1, n), whole)
        assert found is not None
        assert found.base_offset == 10 + n
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(1, 0), whole)


def test_sequences_wrap() -> None:
    """After 2^31-1 comes 0."""
    producers = after((1, MAX_SEQUENCE, 0))
    assert producers.check(header(1, 0), whole) is None
    crossing = after((3, MAX_SEQUENCE, 0))
    assert crossing.check(header(1, 2), whole) is None
    assert crossing.check(header(3, MAX_SEQUENCE), whole) is not None


def test_an_older_epoch_is_fenced_and_a_newer_begins_at_zero() -> None:
    """Epochs of a producer id only go up, and restart the sequence."""
    producers = after((1, 0, 0), epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        producers.check(header(1, 1, epoch=2), whole)
    with pytest.raises(OutOfOrderSequence):
        producers.check(header(1, 1, epoch=4), whole)
    assert producers.check(header(1, 0, epoch=4), whole) is None
    producers.update(header(1, 0, epoch=4), Offset(1))
    assert producers.check(header(1, 1, epoch=4), whole) is None
    with pytest.raises(InvalidProducerEpoch):
        producers.check(header(1, 0, epoch=3), whole)


def test_an_unknown_producer_begins_at_zero_unless_its_past_may_be_gone() -> None:
    """In a log that was never trimmed, a first batch in mid-sequence means a missing one."""
    producers = Producers()
    assert producers.check(header(1, 0), whole) is None
    assert producers.check(header(1, 7), trimmed) is None
    with pytest.raises(UnknownProducer):
        producers.check(header(1, 7), whole)


def test_producers_do_not_affect_each_other() -> None:
    """Each producer id has its own sequence."""
    producers = after((2, 0, 0))
    assert producers.check(header(1, 0, producer_id=10), whole) is None
    producers.update(read_header(batch()), Offset(5))
    assert producers.ids() == (9,)
    assert producers.get(9) is not None
    assert producers.get(10) is None


@pytest.mark.parametrize("cut", [0, 1, 1023, 1024, 2047, 2900, 2999, 3000])
def test_rewinding_and_replaying_gives_the_same_state(cut: int) -> None:
    """From a snapshot, replay to the cut equals a state that never went further."""
    templates = [header(1, 0, producer_id=producer_id) for producer_id in (0, 1)]
    batches = [templates[n % 2]._replace(base_sequence=n // 2) for n in range(3000)]

    def replay(producers: Producers, start: int, stop: int) -> None:
        for n in range(start, stop):
            producers.update(batches[n], Offset(n))

    changed, never_further = Producers(), Producers()
    replay(changed, 0, 3000)
    replay(never_further, 0, cut)
    start = changed.rewind(Offset(cut))
    assert start is None or cut - 1024 < start <= cut
    assert start is not None or cut < 1024
    replay(changed, start or 0, cut)
    assert [changed.get(i) for i in (0, 1)] == [never_further.get(i) for i in (0, 1)]
