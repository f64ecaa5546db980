"""Draws a plan for each seed: the cluster, the clients, the faults, and how often faults happen.

Bugs hide in combinations that nobody writes down. So each seed leaves out most faults and changes
many settings, and many seeds reach what no single plan does ("Swarm Testing", Groce et al., 2012).
A fault is drawn by its kind first, because bugs need a crash, a cut and a slow disk together. A
plan is a function of the seed and of the plan it is drawn from; it keeps that plan's topics and
name, and no run is longer. Most runs are short: a failure begins with the first few faults, and
many short runs draw more beginnings than one long run.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.plans.plan import Nemesis, Plan, Simulated, Topic, Workload, acks_name, with_topics
from harness.simulation import later_draws
from harness.simulation.later_draws import SNAPSHOT_BYTES
from nemesis.faults.catalogue import FAULTS

NODES: Final = (3, 3, 4, 5)
MAX_FAULTS: Final = 6


class FaultKind(NamedTuple):
    """Faults that break the same thing, and how often one of them is drawn."""

    weight: int
    faults: tuple[str, ...]


def _fault_kind(weight: int, faults: str) -> FaultKind:
    return FaultKind(weight, tuple(faults.split()))


FAULT_KINDS: Final = (
    _fault_kind(4, "kill restart pause crash-loop kill-during-recovery rolling-restart"),
    _fault_kind(2, "power-loss"),
    _fault_kind(
        3,
        "partition.halves partition.random-halves partition.isolate-one partition.isolate-leader "
        "partition.majorities-ring partition.bridge partition.one-way cut.port cut.flapping",
    ),
    _fault_kind(
        2,
        "link.slow link.lossy link.reordered link.duplicated link.limited link.bad reset "
        "response-lost cut.clients pause.clients",
    ),
    _fault_kind(2, "disk.stall disk.slow"),
    _fault_kind(2, "disk.full disk.read-only disk.error failed-fsync"),
    _fault_kind(
        2,
        "reassign elect broker.add broker.remove quorum.add-voter quorum.remove-voter config "
        "topic.create-delete partitions.grow",
    ),
    _fault_kind(1, "clock.jump clock.strobe clock.drift"),
)
"""A kind with many faults is not drawn more often, so all kinds meet."""
DISK_DAMAGE: Final = _fault_kind(
    1, "disk.bit-flip disk.cut-tail disk.misdirected disk.stale-copy disk.lost disk.lost"
)
"""Faults that may destroy data that the cluster needs. A few plans have one of them."""
DURATIONS_S: Final = (8.0, 10.0, 12.0, 16.0, 24.0)
SLOW_MS: Final = 10.0
"""A network and disks that together may take longer are slow. A slow plan has no setting that lets
followers fetch only one batch at a time: they would never catch up."""
SLOW_SEGMENT_BYTES: Final = 20_000
"""A fetch returns records of one segment."""
LONG_DURATION_MS: Final = {"disk.stale-copy": (4_000, 10_000), "cut.flapping": (5_000, 10_000)}
"""Durations of faults that do nothing in a short time."""
GRAY_FAILURES: Final = ("link.slow", "disk.slow", "cut.port")
"""Faults that make a node slow or deaf, while others still believe it is alive. Many plans have
one, mostly for long: meanwhile leaders change, and not all replicas have what the last leader had.
"""
GRAY_DURATION_MS: Final = (3_000, 9_000)
SELECTORS: Final = (
    *("one", "leader", "controller", "isr-one", "followers", "minority"),
    *("isr", "last-isr", "broker", "majority", "all"),
)
"""The selectors that faults may use; the first few leave most of a cluster alone."""
PARTITION_SELECTORS: Final = ("leader", "isr-one", "followers", "isr", "last-isr")
"""The selectors that choose replicas of a random partition."""
PARAMS: Final[Mapping[str, Mapping[str, tuple[str, ...] | tuple[int, int]]]] = {
    "cut.port": {"port": ("data", "controller"), "direction": ("in", "out", "both")},
    "response-lost": {"peers": ("clients", "nodes")},
    "link.slow": {"delay_ms": ("20", "100", "400", "1500"), "peers": ("nodes", "all")},
    "disk.slow": {"operations_per_s": ("1", "4", "20")},
    "link.lossy": {"lost_percent": (5, 30)},
}
"""Parameters that some faults may draw, beside their defaults."""


def draw_plan(plan: Plan, seed: int) -> Plan:
    """Return the plan of a seed."""
    rng = random.Random(f"swarm/{seed}")
    nodes = rng.choice(NODES)
    simulated = _simulated(rng)
    slow = _is_slow(simulated)
    topics = tuple(_topic(topic, nodes, rng, slow=slow) for topic in _some_topics(plan.topics, rng))
    broker = _broker(rng, slow=slow)
    rare = random.Random(f"swarm/rare/{seed}")  # of its own: the other draws stay as they were
    topics = tuple(_rare_topic(topic, nodes, rare, slow=slow) for topic in topics)
    drawn = plan.model_copy(
        update={
            "seed": seed,
            "nodes": nodes,
            "duration_s": min(plan.duration_s, rng.choice(DURATIONS_S)),
            "broker": {**plan.broker, **broker, **_rare_broker(topics, rare)},
            "topics": topics,
            "expect": with_topics(plan, topics).expect,
            "workload": _workload(plan.workload, rng),
            "nemesis": _nemesis(nodes, topics, rng),
            "simulated": simulated,
        }
    )
    return later_draws.add(drawn, seed, least_segment_bytes=SLOW_SEGMENT_BYTES if slow else 0)


def followers_keep_up(plan: Plan) -> bool:
    """Whether no setting makes followers fetch one batch at a time over a slow network."""
    sizes = [int(each.configs.get("segment.bytes", SLOW_SEGMENT_BYTES)) for each in plan.topics]
    at_a_time = min([*sizes, int(plan.broker.get("replica.fetch.max.bytes", SLOW_SEGMENT_BYTES))])
    return at_a_time >= SLOW_SEGMENT_BYTES or not _is_slow(plan.simulated)


def describe(plan: Plan) -> str:
    """Return the drawn plan in one line, in the form of TOML's inline tables."""
    topics = ", ".join(
        f'{{ acks = "{acks_name(each.acks)}", partitions = {each.partitions}, '
        f"min_insync_replicas = {each.min_insync_replicas}{_configs(each)} }}"
        for each in plan.topics
    )
    work, nemesis = plan.workload, plan.nemesis
    return (
        f"nodes = {plan.nodes}, racks = {list(plan.racks)}, duration_s = {plan.duration_s:g}, "
        f"broker = {_inline(plan.broker)}, topics = [{topics}], "
        f"workload = {{ producers = {work.producers}, consumers = {work.consumers}, rate_per_s = "
        f"{work.rate_per_s:g}, value_bytes = {work.value_bytes}, message_timeout_ms = "
        f"{work.message_timeout_ms}, insists = {str(work.insists).lower()}, sends_per_producer = "
        f"{work.sends_per_producer}, zombie_batches = {str(work.zombie_batches).lower()} }}, "
        f"nemesis = {{ faults = {list(nemesis.faults)}, targets = "
        f"{list(nemesis.targets)}, majority = {str(nemesis.majority).lower()}, overlap = "
        f"{nemesis.overlap}, burst = {list(nemesis.burst)}, interval_ms = "
        f"{list(nemesis.interval_ms)}, duration_ms = {list(nemesis.duration_ms)} }}, "
        f"simulated = {{ latency_ms = {list(plan.simulated.latency_ms)}, jitter_ms = "
        f"{list(plan.simulated.jitter_ms)}, sync_ms = {list(plan.simulated.sync_ms)}, "
        f"lookups_per_s = {plan.simulated.lookups_per_s:g} }}"
        f"{_more_workloads(plan)}"
    ).replace("'", '"')


