"""Draws of a swarm that were added to old ones: each has a random stream of its own, so a seed's
other draws stay as they were.
"""

import random
from typing import Any, Final

from harness.plans.plan import FaultMix, Plan, Topic
from harness.simulation import workload_draws
from nemesis.faults.catalogue import FAULTS

GROUP_TIMES: Final = {
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}
"""Sessions that end within a short run."""
TRANSACTION_TIMES: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
COMPACTING_OFTEN: Final = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
DELETE_RETENTIONS_MS: Final = ("300", "1500", "5000", "86400000")
"""How long tombstones stay: some end within a short run."""
INTERNAL_SEGMENTS: Final = ("offsets.topic.segment.bytes", "transaction.state.log.segment.bytes")
OFFSETS_EXPIRE: Final = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "500",
}
SNAPSHOT_BYTES: Final = "metadata.log.max.record.bytes.between.snapshots"
JUMPS_MS: Final = ("60000", "-60000", "3600000", "-3600000")
"""Jumps of a clock by which offsets grow old: a run is shorter than their retention."""
EXPIRY: Final = "producer.id.expiration.ms"
PRODUCERS_EXPIRE_MS: Final = 1_500
"""How long a producer is remembered after the time in which it may send its last batch again."""
MAX_TIMEOUT_MS: Final = 3_000
LOOKUPS_PER_S: Final = (1.0, 4.0)
PRODUCER_LIFE_S: Final = (3, 6)
"""How long a producer sends. It needs up to a second on a slow network to get its producer id."""
MORE_FAULTS: Final = ("config", "config.broker", "config.throttle", "records.delete")
"""Faults that are drawn beside those of the kinds in `harness.simulation.swarm`."""
RECREATED: Final = "topic.create-delete"
JUMP: Final = "clock.jump"
ISOLATED: Final = "partition.isolate-one"
REPLACED_MS: Final = (1_500, 4_500)
"""A session of a broker and an election are over, and a commit has not timed out."""
LATE: Final = "request-delayed"
LOSSY: Final = "link.lossy"
LOST_ANSWERS: Final = {"lost_percent": (10, 25), "direction": "out", "peers": "nodes"}
LOSSY_MS: Final = (1_000, 4_000)
ONE_REPLICA: Final = {"transaction.state.log.replication.factor": "1"}
"""A coordinator then waits for no follower, whose packets would be lost, too."""
COMPACT: Final = "records.compact"
LATE_OF_GROUPS: Final = ("OffsetCommit", "JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat")
LATE_OF_TRANSACTIONS: Final = ("EndTxn", "Produce", "InitProducerId", "WriteTxnMarkers")
LATE_MS: Final = ("300", "1500", "5000")
"""Shorter and longer than clients wait for an answer."""
RACKS: Final = (("a", "b"), ("a", "b", "c"))
HIGH_RATES_PER_S: Final = (30.0, 100.0)
BUSY_S: Final = 6.0
"""How long a run with a high rate is at most: its cost is that of its sends."""
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
INDEX_INTERVALS: Final = ("0", "200")
"""Bytes between the entries of an index; with Kafka's 4096, the logs of a short run have few."""


def add(plan: Plan, seed: int, *, least_segment_bytes: int) -> Plan:
    """Return the plan of a seed with these draws too. least_segment_bytes: of further topics."""
    lookups = _stream("lookups", seed)
    plan = plan.model_copy(update=_cluster(plan, _stream("cluster", seed)))
    plan = plan.model_copy(update=_load(plan, _stream("load", seed)))
    plan = _with_groups(plan, _stream("groups", seed))
    plan = _with_compaction(plan, _stream("compaction", seed))
    plan = workload_draws.with_sessions_kept(_with_workloads(plan, _stream("workloads", seed)))
    plan = workload_draws.with_isolation(plan, _stream("isolation", seed))
    plan = workload_draws.with_more_topics(plan, _stream("topics of groups", seed))
    plan = _with_keys(plan, _stream("keys", seed), least_segment_bytes)
    plan = _with_coordinators(plan, _stream("coordinators", seed))
    changes: dict[str, Any] = {
        "simulated": _with_lookups(plan, lookups),
        "workload": _with_changing_producers(plan, _stream("producers", seed)),
        "nemesis": _with_more_faults(plan, _stream("faults", seed)),
        "topics": tuple(_with_times(topic, lookups) for topic in plan.topics),
    }
    plan = _with_late_requests(plan.model_copy(update=changes), _stream("late requests", seed))
    plan = _with_unusual_clients(plan, _stream("unusual clients", seed))
    plan = _with_offset_keepers(plan, _stream("offset keepers", seed))
    plan = _with_expiring_producers(plan, _stream("expiring producers", seed))
    plan = _with_impatient_producers(plan, _stream("impatient producers", seed))
    plan = _with_unusual_batches(plan, _stream("unusual batches", seed))
    plan = _with_checks_at_end(plan, _stream("checks at the end", seed))
    return _with_repeated_ends(plan, _stream("repeated ends", seed))


