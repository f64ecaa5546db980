"""Shapes of network partitions: pure functions from nodes to who drops whom.

A grudge is a sorted tuple of (src, dst): packets that arrive at `dst` from `src` are dropped. It
never cuts a node from itself, and no partition speaks of clients: a node cut off from all others
still answers whoever can reach it, which is how a deposed leader goes on acknowledging writes.

After Jepsen's nemesis shapes; drops are at the receiver, as each node's firewall would make them.
"""

import random
from collections.abc import Iterable, Sequence
from itertools import permutations

Grudge = tuple[tuple[int, int], ...]
"""Sorted pairs (src, dst): dst drops what comes from src."""


def complete(components: Sequence[Sequence[int]]) -> Grudge:
    """Nobody hears anybody outside its own component; components are disjoint."""
    side = {node: number for number, component in enumerate(components) for node in component}
    return _grudge((a, b) for a, b in permutations(side, 2) if side[a] != side[b])


def halves(nodes: Sequence[int]) -> Grudge:
    """The nodes in two halves as they are ordered, the first the smaller one."""
    middle = len(nodes) // 2
    return complete([nodes[:middle], nodes[middle:]])


def random_halves(nodes: Sequence[int], rng: random.Random) -> Grudge:
    """The nodes in two random halves."""
    return halves(rng.sample(nodes, len(nodes)))


def isolate(nodes: Sequence[int], targets: Sequence[int]) -> Grudge:
    """The targets on one side, all other nodes on the other."""
    return complete([targets, [node for node in nodes if node not in targets]])


def majorities_ring(nodes: Sequence[int], rng: random.Random) -> Grudge:
    """Every node hears a majority, and no two nodes hear the same one.

    From four nodes up each hears its neighbours on a random ring, so that links are cut both ways.
    With three that cannot be (each would need exactly one partner), so each drops what its
    predecessor sends: which no TCP connection survives, but which every packet counter shows.
    Fewer than three nodes have no such shape: the grudge is empty.
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
    """Two halves that hear each other only through one node, which hears everybody."""
    return halves([node for node in nodes if node != middle])


def one_way(nodes: Sequence[int], targets: Sequence[int], *, deaf: bool) -> Grudge:
    """The targets hear nobody outside themselves (`deaf`), or are heard by nobody outside."""
    inward = isolate(nodes, targets)
    if deaf:
        return _grudge((src, dst) for src, dst in inward if dst in targets)
    return _grudge((src, dst) for src, dst in inward if src in targets)


def touching(
    targets: Sequence[int], others: Sequence[int], *, inward: bool, outward: bool
) -> Grudge:
    """All links between a target and any other machine, each target with each other one too."""
    pairs = {(other, target) for target in targets for other in others if other != target}
    return _grudge({*(pairs if inward else ()), *((b, a) for a, b in pairs if outward)})


def _grudge(pairs: Iterable[tuple[int, int]]) -> Grudge:
    return tuple(sorted(pairs))
