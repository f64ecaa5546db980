"""Plans drawn from seeds: a function of the seed, always valid, told in one line."""

import tomllib
from collections import Counter

from harness.plans.plan import Plan, build, load
from harness.plans.workloads import CopyWorkload, GroupWorkload
from harness.run.prepare import prepare
from harness.simulation import later_draws, swarm, workload_draws
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability
from nemesis.selectors import parse

SEEDS = range(300)


def base() -> Plan:
    """The packaged plan."""
    return build(load("simulation"), where="simulation")


def test_plan_is_a_function_of_the_seed() -> None:
    """Another seed draws another plan."""
    plan = base()
    drawn = [swarm.draw_plan(plan, seed) for seed in SEEDS]
    assert drawn == [swarm.draw_plan(plan, seed) for seed in SEEDS]
    assert len({swarm.describe(each) for each in drawn}) == len(SEEDS)


def test_each_drawn_plan_is_valid() -> None:
    """A plan file could have the same content, and its schedule can be made."""
    plan = base()
    for seed in SEEDS:
        drawn = swarm.draw_plan(plan, seed)
        assert Plan.from_json(drawn.to_json(), "drawn") == drawn
        assert prepare(drawn).missing == {}


def test_followers_of_each_drawn_plan_keep_up() -> None:
    """A topic with retention once had segments of one record on a slow network; its replicas were
    not in sync long after the load had ended, and the unmodified broker was accused."""
    plan = base()
    assert all(swarm.followers_keep_up(swarm.draw_plan(plan, seed)) for seed in range(1, 1001))


def test_members_of_each_drawn_plan_stay() -> None:
    """A session of 500 ms on a network with delays of 100 ms once ended after each rebalance, so
    that nothing was copied."""
    plan = base()
    drawn = [swarm.draw_plan(plan, seed) for seed in range(1, 1001)]
    assert all(workload_draws.members_stay(each) for each in drawn)
    sessions = {
        each.session_timeout_ms
        for one in drawn
        for each in one.more_workloads
        if isinstance(each, GroupWorkload | CopyWorkload)
    }
    assert sessions == set(workload_draws.SESSIONS_MS)


def test_drawn_plan_keeps_name_topics_and_acks() -> None:
    """No run is longer than the plan; only further workloads add topics."""
    plan = base()
    acks = {topic.name: topic.acks for topic in plan.topics}
    acks |= {workload_draws.COPIES: -1, workload_draws.PAYMENTS: -1}
    either = {workload_draws.ACCOUNTS}
    for seed in SEEDS:
        drawn = swarm.draw_plan(plan, seed)
        assert (drawn.name, drawn.seed) == (plan.name, seed)
        assert drawn.duration_s <= plan.duration_s
        told = {each.name: each.acks for each in drawn.topics if each.name not in either}
        assert told.items() <= acks.items()
        assert any(topic.acks == -1 for topic in drawn.topics)


def test_seeds_reach_each_size_fault_and_setting() -> None:
    """Some seeds have each of them, and no setting is in all seeds."""
    met: Counter[str] = Counter()
    for seed in SEEDS:
        drawn = swarm.draw_plan(base(), seed)
        met[f"{drawn.nodes} nodes"] += 1
        met.update(drawn.nemesis.faults)
        met.update({f"{name} {value}" for name, value in drawn.broker.items()})
        met.update({name for topic in drawn.topics for name in topic.configs})
        met.update({f"min ISR {topic.min_insync_replicas}" for topic in drawn.topics})
    assert max(met.values()) < len(SEEDS)
    assert {"3 nodes", "4 nodes", "5 nodes", "min ISR 1", "min ISR 2"} <= met.keys()
    assert {"eligible.leader.replicas.version 0", "flush.messages"} <= met.keys()
    assert {"power-loss", "disk.bit-flip", "reassign", "clock.drift"} <= met.keys()
    short = swarm.draw_plan(base().model_copy(update={"duration_s": 5.0}), 1)
    assert short.duration_s == 5


def test_narrowed_selectors_name_partitions_and_nodes_of_the_plan() -> None:
    """A partition or node that faults are aimed at again and again is one of the plan's; some
    plans have such, and some aim at anybody."""
    narrowed = 0
    for seed in SEEDS:
        drawn = swarm.draw_plan(base(), seed)
        partitions = {topic.name: topic.partitions for topic in drawn.topics}
        found = [parse(each) for each in drawn.nemesis.targets]
        at = {(each.topic, each.partition) for each in found if each.topic is not None}
        narrowed += bool(at)
        assert len(at) <= 1
        assert all(number < partitions[name] for name, number in at)
        assert all(node <= drawn.nodes for each in found for node in each.nodes)
    assert 0 < narrowed < len(SEEDS)


def test_each_fault_has_exactly_one_kind() -> None:
    """A new fault needs a kind, or it is never drawn; no world has a hypervisor, or programs."""
    named = Counter(name for kind in swarm.FAULT_KINDS for name in kind.faults)
    programs = {Ability.PROGRAM_SIGNALS, Ability.PROGRAM_CLOCKS, Ability.PROGRAM_CUTS}
    absent = {Ability.MACHINE_POWER} | programs
    possible = {each for each in FAULTS if not absent & FAULTS[each].needs}
    later = {*later_draws.MORE_FAULTS, later_draws.LATE, later_draws.COMPACT}
    assert {*named, *swarm.DISK_DAMAGE.faults, *later} == possible
    assert set(named) & set(swarm.DISK_DAMAGE.faults) == set()
    assert set(named.values()) == {1}


def test_description_of_a_drawn_plan_is_toml() -> None:
    """A user can make a plan of it."""
    for seed in SEEDS:
        drawn = swarm.draw_plan(base(), seed)
        read = tomllib.loads(f"drawn = {{ {swarm.describe(drawn)} }}")["drawn"]
        assert read["nodes"] == drawn.nodes
        assert len(read["topics"]) == len(drawn.topics)
        assert tuple(read["nemesis"]["faults"]) == drawn.nemesis.faults
