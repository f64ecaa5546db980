"""Dependency graphs: the histories of Jepsen's own tests, and random ones against a slow search."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

from checkers.elle.cycles import Phenomenon, find_cycles, in_cycles
from checkers.elle.dependency import Dependency, Edge
from checkers.elle.edges import Graph
from checkers.elle.graph import check_graph, edges_of
from checkers.elle.links import links
from checkers.engines.engine import DuckDbEngine, Engine
from checkers.frames.frames import Frames
from checkers.history.history import HISTORY, RunSources, table
from checkers.interchange.imported import Imported
from tests.support.checkers.elle_reference import all_edges, circles
from tests.support.checkers.jepsen_histories import Told
from tests.support.checkers.judge_imports import sources, together
from tests.support.checkers.small_spark import BriefSparkEngine
from tests.support.tiers import at_turn

G0, G1C, G1C_READS = Phenomenon.G0, Phenomenon.G1C, Phenomenon.G1C_READS
G_SINGLE, G2 = Phenomenon.G_SINGLE, Phenomenon.G2_ITEM


def healthy() -> Told:
    """Single sends and polls, a consumer that lags, a poll of two partitions at once."""
    told = Told().send(0, 1, 10, 0).send(1, 2, 20, 0).send(0, 1, 11, 1)
    return told.poll(2, "{1 [[0 10]]}").poll(2, "{1 [[1 11]], 2 [[0 20]]}")


def crossed_writes() -> Told:
    """Two transactions write to two partitions in opposite orders; nobody reads."""
    told = Told().txn(0, "[[:send 1 1] [:send 2 1]]", "[[:send 1 [0 1]] [:send 2 [1 1]]]")
    told.txn(1, "[[:send 1 2] [:send 2 2]]", "[[:send 1 [1 2]] [:send 2 [0 2]]]")
    return told.send(2, 3, 9, 0).poll(3, "{3 [[0 9]]}")


def seen_by_each_other() -> Told:
    """Two transactions each read what the other one wrote."""
    told = Told().txn(0, "[[:send 1 1] [:poll]]", "[[:send 1 [0 1]] [:poll {2 [[0 2]]}]]")
    return told.txn(1, "[[:send 2 2] [:poll]]", "[[:send 2 [0 2]] [:poll {1 [[0 1]]}]]")


def seen_and_overtaken() -> Told:
    """One reads the other's write to 1, and its own write to 2 lies before the other's."""
    told = Told().txn(0, "[[:send 1 1] [:send 2 3]]", "[[:send 1 [0 1]] [:send 2 [2 3]]]")
    told.txn(1, "[[:poll] [:send 2 2]]", "[[:poll {1 [[0 1]]}] [:send 2 [1 2]]]")
    return told.poll(2, "{2 [[1 2] [2 3]]}")


def half_seen() -> Told:
    """A poll returns what a transaction wrote to one partition, and not yet what to the other."""
    told = (
        Told()
        .send(0, 1, 1, 0)
        .txn(0, "[[:send 1 2] [:send 2 3]]", "[[:send 1 [1 2]] [:send 2 [0 3]]]")
    )
    return told.poll(1, "{1 [[0 1]], 2 [[0 3]]}").poll(2, "{1 [[1 2]]}")


def long_fork() -> Told:
    """Two polls see two sends in opposite orders."""
    told = Told().send(0, 1, 1, 0).send(0, 2, 2, 0).send(1, 1, 3, 1).send(2, 2, 4, 1)
    told.poll(3, "{1 [[0 1] [1 3]], 2 [[0 2]]}")
    return told.poll(4, "{1 [[0 1]], 2 [[0 2] [1 4]]}").poll(5, "{1 [[1 3]], 2 [[1 4]]}")


def long_fork_with_more_between() -> Told:
    """The same, with a send between that only a reader of one partition sees."""
    told = Told().send(0, 1, 1, 0).send(0, 2, 2, 0).send(1, 1, 9, 1).send(1, 1, 3, 2)
    told.send(2, 2, 4, 1).poll(3, "{1 [[0 1] [2 3]], 2 [[0 2]]}").poll(6, "{1 [[1 9]]}")
    return told.poll(4, "{1 [[0 1]], 2 [[0 2] [1 4]]}").poll(5, "{1 [[2 3]], 2 [[1 4]]}")


NAMED = {
    healthy: set(),
    crossed_writes: {G0},
    seen_by_each_other: {G1C_READS},
    seen_and_overtaken: {G1C},
    half_seen: {G_SINGLE},
    long_fork: {G2},
    long_fork_with_more_between: {G2},
}


@pytest.fixture(scope="module")
def duckdb() -> Iterator[Engine]:
    """One embedded engine for all."""
    engine = DuckDbEngine()
    yield engine
    engine.close()


def frames(engine: Engine, imported: Imported) -> Frames:
    """The frames of an import."""
    return Frames(engine, sources(imported), imported.plan)


def by_topic(engine: Engine, imports: Mapping[str, Imported]) -> dict[str, set[Phenomenon]]:
    """The phenomena of each of many imports, all in one graph."""
    drawn = Graph(frames(engine, together(imports))).drawn
    circular = in_cycles(links(drawn.writes, drawn.reads))
    found: dict[str, set[Phenomenon]] = defaultdict(set)
    for cycle in find_cycles(circular):
        edges = edges_of(cycle, circular, drawn)
        assert [edge.src for edge in edges] == [edges[-1].dst, *(e.dst for e in edges[:-1])]
        found[edges[0].topic].add(cycle.phenomenon)
    return found


def assert_named(engine: Engine) -> None:
    """Each of the histories has its phenomenon."""
    imports = {tell.__name__: tell().imported(topic=tell.__name__) for tell in NAMED}
    found = by_topic(engine, imports)
    assert {tell: found[tell.__name__] for tell in NAMED} == NAMED


def test_names_circles(duckdb: Engine) -> None:
    """The histories of Jepsen's tests, and those of the literature."""
    assert_named(duckdb)


