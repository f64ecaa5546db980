"""What a cleaning leaves of a log."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, encode_batch, read_header
from nodes.log.cleaning import cleaner
from nodes.log.cleaning.cleaner import Cleaning, CleaningEnded, Step
from nodes.log.config import LogConfig
from nodes.log.errors import LogCorrupt
from nodes.log.log import Log
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import DIRECTORY, content, open_log
from tests.support.nodes.cleaning import (
    COMPACTED,
    cleaning,
    do,
    folded,
    has_no_gap,
    keyed,
    pairs_of,
    roll,
    small_map,
)

E1 = Epoch(1)


def log_with(*batches: bytes, config: LogConfig = COMPACTED) -> tuple[MemoryDisk, Log]:
    """A log with these batches in one sealed segment or more."""
    disk = MemoryDisk()
    log = open_log(disk, config=config)
    for batch in batches:
        log.append_as_leader(batch, E1)
    roll(log, config)
    return disk, log


def test_last_value_of_each_key_stays_at_its_offset() -> None:
    disk, log = log_with(
        keyed((b"a", b"1"), (b"b", b"2")), keyed((b"a", b"3")), keyed((b"c", b"4"), (b"a", b"5"))
    )
    do(cleaning(log), disk)
    assert pairs_of(log) == [(1, b"b", b"2"), (3, b"c", b"4"), (4, b"a", b"5")]
    assert (log.start_offset, log.end_offset) == (0, 5)
    assert has_no_gap(log)


def test_active_segment_and_what_is_above_the_end_stay() -> None:
    """They count neither as later records nor as records to remove."""
    disk, log = log_with(keyed((b"a", b"1")), keyed((b"a", b"2")))
    for number in range(3):
        log.append_as_leader(keyed((b"a", b"%d" % number)), E1)
    do(cleaning(log), disk)
    assert [offset for offset, _, _ in pairs_of(log)] == [1, 2, 3, 4]
    roll(log)
    do(cleaning(log, end=2), disk)
    assert [offset for offset, _, _ in pairs_of(log)] == [1, 2, 3, 4]
    do(cleaning(log, first_dirty=2), disk)
    assert [offset for offset, _, _ in pairs_of(log)] == [4]


@pytest.mark.parametrize("codec", range(5))
def test_codec_and_record_stay_as_they_are(codec: int) -> None:
    first = keyed((b"a", b"1" * 99), (b"b", None), (b"c", b"3" * 99), codec=codec)
    disk, log = log_with(first, keyed((b"a", b"4"), codec=codec))
    do(cleaning(log), disk)
    assert pairs_of(log) == [(1, b"b", None), (2, b"c", b"3" * 99), (3, b"a", b"4")]
    header = read_header(content(log)[0])
    assert (header.compression, header.record_count, header.last_offset_delta) == (codec, 2, 2)
    assert header.partition_leader_epoch == 1


def test_batch_whose_records_all_stay_is_not_changed() -> None:
    whole = keyed((b"b", b"2"), (b"c", b"3"), timestamp_ms=7)
    disk, log = log_with(keyed((b"a", b"1")), whole, keyed((b"a", b"1")))
    before = content(log)
    do(cleaning(log), disk)
    assert content(log)[1:] == before[1:]


def test_log_without_anything_to_remove_is_not_written() -> None:
    disk, log = log_with(keyed((b"a", b"1"), (b"b", b"2")))
    segment = log.segments.all[0]
    run = cleaning(log)
    do(run, disk)
    assert log.segments.all[0] is segment
    assert run.stats.end == 2
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_tombstone_stays_until_its_horizon() -> None:
    """KIP-534: delete.retention.ms after the first cleaning, whatever happens in between."""
    disk, log = log_with(
        keyed((b"a", b"1"), (b"b", b"1")), keyed((b"a", None), (b"b", b"2"), timestamp_ms=900)
    )
    do(cleaning(log, now_ms=5000), disk)
    assert pairs_of(log) == [(2, b"a", None), (3, b"b", b"2")]
    header = read_header(content(log)[1])
    assert header.has_delete_horizon
    assert (header.base_timestamp, header.max_timestamp) == (5100, 900)
    do(cleaning(log, now_ms=5099), disk)
    assert (2, b"a", None) in pairs_of(log)
    do(cleaning(log, now_ms=5100), disk)
    assert pairs_of(log) == [(3, b"b", b"2")]


def test_records_with_a_horizon_keep_their_times() -> None:
    """The header's base timestamp is then the horizon; the deltas count from it."""
    records = [Record(timestamp=t, key=b"%d" % t, value=None) for t in (1000, 990, 10**12)]
    disk, log = log_with(encode_batch(records, timestamp_ms=0))
    do(cleaning(log), disk)
    assert log.max_timestamp() == (2, 10**12)
    assert log.offset_for_timestamp(995) == (0, 1000)
    assert log.offset_for_timestamp(1001) == (2, 10**12)


