"""What was promised: out of the plan, and out of faults that change it for a while."""

import json
from typing import Any

import pytest

from checkers.history.settings import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    DEFAULT_TRANSACTION_TIMEOUT_MS,
    EXACTLY_ONCE,
    TRANSACTIONS_TOPIC,
    Settings,
    of_group,
    read_changes,
    topic_settings,
    transaction_timeout_ms,
    weakest,
)

STRICT = Settings(acks=-1, min_insync_replicas=2, flush_before_ack=True)


def changed(details: dict[str, str], fault: str = "config", **more: Any) -> dict[str, Any]:
    """A row of the faults' table, of a fault from 10 to 20."""
    targets = json.dumps({"details": details})
    return {"fault": fault, "targets": targets, "started_ns": 10, "healed_ns": 20, **more}


@pytest.mark.parametrize(
    ("broker", "configs", "flushed"),
    [
        ({}, {}, False),
        ({"log.flush.interval.messages": 1}, {}, True),
        ({"log.flush.interval.messages": 1}, {"flush.messages": "10"}, False),
        ({}, {"flush.messages": "1"}, True),
    ],
)
def test_flush_of_a_topic(broker: dict[str, Any], configs: dict[str, str], flushed: bool) -> None:
    """The topic's own setting comes before the broker's; only 1 flushes before every answer."""
    plan = {"broker": broker, "topics": [{"name": "t", "acks": "all", "configs": configs}]}
    assert topic_settings(plan, "t").flush_before_ack is flushed


@pytest.mark.parametrize(
    ("plan", "on"),
    [
        ({"system": "nodes"}, True),
        ({"system": "nodes", "broker": {"eligible.leader.replicas.version": 0}}, False),
        ({"system": "kafka"}, False),
        ({"system": "kafka", "broker": {"eligible.leader.replicas.version": "1"}}, True),
    ],
)
def test_eligible_leader_replicas(plan: dict[str, Any], on: bool) -> None:
    """On where the built-in broker is not told otherwise; elsewhere only where it is said."""
    assert topic_settings(plan, None).eligible_leader_replicas is on


@pytest.mark.parametrize(
    ("name", "value", "field", "least"),
    [
        ("min.insync.replicas", "1", "min_insync_replicas", 1),
        ("min.insync.replicas", "3", "min_insync_replicas", 2),
        ("unclean.leader.election.enable", "true", "unclean_election", True),
        ("flush.messages", "1000", "flush_before_ack", False),
        ("flush.messages", "1", "flush_before_ack", True),
        ("segment.bytes", "16384", "min_insync_replicas", 2),
    ],
)
def test_a_change_weakens_or_nothing(name: str, value: str, field: str, least: object) -> None:
    """A stricter setting does not help what was written before it."""
    changes = read_changes([changed({"topic": "t", "name": name, "value": value})])
    assert getattr(weakest(STRICT, "t", changes, 0, 30), field) == least


@pytest.mark.parametrize(
    ("topic", "from_ns", "until_ns", "reached"),
    [
        ("t", 0, 9, False),
        ("t", 0, 10, True),
        ("t", 20, 30, True),
        ("t", 21, 30, False),
        ("another", 0, 30, False),
    ],
)
def test_a_change_counts_while_it_lasts(
    topic: str, from_ns: int, until_ns: int, reached: bool
) -> None:
    """For its own topic, from its injection to its heal."""
    details = {"topic": "t", "name": "unclean.leader.election.enable", "value": "true"}
    least = weakest(STRICT, topic, read_changes([changed(details)]), from_ns, until_ns)
    assert least.unclean_election is reached


@pytest.mark.parametrize(("from_ns", "reached"), [(2_000_000_020, True), (2_000_000_021, False)])
def test_brokers_learn_late_that_a_change_is_over(from_ns: int, reached: bool) -> None:
    """Each goes on with what it knew until it has the metadata log's records."""
    for name, value in (("min.insync.replicas", "1"), ("flush.messages", "100")):
        changes = read_changes([changed({"topic": "t", "name": name, "value": value})])
        assert (weakest(STRICT, "t", changes, from_ns, from_ns) != STRICT) is reached


