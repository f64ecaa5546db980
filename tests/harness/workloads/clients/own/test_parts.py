"""The small parts of our own client: leaders, records, backoff."""

import asyncio
import random
from uuid import UUID

import pytest

from harness.workloads.clients.own import records
from harness.workloads.clients.own.leaders import Leader, Leaders
from harness.workloads.clients.own.waiting import Backoff, Signal
from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, decode_records, encode_batch, read_header
from nodes.log.errors import CorruptBatch


def test_older_leader_epoch_is_ignored() -> None:
    """KIP-320: the view of a replaced leader must not bring the client back to it."""
    leaders = Leaders()
    assert leaders.update(0, Leader(1, 4))
    assert not leaders.update(0, Leader(2, 3))
    assert not leaders.update(0, Leader(1, 4))
    assert leaders.get(0) == Leader(1, 4)
    assert leaders.update(0, Leader(-1, 5))
    assert leaders.get(0) is None


def test_topic_with_another_id_has_epochs_of_its_own() -> None:
    """It was deleted and created again."""
    leaders = Leaders()
    leaders.of_topic(UUID(int=1))
    leaders.update(0, Leader(1, 9))
    leaders.of_topic(UUID(int=1))
    assert leaders.get(0) == Leader(1, 9)
    leaders.of_topic(UUID(int=2))
    assert leaders.update(0, Leader(2, 0))


def test_records_before_the_position_are_left_out() -> None:
    """A fetch gives whole batches, from the one that holds the wanted offset on."""
    data = b"".join(
        encode_batch(
            [Record(value=b"%d" % (base + n)) for n in range(3)],
            base_offset=Offset(base),
            leader_epoch=Epoch(epoch),
            timestamp_ms=1,
        )
        for base, epoch in ((10, 1), (13, 2))
    )
    fetched = records.decode(data + data[:40], offset=11, epoch=0)
    assert [(r.offset, r.leader_epoch, r.value) for r in fetched.records] == [
        (11, 1, b"11"),
        (12, 1, b"12"),
        (13, 2, b"13"),
        (14, 2, b"14"),
        (15, 2, b"15"),
    ]
    assert (fetched.next_offset, fetched.last_epoch) == (16, 2)
    assert records.decode(b"", offset=5, epoch=3) == ([], 5, 3)


def test_batches_before_a_damaged_one_are_read() -> None:
    """Kafka's consumers do the same: the next fetch begins with the damaged batch, and fails."""
    intact = encode_batch([Record(value=b"a")], base_offset=Offset(10), timestamp_ms=1)
    damaged = encode_batch([Record(value=b"b")], base_offset=Offset(11), timestamp_ms=1)[:-1] + b"?"
    fetched = records.decode(intact + damaged, offset=10, epoch=0)
    assert [read.value for read in fetched.records] == [b"a"]
    assert fetched.next_offset == 11
    for offset, data in ((11, damaged), (11, intact + damaged)):
        with pytest.raises(CorruptBatch):
            records.decode(data, offset=offset, epoch=0)


def test_batch_has_producer_id_epoch_and_sequence() -> None:
    """KIP-98."""
    data = records.encode([(5, b"a", None), (6, b"b", b"k")], producer_id=7, epoch=2, sequence=9)
    header = read_header(data)
    written = (header.producer_id, header.producer_epoch, header.base_sequence)
    assert (*written, header.record_count) == (7, 2, 9, 2)


def test_each_record_has_its_own_timestamp() -> None:
    """Records of one batch were made at different times, and a clock may have gone back."""
    data = records.encode(
        [(5, b"a", None), (9, b"b", None), (7, b"c", None)], producer_id=-1, epoch=-1, sequence=-1
    )
    assert [record.timestamp for record in decode_records(data)] == [5, 9, 7]
    assert read_header(data).max_timestamp == 9


def test_keys_and_tombstones_are_written_and_read() -> None:
    """A record without a value deletes its key in a compacted topic."""
    written = [(5, b"a", b"k"), (6, None, b"k"), (7, b"b", None)]
    data = records.encode(written, producer_id=-1, epoch=-1, sequence=-1)
    read = records.decode(data, offset=0, epoch=-1).records
    assert [(each.value, each.key) for each in read] == [(b"a", b"k"), (None, b"k"), (b"b", None)]


def test_pauses_double_up_to_a_bound() -> None:
    """A fifth more or less, so that clients do not come all at once."""
    backoff = Backoff(first_s=0.1, last_s=0.5)
    rng = random.Random(1)
    for failures, about_s in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.5), (1000, 0.5)):
        assert 0.8 * about_s <= backoff.pause_s(failures, rng) <= 1.2 * about_s


def test_signal_wakes_the_present_or_the_next_waiter_once() -> None:
    """A wait ends at its time limit."""

    async def scenario() -> None:
        signal = Signal()
        signal.set()
        await signal.wait(60)
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, signal.set)
        await signal.wait(60)
        await signal.wait(0.01)

    asyncio.run(asyncio.wait_for(scenario(), 30))
