"""Every fault of administration on a real cluster of three: what it does, and its undoing."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from harness.admin.errors import AdminError, Unreachable
from harness.recording import journal
from harness.targets.clean import clean, undo
from harness.targets.linux.clean import CleanOutcome
from nemesis.administration import PartitionKey
from nemesis.base import NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Measurement
from tests.support.clusters.membership_cluster import PATIENCE_S, TOPICS, Cluster, running
from tests.support.require import require
from tests.support.targets.machine import leftovers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests: each leaves it as it was, but for where replicas are."""
    require("netns")
    with running(tmp_path_factory.mktemp("membership")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def everybody_serves(cluster: Cluster) -> None:
    """Each test begins so: what the one before it stopped may take a session to come back."""

    def serving() -> Measurement:
        found = cluster.admin.brokers()
        return Measurement(confirmed=found == [1, 2, 3], evidence=f"{found} serve")

    cluster.until(serving)


def test_reassign(cluster: Cluster) -> None:
    """The replicas get to other brokers, and cancelling what is over changes nothing."""
    before = cluster.admin.placement(["one"])
    injection, evidence = cluster.play("reassign", topic="one", scope="topic")
    assert "one/0" in evidence
    assert "one/1" in evidence
    cluster.until(lambda: _at_rest(cluster))
    cluster.heal("reassign", injection)
    after = cluster.admin.placement(["one"])
    assert {at: each.assignment for at, each in before.items()} != {
        at: each.assignment for at, each in after.items()
    }
    assert not any(each.moving for each in after.values())


def _at_rest(cluster: Cluster) -> Measurement:
    placed = cluster.admin.placement(["one"])
    return Measurement(
        confirmed=not any(each.moving for each in placed.values()), evidence=f"{placed}"
    )


def test_reassign_is_cancelled(cluster: Cluster) -> None:
    """What cannot be completed, because the new broker stands still, is cancelled by the heal."""
    before = cluster.admin.placement(["two"])["two", 0].assignment
    (free,) = {1, 2, 3} - set(before)
    fault, injection = find("reassign"), cluster.plan_injection("reassign", topic="two")
    layer = injection.detail("layer")
    cluster.target.pause(free)
    try:
        targets = {("two", 0): (before[0], free)}
        cluster.until(lambda: _ordered(cluster, layer, targets))
        effect = fault.measure_effect(cluster.hosts, injection)
        assert effect.confirmed
        assert "two/0 moves to" in effect.evidence
        fault.heal(cluster.hosts, injection)
        cluster.until_settled(injection)
    finally:
        cluster.target.resume(free)
    assert cluster.admin.placement(["two"])["two", 0].replicas == before


def _ordered(
    cluster: Cluster, layer: str, targets: Mapping[PartitionKey, Sequence[int]]
) -> Measurement:
    """The broker that stands still may have been the active controller: then nobody answers yet."""
    try:
        return Measurement(confirmed=not cluster.admin.move(layer, targets), evidence="")
    except Unreachable as error:
        return Measurement(confirmed=False, evidence=str(error))


def test_elect(cluster: Cluster) -> None:
    """The preferred leader leads again after a restart; nothing is done where nobody is needed."""
    placed = cluster.admin.placement(["two"])["two", 0]
    preferred = placed.assignment[0]
    if placed.leader == preferred:
        cluster.target.stop(preferred)
        cluster.target.start(preferred)
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            injection, evidence = cluster.play("elect", topic="two")
            break
        except (NotApplicable, AdminError):  # it is not in sync yet
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
    assert evidence == f"two/0 is led by {preferred}"
    cluster.heal("elect", injection)
    with pytest.raises(NotApplicable, match="preferred leader already"):
        cluster.play("elect", topic="two")


def test_configs_of_all_brokers(cluster: Cluster) -> None:
    """A default and a throttle are in force, and the heals remove them."""
    first, evidence = cluster.play("config.broker", name="log.roll.ms", value="1000")
    assert evidence == "log.roll.ms of all brokers is 1000"
    second, _ = cluster.play("config.throttle", bytes_per_s="700")
    cluster.heal("config.broker", first)
    cluster.heal("config.throttle", second)
    rate = "leader.replication.throttled.rate"
    assert [cluster.admin.brokers_config(each) for each in ("log.roll.ms", rate)] == [None, None]


def test_config(cluster: Cluster) -> None:
    """The value is in force until the heal; of two changes of the same, each goes alone."""
    before = cluster.admin.topic_config("one", "segment.bytes")
    first, evidence = cluster.play("config", name="segment.bytes", value="65536")
    assert evidence == "segment.bytes is one 65536, two 65536"
    second, _ = cluster.play("config", name="segment.bytes", value="16384", topic="one")
    cluster.heal("config", first)
    assert cluster.admin.topic_config("one", "segment.bytes") == "16384"
    assert cluster.admin.topic_config("two", "segment.bytes") == before
    assert cluster.heal("config", second) == f"segment.bytes is one {before}"
    with pytest.raises(NotApplicable, match="already"):
        cluster.play("config", name="min.insync.replicas", value="2")


def _only_topics(cluster: Cluster) -> Measurement:
    found = cluster.admin.topics()
    return Measurement(confirmed=set(found) == set(TOPICS), evidence=f"topics are {list(found)}")


def test_topics_come_and_go(cluster: Cluster) -> None:
    """Topics are there, led, replaced by others, and gone after the heal."""
    injection, evidence = cluster.play("topic.create-delete", pulses=2)
    assert "3 partitions, all with a leader" in evidence
    scratch = [name for name in cluster.admin.topics() if name.startswith("scratch")]
    assert scratch
    cluster.heal("topic.create-delete", injection)
    cluster.until(lambda: _only_topics(cluster))


def test_a_topic_grows(cluster: Cluster) -> None:
    """It has a partition more with each pulse, up to the bound, and is gone after the heal."""
    injection, evidence = cluster.play("partitions.grow", pulses=3, most="4")
    assert "has 4 partitions" in evidence
    cluster.heal("partitions.grow", injection)
    cluster.until(lambda: _only_topics(cluster))


def test_a_broker_joins_and_leaves(cluster: Cluster) -> None:
    """It is in service, gets replicas, gives them back, and nothing is left of its machine."""
    injection, _ = cluster.play("broker.add", replicas="2")
    (node,) = cluster.watched.added[-1:]
    fault = find("broker.add")
    fault.tick(cluster.hosts, injection, 1000)
    held = [
        at for at, each in cluster.admin.placement(list(TOPICS)).items() if node in each.assignment
    ]
    assert len(held) == 2
    cluster.heal("broker.add", injection)
    assert cluster.watched.removed[-1:] == [node]
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
    injection, evidence = cluster.play("broker.remove", 2)
    assert evidence.endswith("unregistered: 2")
    assert not cluster.target.is_running(2)
    assert cluster.admin.brokers() == [1, 3]
    assert cluster.admin.voters() == [1, 3]
    assert list((cluster.target.data_dir(2) / "log").iterdir()) == []
    with pytest.raises(NotApplicable, match="nowhere to go"):
        find("broker.remove").inject(cluster.hosts, cluster.plan_injection("broker.remove", 3))
    cluster.heal("broker.remove", injection)
    assert cluster.admin.brokers() == [1, 2, 3]
    assert cluster.admin.voters() == [1, 2, 3]


def test_a_controller_loses_its_vote(cluster: Cluster) -> None:
    """It is no voter until the heal."""
    injection, evidence = cluster.play("quorum.remove-voter", 3)
    assert evidence == "voters are [1, 2]"
    cluster.heal("quorum.remove-voter", injection)
    assert cluster.admin.voters() == [1, 2, 3]


def test_a_vote_is_for_the_disk_that_there_is(cluster: Cluster) -> None:
    """A leader that knew a node on a disk that is lost gives its vote to the one it is on now: a
    quorum with a voter that nobody is would end with the next vote that is taken.
    """
    for node in (2, 1):
        injection, _ = cluster.play("broker.remove", node)
        cluster.heal("broker.remove", injection)
        injection, _ = cluster.play("quorum.remove-voter", 3)
        cluster.heal("quorum.remove-voter", injection)
    assert cluster.admin.voters() == [1, 2, 3]


def test_a_node_joins_the_quorum(cluster: Cluster) -> None:
    """It gets a vote, and leaves with nothing left of it."""
    injection, _ = cluster.play("quorum.add-voter")
    (node,) = cluster.watched.added[-1:]
    assert cluster.admin.voters() == [1, 2, 3, node]
    cluster.heal("quorum.add-voter", injection)
    assert cluster.admin.voters() == [1, 2, 3]
    assert node not in cluster.target.node_ids()


HARNESS = """
import pathlib, sys, time
from tests.support.clusters.membership_cluster import running
with running(pathlib.Path(sys.argv[1])) as cluster:
    cluster.play("broker.add", replicas="0")
    cluster.play("quorum.add-voter")
    cluster.play("broker.remove", 2)
    cluster.play("config", name="segment.bytes", value="65536")
    print("ready", flush=True)
    time.sleep(1000)
"""


def test_a_harness_killed_meanwhile_is_undone(tmp_path: Path) -> None:
    """Nothing is left, neither of the machines that were there first nor of those that came."""
    require("netns")
    run_dir, registry = tmp_path / "run", tmp_path / "registry"
    command = [sys.executable, "-c", HARNESS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as harness:
        try:
            assert harness.stdout is not None
            assert harness.stdout.readline() == b"ready\n"
            harness.send_signal(signal.SIGKILL)
            harness.wait()
            [cleaned] = clean(registry=registry)
        finally:
            harness.kill()
            again = undo(run_dir / "journal.jsonl", registry=registry)
    assert cleaned.problems == ()
    assert cleaned.outcome is CleanOutcome.UNDONE
    assert sum(what.startswith("namespace") for what in cleaned.removed) == 7
    assert (again.outcome, again.removed) == (CleanOutcome.UNDONE, ())
    run_id = str(journal.read(run_dir / "journal.jsonl")[0]["run_id"])
    assert leftovers(run_id, run_dir) == []
