"""The log against a list: random operations, restarts, and power losses at any write."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nodes.ids import Epoch, Offset
from nodes.log.batch import read_header
from nodes.log.log import Log
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import batch, content, open_log
from tests.tools.storage_crashes import Crashed, CrashingDisk


class LogAgainstList(RuleBasedStateMachine):
    """The model is the list of stored batches; every rule does the same to both."""

    @initialize()
    def begin(self) -> None:
        """An empty log."""
        self.disk = MemoryDisk()
        self.log = open_log(self.disk)
        self.model: list[bytes] = []
        self.start = 0
        self.epoch = 0
        self.sequence = 0

    @property
    def end(self) -> int:
        """The model's end offset."""
        return read_header(self.model[-1]).next_offset if self.model else self.start

    @rule(
        count=st.integers(1, 4),
        bump=st.integers(0, 1),
        size=st.integers(0, 200),
        stamp=st.integers(990, 1010),
    )
    def lead(self, count: int, bump: int, size: int, stamp: int) -> None:
        """Append as leader, perhaps in a new epoch."""
        self.epoch += bump
        value = b"v" * size
        base = self.end
        sent = batch(count, value=value, timestamp_ms=stamp)
        assert self.log.append_as_leader(sent, Epoch(self.epoch)) == (base, base + count - 1, False)
        self.model.append(
            batch(count, value=value, timestamp_ms=stamp, base_offset=base, epoch=self.epoch)
        )

    @rule(counts=st.lists(st.integers(1, 4), max_size=6), bump=st.integers(0, 2))
    def follow(self, counts: list[int], bump: int) -> None:
        """Append several of a leader's batches."""
        self.epoch += bump
        fetched, base = [], self.end
        for count in counts:
            fetched.append(batch(count, base_offset=base, epoch=self.epoch))
            base += count
        self.log.append_as_follower(b"".join(fetched) + batch()[:50])
        self.model += fetched

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        """Cut some offsets off the end."""
        offset = max(self.start, self.end - back)
        self.log.truncate_to(Offset(offset))
        self.model = [b for b in self.model if read_header(b).next_offset <= offset]

    @rule(ahead=st.integers(0, 5))
    def begin_anew(self, ahead: int) -> None:
        """Drop everything, and start further on."""
        self.start = self.end + ahead
        self.log.truncate_fully(Offset(self.start))
        self.model = []

    @rule()
    def flush(self) -> None:
        """Make everything durable."""
        self.log.flush()

    @rule()
    def restart(self) -> None:
        """Close and open."""
        self.log.close()
        self.log = open_log(self.disk, clean=True)
        assert self.log.recovery.cut_at is None

    @rule(stale=st.booleans())
    def kill(self, stale: bool) -> None:
        """The process dies; the page cache lives."""
        self.log = open_log(self.disk, recovery_point=0 if stale else self.log.flushed_offset)
        assert self.log.flushed_offset == self.end

    @rule(seed=st.none() | st.integers(0, 2**32))
    def lose_power(self, seed: int | None) -> None:
        """Only a prefix survives, and all of it that was flushed."""
        flushed = self.log.flushed_offset
        self.disk.crash(None if seed is None else random.Random(seed))
        self.log = open_log(self.disk, recovery_point=flushed)
        survived = content(self.log)
        assert survived == self.model[: len(survived)]
        assert self.log.end_offset >= flushed
        self.model = survived
        self.start = self.log.start_offset

    @invariant()
    def same(self) -> None:
        """Bounds, content and epochs agree."""
        assert content(self.log) == self.model
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert self.log.flushed_offset <= self.log.end_offset
        starts: dict[int, int] = {}
        for stored in self.model:
            header = read_header(stored)
            starts.setdefault(header.partition_leader_epoch, header.base_offset)
        if self.model or not self.start:  # else the epoch of what was removed may be known
            assert dict(self.log.epochs) == starts

    @rule()
    def look_up_times(self) -> None:
        """Every record carries its batch's timestamp here."""
        stamps = [(h.base_offset, h.max_timestamp) for h in map(read_header, self.model)]
        top = max((stamp for _, stamp in stamps), default=-1)
        first = next(((o, s) for o, s in stamps if s == top), (-1, -1))
        assert self.log.max_timestamp() == first
        for asked in range(988, 1012, 3):
            found = next(((o, s) for o, s in stamps if s >= asked), None)
            assert self.log.offset_for_timestamp(asked) == found


LogAgainstList.TestCase.settings = settings(max_examples=120, stateful_step_count=30)
TestLogAgainstList = LogAgainstList.TestCase


Step = Callable[[Log], object]


def steps_of(rng: random.Random) -> list[Step]:
    """A random history of appends, truncations and flushes."""
    steps: list[Step] = []
    epoch = 0
    for _ in range(rng.randint(5, 40)):
        kind = rng.choice(["append"] * 6 + ["flush", "truncate", "epoch"])
        match kind:
            case "append":
                data = batch(rng.randint(1, 3), value=b"v" * rng.randint(0, 250))
                steps.append(lambda log, d=data, e=epoch: log.append_as_leader(d, Epoch(e)))
            case "flush":
                steps.append(lambda log: log.flush())
            case "truncate":
                back = rng.randint(0, 9)
                steps.append(
                    lambda log, b=back: log.truncate_to(Offset(max(0, log.end_offset - b)))
                )
            case _:
                epoch += 1
    return steps


@given(
    seed=st.integers(0, 2**32),
    write=st.integers(0, 120),
    write_back=st.booleans(),
    stale_point=st.booleans(),
)
@settings(max_examples=400)
def test_a_power_loss_at_any_write_leaves_a_prefix_with_all_flushed_records(
    seed: int, write: int, write_back: bool, stale_point: bool
) -> None:
    """Whichever write is the last, and whatever the kernel wrote back before it."""
    rng = random.Random(seed)
    steps = steps_of(rng)
    disk = MemoryDisk()
    dying = CrashingDisk(disk)
    log = open_log(dying)
    reference = open_log(MemoryDisk())
    before: list[bytes] = []
    after: list[bytes] = []
    point = 0
    dying.die_at = len(dying.log) + write
    try:
        for step in steps:
            before = after
            step(reference)
            after = content(reference)
            step(log)
            if not stale_point or log.flushed_offset < point:
                point = log.flushed_offset
    except Crashed:
        pass
    flushed = log.flushed_offset
    point = min(point, flushed)
    disk.crash(rng if write_back else None)
    note(f"flushed {flushed}, recovery point {point}")
    log = open_log(disk, recovery_point=point)
    survived = content(log)
    assert survived in (before[: len(survived)], after[: len(survived)])
    assert log.end_offset >= flushed
    disk.crash()
    again = open_log(disk, recovery_point=log.flushed_offset)
    assert content(again) == survived, "what recovery called flushed was not"


@pytest.mark.parametrize("crash", range(60))
def test_a_power_loss_during_recovery_is_recovered(crash: int) -> None:
    """A second power loss, at any write of the recovery, costs nothing more."""
    disk = MemoryDisk()
    log = open_log(disk)
    for number in range(15):
        log.append_as_leader(batch(number % 3 + 1), Epoch(number // 4))
        if number == 9:
            log.flush()
    flushed = log.flushed_offset
    disk.crash(random.Random(crash))
    try:
        open_log(CrashingDisk(disk, crash % 12), recovery_point=flushed)
    except Crashed:
        disk.crash(random.Random(crash))
    assert open_log(disk, recovery_point=flushed).end_offset >= flushed
