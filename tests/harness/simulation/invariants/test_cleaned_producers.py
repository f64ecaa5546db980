"""What a cleaning removed is judged by the producers of its time: a start or a truncation may bring
others back."""

import pytest

from harness.simulation.invariants.broken import InvariantBroken
from nodes.ids import Offset
from nodes.log.cleaning import cleaner
from tests.support.nodes.cleaning import keyed
from tests.support.simulation.cleanings import EPOCH, Judged, compacted_partition, mark, write

IDLE, BUSY = 71, 72
"""Producers."""
EXPIRATION_MS = 2200
KEPT = "compaction-keeps-producers"


def put(
    judged: Judged, producer: int, sequence: int, key: bytes = b"a", *, commits: bool = True
) -> None:
    """Append a record."""
    batch = keyed((key, b"v"), timestamp_ms=judged.now_ms, producer=(producer, 0, sequence))
    judged.log.append_as_leader(batch, EPOCH)
    judged.look(commits=commits)


def superseded() -> Judged:
    """The only batch of the idle producer, whose key the busy one has written since, is in a sealed
    segment. The snapshot behind it has the idle producer.
    """
    judged = Judged(compacted_partition(), 1)
    put(judged, IDLE, 0)
    judged.now_ms += 500
    put(judged, BUSY, 0)
    judged.now_ms += 1500
    judged.roll()
    put(judged, BUSY, 1, b"b")
    judged.now_ms += 300
    return judged


def forgotten(*, looks: bool = True) -> Judged:
    """The broker has forgotten the idle producer, and cleaned the log then."""
    judged = superseded()
    assert judged.log.producers.forget_idle(judged.now_ms, EXPIRATION_MS) == 1
    judged.clean(looks=looks)
    assert judged.log.producers.ids() == (BUSY,)
    return judged


@pytest.mark.parametrize("looks", [True, False])
def test_producer_that_was_forgotten_may_be_back_after_a_start(*, looks: bool) -> None:
    """Its last batch is gone: nobody remembered it when the log was cleaned. The process may have
    ended right after the cleaning.
    """
    judged = forgotten(looks=looks)
    judged.start_again()
    assert judged.log.producers.ids() == (IDLE, BUSY)


def test_producer_that_was_forgotten_may_be_back_after_a_truncation() -> None:
    """As after a start."""
    judged = forgotten()
    end = judged.log.end_offset
    put(judged, BUSY, 2, b"c", commits=False)
    judged.log.truncate_to(end)
    judged.look()
    assert judged.log.producers.ids() == (IDLE, BUSY)


def test_lost_batch_of_a_remembered_producer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else is remembered."""
    judged = superseded()
    monkeypatch.setattr(cleaner, "is_remembered", lambda producers, header: False)
    with pytest.raises(InvariantBroken, match=f"{KEPT}.*last batch of producer {IDLE}, at 0"):
        judged.clean()


def aborted_before(judged: Judged) -> Offset:
    """An aborted transaction of the idle producer leaves a marker, which nothing needs but the
    producer's epoch; it is in a sealed segment, and its delete horizon is over. Return the end.
    """
    write(judged.log, (IDLE, 0), b"k", b"v")
    mark(judged.log, (IDLE, 1), committed=False)
    judged.look(commits=True)
    for number in range(3):
        write(judged.log, (BUSY, number), b"f", b"v")
        mark(judged.log, (BUSY, number + 1), committed=True)
        judged.look(commits=True)
        judged.roll()
        judged.look()
        if number < 2:
            judged.clean()
    return judged.log.end_offset


@pytest.mark.parametrize("restarts", [True, False])
def test_marker_may_be_gone_that_a_lost_batch_stood_for(*, restarts: bool) -> None:
    """Its producer had a later batch, and another marker of the same epoch, when the log was
    cleaned.
    """
    judged = Judged(compacted_partition(), 1)
    end = aborted_before(judged)
    write(judged.log, (IDLE, 1), b"z", b"v")
    mark(judged.log, (IDLE, 1), committed=False)
    judged.look()
    judged.clean(end)
    judged.log.truncate_to(end)
    if restarts:
        judged.start_again()
    else:
        judged.look()
    known = judged.log.producers.get(IDLE)
    assert known is not None
    assert (known.epoch, known.batches) == (1, ())


def test_lost_marker_with_the_epoch_of_a_producer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer has no later batch."""
    judged = Judged(compacted_partition(), 1)
    end = aborted_before(judged)
    monkeypatch.setattr(
        cleaner, "is_remembered", lambda producers, header: header.producer_id != IDLE
    )
    with pytest.raises(InvariantBroken, match=f"{KEPT}.*marker with epoch 1 of producer {IDLE}"):
        judged.clean(end)
