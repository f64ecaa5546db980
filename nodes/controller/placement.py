"""The placement of new partitions' replicas on brokers. Pure; randomness is an argument.

There are two placements. Both spread leaderships evenly (the first replica is the preferred leader)
and never put two replicas of a partition on one broker:

- `striped`: KRaft's. Each partition starts one broker after the previous one, so that replicas form
  stripes. After every full round the brokers are shuffled, so that the followers of a leader differ
  between rounds. With racks, neighbouring brokers are in different racks, and a partition uses a
  rack twice only after it has used all racks (KIP-36).
- `shifted`: that of the original replication design. The j-th replica of the k-th partition led by
  broker i goes to broker i + j + k, so that the load of a dead broker spreads over all others.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nodes.ids import NodeId

STRIPED: Final = "striped"
SHIFTED: Final = "shifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A broker that may hold replicas."""

    node_id: NodeId
    fenced: bool = False
    rack: str | None = None


def place(
    placement: str,
    candidates: Sequence[Candidate],
    *,
    partitions: int,
    replication_factor: int,
    rng: random.Random,
    first: int = 0,
) -> list[tuple[NodeId, ...]]:
    """Replica lists of the partitions `first`, `first` + 1, ... by `striped` or `shifted`.

    Fenced brokers are used only when the others do not suffice, and never lead.
    Raises ValueError, with Kafka's words, when there is no live broker or too few brokers.
    """
    live = [c for c in candidates if not c.fenced]
    if replication_factor > len(candidates):
        raise ValueError(
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(candidates)} broker(s) are registered."
        )
    if not live:
        raise ValueError("All brokers are currently fenced.")
    if placement == SHIFTED and len(live) >= replication_factor:
        nodes = [candidate.node_id for candidate in live]
        return round_robin(
            nodes, partitions=partitions, replication_factor=replication_factor, first=first
        )
    return striped(
        candidates, partitions=partitions, replication_factor=replication_factor, rng=rng
    )


def _check(brokers: int, partitions: int, replication_factor: int) -> None:
    if partitions < 1 or replication_factor < 1:
        raise ValueError("a topic needs at least one partition and one replica")
    if replication_factor > brokers:
        raise ValueError(f"{replication_factor} replicas on {brokers} brokers")


class _Ring:
    """Brokers in an order in which neighbours are in different racks, as far as possible."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        racks: dict[str | None, list[Candidate]] = {}
        for candidate in sorted(candidates, key=lambda c: c.node_id):
            racks.setdefault(candidate.rack, []).append(candidate)
        self._racks = [racks[name] for name in sorted(racks, key=lambda name: name or "")]
        self.brokers = self._alternated()

    def _alternated(self) -> list[Candidate]:
        longest = max(map(len, self._racks), default=0)
        return [rack[i] for i in range(longest) for rack in self._racks if i < len(rack)]

    def shuffle(self, rng: random.Random) -> None:
        """Shuffle the racks, and the brokers within each rack."""
        rng.shuffle(self._racks)
        for rack in self._racks:
            rng.shuffle(rack)
        self.brokers = self._alternated()

    def turned(self, by: int) -> list[Candidate]:
        """The brokers, rotated to begin at index `by`."""
        by %= max(1, len(self.brokers))
        return self.brokers[by:] + self.brokers[:by]


def striped(
    candidates: Sequence[Candidate],
    *,
    partitions: int,
    replication_factor: int,
    rng: random.Random,
) -> list[tuple[NodeId, ...]]:
    """Replica lists of partitions 0 .. partitions-1, the preferred leader first.

    Fenced brokers are used only when the others do not suffice (or to reach another rack), and
    lead only when all are fenced. Raises ValueError when there are fewer candidates than replicas.
    """
    _check(len(candidates), partitions, replication_factor)
    live = _Ring([c for c in candidates if not c.fenced])
    spare = _Ring([c for c in candidates if c.fenced])
    if not live.brokers:
        live, spare = spare, live
    count = len(live.brokers)
    start = rng.randrange(count)
    placed = []
    for partition in range(partitions):
        step = partition % count
        if partition and step == 0:
            live.shuffle(rng)
        turn = start + step
        placed.append(_spread([*live.turned(turn), *spare.turned(turn)], replication_factor))
    return placed


def _spread(order: list[Candidate], replicas: int) -> tuple[NodeId, ...]:
    """The first brokers of `order` that use each rack once before any rack is used again."""
    chosen: list[NodeId] = []
    visited: set[str | None] = set()
    while len(chosen) < replicas:
        found = next((c for c in order if c.rack not in visited), None)
        if found is None:
            visited.clear()
            continue
        order.remove(found)
        visited.add(found.rack)
        chosen.append(found.node_id)
    return tuple(chosen)


def round_robin(
    nodes: Sequence[NodeId], *, partitions: int, replication_factor: int, first: int = 0
) -> list[tuple[NodeId, ...]]:
    """Replica lists of the partitions from number `first` on, by the formula of the original
    replication design over the sorted nodes.

    Broker i = p mod n leads partition p, as its k-th partition (k = p div n); follower j = 1, 2,
    ... is on broker (i + j + k) mod n. The plain formula would return to the leader if j + k = n,
    so the followers are counted over the other n - 1 brokers.
    Raises ValueError when there are fewer nodes than replicas.
    """
    count = len(nodes)
    _check(count, partitions, replication_factor)
    ordered = sorted(nodes)
    placed = []
    for partition in range(first, first + partitions):
        k, i = divmod(partition, count)
        followers = (
            ordered[(i + 1 + (j - 1 + k) % (count - 1)) % count]
            for j in range(1, replication_factor)
        )
        placed.append((ordered[i], *followers))
    return placed