def _more_workloads(plan: Plan) -> str:
    kinds = [each.kind for each in plan.more_workloads]
    return f", more_workloads = {kinds}" if kinds else ""


def _configs(topic: Topic) -> str:
    return f", configs = {_inline(topic.configs)}" if topic.configs else ""


def _inline(table: Any) -> str:
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in table.items())
    return f"{{ {pairs} }}" if pairs else "{}"


def _some_topics(topics: Sequence[Topic], rng: random.Random) -> list[Topic]:
    """Return the topics with acks=all, and sometimes others."""
    return [topic for topic in topics if rng.random() < 0.35 or topic.acks == -1] or [topics[0]]


def _topic(topic: Topic, nodes: int, rng: random.Random, *, slow: bool) -> Topic:
    replicas = rng.choice((2, 3, 3, 3)) if nodes > 2 else nodes
    configs: dict[str, str] = {}
    if rng.random() < 0.3:
        configs["flush.messages"] = "1"
    if rng.random() < 0.3:
        small = SLOW_SEGMENT_BYTES if slow else rng.choice((2_000, 20_000))
        configs["segment.bytes"] = str(small)
    if rng.random() < 0.1:
        configs["unclean.leader.election.enable"] = "true"
    return topic.model_copy(
        update={
            "partitions": rng.randint(1, 3),
            "replication_factor": replicas,
            "min_insync_replicas": rng.randint(1, min(2, replicas)),
            "idempotence": topic.acks == -1 and rng.random() < 0.8,
            "configs": {**topic.configs, **configs},
        }
    )


