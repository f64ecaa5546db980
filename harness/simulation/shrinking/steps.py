"""The steps that make a failing plan smaller. Pure.

A step yields candidates: whole plans that are simpler than the given plan, the largest reduction
first. Running a candidate decides whether it still fails; nothing is run here. All steps end,
because each candidate is smaller in `size`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from harness.plans import workload_topics
from harness.plans.plan import Plan, Simulated
from harness.plans.workloads import FurtherWorkload
from nemesis.schedule import Event

Step = Callable[[Plan], Iterator[Plan]]

TAIL_MS: Final = 500
"""What is left of the chaos after the last fault is healed."""
FIRST_MS: Final = 500
"""The earliest time of the first fault, and the least distance between two faults."""
ROBUST_MS: Final = 6_000
"""Three session time-outs: a fault that lasts just long enough in a simulation shows nothing in
real time."""
MIN_RATE_PER_S: Final = 5.0
"""Below this rate real processes seldom have a write in progress when a fault happens."""
NEAR_MS: Final = (3_000, 8_000)
"""How far around a failure its cause is sought: first a little more than a session, then more."""
RANDOM_SELECTORS: Final = ("one", "leader")
"""Selectors that choose other nodes in another run."""


def size(plan: Plan) -> tuple[float, ...]:
    """Return the size of a plan, the most important measure first."""
    events = plan.nemesis.events
    return (
        len(events),
        plan.nodes,
        sum(topic.partitions for topic in plan.topics),
        len(plan.more_workloads),
        plan.workload.producers + plan.workload.consumers,
        len(plan.broker) + sum(len(topic.configs) for topic in plan.topics),
        plan.simulated != Simulated(),
        sum(len(event.params) for event in events),
        sum(event.targets in RANDOM_SELECTORS for event in events),
        sum(max(0, ROBUST_MS - event.duration_ms) for event in events),
        plan.duration_s,
        plan.workload.rate_per_s,
    )


def fewer_events(plan: Plan) -> Iterator[Plan]:
    """Remove a half of the events, a quarter, ... a single one, beginning at the end."""
    events = plan.nemesis.events
    many = len(events) // 2
    while many >= 1:
        for start in range(len(events) - many, -1, -many):
            yield _with_events(plan, (*events[:start], *events[start + many :]))
        many //= 2


def around(plan: Plan, at_ms: int) -> Iterator[Plan]:
    """Keep only the faults in force around the time of the failure, or those up to it.

    A later fault cannot be the cause, and a fault that ended long before seldom is.
    """
    events = plan.nemesis.events
    for reach_ms in (*NEAR_MS, at_ms + NEAR_MS[-1]):
        near = [
            event
            for event in events
            if event.at_ms <= at_ms + min(reach_ms, NEAR_MS[-1])
            and event.at_ms + event.duration_ms >= at_ms - reach_ms
        ]
        for fewer in earlier_end(_with_events(plan, near)):
            yield fewer
            break
        else:
            yield _with_events(plan, near)


def earlier_end(plan: Plan) -> Iterator[Plan]:
    """End the chaos soon after the last fault."""
    last_ms = max((event.at_ms + event.duration_ms for event in plan.nemesis.events), default=0)
    wanted_s = (last_ms + TAIL_MS) / 1000
    if wanted_s < plan.duration_s:
        yield plan.model_copy(update={"duration_s": wanted_s})


def earlier_begin(plan: Plan) -> Iterator[Plan]:
    """Move the first fault to the beginning of the chaos, and all others with it.

    The time before the first fault costs time in each later run.
    """
    events = plan.nemesis.events
    idle_ms = min((event.at_ms for event in events), default=0) - FIRST_MS
    for by_ms in (idle_ms, idle_ms // 2):
        if by_ms >= FIRST_MS:
            sooner = [e.model_copy(update={"at_ms": e.at_ms - by_ms}) for e in events]
            shorter = plan.model_copy(update={"duration_s": plan.duration_s - by_ms / 1000})
            yield _with_events(shorter, sooner)


def fewer_topics(plan: Plan) -> Iterator[Plan]:
    """Keep one topic, or remove one topic, or keep one partition."""
    topics = plan.topics
    if len(topics) > 1:
        yield from (plan.model_copy(update={"topics": (topic,)}) for topic in topics)
        for n in range(len(topics)):
            yield plan.model_copy(update={"topics": (*topics[:n], *topics[n + 1 :])})
    for n, topic in enumerate(topics):
        if topic.partitions > 1:
            one = topic.model_copy(update={"partitions": 1})
            yield plan.model_copy(update={"topics": (*topics[:n], one, *topics[n + 1 :])})


def fewer_workloads(plan: Plan) -> Iterator[Plan]:
    """Remove one of the further workloads, with the topics that nobody writes to then, and with
    the workloads that read those."""
    further = plan.more_workloads
    for n in range(len(further)):
        smaller = _with_workloads(plan, (*further[:n], *further[n + 1 :]))
        if smaller.topics:
            yield smaller


def _with_workloads(plan: Plan, further: tuple[FurtherWorkload, ...]) -> Plan:
    """The plan with these further workloads, as far as something writes to their topics."""
    rest = plan.model_copy(update={"more_workloads": further})
    # Without a workload, the producers would take over its topics.
    others = workload_topics.written(_with_load(rest, producers=0, consumers=0))
    produced = workload_topics.of_producers(plan)
    topics = tuple(t for t in plan.topics if t in produced or t.name in others)
    names = {topic.name for topic in topics}
    useful = tuple(each for each in further if names.issuperset(workload_topics.named(each)))
    if useful != further:
        return _with_workloads(plan, useful)
    return rest.model_copy(update={"topics": topics})


def fewer_nodes(plan: Plan) -> Iterator[Plan]:
    """Use as few nodes as the replicas need, or one node less."""
    least = max(topic.replication_factor for topic in plan.topics)
    for nodes in dict.fromkeys((least, plan.nodes - 1)):
        if least <= nodes < plan.nodes:
            yield plan.model_copy(update={"nodes": nodes})


def fewer_clients(plan: Plan) -> Iterator[Plan]:
    """Use one producer, no consumer, half the rate."""
    load = plan.workload
    if load.producers > 1:
        yield _with_load(plan, producers=1)
    if load.consumers > 0:
        yield _with_load(plan, consumers=0)
    if load.consumers > 1:
        yield _with_load(plan, consumers=1)
    if load.rate_per_s > MIN_RATE_PER_S:
        yield _with_load(plan, rate_per_s=max(MIN_RATE_PER_S, load.rate_per_s / 2))


def fewer_settings(plan: Plan) -> Iterator[Plan]:
    """Remove one property of the brokers, or of a topic."""
    for name in plan.broker:
        rest = {key: value for key, value in plan.broker.items() if key != name}
        yield plan.model_copy(update={"broker": rest})
    for n, topic in enumerate(plan.topics):
        for name in topic.configs:
            configs = {key: value for key, value in topic.configs.items() if key != name}
            changed = topic.model_copy(update={"configs": configs})
            topics = (*plan.topics[:n], changed, *plan.topics[n + 1 :])
            yield plan.model_copy(update={"topics": topics})


def usual_delays(plan: Plan) -> Iterator[Plan]:
    """Use the default delays of networks and disks, to which real ones are closer."""
    if plan.simulated != Simulated():
        yield plan.model_copy(update={"simulated": Simulated()})


def simpler_events(plan: Plan) -> Iterator[Plan]:
    """Remove a fault's parameters, or move a fault closer to the one before it."""
    events = plan.nemesis.events
    for n, event in enumerate(events):
        if event.params:
            yield _with_event(plan, n, params={})
    for n, event in enumerate(events):
        before_ms = events[n - 1].at_ms if n else 0
        by_ms = (event.at_ms - before_ms - FIRST_MS) // 2
        if by_ms >= FIRST_MS:
            sooner = [e.model_copy(update={"at_ms": e.at_ms - by_ms}) for e in events[n:]]
            yield _with_events(plan, (*events[:n], *sooner))


