"""A plan of its own for every seed: what is configured, what clients do, what breaks, how often.

Bugs hide in combinations that nobody writes down; so each seed leaves out most faults and turns
most knobs, and many seeds meet what no one plan does ("Swarm Testing", Groce et al., 2012). What
breaks is drawn by its kind first: bugs take a crash, a cut and a slow disk together. A plan is a
function of the seed and of the plan that it is drawn from, whose topics and name stay, and
which no run outlasts. Most runs are short: what goes wrong begins with the first few faults, and
many short runs draw more beginnings than a long one.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.plans.plan import Nemesis, Plan, Simulated, Topic, Workload, acks_name, with_topics
from nemesis.faults.catalogue import FAULTS

NODES: Final = (3, 3, 4, 5)
MOST_FAULTS: Final = 6


class Kind(NamedTuple):
    """Faults that break the same thing, and how often one of them is drawn."""

    weight: int
    faults: tuple[str, ...]


def _kind(weight: int, faults: str) -> Kind:
    return Kind(weight, tuple(faults.split()))


KINDS: Final = (
    _kind(4, "kill restart pause crash-loop kill-during-recovery rolling-restart"),
    _kind(2, "power-loss"),
    _kind(
        3,
        "partition.halves partition.random-halves partition.isolate-one partition.isolate-leader "
        "partition.majorities-ring partition.bridge partition.one-way cut.port cut.flapping",
    ),
    _kind(
        2,
        "link.slow link.lossy link.reordered link.duplicated link.limited link.bad reset "
        "response-lost cut.clients pause.clients",
    ),
    _kind(2, "disk.stall disk.slow"),
    _kind(2, "disk.full disk.read-only disk.error failed-fsync"),
    _kind(
        2,
        "reassign elect broker.add broker.remove quorum.add-voter quorum.remove-voter config "
        "topic.create-delete partitions.grow",
    ),
    _kind(1, "clock.jump clock.strobe clock.drift"),
)
"""A kind of many faults is not met more often for that, and so all kinds meet."""
DAMAGE: Final = _kind(
    1, "disk.bit-flip disk.cut-tail disk.misdirected disk.stale-copy disk.lost disk.lost"
)
"""What may take from a cluster what it cannot do without: one of these, in few plans only."""
DURATIONS_S: Final = (8.0, 10.0, 12.0, 16.0, 24.0)
SLOW_MS: Final = 10.0
"""A network and disks that may take longer together are slow. Nothing is drawn besides that lets
followers fetch but one batch at a time: they would never catch up."""
LONG: Final = {"disk.stale-copy": (4_000, 10_000), "cut.flapping": (5_000, 10_000)}
"""Faults that do nothing in a short time."""
GRAY: Final = ("link.slow", "disk.slow", "cut.port")
"""Whom these befall is half there: slow or deaf, and not believed dead. Many plans have one, mostly
for long: leaders come and go meanwhile, and not all replicas have what the last one had."""
GRAY_MS: Final = (3_000, 9_000)
AIMS: Final = (
    *("one", "leader", "controller", "isr-one", "followers", "minority"),
    *("isr", "last-isr", "broker", "majority", "all"),
)
"""For whatever can be aimed; the first few leave most of a cluster alone."""
OF_PARTITIONS: Final = ("leader", "isr-one", "followers", "isr", "last-isr")
"""Of these, those that mean replicas of a random partition."""
PARAMS: Final[Mapping[str, Mapping[str, tuple[str, ...] | tuple[int, int]]]] = {
    "cut.port": {"port": ("data", "controller"), "direction": ("in", "out", "both")},
    "response-lost": {"peers": ("clients", "nodes")},
    "link.slow": {"delay_ms": ("20", "100", "400", "1500"), "peers": ("nodes", "all")},
    "disk.slow": {"operations_per_s": ("1", "4", "20")},
    "link.lossy": {"lost_percent": (5, 30)},
}
"""What some faults may do besides what they do unasked."""


def drawn(plan: Plan, seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(f"swarm/{seed}")
    nodes = rng.choice(NODES)
    simulated = _simulated(rng)
    slow = _is_slow(simulated)
    topics = tuple(_topic(topic, nodes, rng, slow=slow) for topic in _some(plan.topics, rng))
    return plan.model_copy(
        update={
            "seed": seed,
            "nodes": nodes,
            "duration_s": min(plan.duration_s, rng.choice(DURATIONS_S)),
            "broker": {**plan.broker, **_broker(rng, slow=slow)},
            "topics": topics,
            "expect": with_topics(plan, topics).expect,
            "workload": _workload(plan.workload, rng),
            "nemesis": _nemesis(nodes, topics, rng),
            "simulated": simulated,
        }
    )


def said(plan: Plan) -> str:
    """What was drawn, in one line that reads as TOML's inline tables do."""
    topics = ", ".join(
        f'{{ acks = "{acks_name(each.acks)}", partitions = {each.partitions}, '
        f"min_insync_replicas = {each.min_insync_replicas}{_configs(each)} }}"
        for each in plan.topics
    )
    work, nemesis = plan.workload, plan.nemesis
    return (
        f"nodes = {plan.nodes}, duration_s = {plan.duration_s:g}, "
        f"broker = {_inline(plan.broker)}, topics = [{topics}], "
        f"workload = {{ producers = {work.producers}, consumers = {work.consumers}, rate_per_s = "
        f"{work.rate_per_s:g}, value_bytes = {work.value_bytes}, message_timeout_ms = "
        f"{work.message_timeout_ms}, insists = {str(work.insists).lower()} }}, "
        f"nemesis = {{ faults = {list(nemesis.faults)}, targets = "
        f"{list(nemesis.targets)}, majority = {str(nemesis.majority).lower()}, overlap = "
        f"{nemesis.overlap}, burst = {list(nemesis.burst)}, interval_ms = "
        f"{list(nemesis.interval_ms)}, duration_ms = {list(nemesis.duration_ms)} }}, "
        f"simulated = {{ latency_ms = {list(plan.simulated.latency_ms)}, jitter_ms = "
        f"{list(plan.simulated.jitter_ms)}, sync_ms = {list(plan.simulated.sync_ms)} }}"
    ).replace("'", '"')


