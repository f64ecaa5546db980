"""What is left out of a failing plan, and that what is left still fails."""

import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.plans import plan as plans
from harness.plans.plan import Plan, Simulated
from harness.simulation.campaign import Task, prepared
from harness.simulation.shrinking import scenario
from harness.simulation.shrinking.search import Search, Shrunk
from harness.simulation.shrinking.steps import (
    NEAR_MS,
    ROBUST_MS,
    STEPS,
    around,
    earlier_begin,
    fewer_workloads,
    more_robust_events,
    size,
    usual_delays,
)
from harness.simulation.shrinking.trial import Failure, failure_of, first_failure
from nemesis.schedule import Event


def failing(seed: int = 1, plan: str = "simulation", **flags: object) -> Plan:
    """The packaged plan with the faults that its seed has drawn."""
    made = plans.build(plans.load(plan), where=plan, flags=flags)
    fixed = prepared(Task(plan=made, root=Path()), seed)
    nemesis = plans.Nemesis(events=fixed.schedule.events)
    return fixed.plan.model_copy(update={"nemesis": nemesis})


def shrunk(plan: Plan, needs: Sequence[str], *, jobs: int = 2) -> Shrunk:
    """The search where a plan fails that has these faults in this order, and two topics."""

    def find(
        plan: Plan,
        seeds: Sequence[int],
        sign: str | None = None,
        visible: bool = True,
        until_s: float = inf,
    ) -> Failure | None:
        named = iter(event.fault for event in plan.nemesis.events)
        fails = all(fault in named for fault in needs) and len(plan.topics) >= 2
        return Failure(plan=plan, signs=("lost-write",), reason="lost") if fails else None

    first = find(plan, [plan.seed])
    assert first is not None
    heard: list[Failure] = []
    search = Search(
        failure=first,
        until_s=inf,
        jobs=jobs,
        on_progress=heard.append,
        find=find,
        pool=ThreadPoolExecutor,
    )
    found = search.run()
    assert found.failure == (heard[-1] if heard else first)
    return found


@settings(max_examples=25)
@given(st.integers(0, 50))
def test_each_candidate_is_a_valid_smaller_plan(seed: int) -> None:
    """So the search ends, and its result is a plan."""
    plan = failing(seed)
    for step in STEPS:
        for candidate in step(plan):
            if size(candidate) < size(plan):
                prepared(Task(plan=candidate, root=Path()), candidate.seed)
                Plan.from_json(candidate.to_json(), "candidate")


def test_around_keeps_the_faults_near_the_failure_first() -> None:
    """Then it removes only the faults after the failure."""
    plan = failing(3)
    at_ms = 12_000
    near, nearer_than_later, before = around(plan, at_ms)
    events = plan.nemesis.events
    assert 0 < len(near.nemesis.events) < len(before.nemesis.events) < len(events)
    assert all(event in nearer_than_later.nemesis.events for event in near.nemesis.events)
    assert before.nemesis.events == tuple(e for e in events if e.at_ms <= at_ms + NEAR_MS[-1])
    assert near.duration_s < plan.duration_s


def test_earlier_begin_moves_all_faults_and_shortens_the_chaos() -> None:
    """By the whole idle time, or by half of it."""
    plan = failing(3)
    late = tuple(e for e in plan.nemesis.events if e.at_ms > 10_000)
    plan = plan.model_copy(update={"nemesis": plans.Nemesis(events=late)})
    whole, half = earlier_begin(plan)
    [by_ms] = {old.at_ms - new.at_ms for old, new in zip(late, whole.nemesis.events, strict=True)}
    assert whole.nemesis.events[0].at_ms == 500
    assert whole.duration_s == plan.duration_s - by_ms / 1000
    assert half.nemesis.events[0].at_ms == late[0].at_ms - by_ms // 2
    assert list(earlier_begin(whole)) == []


def test_more_robust_events_have_a_certain_target_and_last_longer_than_sessions() -> None:
    """The faults stay within the chaos."""
    event = Event(at_ms=500, fault="pause", targets="one", duration_ms=700)
    plan = failing(3).model_copy(update={"nemesis": plans.Nemesis(events=(event,))})
    first = next(more_robust_events(plan))
    (aimed,) = first.nemesis.events
    assert (aimed.targets, aimed.duration_ms) == ("leader:acks-0/0", ROBUST_MS)
    assert first.duration_s * 1000 > aimed.at_ms + aimed.duration_ms
    assert size(first) < size(plan)


