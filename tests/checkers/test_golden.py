"""Every golden history gets the answer that it was written for, on both engines.

Those that can share a run are checked in one run, the others one by one. A history costs Spark many
times as much alone as with others. So Spark checks most of them in one run, and generated ones with
them. There some get another answer than alone, but the same from both engines. Two
changes have Spark check as many as show every kind and aspect, and each a share of the others that
can share a run. What only a run alone can show has turns.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from checkers.check import check
from checkers.detectors.registry import DETECTORS
from checkers.verdict import Anomaly, Status, Verdict
from tests.support.checkers.generated import generate
from tests.support.checkers.small_spark import BriefSparkEngine
from tests.support.histories.golden import ALL_GOLDEN, Golden
from tests.support.histories.multiplex import alike, mixable, multiplex, prefix
from tests.support.histories.story import healthy
from tests.support.tiers import a_third_fast, at_turn, in_turn, nightly, share

ALWAYS_THERE = {("unavailable", "informational"), ("recovery", "informational"),
                ("stale-read", "informational")}  # fmt: skip


def enough(names: Sequence[str]) -> list[str]:
    """Return names of golden histories that show all kinds and aspects that those of all show."""
    shown: set[tuple[str, str | None]] = set()
    chosen = []
    for name in sorted(names, key=lambda name: -len(ALL_GOLDEN[name].expect)):
        if not ALL_GOLDEN[name].expect.keys() <= shown:
            shown |= ALL_GOLDEN[name].expect.keys()
            chosen.append(name)
    return chosen


# What makes a whole run UNKNOWN would do so to all that share it.
SHARED = [
    name
    for name, golden in sorted(ALL_GOLDEN.items())
    if golden.outcome != "UNKNOWN" and alike(golden.story())
]
ALONE = [name for name in sorted(ALL_GOLDEN) if name not in SHARED]
IN_TURN = ("commit_of_a_fenced_producer_took_effect", "fenced_producer_committed",
         "metadata_log_ends_before_what_was_committed", "program_did_everything_wrong",
         "producer_expires_while_it_sends_a_batch_again",
         "request_of_a_repeated_commit_arrived_last", "nobody_repeated_any_send")  # fmt: skip
"""Two runs with leaders of an internal topic, one with metadata logs, one of a program, one whose
brokers forget producers soon, one of a client that sends commits again, and one of a client that
waits before it repeats a request: a mixed run has neither their plans nor such tables."""
MIXED = [
    name
    for name in ALONE
    if name not in IN_TURN
    and mixable(ALL_GOLDEN[name].story())
    and "clocks" not in ALL_GOLDEN[name].because
]
"""Those that Spark checks in one run. Wrong clocks would end detectors for all of them."""
TOGETHER = [*SHARED, *MIXED]
ENOUGH = enough(TOGETHER)
ALONE_ON_SPARK = [name for name in ALONE if name not in MIXED]
AT_NIGHT = nightly("checkers/test_golden.py::test_engines_agree_on_golden_history")


def summary(anomalies: Iterable[Anomaly]) -> dict[tuple[str, str | None], tuple[str, int]]:
    """{(kind, aspect): (judgement, count)} without what every run has; one judgement per kind."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    for anomaly in anomalies:
        if (anomaly.kind, anomaly.judgement.value) not in ALWAYS_THERE:
            counts[anomaly.kind, anomaly.aspect, anomaly.judgement.value] += anomaly.count
    found = {(k, aspect): (judgement, count) for (k, aspect, judgement), count in counts.items()}
    assert len(found) == len(counts), "one kind got two judgements"
    return found


def assert_none_crashed(verdict: Verdict) -> None:
    """Every detector came to an end."""
    assert not [r.as_json() for r in verdict.detectors if r.status is Status.CRASHED]
    assert not verdict.extra_reasons


def assert_as_written(golden: Golden, verdict: Verdict) -> None:
    """The verdict is what the golden history says."""
    assert_none_crashed(verdict)
    assert summary(verdict.anomalies) == golden.expect
    assert verdict.outcome.value == golden.outcome, verdict.reasons
    assert golden.because in "; ".join(verdict.reasons)
    assert "".join(each.outcome.value for each in verdict.evaluated) == golden.expectation
    assert golden.cause in "; ".join(a.cause or "" for a in verdict.anomalies)


def comparable(verdict: Verdict) -> dict[str, Any]:
    """What two engines must agree on: all of it but their names and times."""
    found = verdict.as_json()
    del found["engine"], found["checked_at"]
    for result in found["detectors"]:
        del result["seconds"]
    return found


