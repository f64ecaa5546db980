"""Every fault of administration on a real cluster of three: what it does, and its undoing."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness import store
from harness.admin.client import Address
from harness.admin.errors import AdminError
from harness.administrator import Administrator
from harness.hosts import hosts_of
from harness.plan import build
from harness.systems.nodes import NodesSystem
from harness.targets.local import LocalTarget
from nemesis.base import Futile
from nemesis.fault import Effect, Params, Strike
from nemesis.faults import find
from nemesis.hosts import Hosts
from tests.harness.targets.machine import local_target
from tests.nemesis.fakes import FakeView
from tests.require import require

pytestmark = pytest.mark.slow

PATIENCE_S = 30.0
TOPICS = {"one": 2, "two": 1}


@dataclass
class Roster:
    """Nobody watches the brokers; who came and went is remembered."""

    came: list[int] = field(default_factory=list)
    went: list[int] = field(default_factory=list)

    def add_broker(self, node: int, address: Address) -> None:
        """A broker has come."""
        self.came.append(node)

    def remove_broker(self, node: int) -> None:
        """A broker has gone."""
        self.went.append(node)

    def controller(self) -> int | None:
        """Unknown."""

    def answers(self, node: int) -> bool | None:
        """Unknown."""


@dataclass
class Cluster:
    """Three nodes, and what faults act on."""

    target: LocalTarget
    system: NodesSystem
    admin: Administrator
    hosts: Hosts
    roster: Roster
    strikes: int = 0

    def aim(self, fault_name: str, /, *nodes: int, **params: str) -> Strike:
        """A strike of its own."""
        self.strikes += 1
        fault = find(fault_name)
        given = Params.of(fault.options, params)
        return fault.aim(nodes, [1, 2, 3], random.Random(self.strikes), given)

    def until(self, measure: Callable[[], Effect]) -> str:
        """Measure until it took."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not (found := measure()).took:
            assert time.monotonic() < deadline_s, found.evidence
            time.sleep(0.1)
        return found.evidence

    def until_settled(self, strike: Strike) -> None:
        """Wait until nothing of it is owed."""
        deadline_s = time.monotonic() + PATIENCE_S
        while owed := self.admin.owed(strike.detail("layer")):
            assert time.monotonic() < deadline_s, owed
            time.sleep(0.1)

    def play(
        self, fault_name: str, /, *nodes: int, pulses: int = 0, **params: str
    ) -> tuple[Strike, str]:
        """Strike, and wait for the proof of the effect."""
        fault, strike = find(fault_name), self.aim(fault_name, *nodes, **params)
        fault.inject(self.hosts, strike)
        for pulse in range(pulses):
            time.sleep(0.5)
            fault.pulse(self.hosts, strike, 1000 * (pulse + 1))
        return strike, self.until(lambda: fault.effect(self.hosts, strike))

    def heal(self, name: str, strike: Strike) -> str:
        """Heal it twice, wait until that is done, and measure."""
        fault = find(name)
        fault.heal(self.hosts, strike)
        fault.heal(self.hosts, strike)
        self.until_settled(strike)
        found = fault.healing(self.hosts, strike)
        assert found.took, found.evidence
        return found.evidence


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of three brokers and controllers, with two topics of two replicas."""
    require("netns")
    place = tmp_path_factory.mktemp("membership")
    plan = build(
        {
            "name": "membership",
            "seed": 0,
            "topics": [
                {"name": name, "acks": "all", "partitions": count, "replication_factor": 2}
                for name, count in TOPICS.items()
            ],
            "broker": {"auto.leader.rebalance.enable": False},
        },
        where="membership",
    )
    run = store.create(place / "store", plan.name, versions={}, commit=None)
    with local_target(place, nodes=3) as target:
        system = NodesSystem(plan, target, run)
        system.configure()
        roster, view = Roster(), FakeView()
        admin = Administrator(system, target, roster)
        view.leaders = {(name, n): 1 for name, count in TOPICS.items() for n in range(count)}
        hosts = hosts_of(target, view, admin)
        try:
            system.start()
            system.create_topics()
            yield Cluster(target=target, system=system, admin=admin, hosts=hosts, roster=roster)
        finally:
            assert list(admin.finish(PATIENCE_S)) == []
            system.stop()
            for node in range(1, 5):
                log = run.node_dir(node) / "node.log"
                if log.exists():
                    (Path(place) / f"node-{node}.log").write_bytes(log.read_bytes())


def test_reassign(cluster: Cluster) -> None:
    """The replicas get to other brokers, and cancelling what is over changes nothing."""
    before = cluster.admin.placement(["one"])
    strike, evidence = cluster.play("reassign", topic="one", scope="topic")
    assert "one/0" in evidence
    assert "one/1" in evidence
    cluster.heal("reassign", strike)
    after = cluster.admin.placement(["one"])
    assert {at: each.target for at, each in before.items()} != {
        at: each.target for at, each in after.items()
    }
    assert not any(each.moving for each in after.values())


def test_reassign_is_cancelled(cluster: Cluster) -> None:
    """What cannot be completed, because the new broker stands still, is cancelled by the heal."""
    before = cluster.admin.placement(["two"])["two", 0].target
    (free,) = {1, 2, 3} - set(before)
    fault, strike = find("reassign"), cluster.aim("reassign", topic="two")
    layer = strike.detail("layer")
    cluster.target.pause(free)
    try:
        cluster.admin.move(layer, {("two", 0): (before[0], free)})
        effect = fault.effect(cluster.hosts, strike)
        assert effect.took
        assert "two/0 moves to" in effect.evidence
        fault.heal(cluster.hosts, strike)
        cluster.until_settled(strike)
    finally:
        cluster.target.resume(free)
    assert cluster.admin.placement(["two"])["two", 0].replicas == before


def test_elect(cluster: Cluster) -> None:
    """The preferred leader leads again after a restart; nothing is done where nobody is needed."""
    placed = cluster.admin.placement(["two"])["two", 0]
    preferred = placed.target[0]
    if placed.leader == preferred:
        cluster.target.stop(preferred)
        cluster.target.start(preferred)
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            strike, evidence = cluster.play("elect", topic="two")
            break
        except (Futile, AdminError):  # it is not in sync yet
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
    assert evidence == f"two/0 is led by {preferred}"
    cluster.heal("elect", strike)
    with pytest.raises(Futile, match="preferred leader already"):
        cluster.play("elect", topic="two")


def test_config(cluster: Cluster) -> None:
    """The value is in force until the heal; of two changes of the same, each goes alone."""
    before = cluster.admin.setting("one", "segment.bytes")
    first, evidence = cluster.play("config", name="segment.bytes", value="65536")
    assert evidence == "segment.bytes is one 65536, two 65536"
    second, _ = cluster.play("config", name="segment.bytes", value="16384", topic="one")
    cluster.heal("config", first)
    assert cluster.admin.setting("one", "segment.bytes") == "16384"
    assert cluster.admin.setting("two", "segment.bytes") == before
    assert cluster.heal("config", second) == f"segment.bytes is one {before}"
    with pytest.raises(Futile, match="already"):
        cluster.play("config", name="min.insync.replicas", value="2")


def _only_topics(cluster: Cluster) -> Effect:
    found = cluster.admin.topics()
    return Effect(took=set(found) == set(TOPICS), evidence=f"topics are {list(found)}")


def test_topics_come_and_go(cluster: Cluster) -> None:
    """Topics are there, led, replaced by others, and gone after the heal."""
    strike, evidence = cluster.play("topic.create-delete", pulses=2)
    assert "3 partitions, all led" in evidence
    scratch = [name for name in cluster.admin.topics() if name.startswith("scratch")]
    assert scratch
    cluster.heal("topic.create-delete", strike)
    cluster.until(lambda: _only_topics(cluster))


def test_a_topic_grows(cluster: Cluster) -> None:
    """It has a partition more with each pulse, up to the bound, and is gone after the heal."""
    strike, evidence = cluster.play("partitions.grow", pulses=3, most="4")
    assert "has 4 partitions" in evidence
    cluster.heal("partitions.grow", strike)
    cluster.until(lambda: _only_topics(cluster))


def test_a_broker_joins_and_leaves(cluster: Cluster) -> None:
    """It is in service, gets replicas, gives them back, and nothing is left of its machine."""
    strike, _ = cluster.play("broker.add", replicas="2")
    (node,) = cluster.roster.came[-1:]
    fault = find("broker.add")
    fault.pulse(cluster.hosts, strike, 1000)
    held = [at for at, each in cluster.admin.placement(list(TOPICS)).items() if node in each.target]
    assert len(held) == 2
    cluster.heal("broker.add", strike)
    assert cluster.roster.went[-1:] == [node]
    assert node not in cluster.target.node_ids()
    assert cluster.admin.brokers() == [1, 2, 3]
    for each in cluster.admin.placement(list(TOPICS)).values():
        assert set(each.replicas) <= {1, 2, 3}
        assert len(each.replicas) == 2
    again, evidence = cluster.play("broker.add", replicas="0")
    assert evidence.startswith(f"broker {node} is in service"), "its number is free again"
    cluster.heal("broker.add", again)


def test_a_broker_leaves_and_comes_back(cluster: Cluster) -> None:
    """It is drained, gives up its vote, is unregistered and wiped; and comes back with a vote."""
    strike, evidence = cluster.play("broker.remove", 2)
    assert evidence.endswith("unregistered: 2")
    assert not cluster.target.is_running(2)
    assert cluster.admin.brokers() == [1, 3]
    assert cluster.admin.voters() == [1, 3]
    assert list((cluster.target.data_dir(2) / "log").iterdir()) == []
    with pytest.raises(Futile, match="nowhere to go"):
        find("broker.remove").inject(cluster.hosts, cluster.aim("broker.remove", 3))
    cluster.heal("broker.remove", strike)
    assert cluster.admin.brokers() == [1, 2, 3]
    assert cluster.admin.voters() == [1, 2, 3]


def test_a_controller_loses_its_vote(cluster: Cluster) -> None:
    """It is no voter until the heal."""
    strike, evidence = cluster.play("quorum.remove-voter", 3)
    assert evidence == "voters are [1, 2]"
    cluster.heal("quorum.remove-voter", strike)
    assert cluster.admin.voters() == [1, 2, 3]


def test_a_node_joins_the_quorum(cluster: Cluster) -> None:
    """It gets a vote, and leaves with nothing left of it."""
    strike, _ = cluster.play("quorum.add-voter")
    (node,) = cluster.roster.came[-1:]
    assert cluster.admin.voters() == [1, 2, 3, node]
    cluster.heal("quorum.add-voter", strike)
    assert cluster.admin.voters() == [1, 2, 3]
    assert node not in cluster.target.node_ids()
