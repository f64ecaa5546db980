"""Further workloads that a swarm draws: groups, copies, transactions and compacted topics, as a
user's plan has them.

The checkers judge their rows. The clients of `harness.simulation.group_work` and
`harness.simulation.transaction_work` are there for the invariants, and record nothing.
"""

import random
from typing import Final

from harness.plans import workload_topics
from harness.plans.plan import Plan, Topic
from harness.plans.workloads import (
    CompactedWorkload,
    CopyWorkload,
    FurtherWorkload,
    GroupWorkload,
    TransactionWorkload,
)

READERS: Final = "readers"
COPIERS: Final = "copiers"
COPIES: Final = "copies"
"""The topic of the copies."""
ACCOUNTS: Final = "accounts"
"""The compacted topic."""
PAYMENTS: Final = "payments"
"""The topic with transactions."""
SESSIONS_MS: Final = (500, 1_500, 6_000)
DELAYS_IN_SESSION: Final = 6
"""A member gets its assignment, asks for its offsets, waits a third of the session and sends its
heartbeat: four packets' delays and a third."""
LIVES_S: Final = (0.0, 2.5, 6.0)
TRANSACTIONS_PER_S: Final = (5.0, 20.0)
_WITH_MEMBERS: Final = GroupWorkload | CopyWorkload


def add(plan: Plan, rng: random.Random) -> Plan:
    """Return the plan with one or more further workloads, and with the topics they write to."""
    topics = {topic.name: topic for topic in plan.topics}
    drawn: list[FurtherWorkload] = []
    for kind in rng.sample(("group", "copy", "transactions"), rng.choice((1, 1, 2, 3))):
        source = rng.choice(plan.topics)
        match kind:
            case "group":
                drawn.append(_group(source, rng))
            case "copy":
                drawn.append(_copy(source, rng))
                topics[COPIES] = _written(COPIES, source)
            case _:
                drawn.append(_transactions(rng))
                topics[PAYMENTS] = _written(PAYMENTS, source)
    changes = {"more_workloads": tuple(drawn), "topics": tuple(topics.values())}
    return plan.model_copy(update=changes)


def with_keys(plan: Plan, rng: random.Random, least_segment_bytes: int) -> Plan:
    """Return the plan with a compacted topic whose keys are written and deleted."""
    idempotent = rng.random() < 0.7
    topic = plan.topics[0].model_copy(
        update={
            "name": ACCOUNTS,
            "partitions": rng.randint(1, 2),
            "acks": -1 if idempotent or rng.random() < 0.5 else 1,
            "idempotence": idempotent,
            "configs": {
                **plan.topics[0].configs,
                "cleanup.policy": "compact",
                "segment.bytes": str(max(least_segment_bytes, rng.choice((1000, 4000)))),
                "min.cleanable.dirty.ratio": "0.01",
            },
        }
    )
    workload = CompactedWorkload(
        kind="compacted",
        client="own",
        topics=(ACCOUNTS,),
        producers=rng.randint(1, 2),
        rate_per_s=rng.choice((20.0, 60.0)),
        keys=rng.choice((2, 8)),
        sends_per_key=rng.choice((10, 40)),
        delete_share=rng.choice((0.1, 0.5)),
        value_bytes=64,
    )
    changes = {
        "more_workloads": (*plan.more_workloads, workload),
        "topics": (*plan.topics, topic),
        "broker": {"log.cleaner.backoff.ms": "300", **plan.broker},
    }
    return plan.model_copy(update=changes)


def with_isolation(plan: Plan, rng: random.Random) -> Plan:
    """Return the plan in which sometimes the group reads the transactions, at either isolation
    level, if both were drawn."""
    if {"group", "transactions"} - {each.kind for each in plan.more_workloads}:
        return plan
    if rng.random() < 0.5:
        return plan
    changes = {
        "topic": PAYMENTS,
        "isolation": rng.choice(("read_committed", "read_uncommitted", "read_uncommitted")),
    }
    further = [
        each.model_copy(update=changes) if isinstance(each, GroupWorkload) else each
        for each in plan.more_workloads
    ]
    return plan.model_copy(update={"more_workloads": tuple(further)})


