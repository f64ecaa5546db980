"""A search that keeps what reached something new, whatever the order of the results."""

import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from harness.plans import plan as plans
from harness.simulation.campaign import (
    INVALID,
    VALID,
    Campaign,
    Candidate,
    Result,
    Task,
    prepared,
    run_seed,
)
from harness.simulation.guided.corpus import Corpus
from harness.simulation.guided.draft import Draft
from harness.simulation.guided.mutate import CHANGES, MOST_EVENTS, continued, mutated
from harness.simulation.guided.search import FITTING, ROUND, GuidedSearch
from tests.support.tiers import at_turn
from tests.test_docs import ROOT


def task() -> Task:
    """Seeds of the swarm."""
    plan = plans.build(plans.load("simulation"), where="test", flags={})
    return Task(plan=plan, seeds_are_swarms=True, root=Path())


def draft(seed: int) -> Draft:
    """What a seed draws."""
    made = prepared(task(), seed)
    return Draft(made.plan, made.schedule.events)


def states(number: int) -> dict[tuple[int, int], int]:
    """What a run might reach: something common, and now and then something new."""
    return {(0, 1): -50, (1, number % 7): 700, (2, number // 5): 100 * number}


def result(number: int, outcome: str = VALID) -> Result:
    return Result(seed=number, outcome=outcome, states=states(number))


def candidates(search: GuidedSearch, rng: random.Random) -> list[Candidate]:
    """All candidates; results come in any order."""
    found: list[Candidate] = []
    while True:
        begun = list(iter(search.take, None))
        if not begun:
            return found
        found += begun
        for each in rng.sample(begun, len(begun)):
            search.add(result(each.seed))


def test_a_corpus_keeps_what_is_new() -> None:
    corpus = Corpus()
    one = draft(1)
    assert corpus.add(one, {(0, 1): 0})
    assert not corpus.add(one, {(0, 1): 0})
    assert not corpus.add(one, {(0, 2): 0}, keep=False)
    assert not corpus.add(one, {(0, 2): 0})
    assert corpus.add(one, {(0, 1): 0, (0, 3): 0})
    assert len(corpus.entries) == 2


def test_rare_states_are_chosen_more_often() -> None:
    corpus = Corpus()
    common, rare = draft(1), draft(2)
    corpus.add(common, {(0, 1): 0})
    for _ in range(99):
        corpus.add(common, {(0, 1): 0})
    corpus.add(rare, {(0, 1): -5, (0, 2): 900})
    rng = random.Random(1)
    chosen = Counter(corpus.choose(rng).draft.plan.seed for _ in range(200))
    assert chosen[2] > 190
    moments = Counter(corpus.moment_ms(corpus.entries[1], rng) for _ in range(200))
    assert set(moments) == {0, 900}, "what was reached before the chaos is its beginning"
    assert moments[900] > 190


@pytest.mark.parametrize("seed", range(1, 21))
def test_a_continued_draft_is_as_before_up_to_the_moment(seed: int) -> None:
    rng = random.Random(seed)
    made, other = draft(seed), draft(seed + 1)
    moment_ms = rng.choice(made.events).at_ms
    changed = continued(made, other, moment_ms, rng)
    before = [event for event in made.events if event.at_ms <= moment_ms]
    assert list(changed.events[: len(before)]) == before
    assert changed.plan == made.plan
    assert changed != made
    assert all(event.at_ms < made.plan.duration_s * 1000 for event in changed.events)


@pytest.mark.parametrize("seed", range(1, 41))
def test_changed_drafts_stay_within_bounds(seed: int) -> None:
    rng = random.Random(seed)
    made, other = draft(seed), draft(seed + 1)
    for _ in range(10):
        made = mutated(made, other, rng)
    times = [event.at_ms for event in made.events]
    assert times == sorted(times)
    assert len(made.events) <= MOST_EVENTS
    assert all(0 <= at_ms < made.plan.duration_s * 1000 for at_ms in times)
    assert made.plan.nemesis == draft(seed).plan.nemesis


def test_a_draft_without_events_can_be_continued() -> None:
    """Nothing can be added when neither draft has an event."""
    empty = replace(draft(1), events=())
    assert continued(empty, empty, 1_000, random.Random(1)) == empty


def test_a_continued_run_is_the_same_up_to_the_moment(tmp_path: Path) -> None:
    """It reaches the same states at the same times, and goes on otherwise."""
    plan = plans.build(plans.load("simulation"), where="test", flags={"duration_s": 4.0})
    task = Task(plan=plan, seeds_are_swarms=True, root=tmp_path, coverage=True)
    drawn = prepared(task, 6)  # it takes little time
    made = Draft(drawn.plan, drawn.schedule.events)
    changed = continued(made, draft(4), 2_000, random.Random(1))
    runs = []
    for each in (made, changed):
        as_changed = replace(
            task,
            plan=each.plan,
            schedule=each.schedule(),
            seeds_are_swarms=False,
            changed_at_random=True,
        )
        runs.append(run_seed(as_changed, 77))
    before = [{s: at for s, at in run.states.items() if at < 2_000} for run in runs]
    assert len(before[0]) > 200
    assert before[0] == before[1]
    assert runs[0].digest != runs[1].digest


def test_events_at_the_ends_of_the_chaos_stay_in_it() -> None:
    made = draft(1)
    end_ms = round(made.plan.duration_s * 1000)
    first = made.events[0].model_copy(update={"at_ms": 0})
    last = made.events[0].model_copy(update={"at_ms": end_ms - 1})
    for change in CHANGES:
        for seed in range(50):
            changed = change(Draft(made.plan, (first, last)), made, random.Random(seed))
            assert all(0 <= event.at_ms < end_ms for event in changed.events), change


def test_every_change_is_one() -> None:
    made, other = draft(1), draft(2)
    changed = {
        change.__name__
        for change in CHANGES
        for seed in range(20)
        if change(made, other, random.Random(seed)) != made
    }
    assert changed == {change.__name__ for change in CHANGES} - {"_same"}


def test_candidates_do_not_depend_on_the_order_of_results() -> None:
    searches = [GuidedSearch(task(), range(1, 80)) for _ in range(2)]
    first, second = (candidates(each, random.Random(n)) for n, each in enumerate(searches))
    assert first == second
    assert [each.seed for each in first] == list(range(1, 80))
    assert any(not each.task.seeds_are_swarms for each in first)
    assert all(each.task.coverage for each in first)


def test_settings_of_changed_plans_fit_together() -> None:
    """A changed plan takes delays, clients and properties of others. Of some of them the unmodified
    broker would be accused."""
    found = candidates(GuidedSearch(task(), range(1, 200)), random.Random(0))
    changed = [each.task.plan for each in found if not each.task.seeds_are_swarms]
    assert len(changed) > 50
    for fits in FITTING:
        assert all(map(fits, changed)), fits.__name__


def test_a_search_is_the_beginning_of_every_longer_one() -> None:
    short, long = (GuidedSearch(task(), range(1, end)) for end in (40, 60))
    assert candidates(short, random.Random(0)) == candidates(long, random.Random(1))[:39]


def test_a_round_waits_for_all_of_the_one_before() -> None:
    search = GuidedSearch(task(), range(1, 100))
    begun = list(iter(search.take, None))
    assert len(begun) == ROUND
    for each in begun[:-1]:
        search.add(result(each.seed))
        assert search.take() is None
    search.add(result(begun[-1].seed))
    assert search.take() is not None


def test_what_is_invalid_is_no_parent() -> None:
    search = GuidedSearch(task(), range(1, 100))
    for each in list(iter(search.take, None)):
        search.add(result(each.seed, INVALID if each.seed % 2 else VALID))
    search.take()
    assert search.corpus.entries
    assert all(each.draft.plan.seed % 2 == 0 for each in search.corpus.entries)


@pytest.mark.slow
@at_turn(0, 2, "harness/simulation/guided/test_guided.py::test_the_command_says_what_was_reached")
def test_a_search_does_not_depend_on_the_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round of two, and one more run: it changes what the first reached."""
    monkeypatch.setattr("harness.simulation.guided.search.ROUND", 2)
    plan = plans.build(plans.load("simulation"), where="test", flags={"duration_s": 3.0})
    found = []
    for jobs in (1, 2):
        source = GuidedSearch(Task(plan=plan, root=tmp_path), range(1, 4))
        found.append({each.seed: each.digest for each in Campaign(source, jobs=jobs).results()})
    assert len(found[0]) == 3
    assert found[0] == found[1]


@pytest.mark.slow
@at_turn(
    1,
    2,
    "harness/simulation/guided/test_guided.py::test_a_search_does_not_depend_on_the_number_of_processes",
)
def test_the_command_says_what_was_reached(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            sys.executable, "-m", "harness.cli.main", "simulate", "--guided", "--seeds", "1..1",
            "--duration", "3", "--store", str(tmp_path),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert "states of decisions reached" in ended.stdout, ended.stderr