def test_search_keeps_only_what_the_failure_needs() -> None:
    """The result is the same for any number of processes."""
    plan = failing(3)
    needs = [event.fault for event in plan.nemesis.events][1:8:3]
    found = shrunk(plan, needs)
    left = found.failure.plan
    assert [event.fault for event in left.nemesis.events] == needs
    assert len(left.topics) == 2
    assert {topic.partitions for topic in left.topics} == {1}
    assert (left.workload.producers, left.workload.consumers) == (1, 0)
    assert found.finished
    assert left.duration_s < plan.duration_s
    assert shrunk(plan, needs, jobs=5).failure == found.failure


def test_plan_without_what_an_event_aims_at_is_no_candidate() -> None:
    """Such a plan cannot be run; it does not end the search."""
    plan = failing(3)
    (event, *_) = plan.nemesis.events
    aimed = event.model_copy(update={"targets": "leader:absent/0"})
    nemesis = plan.nemesis.model_copy(update={"events": (aimed,)})
    assert failure_of(plan.model_copy(update={"nemesis": nemesis}), [3]) is None


def test_delays_become_the_usual_ones_or_the_scenario_says_that_it_needs_them() -> None:
    """Real processes have no drawn delays."""
    plan = failing(3)
    slow = plan.model_copy(update={"simulated": Simulated(latency_ms=(50, 90))})
    assert list(usual_delays(slow)) == [plan]
    assert size(plan) < size(slow)
    assert list(usual_delays(plan)) == []
    for each, said in ((slow, True), (plan, False)):
        text = scenario.text(Failure(plan=each, signs=("lost-write",), reason="lost"), "x")
        assert ("needs the delays of [simulated]" in text.replace("\n# ", " ")) == said


def test_scenario_file_has_the_plan_that_was_found() -> None:
    """Loading it gives the same plan with the same faults."""
    plan = failing(3)
    failure = Failure(plan=plan, signs=("lost-write",), reason="12 lost")
    text = scenario.text(failure, "highwater simulate --seeds 3..3")
    again = Plan.from_json(tomllib.loads(text), "scenario")
    expected = {"name": "shrunk-3", "target": "local", "nemesis": again.nemesis}
    assert again == plan.model_copy(update=expected)
    made = prepared(Task(plan=again, root=Path()), again.seed)
    was = prepared(Task(plan=plan, root=Path()), plan.seed)
    assert made.schedule == was.schedule


@pytest.mark.slow
def test_failure_of_a_broken_broker_shrinks_to_a_few_faults() -> None:
    """The reduced plan fails the same way each time."""
    plan = failing(1, broker_module="harness.zoo.mutants.truncate_to_high_watermark")
    first = first_failure(plan, [plan.seed])
    assert first is not None
    search = Search(failure=first, until_s=inf, jobs=2, on_progress=lambda _: None)
    found = search.run().failure
    assert len(found.plan.nemesis.events) <= 6
    again = failure_of(found.plan, [found.plan.seed], found.signs[0], found.visible)
    assert again == found


def test_further_workload_is_removed_with_the_topics_that_only_it_writes() -> None:
    """What is left is a plan that can be run, and that a scenario's file gives back."""
    plan = failing(plan="exactly-once")
    left = {tuple(topic.name for topic in smaller.topics) for smaller in fewer_workloads(plan)}
    all_topics = ("orders", "copies", "copies-twice", "payments")
    assert left == {
        all_topics,
        ("orders", "copies-twice", "payments"),
        ("orders", "copies", "payments"),
        ("orders", "copies", "copies-twice"),
    }
    for smaller in fewer_workloads(plan):
        assert size(smaller) < size(plan)
        prepared(Task(plan=smaller, root=Path()), 1)
    text = scenario.text(Failure(plan=plan, signs=("x",), reason="x"), "origin")
    again = plans.build(tomllib.loads(text), where="scenario")
    assert again.more_workloads == plan.more_workloads