def with_more_topics(plan: Plan, rng: random.Random) -> Plan:
    """Return the plan in which sometimes a group reads all topics that have producers, or
    transactions, instead of one."""
    transactional = workload_topics.transactional(plan) - {COPIES}
    names = tuple(
        topic.name
        for topic in plan.topics
        if topic in workload_topics.of_producers(plan) or topic.name in transactional
    )
    further: list[FurtherWorkload] = []
    for each in plan.more_workloads:
        more = len(names) > 1 and rng.random() < 0.3
        if more and isinstance(each, GroupWorkload):
            each = each.model_copy(update={"topic": "", "topics": names})
        elif more and isinstance(each, CopyWorkload):
            each = each.model_copy(update={"input": "", "inputs": names})
        further.append(each)
    return plan.model_copy(update={"more_workloads": tuple(further)})


def members_stay(plan: Plan) -> bool:
    """Whether the network is fast enough for the sessions of all groups."""
    least_ms = _least_session_ms(plan)
    members = (each for each in plan.more_workloads if isinstance(each, _WITH_MEMBERS))
    return all(each.session_timeout_ms >= least_ms for each in members)


def with_sessions_kept(plan: Plan) -> Plan:
    """Return the plan with longer sessions where the network is too slow for those drawn: a group
    whose members are removed after each rebalance does nothing."""
    least_ms = _least_session_ms(plan)
    enough = min(each for each in SESSIONS_MS if each >= least_ms)
    further = [
        each.model_copy(update={"session_timeout_ms": max(each.session_timeout_ms, enough)})
        if isinstance(each, _WITH_MEMBERS)
        else each
        for each in plan.more_workloads
    ]
    return plan.model_copy(update={"more_workloads": tuple(further)})


def _least_session_ms(plan: Plan) -> float:
    return DELAYS_IN_SESSION * (plan.simulated.latency_ms[1] + plan.simulated.jitter_ms[1])


def groups(plan: Plan) -> tuple[str, ...]:
    """Return the groups of the plan's further workloads."""
    return tuple(each.group for each in plan.more_workloads if isinstance(each, _WITH_MEMBERS))


def transactional(plan: Plan) -> bool:
    """Whether a further workload writes transactions."""
    return any(
        isinstance(each, TransactionWorkload)
        or (isinstance(each, CopyWorkload) and each.processing == "exactly-once")
        for each in plan.more_workloads
    )


def _written(name: str, like: Topic) -> Topic:
    """Return a topic that a further workload writes to."""
    return like.model_copy(update={"name": name, "acks": -1, "idempotence": True})


def _group(source: Topic, rng: random.Random) -> GroupWorkload:
    return GroupWorkload(
        kind="group",
        client="own",
        group=READERS,
        topic=source.name,
        processing=rng.choice(("at-most-once", "at-least-once", "at-least-once")),
        members=rng.randint(1, 3),
        protocol=rng.choice(("classic", "consumer")),
        static=rng.random() < 0.3,
        session_timeout_ms=rng.choice(SESSIONS_MS),
        member_life_s=rng.choice(LIVES_S),
    )


def _copy(source: Topic, rng: random.Random) -> CopyWorkload:
    return CopyWorkload(
        kind="copy",
        client="own",
        group=COPIERS,
        input=source.name,
        output=COPIES,
        processing=rng.choice(("exactly-once", "exactly-once", "at-least-once")),
        group_metadata=rng.random() < 0.8,
        members=rng.randint(1, 3),
        protocol=rng.choice(("classic", "consumer")),
        static=rng.random() < 0.3,
        session_timeout_ms=rng.choice(SESSIONS_MS),
        member_life_s=rng.choice(LIVES_S),
    )


def _transactions(rng: random.Random) -> TransactionWorkload:
    return TransactionWorkload(
        kind="transactions",
        client="own",
        topics=(PAYMENTS,),
        producers=rng.randint(1, 3),
        rate_per_s=rng.choice(TRANSACTIONS_PER_S),
        records=rng.randint(1, 6),
        partitions=rng.randint(1, 3),
        abort_share=rng.choice((0.05, 0.3)),
        open_share=rng.choice((0.02, 0.15)),
        transaction_timeout_ms=rng.choice((1_500, 10_000)),
    )
