"""Draws that were added to a swarm: all of them happen, and none in every seed."""

from collections import Counter

from harness.plans import workload_topics
from harness.plans.plan import build, load
from harness.simulation import later_draws, swarm

SEEDS = range(300)


def test_each_draw_happens_in_some_seeds() -> None:
    """A draw that never or always happens tests less than it could."""
    plan = build(load("simulation"), where="simulation")
    met: Counter[str] = Counter()
    for seed in SEEDS:
        drawn = swarm.draw_plan(plan, seed)
        configs = {name for topic in drawn.topics for name in topic.configs}
        met["lookups"] += drawn.simulated.lookups_per_s > 0
        met["append time"] += "message.timestamp.type" in configs
        met["short index intervals"] += "index.interval.bytes" in configs
        met["producers change"] += drawn.workload.sends_per_producer > 0
        met.update(set(later_draws.MORE_FAULTS) & set(drawn.nemesis.faults))
        met["same names"] += later_draws.RECREATED in drawn.nemesis.mix
        met["racks"] += bool(drawn.racks)
        met["shifted"] += "highwater.placement" in drawn.broker
        met["high rate"] += drawn.workload.rate_per_s in later_draws.HIGH_RATES_PER_S
        met["compaction"] += drawn.simulated.compacting_producers > 0
        met["coordinators"] += any("coordinator" in each for each in drawn.nemesis.targets)
        met["compacted at once"] += later_draws.COMPACT in drawn.nemesis.faults
        met["late requests"] += later_draws.LATE in drawn.nemesis.faults
        for kind in {each.kind for each in drawn.more_workloads}:
            met[kind] += 1
        groups = [each for each in drawn.more_workloads if each.kind == "group"]
        met["group of transactions"] += any(each.topic == "payments" for each in groups)
        met["several topics"] += any(len(each.read_topics) > 1 for each in groups)
        copies = [each for each in drawn.more_workloads if each.kind == "copy"]
        met["several inputs"] += any(len(each.read_topics) > 1 for each in copies)
        met["read uncommitted"] += any(each.isolation == "read_uncommitted" for each in groups)
        met["zombies"] += drawn.workload.zombie_batches
        met["repeats"] += drawn.simulated.repeats
        met["pauses"] += drawn.simulated.pauses
        met["broker keys"] += drawn.simulated.broker_keys
        met["unusual batches"] += drawn.simulated.unusual_producers > 0
        met["failover at the end"] += drawn.simulated.failover_at_end
        met["administration at the end"] += drawn.simulated.administration_at_end
        met["offset keepers"] += drawn.simulated.offset_keepers > 0
        met["impatient producers"] += drawn.simulated.impatient_producers > 0
        met["offsets expire"] += "offsets.retention.minutes" in drawn.broker
        met["producers expire"] += "producer.id.expiration.ms" in drawn.broker
        cut = drawn.nemesis.mix.get(later_draws.ISOLATED)
        met["keepers' coordinators"] += cut is not None and any("keeper" in t for t in cut.targets)
    assert all(0 < count < len(SEEDS) for count in met.values()), met
    assert {"group", "copy", "transactions", "compacted"} <= set(met)


def test_further_workloads_make_a_plan_that_could_be_written() -> None:
    """Each has its topics, and nothing else writes to the copies' output."""
    plan = build(load("simulation"), where="simulation")
    drawn = [swarm.draw_plan(plan, seed) for seed in SEEDS]
    several = [each for each in drawn if each.more_workloads]
    assert len(several) > len(SEEDS) // 20
    for each in several:
        workload_topics.check(each, "drawn")


def test_producer_lives_for_seconds() -> None:
    """With fewer sends, producers on a slow network were replaced before an acknowledgement."""
    plan = build(load("simulation"), where="simulation")
    for seed in SEEDS:
        work = swarm.draw_plan(plan, seed).workload
        if work.sends_per_producer:
            lives_s = work.sends_per_producer / work.rate_per_s
            assert lives_s in later_draws.PRODUCER_LIFE_S


def test_producers_are_forgotten_only_where_no_batch_comes_late() -> None:
    """A broker would append a late batch of a producer that it has forgotten a second time."""
    plan = build(load("simulation"), where="simulation")
    for seed in SEEDS:
        drawn = swarm.draw_plan(plan, seed)
        assert later_draws.producers_stay_known(drawn)
        expires_ms = int(drawn.broker.get("producer.id.expiration.ms", 86_400_000))
        if expires_ms < 86_400_000:
            assert expires_ms > drawn.workload.message_timeout_ms
            assert not drawn.workload.zombie_batches
            assert not drawn.simulated.unusual_producers
            assert not {later_draws.LATE, "pause", "clock.jump"} & set(drawn.nemesis.faults)


def test_offsets_expire_only_without_members() -> None:
    """Members believe that what they committed stays."""
    plan = build(load("simulation"), where="simulation")
    for seed in SEEDS:
        drawn = swarm.draw_plan(plan, seed)
        if "offsets.retention.minutes" in drawn.broker:
            assert not drawn.simulated.group_members
            assert not {"group", "copy"} & {each.kind for each in drawn.more_workloads}