def _configs(topic: Topic) -> str:
    return f", configs = {_inline(topic.configs)}" if topic.configs else ""


def _inline(table: Any) -> str:
    told = ", ".join(f"'{key}' = '{value}'" for key, value in table.items())
    return f"{{ {told} }}" if told else "{}"


def _some(topics: Sequence[Topic], rng: random.Random) -> list[Topic]:
    """Those of acks=all, and the others now and then."""
    return [topic for topic in topics if rng.random() < 0.35 or topic.acks == -1] or [topics[0]]


def _topic(topic: Topic, nodes: int, rng: random.Random, *, slow: bool) -> Topic:
    replicas = rng.choice((2, 3, 3, 3)) if nodes > 2 else nodes
    configs: dict[str, str] = {}
    if rng.random() < 0.3:
        configs["flush.messages"] = "1"
    if rng.random() < 0.3:
        configs["segment.bytes"] = "20000" if slow else str(rng.choice((2_000, 20_000)))
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
            "mix": {name: tuned for name in faults if (tuned := _tuned(name, rng))},
            "targets": _targets(nodes, topics, rng),
            "interval_ms": [rng.choice((50, 300)), rng.choice((500, 1_000, 3_000))],
            "duration_ms": [shortest_ms, shortest_ms + rng.choice((700, 2_000, 6_000))],
            "overlap": rng.choice((1, 2, 3, 3, 4, 4)),
            "burst": [1, rng.choice((1, 2, 3))],
            "majority": rng.random() < 0.7,
            "mode": "auto",
        }
    )


def _targets(nodes: int, topics: Sequence[Topic], rng: random.Random) -> list[str]:
    """Anybody; or who leads, one partition's replicas, one node, again and again: faults that
    befall the same few meet."""
    if rng.random() < 0.4:
        return sorted(rng.sample(AIMS, rng.randint(2, 6)), key=AIMS.index)
    leads = rng.choice(("leader", "leader", "controller"))
    aims = sorted({leads, *rng.sample(AIMS, rng.randint(1, 3))}, key=AIMS.index)
    topic, victim = rng.choice(topics), rng.randint(1, nodes)
    at = f"{topic.name}/{rng.randrange(topic.partitions)}"
    narrowed = {aim: f"{aim}:{at}" for aim in OF_PARTITIONS} | {"one": f"node:{victim}"}
    return [narrowed.get(aim, aim) for aim in aims]


def _simulated(rng: random.Random) -> Simulated:
    """A rack, a city, a country, the world: the slower answers and disks are, the more happens
    meanwhile; and the farther apart nodes are, the more one has that another lacks."""
    return Simulated(
        latency_ms=rng.choice(((0.1, 0.6), (0.1, 0.6), (1.0, 10.0), (5.0, 40.0), (10.0, 100.0))),
        jitter_ms=rng.choice(((0.02, 0.4), (0.5, 5.0), (5.0, 30.0))),
        sync_ms=rng.choice(((0.2, 2.0), (0.2, 2.0), (2.0, 20.0), (5.0, 50.0))),
    )


def _is_slow(simulated: Simulated) -> bool:
    return simulated.latency_ms[1] + simulated.jitter_ms[1] + simulated.sync_ms[1] > SLOW_MS


def _faults(nodes: int, rng: random.Random) -> list[str]:
    """A few of some kinds, in the catalogue's order."""
    weights = [kind.weight for kind in KINDS]
    drawn = rng.choices(KINDS, weights, k=rng.randint(1, MOST_FAULTS))
    faults = {rng.choice(kind.faults) for kind in drawn}
    if rng.random() < 0.15:
        faults.add(rng.choice(DAMAGE.faults))
    if rng.random() < 0.4:
        faults.add(rng.choice(GRAY))
    usable = [name for name in FAULTS if name in faults and FAULTS[name].min_nodes <= nodes]
    return usable or ["kill"]


def _tuned(fault: str, rng: random.Random) -> dict[str, Any]:
    tuned: dict[str, Any] = {}
    if fault in LONG:
        tuned["duration_ms"] = LONG[fault]
    if fault in GRAY and rng.random() < 0.7:
        tuned["duration_ms"] = GRAY_MS
    if fault in PARAMS:
        tuned["params"] = PARAMS[fault]
    return tuned