def _rare_topic(topic: Topic, nodes: int, rng: random.Random, *, slow: bool) -> Topic:
    """Sometimes add replicas on all nodes, or a retention that is due during the run."""
    changes: dict[str, Any] = {}
    if nodes > 3 and rng.random() < 0.3:
        changes["replication_factor"] = nodes
        changes["min_insync_replicas"] = rng.randint(topic.min_insync_replicas, 3)
    if rng.random() < 0.1:
        retention = rng.choice(
            ({"retention.bytes": "6000"}, {"retention.ms": "3000", "segment.ms": "1000"})
        )
        segment = {"segment.bytes": str(SLOW_SEGMENT_BYTES if slow else 2_000)}
        changes["configs"] = {**topic.configs, **segment, **retention}
    return topic.model_copy(update=changes)


def _rare_broker(topics: Sequence[Topic], rng: random.Random) -> dict[str, str | int]:
    """Sometimes let controllers write snapshots of the metadata, so that nodes load them."""
    found: dict[str, str | int] = {}
    if rng.random() < 0.3:
        found[SNAPSHOT_BYTES] = rng.choice((200, 1_000, 4_000))
    if any(set(topic.configs) & {"retention.bytes", "retention.ms"} for topic in topics):
        found["log.retention.check.interval.ms"] = 300
    return found


def _broker(rng: random.Random, *, slow: bool) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    if rng.random() < 0.3:
        found["eligible.leader.replicas.version"] = 0
    if rng.random() < 0.5:
        found["broker.session.timeout.ms"] = rng.choice((1_000, 1_000, 4_000))
    if rng.random() < 0.6:
        found["replica.lag.time.max.ms"] = rng.choice((600, 600, 5_000, 30_000))
    if rng.random() < 0.6:
        found["leader.imbalance.check.interval.seconds"] = 1
    if not slow and rng.random() < 0.4:
        found["replica.fetch.max.bytes"] = rng.choice((1, 1, 2_000))
    if rng.random() < 0.3:
        found["replica.fetch.wait.max.ms"] = rng.choice((50, 100))
    if rng.random() < 0.3:
        found["replica.fetch.backoff.ms"] = rng.choice((50, 200))
    return found


