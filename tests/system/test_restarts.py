"""Restarts under load: whatever was acknowledged by acks=all is where it was said to be.

Real nodes, a real client that never stops sending; the nodes are told to stop one after another,
or all of them are killed at once. The client is highwater's own: librdkafka's may write a record
twice by itself when a leader changes (docs/findings/librdkafka-idempotent-duplicates.md).
"""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from harness.systems.brokers import BrokerSystem
from harness.targets.local import LocalTarget
from tests.support.clients.steady_senders import PATIENCE_S, Answers
from tests.support.require import require
from tests.tools.leader_moves import cluster, sending, settled

RATE_PER_S = 200.0
SETTLE_S = 0.5


def read_all(target: LocalTarget, system: BrokerSystem, count: int) -> dict[int, bytes]:
    """The first `count` records by offset."""
    with target.in_client_netns():
        consumer = Consumer(
            {
                "bootstrap.servers": system.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
    consumer.assign([TopicPartition("t", 0, 0)])
    found: dict[int, bytes] = {}
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found[int(message.offset() or 0)] = bytes(message.value() or b"")
    consumer.close()
    return found


def under_load(
    place: Path, outage: Callable[[LocalTarget, BrokerSystem, Answers], None]
) -> tuple[Answers, dict[int, bytes]]:
    """Send all the while that `outage` lasts, and read everything afterwards."""
    require("root", "netns")
    with cluster(place) as (target, system):
        with sending(target, system, RATE_PER_S, "own") as answers:
            time.sleep(SETTLE_S)
            outage(target, system, answers)
            time.sleep(SETTLE_S)
        settled(target, system, 1)
        return answers, read_all(target, system, max(answers.offsets) + 1)


def check(answers: Answers, found: dict[int, bytes]) -> None:
    """Every acknowledged record is at its offset, and nothing is there twice."""
    assert answers.failures == []
    assert len(answers.offsets) > 10 * SETTLE_S
    acknowledged = dict(zip(answers.offsets, answers.values, strict=True))
    assert len(acknowledged) == len(answers.offsets)
    assert {offset: found.get(offset) for offset in acknowledged} == acknowledged
    times = Counter(found.values())
    assert {value: count for value, count in times.items() if count > 1} == {}


@pytest.mark.slow
def test_every_node_in_turn(tmp_path: Path) -> None:
    """A rolling restart by SIGTERM: leaderships are handed over, and nobody notices."""

    def roll(target: LocalTarget, system: BrokerSystem, answers: Answers) -> None:
        for node in target.node_ids():
            other = node % len(target.node_ids()) + 1
            assert target.stop(node, PATIENCE_S)
            target.start(node)
            settled(target, system, other)

    check(*under_load(tmp_path, roll))


@pytest.mark.slow
def test_all_nodes_at_once(tmp_path: Path) -> None:
    """SIGKILL to every node: what was acknowledged was on all of them, and they know it again."""

    def kill(target: LocalTarget, system: BrokerSystem, answers: Answers) -> None:
        before = len(answers.offsets)
        for node in target.node_ids():
            target.kill(node)
        for node in target.node_ids():
            target.start(node)
        settled(target, system, 1)
        deadline_s = time.monotonic() + PATIENCE_S
        while len(answers.offsets) <= before + 10 and time.monotonic() < deadline_s:
            time.sleep(0.05)

    check(*under_load(tmp_path, kill))