def test_times_are_those_of_the_records_that_are_left() -> None:
    """An empty batch keeps its largest time: retention and a producer's expiration need it."""
    disk, log = log_with(
        keyed((b"a", b"1"), timestamp_ms=9000, producer=(7, 0, 0)),
        keyed((b"b", b"2"), timestamp_ms=8000),
        keyed((b"a", b"3"), timestamp_ms=1000),
    )
    do(cleaning(log), disk)
    assert log.max_timestamp() == (1, 8000)
    assert log.offset_for_timestamp(8500) is None
    assert log.segments.all[0].largest_timestamp()[0] == 9000


def test_records_without_a_key_are_removed() -> None:
    """They came before the topic was compacted."""
    disk, log = log_with(config=COMPACTED)
    log.configure(LogConfig())
    log.append_as_leader(encode_batch([Record(value=b"1")], timestamp_ms=1), E1)
    roll(log)
    do(cleaning(log), disk)
    assert pairs_of(log) == []
    assert has_no_gap(log)


def test_full_map_cleans_only_as_far_as_it_was_filled() -> None:
    disk, log = log_with(*[keyed((b"%d" % (n % 4), b"%d" % n)) for n in range(8)])
    run = cleaning(log, keys=2)
    do(run, disk)
    assert run.stats.end == 2
    assert [offset for offset, _, _ in pairs_of(log)] == [*range(8)]
    run = cleaning(log, first_dirty=2, keys=4)
    do(run, disk)
    assert run.stats.end == 6
    assert [offset for offset, _, _ in pairs_of(log)] == [2, 3, 4, 5, 6, 7]


def test_map_that_is_full_inside_a_batch_ends_there() -> None:
    disk, log = log_with(keyed((b"a", b"1")), keyed((b"a", b"2"), (b"b", b"3"), (b"c", b"4")))
    run = cleaning(log, keys=2)
    do(run, disk)
    assert run.stats.end == 3
    assert [offset for offset, _, _ in pairs_of(log)] == [1, 2, 3]


def test_last_batches_of_a_producer_stay_without_records() -> None:
    """KAFKA-5490: its sequence numbers go on; a new replica knows them too."""
    sent = [keyed((b"a", b"%d" % n), producer=(7, 0, n)) for n in range(8)]
    disk, log = log_with(*sent, keyed((b"a", b"last")))
    before = log.producers.items()
    do(cleaning(log), disk)
    assert pairs_of(log) == [(8, b"a", b"last")]
    headers = [read_header(batch) for batch in content(log)]
    assert [(h.producer_id, h.base_sequence, h.record_count) for h in headers] == [
        (-1, -1, 0), *((7, n, 0) for n in range(3, 8)), (-1, -1, 1),
    ]  # fmt: skip
    disk.crash()
    assert open_log(disk, config=COMPACTED).producers.items() == before


def test_neighbouring_segments_become_one() -> None:
    disk, log = log_with(*[keyed((b"%d" % (n % 3), b"v" * 50)) for n in range(40)])
    count = len(log.segments.all)
    do(cleaning(log), disk)
    log.append_as_leader(keyed((b"0", b"new")), E1)
    roll(log)
    do(cleaning(log, first_dirty=40), disk)
    assert len(log.segments.all) <= count / 3
    assert len(pairs_of(log)) == 3