@pytest.mark.slow
@at_turn(1, 4, "checkers/elle/test_planted.py::test_spark_finds_the_same")
def test_names_circles_on_spark(spark: Any) -> None:
    """The same on Spark."""
    engine = BriefSparkEngine(spark)
    try:
        assert_named(engine)
        verdict = check_graph(frames(engine, aborted().imported()), timeout_s=300)
        assert verdict.outcome.value == "INVALID"
    finally:
        engine.close()


def random_history(random: Random) -> Told:
    """Transactions of sends and polls of three partitions, and who read it all in the end."""
    logs: dict[int, list[int]] = {key: [] for key in (1, 2, 3)}
    plans = [
        [
            random.choice((1, 2, 3)) if random.random() < 0.6 else None
            for _ in range(random.randint(1, 3))
        ]
        for _ in range(random.randint(2, 6))
    ]
    sends = [(txn, n) for txn, plan in enumerate(plans) for n, key in enumerate(plan) if key]
    random.shuffle(sends)
    offsets = {}
    for txn, n in sends:
        log = logs[plans[txn][n] or 0]
        offsets[txn, n] = len(log)
        log.append(txn * 10 + n)
    told = Told()
    for txn, plan in enumerate(plans):
        steps = []
        for n, key in enumerate(plan):
            if key:
                steps.append(f"[:send {key} [{offsets[txn, n]} {txn * 10 + n}]]")
            else:
                steps.append(f"[:poll {slices(logs, random)}]")
        told.txn(txn, "[[:poll]]", f"[{' '.join(steps)}]")
    for process, (key, log) in enumerate(logs.items(), 90):
        pairs = " ".join(f"[{offset} {value}]" for offset, value in enumerate(log))
        told.poll(process, f"{{{key} [{pairs}]}}")
    return told


def slices(logs: Mapping[int, list[int]], random: Random) -> str:
    """What a poll may return: of some partitions, some part."""
    parts = []
    for key, log in logs.items():
        if log and random.random() < 0.5:
            first = random.randrange(len(log))
            last = random.randrange(first, len(log))
            pairs = [f"[{offset} {log[offset]}]" for offset in range(first, last + 1)]
            parts.append(f"{key} [{' '.join(pairs)}]")
    return "{" + ", ".join(parts) + "}"