def _workload(workload: Workload, rng: random.Random) -> Workload:
    return workload.model_copy(
        update={
            "producers": rng.randint(1, 3),
            "consumers": rng.randint(1, 2),
            "rate_per_s": rng.choice((1.0, 5.0, 10.0)),
            "value_bytes": rng.choice((64, 128, 1_000, 5_000)),
            "message_timeout_ms": rng.choice((700, 3_000, 10_000)),
            "insists": rng.random() < 0.5,
            "linger_ms": rng.choice((0.0, 2.0, 50.0)),
        }
    )


def _nemesis(nodes: int, topics: Sequence[Topic], rng: random.Random) -> Nemesis:
    faults = _faults(nodes, rng)
    shortest_ms = rng.choice((100, 300, 1_000, 3_000))
    return Nemesis.model_validate(
        {
            "faults": faults,
            "mix": {name: options for name in faults if (options := _mix_options(name, rng))},
            "targets": _selectors(nodes, topics, rng),
            "interval_ms": [rng.choice((50, 300)), rng.choice((500, 1_000, 3_000))],
            "duration_ms": [shortest_ms, shortest_ms + rng.choice((700, 2_000, 6_000))],
            "overlap": rng.choice((1, 2, 3, 3, 4, 4)),
            "burst": [1, rng.choice((1, 2, 3))],
            "majority": rng.random() < 0.7,
            "mode": "auto",
        }
    )


def _selectors(nodes: int, topics: Sequence[Topic], rng: random.Random) -> list[str]:
    """Return some selectors: any, or a few that choose one leader, one partition's replicas, or one
    node again and again, so that faults on the same few nodes meet.
    """
    if rng.random() < 0.4:
        return sorted(rng.sample(SELECTORS, rng.randint(2, 6)), key=SELECTORS.index)
    leads = rng.choice(("leader", "leader", "controller"))
    selectors = sorted({leads, *rng.sample(SELECTORS, rng.randint(1, 3))}, key=SELECTORS.index)
    topic, victim = rng.choice(topics), rng.randint(1, nodes)
    at = f"{topic.name}/{rng.randrange(topic.partitions)}"
    narrowed = {selector: f"{selector}:{at}" for selector in PARTITION_SELECTORS} | {
        "one": f"node:{victim}"
    }
    return [narrowed.get(selector, selector) for selector in selectors]


def _simulated(rng: random.Random) -> Simulated:
    """Draw a rack, a city, a country or the world: with slower answers and disks, more happens
    meanwhile, and replicas differ by more records.
    """
    return Simulated(
        latency_ms=rng.choice(((0.1, 0.6), (0.1, 0.6), (1.0, 10.0), (5.0, 40.0), (10.0, 100.0))),
        jitter_ms=rng.choice(((0.02, 0.4), (0.5, 5.0), (5.0, 30.0))),
        sync_ms=rng.choice(((0.2, 2.0), (0.2, 2.0), (2.0, 20.0), (5.0, 50.0))),
    )


def _is_slow(simulated: Simulated) -> bool:
    return simulated.latency_ms[1] + simulated.jitter_ms[1] + simulated.sync_ms[1] > SLOW_MS


def _faults(nodes: int, rng: random.Random) -> list[str]:
    """Return a few faults of some kinds, in the order of the catalogue."""
    weights = [kind.weight for kind in FAULT_KINDS]
    drawn = rng.choices(FAULT_KINDS, weights, k=rng.randint(1, MAX_FAULTS))
    faults = {rng.choice(kind.faults) for kind in drawn}
    if rng.random() < 0.15:
        faults.add(rng.choice(DISK_DAMAGE.faults))
    if rng.random() < 0.4:
        faults.add(rng.choice(GRAY_FAILURES))
    usable = [name for name in FAULTS if name in faults and FAULTS[name].min_nodes <= nodes]
    return usable or ["kill"]


def _mix_options(fault: str, rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if fault in LONG_DURATION_MS:
        options["duration_ms"] = LONG_DURATION_MS[fault]
    if fault in GRAY_FAILURES and rng.random() < 0.7:
        options["duration_ms"] = GRAY_DURATION_MS
    if fault in PARAMS:
        options["params"] = PARAMS[fault]
    return options