def test_change_counts_for_its_topic_and_only_if_it_may_have_happened() -> None:
    """Every topic's; an unclean election by order; not what never struck, nor what changes none."""
    details = {"topic": "every", "name": "min.insync.replicas", "value": "1"}
    [every] = read_changes([changed(details, healed_ns=None)])
    assert (every.topic, every.until_ns > 1 << 60) == (None, True)
    [unclean] = read_changes([changed({"topic": "t", "kind": "unclean"}, "elect")])
    assert weakest(STRICT, "t", [unclean], 0, 30).unclean_election
    others = [
        changed(details, started_ns=None),
        changed({"topic": "t", "kind": "preferred"}, "elect"),
        changed(details, "kill"),
        {"fault": "config", "targets": "nonsense", "started_ns": 1, "healed_ns": 2},
        {"fault": "config", "targets": "[1]", "started_ns": 1, "healed_ns": 2},
    ]
    assert read_changes(others) == ()


def test_a_plan_says_what_its_workload_promises() -> None:
    """Without a word the workload promises nothing, and transactions are those of KIP-890."""
    told = topic_settings(
        {
            "broker": {"transaction.version": "1"},
            "workload": {"processing": EXACTLY_ONCE, "group_metadata": False},
        },
        "t",
    )
    assert (told.processing, told.group_metadata) == (EXACTLY_ONCE, False)
    assert told.transaction_version == 1
    untold = topic_settings({}, "t")
    assert (untold.processing, untold.group_metadata) == (None, True)
    assert untold.transaction_version == 2


@pytest.mark.parametrize(
    ("workload", "levels"),
    [
        ({"kind": "transactions", "client": "own"}, (2, 2, 2)),
        ({"kind": "transactions", "client": "librdkafka"}, (1, 2, 1)),
        ({"kind": "transactions", "client": "aiokafka", "topics": ["u"]}, (2, 2, 1)),
        ({"kind": "copy", "client": "java", "processing": EXACTLY_ONCE}, (2, 2, 2)),
        ({"kind": "copy", "client": "program", "processing": EXACTLY_ONCE}, (2, 1, 1)),
        ({"kind": "copy", "client": "program", "processing": "at-least-once"}, (2, 2, 2)),
        ({"kind": "group", "client": "librdkafka", "topic": "t"}, (2, 2, 2)),
    ],
)
def test_transactions_are_as_safe_as_their_clients_let_them_be(
    workload: dict[str, Any], levels: tuple[int, int, int]
) -> None:
    """Clients of version 1 keep one epoch, whatever the cluster can (topic, output, states)."""
    copy = {"kind": "copy", "client": "own", "processing": "at-least-once", "input": "t"}
    plan = {"more_workloads": [copy | {"output": "out"}, {"output": "out"} | workload]}
    found = [topic_settings(plan, topic) for topic in ("t", "out", TRANSACTIONS_TOPIC)]
    assert tuple(each.transaction_version for each in found) == levels


def test_a_topic_has_the_least_promise_of_the_workloads_that_name_it() -> None:
    """A group promises something of the topic that it reads, a copy also of its output."""
    copy = {"kind": "copy", "input": "in", "output": "out", "processing": EXACTLY_ONCE}
    group = {"kind": "group", "topic": "in", "processing": AT_LEAST_ONCE}
    plan = {"more_workloads": [{**copy, "group_metadata": False}, group]}
    told = {name: topic_settings(plan, name) for name in ("in", "out", "other")}
    assert told["in"].processing == AT_LEAST_ONCE
    assert (told["out"].processing, told["out"].group_metadata) == (EXACTLY_ONCE, False)
    assert (told["other"].processing, told["other"].group_metadata) == (None, True)


def test_a_group_has_the_promise_of_its_workload() -> None:
    """Groups without a further workload have that of the plan."""
    plan = {
        "workload": {"processing": AT_MOST_ONCE},
        "more_workloads": [
            {"group": "a", "processing": EXACTLY_ONCE, "group_metadata": False},
            {"kind": "transactions", "transaction_timeout_ms": 5_000},
        ],
    }
    planned = topic_settings(plan, "t")
    told = of_group(planned, plan, "a")
    assert (told.processing, told.group_metadata) == (EXACTLY_ONCE, False)
    assert of_group(planned, plan, "b") == of_group(planned, plan, None) == planned
    assert transaction_timeout_ms(plan) == 5_000
    assert transaction_timeout_ms({}) == DEFAULT_TRANSACTION_TIMEOUT_MS