def test_finds_the_same_cycles_as_a_search_of_the_whole_graph(duckdb: Engine) -> None:
    """What is left out of the graph takes no circle with it, and adds none."""
    seeds = range(150)
    imports = {
        f"s{seed}": random_history(Random(seed)).imported(topic=f"s{seed}") for seed in seeds
    }
    found = by_topic(duckdb, imports)
    seen: dict[str, int] = defaultdict(int)
    for topic, imported in imports.items():
        expected = circles(all_edges(imported.table().to_pylist()))
        has = found[topic]
        assert (G0 in has) == expected["ww"], topic
        assert (G1C_READS in has) == expected["wr"], topic
        assert bool(has & {G0, G1C, G1C_READS}) == expected["ww or wr"], topic
        assert G_SINGLE not in has or expected["one rw"], topic
        # A reader of one partition is beside a ww edge; the graver circle of that is told.
        assert not expected["one rw"] or has - {G2}, topic
        assert bool(has) == expected["any"], topic
        for kind, there in expected.items():
            seen[kind] += there
    assert min(seen.values()) > 5, seen
    assert seen["any"] < len(seeds) - 5, seen


def aborted() -> Told:
    """A poll returns what surely failed."""
    return Told().op(0, "send", "[[:send 1 2]]", "[[:send 1 2]]", "fail").poll(1, "{1 [[0 2]]}")


def own() -> Told:
    """A transaction reads what it wrote."""
    return Told().txn(0, "[[:send 1 2] [:poll]]", "[[:send 1 [0 2]] [:poll {1 [[0 2]]}]]")


def between() -> Told:
    """A poll ends inside what one transaction wrote."""
    told = Told().txn(0, "[[:send 1 2] [:send 1 3]]", "[[:send 1 [0 2]] [:send 1 [1 3]]]")
    return told.poll(1, "{1 [[0 2]]}").poll(1, "{1 [[1 3]]}")


def test_cycles_are_judged_by_kafkas_guarantees(duckdb: Engine) -> None:
    """Forbidden are aborted and precommitted reads, and circles of reads; nothing else."""
    expected: dict[str, dict[Callable[[], Told], str | None]] = {
        "VALID": {healthy: None, half_seen: "G-single", between: "G1b", crossed_writes: "G0"},
        "INVALID": {
            aborted: "G1a",
            own: "precommitted-read",
            seen_by_each_other: "G1c of reads alone",
        },
    }
    for outcome, names in expected.items():
        imports = {tell.__name__: tell().imported(topic=tell.__name__) for tell in names}
        verdict = check_graph(frames(duckdb, together(imports)), timeout_s=60)
        assert verdict.outcome.value == outcome
        judgement = "permitted" if outcome == "VALID" else "forbidden"
        judged = {each.name: (each.judgement.value, each.count) for each in verdict.anomalies}
        assert judged == {name: (judgement, 1) for name in names.values() if name}
        for each in verdict.anomalies:
            tell = next(tell for tell, name in names.items() if name == each.name)
            assert tell.__name__ in str(each.examples), each.name


def placed(engine: Engine, run: RunSources) -> set[tuple[int, int]]:
    """Value and place of everything that has a place."""
    rows = engine.rows(Graph(Frames(engine, run, {})).places)
    return {(row["value"], row["place"]) for row in rows}


def test_offset_with_two_values_orders_nothing(duckdb: Engine) -> None:
    """Two records were read at one offset: neither says which transaction came first."""

    def read_by(*polls: str) -> Imported:
        told = crossed_writes().poll(4, "{1 [[0 1]]}")
        for polled in polls:
            told.poll(4, polled)
        return told.imported(topic="t")

    known, disputed = read_by("{1 [[1 2]]}"), read_by("{1 [[1 2]]}", "{1 [[1 99]]}")
    assert (2, 1) in placed(duckdb, sources(known))
    assert (2, 1) not in placed(duckdb, sources(disputed))
    assert by_topic(duckdb, {"t": known}) == {"t": {G0}}
    assert by_topic(duckdb, {"t": disputed}) == {}


