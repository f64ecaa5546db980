"""Partitions of every shape, as packet drops between nodes.

Clients are never cut off: a network partition is between nodes. That is the harder test, because
an isolated leader still answers its producers.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nemesis import shapes
from nemesis.faults.fault import Injection, Option, Params
from nemesis.faults.network.cuts import PacketDropFault
from nemesis.faults.network.options import choice
from nemesis.hosts import Cut
from nemesis.shapes import Grudge

Shape = Callable[[Sequence[int], Sequence[int], random.Random, Params], Grudge]
"""(selected, nodes, rng, params) -> grudge"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(PacketDropFault):
    """Drops packets between nodes according to a shape."""

    shape: Shape
    min_nodes: int = 2
    default_selector: str = "all"
    selectable: bool = False

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """A cut for every pair of the grudge."""
        hit = () if self.default_selector == "all" else tuple(selected)
        grudge = self.shape(selected, nodes, rng, params)
        return Injection(nodes=hit, cuts=tuple(Cut(*pair) for pair in grudge))


def _one_way(
    selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
) -> Grudge:
    direction = params.text("direction")
    if direction == "any":
        direction = rng.choice(("in", "out"))
    return shapes.one_way(nodes, selected, deaf=direction == "in")


FAULTS: tuple[Partition, ...] = (
    Partition(
        name="partition.halves",
        about="two halves that cannot reach each other",
        shape=lambda _t, nodes, _r, _p: shapes.halves(nodes),
    ),
    Partition(
        name="partition.random-halves",
        about="two random halves that cannot reach each other",
        shape=lambda _t, nodes, rng, _p: shapes.random_halves(nodes, rng),
    ),
    Partition(
        name="partition.isolate-one",
        about="one node is cut off from all other nodes, but not from clients",
        shape=lambda selected, nodes, _r, _p: shapes.isolate(nodes, selected),
        default_selector="one",
    ),
    Partition(
        name="partition.isolate-leader",
        about="the leader of a partition is cut off from all other nodes, but not from clients",
        shape=lambda selected, nodes, _r, _p: shapes.isolate(nodes, selected),
        default_selector="leader",
    ),
    Partition(
        name="partition.majorities-ring",
        about="every node receives from a majority, no two nodes from the same one",
        shape=lambda _t, nodes, rng, _p: shapes.majorities_ring(nodes, rng),
        min_nodes=3,
    ),
    Partition(
        name="partition.bridge",
        about="two halves that only one node connects",
        shape=lambda selected, nodes, _r, _p: shapes.bridge(nodes, selected[0]),
        default_selector="one",
        min_nodes=3,
    ),
    Partition(
        name="partition.one-way",
        about="the nodes receive nothing from other nodes, or the others nothing from them",
        shape=_one_way,
        default_selector="one",
        selectable=True,
        options=(
            Option(
                name="direction",
                default="any",
                about="in (the nodes receive nothing), out (the others receive nothing from them) "
                "or any (one of the two at random)",
                read=choice("in", "out", "any"),
            ),
        ),
    ),
)
