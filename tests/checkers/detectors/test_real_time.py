"""Writes that were overtaken are found wherever they are, against plain Python."""

import random
from collections.abc import Iterator, Sequence

import pytest

from checkers.detectors import real_time
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from checkers.history.history import HISTORY, RunSources, table

Write = tuple[int, int]
"""When a write was invoked and acknowledged; its place in a list is its offset."""


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDbEngine]:
    """One engine for all."""
    made = DuckDbEngine(threads=1)
    yield made
    made.close()


def concurrent(rng: random.Random, count: int) -> list[Write]:
    """Writes of several clients: some overlap many others, some have changed places."""
    writes = []
    for number in range(count):
        began = number * 10 + rng.randint(0, rng.choice((0, 5, 30)))
        writes.append((began, began + 1 + rng.choice((0, 3, 40, 200)) * rng.randint(0, 1)))
    for _ in range(rng.choice((0, 0, 1, 3))):
        a, b = rng.randrange(count), rng.randrange(count)
        writes[a], writes[b] = writes[b], writes[a]
    return writes


def overtaken(writes: Sequence[Write]) -> dict[int, int]:
    """offset -> the greatest offset that had been acknowledged before it began, where greater."""
    found = {}
    for offset, (began, _) in enumerate(writes):
        sooner = [o for o, (_, done) in enumerate(writes) if o > offset and done < began]
        if sooner:
            found[offset] = max(sooner)
    return found


def frames_of(engine: DuckDbEngine, partitions: Sequence[Sequence[Write]]) -> Frames:
    """A history in which everything was kept where it was acknowledged."""
    rows = []
    for partition, writes in enumerate(partitions):
        place = {"topic": "t", "partition": partition}
        for offset, (began, done) in enumerate(writes):
            value = partition << 32 | offset
            known = {**place, "value": value, "offset": offset, "type": "ok"}
            rows.append({**known, "f": "send", "client": 1, "op": value, "acks": -1,
                         "invoke_ns": began, "complete_ns": done})  # fmt: skip
            rows.append({**known, "f": "final-read", "client": 2, "op": 1 << 40,
                         "invoke_ns": 10_000, "complete_ns": 10_001})  # fmt: skip
    sources = RunSources(
        history=(table(HISTORY, rows),), cluster=(), faults=(), replicas=(), replica_ends=()
    )
    return Frames(engine, sources, {})


@pytest.mark.parametrize("bucket", [1, 4, 4096])
@pytest.mark.parametrize("seed", range(4))
def test_every_overtaken_write_is_found(
    engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch, seed: int, bucket: int
) -> None:
    """Next to the one that overtook it, far from it, and with a crowd in flight between them; in
    whichever stretches the offsets are ordered."""
    monkeypatch.setattr(real_time, "BUCKET_OFFSETS", bucket)
    rng = random.Random(seed)
    partitions = [concurrent(rng, rng.randint(1, 25)) for _ in range(40)]
    expected = [
        (partition, offset, passed)
        for partition, writes in enumerate(partitions)
        for offset, passed in overtaken(writes).items()
    ]
    found = [
        (row["partition"], row["offset"], row["other_offset"])
        for frame in real_time.reordered_acks(frames_of(engine, partitions))
        for row in engine.rows(frame)
    ]
    assert len(expected) > 20
    assert sorted(found) == expected