def test_failed_sends_are_no_writes(duckdb: Engine) -> None:
    """Though their records were read: that is an aborted read, and no cycle."""
    told = Told().txn(0, "[[:send 1 1] [:send 2 1]]", "[[:send 1 1] [:send 2 1]]", "fail")
    told.txn(1, "[[:send 1 2] [:send 2 2]]", "[[:send 1 [1 2]] [:send 2 [0 2]]]")
    told.poll(2, "{1 [[0 1] [1 2]], 2 [[0 2] [1 1]]}")
    verdict = check_graph(frames(duckdb, told.imported()), timeout_s=60)
    assert [each.name for each in verdict.anomalies] == ["G1a"]


def test_partition_that_was_read_to_its_end_has_the_order_of_the_final_log(
    duckdb: Engine,
) -> None:
    """A record that was polled and is not in the final log has no place."""
    common = {"client": 1, "type": "ok", "invoke_ns": 0, "complete_ns": 1}
    common |= {"topic": "t", "partition": 0}
    rows = [
        {"op": op, "f": f, "value": value, "offset": offset, **common}
        for op, (f, value, offset) in enumerate(
            [("send", 7, 0), ("send", 8, 1), ("poll", 7, 0), ("poll", 8, 1), ("final-read", 7, 0)]
        )
    ]
    whole = {"op": 9, "f": "final-read-end", "offset": 1, **common}
    for history, expected in ((rows, {(7, 0), (8, 1)}), ([*rows, whole], {(7, 0)})):
        run = RunSources(
            history=(table(HISTORY, history),), cluster=(), faults=(), replicas=(), replica_ends=()
        )
        assert placed(duckdb, run) == expected
        graph = Graph(Frames(duckdb, run, {}))
        assert {row["value"] for row in duckdb.rows(graph.writes)} == {v for v, _ in expected}


def test_history_without_reads_is_unknown(duckdb: Engine) -> None:
    """Nothing read is no order; and the answer names its checker."""
    verdict = check_graph(frames(duckdb, Told().send(0, 1, 2, 0).imported()), timeout_s=60)
    assert verdict.outcome.value == "UNKNOWN"
    assert "nothing was read" in verdict.reasons[0]
    assert verdict.as_json()["checker"] == "native, on duckdb"


def edge(src: int, dst: int, kind: Dependency = Dependency.WW) -> Edge:
    """An edge of one partition."""
    return Edge(src=src, dst=dst, kind=kind, topic="t", partition=0, value=src, other_value=dst)


def test_leaving_out_writes_in_the_engine_leaves_out_no_edge(duckdb: Engine) -> None:
    """The writes of long histories that no edge needs."""
    imports = {
        f"s{seed}": random_history(Random(seed)).imported(topic=f"s{seed}") for seed in range(40)
    }
    whole, thin = (
        Graph(frames(duckdb, together(imports)), thin_above=above) for above in (1_000_000, 0)
    )
    assert thin.size < whole.size
    told = []
    for graph in (whole, thin):
        drawn = graph.drawn
        edges = links(drawn.writes, drawn.reads)
        columns = (
            drawn.nodes[edges.src], drawn.nodes[edges.dst], edges.kind, drawn.values[edges.one],
            drawn.values[edges.other],
        )  # fmt: skip
        rows = zip(*(each.tolist() for each in columns), strict=True)
        told.append(sorted(rows))
    assert told[0] == told[1]


def test_cycles_are_described_in_words() -> None:
    """A circle reads as a sequence of facts."""
    ww, wr, rw = (edge(1, 2, kind).text for kind in Dependency)
    assert ww == "1 wrote 1 to t-0 before 2 wrote 2"
    assert wr == "1 wrote 1 to t-0, which 2 read last"
    assert rw == "1 read t-0 up to 1, before 2 wrote 2"
