"""Foreign clients when a broker dies, and when the nearest replica is not the leader.

Real processes on a network of their own: a broker dies by SIGKILL, and which broker served the
records is read from the kernel's counters of its network interface.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from harness.plans.plan import build
from harness.recording import store
from harness.systems.brokers import BrokerSystem
from harness.systems.node_roles import Layout
from harness.targets.local import LocalTarget
from tests.support.clusters.cluster_command import known_everywhere
from tests.support.foreign import PATIENCE_S, Confluent, Message
from tests.support.foreign.long_lived import READERS, WATCHES
from tests.support.require import require
from tests.support.targets.machine import local_target

pytestmark = pytest.mark.slow

T = TypeVar("T")

NODES = (1, 2, 3)
RACKS = ("a", "b", "c")
PLAN = build(
    {
        "name": "foreign-failures",
        "seed": 0,
        "topics": [{"name": "unused", "acks": "all"}],
        "broker": {
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        },
    },
    where="foreign failures",
)


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster, one broker in each rack."""

    target: LocalTarget
    bootstrap: str


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three nodes that this machine's clients reach directly."""
    require("root", "netns")
    place = tmp_path_factory.mktemp("failures")
    run = store.create(place / "store", "failures", versions={}, commit=None)
    with local_target(place, nodes=len(NODES), uplink=True) as target:
        system = BrokerSystem(PLAN, target, run, Layout.combined(NODES, RACKS))
        system.configure()
        system.start()
        yield Running(target, system.bootstrap)
        system.stop()


def eventually(look: Callable[[], T], holds: Callable[[T], object], what: str) -> T:
    """What `look` gives once it `holds`."""
    until = time.monotonic() + PATIENCE_S
    while True:
        found = look()
        if holds(found):
            return found
        assert time.monotonic() < until, f"{what}: still {found}"
        time.sleep(0.05)


def in_service(cluster: Running) -> None:
    """Wait until every node is a broker again, as another client sees it."""
    with WATCHES["confluent-kafka"](cluster.bootstrap, "unused") as other:
        eventually(other.view, lambda view: view.brokers == set(NODES), "not all are back")


@pytest.mark.parametrize("name", WATCHES)
def test_metadata_while_a_broker_dies(cluster: Running, name: str) -> None:
    """An open client learns of the new leader, goes on writing, and sees the broker return."""
    if name == "kcat":
        require("kcat")
    topic = f"dying-{name}"
    Confluent().create_topic(cluster.bootstrap, topic)
    known_everywhere(cluster.bootstrap, topic)
    with WATCHES[name](cluster.bootstrap, topic) as client:
        client.send(b"before")
        before = eventually(client.view, lambda v: v.leader is not None, "no leader")
        assert before.brokers == set(NODES)
        dying = before.leader
        assert dying is not None
        cluster.target.kill(dying)
        try:
            eventually(
                client.view,
                lambda v: v.leader not in (None, dying) and dying not in v.brokers,
                f"broker {dying} died",
            )
            client.send(b"during")
        finally:
            cluster.target.start(dying)
            in_service(cluster)
        eventually(client.view, lambda v: v.brokers == set(NODES), f"broker {dying} is back")
        client.send(b"after")
    sent = [Message(b"before"), Message(b"during"), Message(b"after")]
    assert Confluent().consume(cluster.bootstrap, topic, len(sent)) == sent


def sent_bytes(target: LocalTarget, node: int) -> int:
    """What the node's network interface has sent since it was made."""
    lines = Path(f"/proc/{target.pid(node)}/net/dev").read_text().splitlines()[2:]
    counters = [line.split(":") for line in lines]
    return sum(int(fields.split()[8]) for name, fields in counters if name.strip() != "lo")


@pytest.mark.parametrize("name", READERS)
def test_reading_from_a_follower(cluster: Running, name: str) -> None:
    """A reader gets the records from the replica in its rack, and the leader is spared (KIP-392).

    The records are many times larger than all else that brokers say in the meantime.
    """
    if name == "kcat":
        require("kcat")
    topic = f"near-{name}"
    Confluent().create_topic(cluster.bootstrap, topic)
    known_everywhere(cluster.bootstrap, topic)
    values = [Message(bytes(10_000))] * 2_000
    Confluent().produce(cluster.bootstrap, topic, values)
    with WATCHES["confluent-kafka"](cluster.bootstrap, topic) as watch:
        leader = eventually(watch.view, lambda v: v.leader is not None, "no leader").leader
    follower = next(node for node in NODES if node != leader)
    before = {node: sent_bytes(cluster.target, node) for node in NODES}
    rack = RACKS[NODES.index(follower)]
    size = READERS[name](cluster.bootstrap, topic, len(values), rack)
    assert size == sum(len(message.value or b"") for message in values)
    sent = {node: sent_bytes(cluster.target, node) - before[node] for node in NODES}
    assert sent[follower] > size
    assert all(sent[node] < size / 4 for node in NODES if node != follower), sent
