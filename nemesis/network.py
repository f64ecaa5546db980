"""Faults of the network: partitions of every shape, as packet drops between nodes.

Clients are never cut off: a partition is between nodes. That is the harder test, since a leader
that its followers no longer hear still answers its producers.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nemesis import shapes
from nemesis.base import Ability, BadTargets, Effect, Futile, Hosts, Strike
from nemesis.process import node_list
from nemesis.shapes import Grudge

Shape = Callable[[Sequence[int], Sequence[int], random.Random, Mapping[str, str]], Grudge]
"""(targets, nodes, rng, params) -> grudge"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Drops packets between nodes after a shape."""

    name: str
    shape: Shape
    min_nodes: int = 2
    default_targets: str = "all"
    aimable: bool = False
    needs: frozenset[Ability] = frozenset({Ability.PACKET_DROPS})

    def label(self, strike: Strike) -> str:
        """Such as `partition.isolate-one node 2`; shapes without a target say just their name."""
        return f"{self.name} {node_list(strike.nodes)}" if strike.nodes else self.name

    def aim(
        self,
        targets: Sequence[int],
        nodes: Sequence[int],
        rng: random.Random,
        params: Mapping[str, str],
    ) -> Strike:
        """The pairs to be cut. Raises BadTargets for an unknown direction."""
        aimed = () if self.default_targets == "all" else tuple(targets)
        return Strike(nodes=aimed, drops=self.shape(targets, nodes, rng, params))

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Block every pair. Raises Futile when the shape cuts nobody from anybody."""
        if not strike.drops:
            raise Futile("the shape leaves every node with every other")
        for src, dst in strike.drops:
            hosts.block(src, dst)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Packets were dropped, by the kernel's own counters."""
        counts = {pair: hosts.blocked_packets(*pair) for pair in strike.drops}
        pairs = ", ".join(f"{src}>{dst} {count}" for (src, dst), count in counts.items())
        total = sum(counts.values())
        return Effect(took=total > 0, evidence=f"{total} packets dropped ({pairs})")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Unblock every pair."""
        for src, dst in strike.drops:
            hosts.unblock(src, dst)

    def ailing(self, hosts: Hosts, strike: Strike) -> str | None:
        """Which pairs the kernel still counts drops for."""
        cut = [f"{src}>{dst}" for src, dst in strike.drops if hosts.blocked_packets(src, dst)]
        return f"still blocked: {', '.join(cut)}" if cut else None


def _one_way(
    targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Mapping[str, str]
) -> Grudge:
    direction = params.get("direction") or rng.choice(("in", "out"))
    if direction not in ("in", "out"):
        raise BadTargets(
            f"direction is {direction!r}, but it is in (the targets hear nobody) or out"
        )
    return shapes.one_way(nodes, targets, deaf=direction == "in")


PARTITIONS: tuple[Partition, ...] = (
    Partition(name="partition.halves", shape=lambda _t, nodes, _r, _p: shapes.halves(nodes)),
    Partition(
        name="partition.random-halves",
        shape=lambda _t, nodes, rng, _p: shapes.random_halves(nodes, rng),
    ),
    Partition(
        name="partition.isolate-one",
        shape=lambda targets, nodes, _r, _p: shapes.isolate(nodes, targets),
        default_targets="one",
    ),
    Partition(
        name="partition.isolate-leader",
        shape=lambda targets, nodes, _r, _p: shapes.isolate(nodes, targets),
        default_targets="leader",
    ),
    Partition(
        name="partition.majorities-ring",
        shape=lambda _t, nodes, rng, _p: shapes.majorities_ring(nodes, rng),
        min_nodes=3,
    ),
    Partition(
        name="partition.bridge",
        shape=lambda targets, nodes, _r, _p: shapes.bridge(nodes, targets[0]),
        default_targets="one",
        min_nodes=3,
    ),
    Partition(name="partition.one-way", shape=_one_way, default_targets="one", aimable=True),
)
