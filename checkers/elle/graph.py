"""The native checker of dependency graphs: it finds what Elle would find, and judges it by Kafka's
guarantees.

Kafka promises less than a transactional database. RULES lists its promises (the same as in
jepsen.tests.kafka): a transaction writes all or nothing, but transactions are not isolated from
each other, and a consumer reads each partition independently and may lag. So most cycles are
permitted, and still reported. The detectors of `check` judge the real-time order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checkers.contract.contract import Judgement
from checkers.elle.cycles import Cycle, Phenomenon, find_cycles, in_cycles
from checkers.elle.dependency import DEPENDENCIES, Edge
from checkers.elle.edges import Drawn, Graph
from checkers.elle.links import Links, links, read_inside
from checkers.engines.engine import EngineTimeout, Frame
from checkers.frames.frames import Frames
from checkers.verdict import Outcome

MAX_PLACES: Final = 20_000_000
"""How many writes and reads one process can search for cycles; more make the answer UNKNOWN."""

EXAMPLES: Final = 5
"""Examples kept of each anomaly."""

ABORTED, INTERMEDIATE, PRECOMMITTED = "G1a", "G1b", "precommitted-read"

_F, _P = Judgement.FORBIDDEN, Judgement.PERMITTED
RULES: Final[Mapping[str, tuple[Judgement, str]]] = {
    ABORTED: (_F, "a send that certainly failed is in no log (KIP-98)"),
    INTERMEDIATE: (_P, "a poll may end inside the writes of one transaction"),
    PRECOMMITTED: (_F, "no consumer reads a transaction's records before it commits (KIP-98)"),
    Phenomenon.G0: (_P, "writes of transactions interleave in the log (KIP-98)"),
    Phenomenon.G1C: (_P, "writes of transactions interleave in the log (KIP-98)"),
    Phenomenon.G1C_READS: (
        _F,
        "each of these transactions read a record of another one before that committed (KIP-98)",
    ),
    Phenomenon.G_SINGLE: (_P, "a consumer reads each partition by itself, and may lag"),
    Phenomenon.G2_ITEM: (_P, "a consumer reads each partition by itself, and may lag"),
}
"""What Kafka forbids or permits, and why; the most severe last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAnomaly:
    """All instances of one phenomenon. count: for cycles, the number of components with one."""

    name: str
    judgement: Judgement
    reason: str
    count: int
    examples: tuple[tuple[str, ...], ...]

    def as_json(self) -> dict[str, Any]:
        """As elle.json has it."""
        return {
            "name": self.name,
            "judgement": self.judgement.value,
            "reason": self.reason,
            "count": self.count,
            "examples": [list(example) for example in self.examples],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphVerdict:
    """The answer. checker: which checker gave it. edges: how many edges were searched."""

    outcome: Outcome
    reasons: tuple[str, ...]
    checker: str
    anomalies: tuple[GraphAnomaly, ...] = ()
    edges: int = 0

    def as_json(self) -> dict[str, Any]:
        """The content of elle.json."""
        return {
            "outcome": self.outcome.value,
            "reasons": list(self.reasons),
            "checker": self.checker,
            "anomalies": [anomaly.as_json() for anomaly in self.anomalies],
            "edges": self.edges,
        }


def unknown(checker: str, reason: str) -> GraphVerdict:
    """Return the answer UNKNOWN with a reason."""
    return GraphVerdict(outcome=Outcome.UNKNOWN, reasons=(reason,), checker=checker)


def check_graph(frames: Frames, *, timeout_s: float) -> GraphVerdict:
    """Judge the dependency graph of a run; an engine that takes too long makes it UNKNOWN."""
    checker = f"native, on {frames.engine.name}"
    try:
        with frames.engine.bounded(timeout_s):
            return _judged(frames, checker)
    except EngineTimeout as error:
        return unknown(checker, f"the graph was not finished: {error}")


def _judged(frames: Frames, checker: str) -> GraphVerdict:
    graph = Graph(frames)
    if frames.engine.is_empty(frames.reads):
        return unknown(checker, "nothing was read, so nothing is known of the order of writes")
    if graph.size > MAX_PLACES:
        return unknown(
            checker,
            f"{graph.size} writes and reads may be in cycles; {MAX_PLACES} can be searched",
        )
    drawn = graph.drawn
    edges = links(drawn.writes, drawn.reads)
    circular = in_cycles(edges)
    found = [
        *_told(graph, ABORTED, graph.aborted),
        *_told(graph, PRECOMMITTED, graph.precommitted),
        *_intermediate(drawn),
        *_circles(find_cycles(circular), circular, drawn),
    ]
    forbidden = [each for each in found if each.judgement is Judgement.FORBIDDEN]
    reasons = [f"{each.count} {each.name}: forbidden: {each.reason}" for each in forbidden]
    return GraphVerdict(
        outcome=Outcome.INVALID if forbidden else Outcome.VALID,
        reasons=tuple(reasons) or ("no dependency that Kafka forbids was found",),
        checker=checker,
        anomalies=tuple(found),
        edges=len(edges),
    )


def _told(graph: Graph, name: str, frame: Frame) -> Iterator[GraphAnomaly]:
    """Yield the anomaly of single rows: columns txn, topic, partition, value."""
    count = graph.count(frame)
    if not count:
        return
    order = ("topic", "partition", "value", "txn")
    examples = graph.rows(frame.orderBy(*order).limit(EXAMPLES))
    yield _anomaly(
        name,
        count,
        ((_read(row["txn"], row["value"], row["topic"], row["partition"]),) for row in examples),
    )


def _read(txn: int, value: int, topic: str, partition: int) -> str:
    return f"{txn}: {value} in {topic}-{partition}"


def _intermediate(drawn: Drawn) -> Iterator[GraphAnomaly]:
    readers, at = read_inside(drawn.writes, drawn.reads)
    if not len(at):
        return
    columns = drawn.writes.partition[at], drawn.values[at], drawn.nodes[readers]
    rows = sorted(
        (*drawn.partitions[partition], value, txn)
        for partition, value, txn in zip(*(each.tolist() for each in columns), strict=True)
    )
    examples = rows[:EXAMPLES]
    yield _anomaly(
        INTERMEDIATE,
        len(rows),
        ((_read(txn, value, topic, partition),) for topic, partition, value, txn in examples),
    )


def _circles(cycles: Iterable[Cycle], edges: Links, drawn: Drawn) -> Iterator[GraphAnomaly]:
    found: dict[Phenomenon, list[Cycle]] = defaultdict(list)
    for cycle in cycles:
        found[cycle.phenomenon].append(cycle)
    for phenomenon, like in found.items():
        shown = sorted(like, key=lambda cycle: len(cycle.edges))[:EXAMPLES]
        examples = (tuple(edge.text for edge in edges_of(cycle, edges, drawn)) for cycle in shown)
        yield _anomaly(phenomenon, len(like), examples)


def edges_of(cycle: Cycle, edges: Links, drawn: Drawn) -> tuple[Edge, ...]:
    """Return the edges of a cycle with the transactions and partitions of the history."""
    found = edges.at(np.array(cycle.edges))
    columns = (
        drawn.nodes[found.src],
        drawn.nodes[found.dst],
        found.kind,
        drawn.writes.partition[found.one],
        drawn.values[found.one],
        drawn.values[found.other],
    )
    return tuple(
        Edge(
            src=src,
            dst=dst,
            kind=DEPENDENCIES[kind],
            topic=drawn.partitions[partition][0],
            partition=drawn.partitions[partition][1],
            value=value,
            other_value=other_value,
        )
        for src, dst, kind, partition, value, other_value in zip(
            *(each.tolist() for each in columns), strict=True
        )
    )


def _anomaly(name: str, count: int, examples: Iterable[tuple[str, ...]]) -> GraphAnomaly:
    judgement, reason = RULES[name]
    return GraphAnomaly(
        name=str(name), judgement=judgement, reason=reason, count=count, examples=tuple(examples)
    )