def test_golden_histories_in_one_run() -> None:
    """Each shows its anomalies in its own topics, whatever the other topics show."""
    story = multiplex([ALL_GOLDEN[name].story() for name in SHARED])
    verdict = check(story.sources(), story.plan)
    assert_none_crashed(verdict)
    for number, name in enumerate(SHARED):
        golden = ALL_GOLDEN[name]
        mine = [a for a in verdict.anomalies if (a.topic or "").startswith(prefix(number))]
        assert summary(mine) == golden.expect, name
        assert golden.cause in "; ".join(a.cause or "" for a in mine), name


def test_first_history_of_a_run_keeps_its_own_faults() -> None:
    """They would be those of the healthy run otherwise."""
    name = next(n for n in SHARED if ALL_GOLDEN[n].story().faults != healthy().faults)
    story = multiplex([ALL_GOLDEN[name].story()])
    assert len(story.faults) > len(healthy().faults)
    verdict = check(story.sources(), story.plan)
    mine = [each for each in verdict.anomalies if (each.topic or "").startswith(prefix(0))]
    assert summary(mine) == ALL_GOLDEN[name].expect


@pytest.mark.parametrize(
    "name", a_third_fast("checkers/test_golden.py::test_golden_history", ALONE, of=2)
)
def test_golden_history(name: str) -> None:
    """The embedded engine gives the verdict that the history was written for."""
    golden = ALL_GOLDEN[name]
    story = golden.story()
    assert_as_written(golden, check(story.sources(), story.plan))


@pytest.mark.slow
def test_spark_sees_every_kind_and_aspect() -> None:
    """All that golden histories were written for is found in those that changes check."""
    wanted = {found for golden in ALL_GOLDEN.values() for found in golden.expect}
    told = {found for name in IN_TURN for found in ALL_GOLDEN[name].expect}
    story = multiplex([ALL_GOLDEN[name].story() for name in ENOUGH])
    together = check(story.sources(), story.plan)
    assert_none_crashed(together)
    assert wanted == told | {(each.kind, each.aspect) for each in together.anomalies} & wanted
    program = ALL_GOLDEN["program_did_everything_wrong"].story()
    of_program = check(program.sources(), program.plan).detectors
    found = [*together.detectors, *of_program]
    done = {result.name for result in found if result.status is Status.OK}
    assert done == {detector.name for detector in DETECTORS}
    assert set(IN_TURN) <= set(ALONE_ON_SPARK)


PARTS = 24
OTHERS = [name for name in TOGETHER if name not in ENOUGH]


@pytest.mark.parametrize(
    "part",
    in_turn(
        "checkers/test_golden.py::test_engines_agree_on_many_golden_histories",
        range(PARTS),
        of=PARTS,
    ),
)
def test_engines_agree_on_many_golden_histories(part: int, spark: Any) -> None:
    """Spark gives the same answers as DuckDB, to the last example row."""
    (now,) = share(range(PARTS), PARTS)
    always = share(ENOUGH, 2, part) if part in (now, (now + 1) % PARTS) else []
    golden = [ALL_GOLDEN[name].story() for name in (*always, *share(OTHERS, PARTS, part))]
    generated = [generate(seed)[0] for seed in share(range(10 * PARTS), PARTS, part)]
    story = multiplex(golden + generated)
    engine = BriefSparkEngine(spark)
    try:
        on_spark = check(story.sources(), story.plan, engine)
    finally:
        engine.close()
    assert comparable(on_spark) == comparable(check(story.sources(), story.plan))


@pytest.mark.slow
@at_turn(0, 2, "checkers/test_golden.py::test_engines_agree_on_many_golden_histories")
@pytest.mark.parametrize(
    "name",
    [
        *in_turn(
            "checkers/test_golden.py::test_engines_agree_on_golden_history",
            IN_TURN,
            of=len(IN_TURN),
        ),
        *(pytest.param(name, marks=AT_NIGHT) for name in ALONE_ON_SPARK if name not in IN_TURN),
    ],
)
def test_engines_agree_on_golden_history(name: str, spark: Any) -> None:
    """The histories that cannot share a run, each by itself on Spark."""
    golden = ALL_GOLDEN[name]
    story = golden.story()
    engine = BriefSparkEngine(spark)
    try:
        on_spark = check(story.sources(), story.plan, engine)
    finally:
        engine.close()
    assert_as_written(golden, on_spark)
    assert comparable(on_spark) == comparable(check(story.sources(), story.plan))
