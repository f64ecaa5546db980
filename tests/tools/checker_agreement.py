"""Do DuckDB, Spark and plain Python find the same in generated histories, and all that was planted?

    python -m tests.tools.checker_agreement --count 2000

Hundreds of stories are judged as one run, each in topics of its own; what is found is counted by
kind, aspect and judgement for every story. Prints what was planted and found, and each story that
shows a difference, with its seed: `--first SEED --count 1` repeats it. Exit code 1 then.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from checkers.check import check
from checkers.engines.engine import DuckDbEngine, Engine, SparkEngine
from checkers.engines.spark_sessions import local_spark_session
from checkers.verdict import Status, Verdict
from tests.support.checkers.generated import Plant, generate
from tests.support.checkers.reference import find
from tests.support.checkers.reference_cluster import find_in_cluster
from tests.support.checkers.reference_contract import INFO, judged, may_be_lost
from tests.support.histories.multiplex import multiplex, prefix
from tests.support.histories.story import ACKS, Story

TIMES = ("unavailable", "recovery")
"""Kinds that every run has."""

Found = Counter[tuple[str, str | None, str, str | None]]
"""How often: (kind, aspect, topic, judgement; None where the reference does not know it)"""


@dataclass(slots=True)
class Tally:
    """What all stories had in them, and where something differed."""

    planted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    clean: int = 0
    differences: list[str] = field(default_factory=list)


def expected(story: Story) -> Found:
    """What plain Python finds, and what it says of it."""
    counts: Found = Counter()
    for (kind, aspect, topic, _), count in (
        find(story.history, story.cluster) + find_in_cluster(story)
    ).items():
        if kind == "lost-write" and ACKS[topic] == 1:
            continue
        counts[kind, aspect, topic, judged(kind, aspect, ACKS[topic])] += count
    contradicted = {topic for kind, _, topic, _ in counts if kind == "contradicted-evidence"}
    for row in story.rows("send"):
        lost = row["type"] == "ok" and row["acks"] == 1
        if lost and (part := _lost(story, row)) is not None:
            judgement = "permitted" if may_be_lost(story, row) else "forbidden"
            judgement = "unknown" if row["topic"] in contradicted else judgement
            counts["lost-write", part, row["topic"], judgement] += 1
    return counts


def _lost(story: Story, send: dict[str, int]) -> str | None:
    """Which part of the log it was lost from; None when it was not, or nobody knows."""
    reads = story.rows("final-read", str(send["topic"]))
    ends = story.rows("final-read-end", str(send["topic"]))
    found = find([send, *reads, *ends], story.cluster)
    return next((aspect for kind, aspect, _, _ in found if kind == "lost-write"), None)


def detected(verdict: Verdict, number: int, known: Found) -> Found:
    """What the detectors found in story `number`; a judgement that the reference does not know is
    left out where it says so."""
    counts: Found = Counter()
    begin = prefix(number)
    for anomaly in verdict.anomalies:
        topic = anomaly.topic or ""
        if anomaly.kind in TIMES or not topic.startswith(begin):
            continue
        key = (anomaly.kind, anomaly.aspect, topic.removeprefix(begin))
        judgement = None if (*key, None) in known else anomaly.judgement.value
        counts[(*key, judgement)] += anomaly.count
    return counts


def missed(planted: Iterable[Plant], found: Found) -> list[Plant]:
    """What was planted and not found."""
    there = {(kind, aspect, topic) for kind, aspect, topic, _ in found}
    kinds = {(kind, topic) for kind, _, topic, _ in found}
    return [
        p for p in planted if (p not in there if p[1] is not None else (p[0], p[2]) not in kinds)
    ]


def compare(seeds: Sequence[int], engines: Sequence[Callable[[], Engine]], tally: Tally) -> None:
    """Judge the stories of some seeds as one run on every engine."""
    stories = [generate(seed) for seed in seeds]
    together = multiplex([story for story, _ in stories])
    verdicts = []
    for make in engines:
        engine = make()
        try:
            verdicts.append(check(together.sources(), together.plan, engine))
        finally:
            engine.close()
    for verdict in verdicts:
        crashed = [r.detail for r in verdict.detectors if r.status is Status.CRASHED]
        tally.differences += [f"{verdict.engine}: {said}" for said in crashed]
        tally.differences += [f"{verdict.engine}: {said}" for said in verdict.extra_reasons]
    for number, (seed, (story, planted)) in enumerate(zip(seeds, stories, strict=True)):
        known = expected(story)
        tally.planted.update(kind for kind, _, _ in planted)
        tally.clean += not planted
        for verdict in verdicts:
            found = detected(verdict, number, known)
            if found != known:
                more, less = dict(found - known), dict(known - found)
                said = f"seed {seed}: {verdict.engine} finds {more}, and not {less}"
                tally.differences.append(said)
            tally.differences += [
                f"seed {seed}: {verdict.engine} misses {plant}" for plant in missed(planted, found)
            ]
            if not planted and any(judgement != INFO for _, _, _, judgement in found):
                tally.differences.append(f"seed {seed}: {verdict.engine} finds {dict(found)}")
        for (kind, _, _, _), count in known.items():
            tally.found[kind] += count
    for other in verdicts[1:]:
        if _said(other) != _said(verdicts[0]):
            tally.differences.append(f"{other.engine} and {verdicts[0].engine} differ in words")


def _said(verdict: Verdict) -> tuple[object, ...]:
    """Everything that two engines must agree on, to the last example row."""
    return (
        [anomaly.as_json() for anomaly in verdict.anomalies],
        [assumption.as_json() for assumption in verdict.assumptions],
        [dict(topic) for topic in verdict.topics],
    )


@contextmanager
def engines_named(names: str) -> Iterator[list[Callable[[], Engine]]]:
    """Makers of the engines; one Spark session for all."""
    wanted = names.split(",")
    session = local_spark_session() if "spark" in wanted else None
    makers: dict[str, Callable[[], Engine]] = {
        "duckdb": DuckDbEngine,
        "spark": lambda: SparkEngine(session),
    }
    try:
        yield [makers[name] for name in wanted]
    finally:
        if session is not None:
            session.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--batch", type=int, default=500, help="so many are judged as one")
    parser.add_argument("--engines", default="duckdb,spark")
    arguments = parser.parse_args(argv)
    tally = Tally()
    began_s = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.count)
    with engines_named(arguments.engines) as engines:
        for at in range(0, len(seeds), arguments.batch):
            compare(seeds[at : at + arguments.batch], engines, tally)
            took_s = time.monotonic() - began_s
            print(f"{min(at + arguments.batch, len(seeds))} histories, {took_s:.0f} s", flush=True)
    for name, counts in (("planted", tally.planted), ("found", tally.found)):
        listed = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
        print(f"{name}: {listed}")
    print(f"{tally.clean} with nothing planted; {len(tally.differences)} differences")
    print("\n".join(tally.differences[:20]))
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
