"""Where the replicas of a new topic go. Pure; the only chance is a random start, handed in.

Two placements of the field. Both spread leaderships evenly (the first replica is the preferred
leader) and never put two replicas of a partition on one broker:

- `striped`: KRaft's. Each next partition starts one broker further, so that replicas form stripes;
  after every full round the brokers are shuffled, so that the followers of one leader are not the
  same brokers in every round.
- `round_robin`: the original replication design's. The j-th replica of the k-th partition led by
  broker i goes to broker i + j + k, so that the partitions of a dead broker fall to all others.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nodes.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A broker that may hold replicas. The rack is carried for rack-aware placement."""

    node_id: NodeId
    fenced: bool = False
    rack: str | None = None


def _check(brokers: int, partitions: int, replication_factor: int) -> None:
    if partitions < 1 or replication_factor < 1:
        raise ValueError("a topic needs at least one partition and one replica")
    if replication_factor > brokers:
        raise ValueError(f"{replication_factor} replicas on {brokers} brokers")


def striped(
    candidates: Sequence[Candidate],
    *,
    partitions: int,
    replication_factor: int,
    rng: random.Random,
) -> list[tuple[NodeId, ...]]:
    """Replica lists of partitions 0 .. partitions-1, the preferred leader first.

    Fenced brokers are used only when the others do not suffice, and lead only when all are fenced.
    Raises ValueError when there are fewer candidates than replicas.
    """
    _check(len(candidates), partitions, replication_factor)
    live = sorted(c.node_id for c in candidates if not c.fenced)
    spare = sorted(c.node_id for c in candidates if c.fenced)
    if not live:
        live, spare = spare, []
    start = rng.randrange(len(live))
    placed = []
    for partition in range(partitions):
        step = partition % len(live)
        if partition and step == 0:
            rng.shuffle(live)
        turn = start + step
        stripe = [live[(turn + replica) % len(live)] for replica in range(len(live))]
        stripe += [spare[(turn + replica) % len(spare)] for replica in range(len(spare))]
        placed.append(tuple(stripe[:replication_factor]))
    return placed


def round_robin(
    nodes: Sequence[NodeId], *, partitions: int, replication_factor: int
) -> list[tuple[NodeId, ...]]:
    """Replica lists by the formula of the original replication design, over the sorted nodes.

    Partition p is led by broker i = p mod n, as its k-th partition, k = p div n; follower j = 1, 2,
    ... is on broker (i + j + k) mod n. Where j + k reaches n the plain formula would come back to
    the leader, so the followers are counted over the other n - 1 brokers.
    Raises ValueError when there are fewer nodes than replicas.
    """
    count = len(nodes)
    _check(count, partitions, replication_factor)
    ordered = sorted(nodes)
    placed = []
    for partition in range(partitions):
        k, i = divmod(partition, count)
        followers = (
            ordered[(i + 1 + (j - 1 + k) % (count - 1)) % count]
            for j in range(1, replication_factor)
        )
        placed.append((ordered[i], *followers))
    return placed