def test_leader_epochs_stay() -> None:
    """Also those of which no record is left: a filler does not cover two of them."""
    disk, log = log_with()
    for number in range(6):
        log.append_as_leader(keyed((b"a", b"1")), Epoch(number // 2))
    roll(log)
    epochs = log.epochs
    assert len(epochs) == 3
    do(cleaning(log), disk)
    assert log.epochs == epochs
    disk.unlink(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert open_log(disk, config=COMPACTED).epochs == epochs


def test_crash_in_a_cleaning_restores_no_file_of_the_one_before() -> None:
    """The two may have written the same segment, and nothing was flushed in between."""
    disk, log = log_with(keyed((b"a", b"1")), keyed((b"a", b"2")))
    run = cleaning(log)
    do(run, disk)
    again = Cleaning(log, Offset(2), offsets=small_map(start=1), now_ms=5000, window_bytes=300)
    with closing(again.steps()) as steps:
        for target in next(steps).to_sync:
            assert isinstance(target, str)
            disk.sync_dir(target)
        disk.crash()
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize(("position", "why"), [(70, "offset"), (69 + 65, "CRC32C")])
def test_damaged_batch_ends_the_cleaning_without_a_change(position: int, why: str) -> None:
    """Of its offset there is no checksum."""
    disk, log = log_with(keyed((b"a", b"1")), keyed((b"a", b"2")))
    disk.corrupt(f"{DIRECTORY}/{0:020d}.log", position)
    with pytest.raises(LogCorrupt, match=f"cleaning: {why}"):
        do(cleaning(log), disk)
    assert len(log.segments.all[0].file.pread(0, 1000)) == log.segments.all[0].size
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".cleaned")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda log: log.truncate_to(Offset(3)), "truncated"),
        (lambda log: log.truncate_fully(Offset(3)), "truncated"),
        (lambda log: log.advance_start(log.end_offset), "removed"),
        (lambda log: log.configure(LogConfig()), "not compacted"),
        (lambda log: log.close(), "closed"),
        (lambda log: log.delete(), "deleted"),
    ],
)
def test_log_that_changes_ends_its_cleaning(
    change: Callable[[Log], object], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whatever step; none of the cleaning's files stays."""
    monkeypatch.setattr(cleaner, "SLICE_US", 0.0)
    for at in range(500):
        disk, log = log_with(*[keyed((b"a", b"%d" % n)) for n in range(12)])
        steps = iter(range(500))

        def between(_: Step, at: int = at, log: Log = log, steps: Iterator[int] = steps) -> None:
            if next(steps) == at:
                change(log)

        ended = ""
        try:
            do(cleaning(log), disk, between)
        except CleaningEnded as error:
            ended = str(error)
        if not ended:
            assert at > 40
            return
        assert why in ended
        left = [name for name, _ in disk.files() if name.endswith((".cleaned", ".swap"))]
        assert not left or why == "deleted"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_log_keeps_what_it_means(data: st.DataObject) -> None:
    """Whatever is cleaned, and however often: the last values, their offsets and times, epochs and
    producers stay, deleted keys stay deleted, and the log is the same after a restart.
    """
    draw = data.draw
    disk = MemoryDisk()
    log = open_log(disk, config=COMPACTED)
    keys = st.sampled_from([b"a", b"b", b"key-" * 8, b""])
    values = st.none() | st.sampled_from([b"", b"1", b"v" * 60])
    sequence, epoch, first_dirty, now_ms = 0, 0, 0, 5000
    for _ in range(draw(st.integers(1, 25))):
        what = draw(st.sampled_from(["append"] * 4 + ["epoch", "roll", "clean", "restart"]))
        match what:
            case "append":
                pairs = draw(st.lists(st.tuples(keys, values), min_size=1, max_size=4))
                producer = (-1, -1, -1)
                if draw(st.booleans()):
                    producer, sequence = (7, 0, sequence), sequence + len(pairs)
                batch = keyed(
                    *pairs, producer=producer, codec=draw(st.sampled_from([0, 0, 1, 4])),
                    timestamp_ms=draw(st.integers(1000, 1020)),
                )  # fmt: skip
                log.append_as_leader(batch, Epoch(epoch))
            case "epoch":
                epoch += 1
            case "roll":
                roll(log)
            case "restart":
                log.close()
                log = open_log(disk, clean=True, config=COMPACTED)
            case _:
                now_ms += draw(st.sampled_from([0, 50, 100]))
                before, state = pairs_of(log), folded(log)
                kept = log.producers.items(), log.epochs, log.end_offset
                run = cleaning(
                    log, first_dirty=first_dirty, now_ms=now_ms, keys=draw(st.integers(1, 6)),
                    records=draw(st.sampled_from([1000, 1 << 20])),
                )  # fmt: skip
                do(run, disk)
                first_dirty = run.stats.end
                assert folded(log) == state
                after = pairs_of(log)
                assert set(after) <= set(before)
                assert sorted(after) == after
                last = {key: offset for offset, key, _ in before if offset < first_dirty}
                for each in before:
                    is_last = last.get(each[1]) == each[0]
                    if each[0] >= first_dirty or (is_last and each[2] is not None):
                        assert each in after
                assert (log.producers.items(), log.epochs, log.end_offset) == kept
                assert has_no_gap(log)
    state = pairs_of(log), log.producers.items(), log.epochs
    log.flush()
    disk.crash()
    log = open_log(disk, config=COMPACTED)
    assert (pairs_of(log), log.producers.items(), log.epochs) == state


def test_a_group_is_synced_while_the_next_one_is_written() -> None:
    """The sync of the first group has begun, and nothing waited for it, when the second exists."""
    small = replace(COMPACTED, segment_bytes=150)
    disk, log = log_with(*[keyed((b"a", b"%d" % number)) for number in range(4)], config=small)
    assert [segment.base_offset for segment in log.segments.all] == [0, 2, 4]
    asked: list[tuple[bool, bool, set[str]]] = []

    def look(step: Step) -> None:
        names = {name for name in disk.listdir(DIRECTORY) if name.endswith(".log.cleaned")}
        asked.append((bool(step.to_sync), step.synced, names))

    do(cleaning(log), disk, look)
    first, second = (f"{base:020d}.log.cleaned" for base in (0, 2))
    begun = asked.index((True, False, {first}))
    both = next(at for at, (_, _, names) in enumerate(asked) if names == {first, second})
    assert begun < both
    assert not any(synced for _, synced, _ in asked[begun:both])
    assert pairs_of(log) == [(3, b"a", b"3")]