def _stream(draw: str, seed: int) -> random.Random:
    return random.Random(f"swarm/{draw}/{seed}")


def _cluster(plan: Plan, rng: random.Random) -> dict[str, Any]:
    """Sometimes give the nodes racks, or place replicas by the formula of the original design."""
    racks = rng.choice(RACKS) if rng.random() < 0.25 else ()
    placement = {"highwater.placement": "shifted"} if rng.random() < 0.15 else {}
    return {"racks": racks, "broker": {**plan.broker, **placement}}


def _load(plan: Plan, rng: random.Random) -> dict[str, Any]:
    """Sometimes send much in a short run: appends then meet within the round trip of one fetch."""
    changes = {
        "rate_per_s": rng.choice(HIGH_RATES_PER_S),
        "producers": min(plan.workload.producers, 2),
        "value_bytes": rng.choice((64, 128)),
        "linger_ms": rng.choice((0.0, 1.0)),
    }
    if rng.random() >= 0.12:
        return {}
    workload = plan.workload.model_copy(update=changes)
    return {"workload": workload, "duration_s": min(plan.duration_s, BUSY_S)}


def _with_groups(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let clients use groups and transactions."""
    changes: dict[str, int] = {}
    broker: dict[str, str] = {}
    if rng.random() < 0.25:
        changes["group_members"] = rng.randint(1, 3)
        broker |= {**GROUP_TIMES, **_internal_topic("offsets.topic", plan.nodes, rng)}
    if rng.random() < 0.25:
        changes["transactional_producers"] = rng.randint(1, 4)
        broker |= {**TRANSACTION_TIMES, **_internal_topic("transaction.state.log", plan.nodes, rng)}
    simulated = plan.simulated.model_copy(update=changes)
    return plan.model_copy(update={"simulated": simulated, "broker": {**plan.broker, **broker}})


def _with_compaction(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let brokers compact often: a topic of keys that are written and deleted, and the
    internal topics, so that the cleaner meets coordinators, kills and power losses.
    """
    if rng.random() >= 0.15:
        return plan
    broker: dict[str, Any] = {**TRANSACTION_TIMES, **plan.broker, **COMPACTING_OFTEN}
    broker["log.cleaner.delete.retention.ms"] = rng.choice(DELETE_RETENTIONS_MS)
    broker.update({name: "2000" for name in INTERNAL_SEGMENTS if name in plan.broker})
    changes = {"compacting_producers": rng.randint(1, 3)}
    simulated = plan.simulated.model_copy(update=changes)
    plan = plan.model_copy(update={"simulated": simulated, "broker": broker})
    return _with_fault(plan, COMPACT) if rng.random() < 0.4 else plan


def _with_workloads(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let groups, copies and transactions take part that the checkers judge."""
    if rng.random() >= 0.12:
        return plan
    plan = workload_draws.add(plan, rng)
    broker: dict[str, Any] = {}
    if workload_draws.groups(plan):
        broker |= {**GROUP_TIMES, **_internal_topic("offsets.topic", plan.nodes, rng)}
    if workload_draws.transactional(plan):
        broker |= {**TRANSACTION_TIMES, **_internal_topic("transaction.state.log", plan.nodes, rng)}
    return plan.model_copy(update={"broker": {**broker, **plan.broker}})


def _with_keys(plan: Plan, rng: random.Random, least_segment_bytes: int) -> Plan:
    """Sometimes let producers write and delete the keys of a compacted topic, which the checkers
    judge."""
    if rng.random() >= 0.06:
        return plan
    plan = workload_draws.with_keys(plan, rng, least_segment_bytes)
    return _with_fault(plan, COMPACT) if rng.random() < 0.4 else plan


def _with_fault(plan: Plan, fault: str, **mix: FaultMix) -> Plan:
    """Let the fault take part, with these settings of single faults."""
    nemesis = plan.nemesis
    faults = {*nemesis.faults, fault}
    changes = {
        "faults": tuple(name for name in FAULTS if name in faults),
        "mix": {**nemesis.mix, **mix},
    }
    return plan.model_copy(update={"nemesis": nemesis.model_copy(update=changes)})


def _with_coordinators(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes aim faults at the coordinators of the groups and producers that are drawn."""
    simulated = plan.simulated
    found = [
        *(
            ("group-coordinator:classic", "group-coordinator:consumer")
            * bool(simulated.group_members)
        ),
        *(f"group-coordinator:{group}" for group in workload_draws.groups(plan)),
        *(("transaction-coordinator:writer-0",) * bool(simulated.transactional_producers)),
        *(("transaction-coordinator:keys-0",) * bool(simulated.compacting_producers)),
    ]
    if not found or rng.random() >= 0.25:
        return plan
    # Twice, so that half of the faults or more meet a coordinator.
    targets = (*plan.nemesis.targets, *(rng.choice(found) for _ in range(2)))
    return plan.model_copy(update={"nemesis": plan.nemesis.model_copy(update={"targets": targets})})


def _with_late_requests(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes hold single requests of the groups and producers that are drawn."""
    simulated = plan.simulated
    groups = simulated.group_members or workload_draws.groups(plan)
    transactions = (
        simulated.transactional_producers
        or simulated.compacting_producers
        or workload_draws.transactional(plan)
    )
    apis = (
        *(LATE_OF_GROUPS * bool(groups)),
        *(LATE_OF_TRANSACTIONS * bool(transactions)),
    )
    if not apis or rng.random() >= 0.3:
        return plan
    params = {"api": apis, "delay_ms": LATE_MS, "peers": ("clients", "all")}
    return _with_fault(plan, LATE, **{LATE: FaultMix(params=params)})


def _with_unusual_clients(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let clients repeat requests, pause, and write keys that the broker uses."""
    drawn = [rng.random() < 0.5 for _ in range(3)]
    simulated = plan.simulated
    several = bool(simulated.group_members or simulated.transactional_producers)
    changes = {
        "repeats": several and drawn[0],
        "pauses": several and drawn[1],
        "broker_keys": bool(simulated.compacting_producers) and drawn[2],
    }
    return plan.model_copy(update={"simulated": simulated.model_copy(update=changes)})


def _with_offset_keepers(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let clients keep offsets in groups without members, some of which expire."""
    if rng.random() >= 0.15:
        return plan
    simulated = plan.simulated.model_copy(update={"offset_keepers": rng.randint(2, 5)})
    broker = {
        **TRANSACTION_TIMES,
        **_internal_topic("transaction.state.log", plan.nodes, rng),
        **_internal_topic("offsets.topic", plan.nodes, rng),
    }
    members = simulated.group_members or workload_draws.groups(plan)
    expire = rng.random() < 0.7 and not members  # the members' offsets would expire, too
    broker |= OFFSETS_EXPIRE if expire else {}
    plan = plan.model_copy(update={"simulated": simulated, "broker": {**broker, **plan.broker}})
    if expire:
        jump = FaultMix(params={"offset_ms": JUMPS_MS}, targets=("one", "all"), weight=2)
        plan = _with_fault(plan, JUMP, **{JUMP: jump})
    return _with_replaced_coordinators(plan) if rng.random() < 0.5 else plan


def _with_replaced_coordinators(plan: Plan) -> Plan:
    """Cut off coordinators of offset keepers for so long that others replace them, and for so short
    that clients still wait for the answers of the old ones."""
    broker = {"broker.session.timeout.ms": 1_000, **plan.broker}
    targets = ("group-coordinator:keeper-0-1", "transaction-coordinator:keeper-0-1")
    cut = FaultMix(targets=targets, duration_ms=REPLACED_MS, weight=2)
    plan = plan.model_copy(update={"broker": broker})
    return _with_fault(plan, ISOLATED, **{ISOLATED: cut})


def producers_stay_known(plan: Plan) -> bool:
    """Whether brokers remember each producer until its last batch can have come."""
    if EXPIRY not in plan.broker:
        return True
    remembered_ms = int(plan.broker[EXPIRY])
    return remembered_ms > plan.workload.message_timeout_ms and not _batches_may_be_late(plan)


def _batches_may_be_late(plan: Plan) -> bool:
    """Whether a batch may come long after its time-out. Unusual producers have none."""
    late = plan.workload.zombie_batches or plan.simulated.unusual_producers > 0
    return late or any(
        name == LATE or name.startswith(("clock.", "pause")) for name in plan.nemesis.faults
    )


def _with_expiring_producers(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let brokers forget producers that wrote nothing for some seconds.

    They would also take a batch that comes that late for a new one, so nothing may be late.
    """
    simulated, timeout_ms = plan.simulated, plan.workload.message_timeout_ms
    if rng.random() >= 0.7 or _batches_may_be_late(plan) or timeout_ms > MAX_TIMEOUT_MS:
        return plan
    if not (simulated.transactional_producers or simulated.compacting_producers):
        return plan
    broker = {
        EXPIRY: str(timeout_ms + PRODUCERS_EXPIRE_MS),
        "log.retention.check.interval.ms": "300",
    }
    return plan.model_copy(update={"broker": {**plan.broker, **broker}})


def _with_impatient_producers(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let producers of the first version of the protocol give batches up, mostly while
    packets from their coordinators are lost: brokers that ask them are then answered late.
    """
    if rng.random() >= 0.12:
        return plan
    changes = {"impatient_producers": rng.randint(2, 5)}
    broker = {**TRANSACTION_TIMES, **_internal_topic("transaction.state.log", plan.nodes, rng)}
    if rng.random() < 0.7:
        broker |= ONE_REPLICA
    simulated = plan.simulated.model_copy(update=changes)
    plan = plan.model_copy(update={"simulated": simulated, "broker": {**broker, **plan.broker}})
    targets = ("transaction-coordinator:impatient-0", "broker")
    lossy = FaultMix(params=LOST_ANSWERS, targets=targets, duration_ms=LOSSY_MS, weight=4)
    return _with_fault(plan, LOSSY, **{LOSSY: lossy}) if rng.random() < 0.7 else plan


def _with_unusual_batches(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let producers send batches of unusual forms, and wrong ones."""
    if rng.random() >= 0.25 or EXPIRY in plan.broker:
        return plan
    simulated = plan.simulated.model_copy(update={"unusual_producers": rng.randint(1, 2)})
    return plan.model_copy(update={"simulated": simulated})


def _with_checks_at_end(plan: Plan, rng: random.Random) -> Plan:
    """Mostly kill a leader, and ask as an administrator, when the cluster is at rest.

    That writes to the metadata log. With frequent snapshots, one would replace what led to a loss,
    and the checkers could not tell whether it was permitted.
    """
    failover, administration = rng.random() < 0.7, rng.random() < 0.7
    if SNAPSHOT_BYTES in plan.broker:
        return plan
    changes = {"failover_at_end": failover, "administration_at_end": administration}
    simulated = plan.simulated.model_copy(update=changes)
    return plan.model_copy(update={"simulated": simulated})


def _with_repeated_ends(plan: Plan, rng: random.Random) -> Plan:
    """Sometimes let producers of transactions repeat ends and markers where there were none."""
    simulated = plan.simulated
    several = simulated.transactional_producers or simulated.group_members
    if rng.random() >= 0.25 or several or EXPIRY in plan.broker:
        return plan
    changes = {"transactional_producers": rng.randint(1, 2), "repeats": True}
    broker = {**TRANSACTION_TIMES, **_internal_topic("transaction.state.log", plan.nodes, rng)}
    return plan.model_copy(
        update={
            "simulated": simulated.model_copy(update=changes),
            "broker": {**broker, **plan.broker},
        }
    )


def _internal_topic(name: str, nodes: int, rng: random.Random) -> dict[str, str]:
    """Draw the sizes of an internal topic, and whether it is compacted: few partitions, so that
    coordinators meet.
    """
    return {
        "log.cleaner.enable": rng.choice(("true", "false")),
        "log.cleaner.backoff.ms": rng.choice(("300", "1000", "15000")),
        "log.cleaner.min.cleanable.ratio": rng.choice(("0.01", "0.5")),
        f"{name}.num.partitions": str(rng.randint(1, 3)),
        f"{name}.replication.factor": str(min(nodes, 3)),
        f"{name}.segment.bytes": rng.choice(("2000", "20000", "1000000")),
    }


def _with_lookups(plan: Plan, rng: random.Random) -> Any:
    rate = rng.choice(LOOKUPS_PER_S) if rng.random() < 0.5 else 0.0
    return plan.simulated.model_copy(update={"lookups_per_s": rate})


def _with_changing_producers(plan: Plan, rng: random.Random) -> Any:
    life_s = rng.choice(PRODUCER_LIFE_S) if rng.random() < 0.5 else 0
    sends = round(life_s * plan.workload.rate_per_s)
    zombies = rng.random() < 0.5
    changes = {"sends_per_producer": sends, "zombie_batches": zombies}
    return plan.workload.model_copy(update=changes)


def _with_more_faults(plan: Plan, rng: random.Random) -> Any:
    faults = {*plan.nemesis.faults, *(name for name in MORE_FAULTS if rng.random() < 0.15)}
    mix = dict(plan.nemesis.mix)
    if rng.random() < 0.5:
        mix[RECREATED] = FaultMix(params={"names": "same"})
    mix = {name: options for name, options in mix.items() if name in faults}
    named = tuple(name for name in FAULTS if name in faults)
    return plan.nemesis.model_copy(update={"faults": named, "mix": mix})


def _with_times(topic: Topic, rng: random.Random) -> Topic:
    """Sometimes let leaders replace the records' timestamps, and index most batches."""
    configs = dict(topic.configs)
    if rng.random() < 0.1:
        configs |= APPEND_TIME
    if rng.random() < 0.3:
        configs["index.interval.bytes"] = rng.choice(INDEX_INTERVALS)
    return topic.model_copy(update={"configs": configs})
