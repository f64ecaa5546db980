"""The dependency graph the plain way: loops over dicts and lists, every simple cycle in turn.

It follows the docstrings of `checkers.elle.links` and `checkers.elle.cycles`, and shares no code
with them. For small graphs only: it looks at every way.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

Written = tuple[int, int, int]
"""Node, partition, place of a write, or of the last record that a node read of a partition."""
Link = tuple[int, int, str]
"""src, dst, kind."""
Circle = tuple[Link, ...]


def links(writes: Sequence[Written], reads: Sequence[Written]) -> set[Link]:
    """Every edge that may be in a cycle."""
    counts = Counter(node for node, _, _ in (*writes, *reads))
    last_reads = [(node, at, place) for node, at, place in reads if counts[node] > 1]
    found: set[Link] = set()
    for partition in {at for _, at, _ in writes}:
        log = sorted((place, node) for node, at, place in writes if at == partition)
        read = {place for _, at, place in last_reads if at == partition}
        kept = [counts[node] > 1 or place in read for place, node in log]
        chain = [
            node
            for number, (_, node) in enumerate(log)
            if kept[number] or (number > 0 and kept[number - 1])
        ]
        found |= {(one, other, "ww") for one, other in itertools.pairwise(chain)}
        for reader, at, place in last_reads:
            if at == partition:
                found |= set(_of_read(log, reader, place))
    return {each for each in found if each[0] != each[1]}


def _of_read(log: Sequence[tuple[int, int]], reader: int, place: int) -> Iterator[Link]:
    writers = [node for at, node in log if at == place]
    following = [node for at, node in log if at > place]
    for writer in writers:
        yield writer, reader, "wr"
        if following and following[0] != writer:
            yield reader, following[0], "rw"


@dataclass(frozen=True, slots=True)
class Rule:
    """The kinds of the edges that a cycle of this name may have, and what must be among them."""

    name: str
    kinds: tuple[str, ...]
    is_one: Callable[[Sequence[str]], bool]


RULES = (
    Rule("G0", ("ww",), lambda kinds: True),
    Rule("G1c of reads alone", ("wr",), lambda kinds: True),
    Rule("G1c", ("ww", "wr"), lambda kinds: {"ww", "wr"} <= set(kinds)),
    Rule("G-single", ("ww", "wr", "rw"), lambda kinds: kinds.count("rw") == 1),
    Rule("G2-item", ("ww", "wr", "rw"), lambda kinds: kinds.count("rw") > 1),
)


def cycles(found: Iterable[Link]) -> Counter[tuple[str, int]]:
    """How many components have a smallest cycle of each name and length."""
    every = set(found)
    counts: Counter[tuple[str, int]] = Counter()
    for rule in RULES:
        of_kinds = {each for each in every if each[2] in rule.kinds}
        for component in _components(of_kinds):
            lengths = [
                len(circle)
                for circle in _circles(component)
                if rule.is_one([kind for _, _, kind in circle])
            ]
            if lengths:
                counts[rule.name, min(lengths)] += 1
    return counts


def _components(found: set[Link]) -> Iterator[set[Link]]:
    """The edges whose ends can be reached from each other."""
    nodes = {each for src, dst, _ in found for each in (src, dst)}
    reached = {node: _reached(found, node) for node in nodes}
    while nodes:
        node = min(nodes)
        together = {each for each in nodes if each in reached[node] and node in reached[each]}
        nodes -= together | {node}
        yield {(s, d, k) for s, d, k in found if s in together and d in together}


def _reached(found: set[Link], start: int) -> set[int]:
    known: set[int] = set()
    waiting = [start]
    while waiting:
        here = waiting.pop()
        new = {dst for src, dst, _ in found if src == here} - known
        known |= new
        waiting += new
    return known


def _circles(found: set[Link]) -> Iterator[Circle]:
    """Every simple cycle; parallel edges of different kinds make different ones."""
    for start in {src for src, _, _ in found}:
        waiting: list[Circle] = [(each,) for each in found if each[0] == start]
        while waiting:
            way = waiting.pop()
            here = way[-1][1]
            if here == start:
                yield way
                continue
            passed = {src for src, _, _ in way}
            waiting += [
                (*way, each)
                for each in found
                if each[0] == here
                and (each[1] == start or each[1] not in passed | {here})
                and each[1] >= start
            ]
