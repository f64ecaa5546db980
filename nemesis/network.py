"""Faults of the network: partitions of every shape, as packet drops between nodes.

Clients are never cut off: a partition is between nodes. That is the harder test, since a leader
that its followers no longer hear still answers its producers.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nemesis import shapes
from nemesis.base import Futile
from nemesis.fault import Ability, Effect, FaultBase, Option, Params, Strike
from nemesis.hosts import Cut, Hosts
from nemesis.shapes import Grudge

Shape = Callable[[Sequence[int], Sequence[int], random.Random, Params], Grudge]
"""(targets, nodes, rng, params) -> grudge"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(FaultBase):
    """Drops packets between nodes after a shape."""

    shape: Shape
    needs: frozenset[Ability] = frozenset({Ability.PACKET_DROPS})
    min_nodes: int = 2
    default_targets: str = "all"
    aimable: bool = False

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """The pairs to be cut."""
        aimed = () if self.default_targets == "all" else tuple(targets)
        grudge = self.shape(targets, nodes, rng, params)
        return Strike(nodes=aimed, cuts=tuple(Cut(*pair) for pair in grudge))

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Block every pair. Raises Futile when the shape cuts nobody from anybody."""
        if not strike.cuts:
            raise Futile("the shape leaves every node with every other")
        for cut in strike.cuts:
            hosts.links.block(cut)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Packets were dropped, by the kernel's own counters."""
        counts = {cut: hosts.links.dropped(cut) or 0 for cut in strike.cuts}
        pairs = ", ".join(f"{cut.src}>{cut.dst} {count}" for cut, count in counts.items())
        total = sum(counts.values())
        return Effect(took=total > 0, evidence=f"{total} packets dropped ({pairs})")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Unblock every pair."""
        for cut in strike.cuts:
            hosts.links.unblock(cut)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The kernel has no such rule any more."""
        left = [cut for cut in strike.cuts if hosts.links.dropped(cut) is not None]
        if left:
            pairs = ", ".join(f"{cut.src}>{cut.dst}" for cut in left)
            return Effect(took=False, evidence=f"still blocked: {pairs}")
        return Effect(took=True, evidence="no drop rule is left")


def _direction(text: str) -> str:
    if text not in ("in", "out", "any"):
        raise ValueError("it is in (the targets hear nobody), out (nobody hears them) or any")
    return text


def _one_way(
    targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
) -> Grudge:
    direction = params.text("direction")
    if direction == "any":
        direction = rng.choice(("in", "out"))
    return shapes.one_way(nodes, targets, deaf=direction == "in")


FAULTS: tuple[Partition, ...] = (
    Partition(
        name="partition.halves",
        about="two halves that cannot hear each other",
        shape=lambda _t, nodes, _r, _p: shapes.halves(nodes),
    ),
    Partition(
        name="partition.random-halves",
        about="two random halves that cannot hear each other",
        shape=lambda _t, nodes, rng, _p: shapes.random_halves(nodes, rng),
    ),
    Partition(
        name="partition.isolate-one",
        about="one node cut off from all others, which clients still reach",
        shape=lambda targets, nodes, _r, _p: shapes.isolate(nodes, targets),
        default_targets="one",
    ),
    Partition(
        name="partition.isolate-leader",
        about="the leader of a partition cut off from all other nodes, not from clients",
        shape=lambda targets, nodes, _r, _p: shapes.isolate(nodes, targets),
        default_targets="leader",
    ),
    Partition(
        name="partition.majorities-ring",
        about="every node hears a majority, no two the same one",
        shape=lambda _t, nodes, rng, _p: shapes.majorities_ring(nodes, rng),
        min_nodes=3,
    ),
    Partition(
        name="partition.bridge",
        about="two halves that hear each other through one node only",
        shape=lambda targets, nodes, _r, _p: shapes.bridge(nodes, targets[0]),
        default_targets="one",
        min_nodes=3,
    ),
    Partition(
        name="partition.one-way",
        about="the targets hear nobody, or are heard by nobody",
        shape=_one_way,
        default_targets="one",
        aimable=True,
        options=(
            Option(
                name="direction",
                default="any",
                about="in, out, or any of the two at random",
                read=_direction,
            ),
        ),
    ),
)
