"""The machine's own clock: skewed, corrected, and undone by the journal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.recording.journal import Journal
from harness.targets.linux import wall_clock
from harness.targets.linux.wall_clock import KIND, MachineClock, WallClock

TRUE_NS = 1_700_000_000_000_000_000


class Clock(WallClock):
    """A clock that nobody else goes by, kept right by a service."""

    def __init__(self) -> None:
        self.ahead, self.kept, self.booted = TRUE_NS, True, "this"

    def boot(self) -> str:
        return self.booted

    def ahead_ns(self) -> int:
        return self.ahead

    def set_ahead(self, ahead_ns: int) -> None:
        assert not self.kept, "the service would set it right at once"
        self.ahead = ahead_ns

    def is_synchronized(self) -> bool:
        return self.kept

    def synchronize(self, on: bool) -> None:
        self.kept = on


@pytest.fixture
def clock() -> Clock:
    """Right."""
    return Clock()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """An empty one."""
    (tmp_path / "registry").mkdir()
    with Journal.create(
        tmp_path / "journal.jsonl", run_id="r", registry=tmp_path / "registry"
    ) as made:
        yield made


@pytest.fixture
def node(clock: Clock, journal: Journal) -> MachineClock:
    """The clock of node 1, which runs."""
    return MachineClock(journal, lambda node: 42, clock)


def test_offsets_add_up_and_the_time_service_returns(node: MachineClock, clock: Clock) -> None:
    """After the last layer the clock is right and synchronized."""
    node.skew(1, "a", 500)
    node.skew(1, "b", -2000)
    assert clock.ahead == TRUE_NS - 1_500_000_000
    assert not clock.kept
    shown = node.read(1)
    assert shown is not None
    assert shown.allows(-1500)
    node.unskew(1, "b")
    node.unskew(1, "a")
    assert (clock.ahead, clock.kept) == (TRUE_NS, True)
    node.unskew(1, "a")
    assert node.requested_offset_ms(1) == 0


def test_undo_corrects_the_clock_once(node: MachineClock, clock: Clock, journal: Journal) -> None:
    """By the journal's record."""
    node.skew(1, "a", 60_000)
    assert undone(journal, clock) == ["clock of the machine, +60000 ms off"]
    assert (clock.ahead, clock.kept) == (TRUE_NS, True)
    assert undone(journal, clock) == [None]


def test_undo_after_a_boot_starts_the_time_service(
    node: MachineClock, clock: Clock, journal: Journal
) -> None:
    """The boot corrects the clock but does not start the service; also after a second jump, which
    found the service off.
    """
    node.skew(1, "a", 60_000)
    clock.booted, clock.ahead = "next", TRUE_NS + 7
    again = MachineClock(journal, lambda node: 42, clock)
    again.skew(1, "b", 60_000)
    again.unskew(1, "b")
    assert undone(journal, clock) == [None, None]
    assert (clock.ahead, clock.kept) == (TRUE_NS + 7, True)


def undone(journal: Journal, clock: Clock) -> list[str | None]:
    """What undoing the journal, latest record first, says."""
    records = [each for each in journal.records() if each["kind"] == KIND]
    return [wall_clock.undo(record, clock) for record in reversed(records)]
