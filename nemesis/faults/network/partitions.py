"""Partitions of every shape, as packet drops between nodes.

Clients are never cut off: a partition is between nodes. That is the harder test, since a leader
that its followers no longer hear still answers its producers.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nemesis import shapes
from nemesis.faults.fault import Option, Params, Strike
from nemesis.faults.network.cuts import Cutting
from nemesis.faults.network.options import choice
from nemesis.hosts import Cut
from nemesis.shapes import Grudge

Shape = Callable[[Sequence[int], Sequence[int], random.Random, Params], Grudge]
"""(targets, nodes, rng, params) -> grudge"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(Cutting):
    """Drops packets between nodes after a shape."""

    shape: Shape
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
                about="in (they hear nobody), out (nobody hears them) or any of the two at random",
                read=choice("in", "out", "any"),
            ),
        ),
    ),
)
