"""What was overtaken is found wherever it is, and what explains it, against plain Python."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from checkers.detectors import real_time
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from checkers.history.history import CLUSTER, HISTORY, RunSources, table

S = 1_000_000_000

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


@dataclass(frozen=True)
class Partition:
    """Of a topic in which unclean elections are allowed, or not; all times are seconds. polls:
    (invoked, completed, last offset); asks: (invoked, end offset); elections: of nodes out of
    sync."""

    allowed: bool
    polls: Sequence[tuple[int, int, int]]
    asks: Sequence[tuple[int, int]]
    elections: Sequence[int]

    def after_losses(self) -> Iterator[tuple[int, str | None]]:
        """(invoked, aspect) of the asks that were told an end at or below what was read before.

        An election may affect clients from 2 s before until 4 s after it, and its old leader may
        have been read from until 2 s after it.
        """
        for asked, end in self.asks:
            beyond = [began for began, done, last in self.polls if done < asked and last >= end]
            if not beyond:
                continue
            near = any(at - 2 <= asked <= at + 4 for at in self.elections)
            lost = [at for at in self.elections if at - 2 <= asked and self.allowed]
            bereft = all(any(began <= at + 2 for at in lost) for began in beyond)
            yield asked, "bereft" if bereft and not near else None

    def rows(self, place: dict[str, object]) -> Iterator[dict[str, object]]:
        """Its rows of the history."""
        for number, (began, done, last) in enumerate(self.polls):
            yield {**place, "f": "poll", "type": "ok", "client": 1, "op": number, "offset": last,
                   "value": last, "invoke_ns": began * S, "complete_ns": done * S}  # fmt: skip
        for number, (asked, end) in enumerate(self.asks):
            yield {**place, "f": "watermark", "type": "ok", "client": 2, "op": 1 << 20 | number,
                   "offset": end, "invoke_ns": asked * S, "complete_ns": asked * S}  # fmt: skip

    def leaders(self, place: dict[str, object]) -> Iterator[dict[str, object]]:
        """Its rows of the cluster."""
        for epoch, at in enumerate([0, *self.elections]):
            leader = epoch % 2 + 1
            yield {**place, "kind": "leader", "at_ns": at * S, "leader": leader, "isr": [leader],
                   "leader_epoch": epoch, "partition_epoch": epoch, "source": "test"}  # fmt: skip


def some(rng: random.Random, allowed: bool) -> Partition:
    """Reads go on in the log, and what is asked for may be far below them."""
    polls = [
        (began, began + rng.randint(0, 2), rng.randint(0, 9))
        for began in rng.sample(range(100), rng.randint(1, 8))
    ]
    asks = [(asked, rng.randint(0, 9)) for asked in rng.sample(range(100), rng.randint(1, 8))]
    return Partition(allowed, polls, asks, sorted(rng.sample(range(100), rng.randint(0, 4))))


@pytest.mark.parametrize("seed", range(3))
def test_an_end_is_explained_by_an_earlier_loss_until_something_is_read_beyond_it(
    engine: DuckDbEngine, seed: int
) -> None:
    """However long ago the loss was; and only where it was permitted."""
    rng = random.Random(seed)
    partitions = [some(rng, rng.random() < 0.8) for _ in range(60)]
    history, cluster, expected = [], [], []
    for number, partition in enumerate(partitions):
        topic = "unclean" if partition.allowed else "clean"
        place: dict[str, object] = {"topic": topic, "partition": number}
        history += partition.rows(place)
        cluster += partition.leaders(place)
        expected += [(number, at * S, aspect) for at, aspect in partition.after_losses()]
    unclean = {"name": "unclean", "configs": {"unclean.leader.election.enable": "true"}}
    clean = {"name": "clean", "min_insync_replicas": 2}
    sources = RunSources(
        history=(table(HISTORY, history),), cluster=(table(CLUSTER, cluster),), faults=(),
        replicas=(), replica_ends=(),
    )  # fmt: skip
    frames = Frames(engine, sources, {"topics": [unclean, clean]})
    found = [
        (row["partition"], row["invoke_ns"], row["aspect"])
        for frame in real_time.uncommitted_reads(frames)
        for row in engine.rows(frame)
    ]
    aspects = [aspect for _, _, aspect in expected]
    assert min(aspects.count("bereft"), aspects.count(None)) > 20
    assert sorted(found, key=str) == sorted(expected, key=str)
