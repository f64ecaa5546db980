"""Shapes of network partitions: pure functions from nodes to grudges.

A grudge is a sorted tuple of (src, dst): `dst` drops the packets that arrive from `src`. It never
separates a node from itself, and it does not include clients. So an isolated node still answers
its clients; this is how a replaced leader can go on acknowledging writes.

The shapes are Jepsen's. The receiver drops the packets, as each node's firewall would.
"""

import random
from collections.abc import Iterable, Sequence
from itertools import permutations

Grudge = tuple[tuple[int, int], ...]
"""Sorted pairs (src, dst): dst drops what comes from src."""


def complete(components: Sequence[Sequence[int]]) -> Grudge:
    """No node receives packets from outside its own component; components are disjoint."""
    side = {node: number for number, component in enumerate(components) for node in component}
    return _grudge((a, b) for a, b in permutations(side, 2) if side[a] != side[b])


def halves(nodes: Sequence[int]) -> Grudge:
    """Split the nodes into two halves in their order; the first half is the smaller one."""
    middle = len(nodes) // 2
    return complete([nodes[:middle], nodes[middle:]])


def random_halves(nodes: Sequence[int], rng: random.Random) -> Grudge:
    """Split the nodes into two random halves."""
    return halves(rng.sample(nodes, len(nodes)))


def isolate(nodes: Sequence[int], selected: Sequence[int]) -> Grudge:
    """Separate the selected nodes from all others."""
    return complete([selected, [node for node in nodes if node not in selected]])


def majorities_ring(nodes: Sequence[int], rng: random.Random) -> Grudge:
    """Every node receives from a majority, and no two nodes from the same majority.

    With four or more nodes, each node keeps its neighbours on a random ring; the other links are
    cut both ways. With three nodes that is impossible (each would need exactly one partner), so
    each drops the packets of its predecessor: no TCP connection survives that, but every packet
    counter shows it. With fewer than three nodes the grudge is empty.
    """
    count = len(nodes)
    if count < 3:
        return ()
    ring = rng.sample(nodes, count)
    if count == 3:
        return _grudge((ring[i - 1], ring[i]) for i in range(count))
    reach = (count // 2 + 1) // 2
    return _grudge(
        (ring[i], ring[j])
        for i, j in permutations(range(count), 2)
        if min((i - j) % count, (j - i) % count) > reach
    )


def bridge(nodes: Sequence[int], middle: int) -> Grudge:
    """Two halves that only the node `middle` connects."""
    return halves([node for node in nodes if node != middle])


def one_way(nodes: Sequence[int], selected: Sequence[int], *, deaf: bool) -> Grudge:
    """The selected nodes receive nothing from others (`deaf`), or the others nothing from them."""
    inward = isolate(nodes, selected)
    if deaf:
        return _grudge((src, dst) for src, dst in inward if dst in selected)
    return _grudge((src, dst) for src, dst in inward if src in selected)


def touching(
    selected: Sequence[int], others: Sequence[int], *, inward: bool, outward: bool
) -> Grudge:
    """All links between a selected node and any other machine, other selected nodes included."""
    pairs = {(other, node) for node in selected for other in others if other != node}
    return _grudge({*(pairs if inward else ()), *((b, a) for a, b in pairs if outward)})


def _grudge(pairs: Iterable[tuple[int, int]]) -> Grudge:
    return tuple(sorted(pairs))