def more_robust_events(plan: Plan) -> Iterator[Plan]:
    """Aim faults at the leader of a certain partition, and make them long enough: all of them or
    one.

    Such a plan is not simpler to read, but what is left to chance turns out differently with real
    processes.
    """
    events = plan.nemesis.events
    leaders = [f"leader:{topic.name}/{n}" for topic in plan.topics for n in range(topic.partitions)]
    for leader in leaders:
        for lasts_ms in (ROBUST_MS, ROBUST_MS // 2, 0):
            yield _prolonged(plan, [_more_robust(event, leader, lasts_ms) for event in events])
    yield _prolonged(plan, [_more_robust(event, event.targets, ROBUST_MS) for event in events])
    for n, event in enumerate(events):
        for target in (*leaders, event.targets):
            more_robust = _more_robust(event, target, ROBUST_MS)
            yield _prolonged(plan, [*events[:n], more_robust, *events[n + 1 :]])


def _more_robust(event: Event, target: str, lasts_ms: int) -> Event:
    selector = target if event.targets in RANDOM_SELECTORS else event.targets
    lasts_ms = max(lasts_ms, event.duration_ms)
    return event.model_copy(update={"targets": selector, "duration_ms": lasts_ms})


def _prolonged(plan: Plan, events: Sequence[Event]) -> Plan:
    """Return the plan with these events, and with chaos until they are over."""
    last_ms = max((event.at_ms + event.duration_ms for event in events), default=0)
    duration_s = max(plan.duration_s, (last_ms + TAIL_MS) / 1000)
    return _with_events(plan, events).model_copy(update={"duration_s": duration_s})


STEPS: Final[Sequence[Step]] = (
    earlier_begin,
    fewer_events,
    earlier_end,
    fewer_topics,
    fewer_nodes,
    fewer_workloads,
    fewer_clients,
    fewer_settings,
    usual_delays,
    simpler_events,
    more_robust_events,
)


def _with_events(plan: Plan, events: Sequence[Event]) -> Plan:
    nemesis = plan.nemesis.model_copy(update={"events": tuple(events)})
    return plan.model_copy(update={"nemesis": nemesis})


def _with_event(plan: Plan, number: int, **changes: Any) -> Plan:
    events = list(plan.nemesis.events)
    events[number] = events[number].model_copy(update=changes)
    return _with_events(plan, events)


def _with_load(plan: Plan, **changes: Any) -> Plan:
    return plan.model_copy(update={"workload": plan.workload.model_copy(update=changes)})
