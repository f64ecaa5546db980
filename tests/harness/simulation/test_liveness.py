"""Whether replicas catch up: see `liveness`."""

from types import SimpleNamespace
from typing import Any

from harness.simulation.liveness import log_ends, moved_on
from nodes.storage.memory import MemoryDisk


def disk(**segments: int) -> Any:
    """A disk with segments of t-0, by base offset, of so many bytes."""
    content = MemoryDisk()
    content.makedirs("log/t-0")
    content.open("log/t-0/00000000000000000000.index", create=True)
    for base, size in segments.items():
        path = f"log/t-0/{int(base.removeprefix('at_')):020d}.log"
        content.open(path, create=True).append(b"x" * size)
    return SimpleNamespace(content=content)


def test_logs_end_in_their_last_segments() -> None:
    """Other files do not count."""
    assert log_ends([disk(at_0=70, at_5=3), disk()]) == {(0, "log/t-0"): (5, 3)}


def test_a_replica_catches_up_though_retention_removes_more() -> None:
    """The bytes on its disk get fewer meanwhile (seed 108365)."""
    before = log_ends([disk(at_0=70, at_5=30)])
    assert moved_on(before, log_ends([disk(at_9=3)]))
    assert moved_on(before, log_ends([disk(at_5=31)]))
    assert not moved_on(before, before)
    assert not moved_on(before, log_ends([disk(at_5=30)]))
    assert not moved_on(before, {})
