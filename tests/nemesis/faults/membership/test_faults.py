"""The faults of administration against a cluster that does as it is told, or does not answer."""

import random

import pytest

from nemesis.administration import PartitionKey, Placement
from nemesis.base import NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Fault, Injection, Params
from nemesis.faults.membership import FAULTS
from nemesis.faults.membership.brokers import partition_that_needs, with_replica_on
from nemesis.faults.membership.replicas import draw_assignment
from tests.support.nemesis.administration import FakeAdministration
from tests.support.nemesis.fakes import FakeMachines, Trace


def aimed(fault_name: str, /, *nodes: int, seed: int = 1, **params: str) -> tuple[Fault, Injection]:
    """A fault and its injection."""
    fault = find(fault_name)
    given = Params.of(fault.options, params)
    return fault, fault.plan_injection(nodes, [1, 2, 3], random.Random(seed), given)


@pytest.fixture
def machines() -> FakeMachines:
    """Three of them."""
    return FakeMachines(Trace())


@pytest.fixture
def cluster(machines: FakeMachines) -> FakeAdministration:
    """Their administration."""
    return machines.cluster


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_same_seed_plans_the_same_injection(fault: Fault) -> None:
    """What is left open is drawn from the seed; strikes of other seeds have layers of their own."""
    assert aimed(fault.name, 1) == aimed(fault.name, 1)
    layers = {aimed(fault.name, 1, seed=seed)[1].detail("layer") for seed in range(20)}
    assert len(layers) == 20


ASKING = [each for each in FAULTS if each.name not in ("broker.add", "quorum.add-voter")]
"""Those that make no machine first."""


@pytest.mark.parametrize("fault", ASKING, ids=lambda fault: fault.name)
def test_a_request_without_an_answer_fails_and_its_undo_does_not(
    fault: Fault, machines: FakeMachines
) -> None:
    """Whatever asks the cluster fails when it does not answer; its undoing does not."""
    machines.cluster.deaf = True
    _, injection = aimed(fault.name, 2)
    hosts = machines.hosts()
    with pytest.raises(OSError, match="nobody answers"):
        fault.inject(hosts, injection)
    fault.heal(hosts, injection)
    assert machines.cluster.undone == [injection.detail("layer")]


def test_a_reassignment_moves_to_other_replicas(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """As many as before, on brokers in service; it is proven by where the partition is then."""
    hosts = machines.hosts()
    fault, injection = aimed("reassign", topic="a", scope="topic")
    before = dict(cluster.placed)
    assert not fault.measure_effect(hosts, injection).confirmed
    fault.inject(hosts, injection)
    for at, each in cluster.placed.items():
        assert len(each.assignment) == 2
        assert each.assignment != before[at].assignment
        assert set(each.assignment) <= {1, 2, 3}
    assert fault.measure_effect(hosts, injection).confirmed
    cluster.placed["a", 0] = before["a", 0]
    assert not fault.measure_effect(hosts, injection).confirmed


def test_a_refused_reassignment_is_not_applicable(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """So is one for which there are too few brokers, or of a topic that there is not."""
    hosts = machines.hosts()
    cluster.refused = {("a", 0): "no", ("a", 1): "no"}
    with pytest.raises(NotApplicable, match="every move was refused"):
        find("reassign").inject(hosts, aimed("reassign")[1])
    cluster.live = [1]
    with pytest.raises(NotApplicable, match="allow no other assignment"):
        find("reassign").inject(hosts, aimed("reassign")[1])
    with pytest.raises(NotApplicable, match="no topic b"):
        find("reassign").inject(hosts, aimed("reassign", topic="b")[1])


@pytest.mark.parametrize(
    ("now", "brokers", "found"),
    [((1, 2), [1], None), ((1,), [1], None), ((1, 2), [1, 2], (2, 1)), ((1,), [1, 2], (2,))],
)
def test_a_drawn_assignment_differs_from_the_present_one(
    now: tuple[int, ...], brokers: list[int], found: tuple[int, ...]
) -> None:
    """Other brokers or another order; nobody where there is neither."""
    assert draw_assignment(now, brokers, random.Random(1)) == found


def test_only_partitions_without_their_preferred_leader_are_elected(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """Only those partitions are asked for; none is futile, and so is a refusal of all."""
    hosts = machines.hosts()
    fault, injection = aimed("elect", topic="a")
    with pytest.raises(NotApplicable, match="each has its preferred leader already"):
        fault.inject(hosts, injection)
    cluster.placed["a", 1] = Placement(3, (2, 3), (2, 3))
    cluster.refused = {("a", 1): "it is not in sync"}
    with pytest.raises(NotApplicable, match="no leader was elected: it is not in sync"):
        fault.inject(hosts, injection)
    cluster.refused = {}
    fault.inject(hosts, injection)
    assert cluster.elections[-1] == ([("a", 1)], False)
    assert fault.measure_effect(hosts, injection).evidence == "a/0 is led by 1, a/1 is led by 2"


def test_an_unclean_election_needs_a_partition_without_leader(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """It is of any kind of leader that there is none then."""
    hosts = machines.hosts()
    fault, injection = aimed("elect", topic="a", kind="unclean")
    with pytest.raises(NotApplicable, match="each has a leader already"):
        fault.inject(hosts, injection)
    cluster.placed["a", 0] = Placement(None, (1, 2), (1, 2))
    fault.inject(hosts, injection)
    assert cluster.elections[-1] == ([("a", 0)], True)
    assert fault.measure_effect(hosts, injection).confirmed
    assert fault.label(injection) == "elect topic=a kind=unclean"


def test_a_config_that_is_set_already_is_not_applicable(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """Otherwise the cluster's own word proves it; and until nothing is owed, it is not healed."""
    hosts = machines.hosts()
    fault, injection = aimed("config", name="segment.bytes", value="1073741824")
    with pytest.raises(NotApplicable, match="is 1073741824 already"):
        fault.inject(hosts, injection)
    fault, injection = aimed("config", name="segment.bytes", value="65536")
    fault.inject(hosts, injection)
    assert fault.measure_effect(hosts, injection).evidence == "segment.bytes is a 65536"
    cluster.debts = "nobody answers"
    assert not fault.measure_heal(hosts, injection).confirmed
    cluster.debts = ""
    assert fault.measure_heal(hosts, injection).confirmed


def test_topic_name_and_value_of_a_config_are_in_the_injection() -> None:
    """Its topic, name and value, drawn where they were left open: the contract reads them."""
    _, injection = aimed("config")
    details = dict(injection.details)
    assert details["topic"] == "every"
    assert "any" not in (details["name"], details["value"])
    with pytest.raises(NotApplicable, match="name a value"):
        aimed("config", name="min.insync.replicas")


def test_topic_is_created_again_under_its_name(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """The old one is deleted first."""
    hosts = machines.hosts()
    fault, injection = aimed("topic.create-delete", names="same", partitions="2")
    fault.inject(hosts, injection)
    (name,) = set(cluster.topics()) - {"a"}
    cluster.placed[name, 7] = cluster.placed[name, 0]
    fault.tick(hosts, injection, 3000)
    assert cluster.topics() == {"a": 2, name: 2}


def test_config_of_all_brokers_is_changed_and_restored(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """The fault lasts until the old value is in force again."""
    hosts = machines.hosts()
    fault, injection = aimed("config.broker", name="log.roll.ms", value="1000")
    fault.inject(hosts, injection)
    assert fault.measure_effect(hosts, injection).evidence == "log.roll.ms of all brokers is 1000"
    with pytest.raises(NotApplicable, match="is 1000 already"):
        fault.inject(hosts, injection)
    cluster.debts = "nobody answers"
    assert not fault.measure_heal(hosts, injection).confirmed
    cluster.debts = ""
    assert fault.measure_heal(hosts, injection).confirmed
    with pytest.raises(NotApplicable, match="name a value"):
        aimed("config.broker", name="min.insync.replicas")


def test_throttle_names_every_replica_and_gives_all_brokers_a_rate(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """On both sides of the replication."""
    hosts = machines.hosts()
    fault, injection = aimed("config.throttle", bytes_per_s="700")
    fault.inject(hosts, injection)
    for side in ("leader", "follower"):
        assert cluster.settings["a", f"{side}.replication.throttled.replicas"] == "0:1,0:2,1:2,1:3"
        assert cluster.settings["", f"{side}.replication.throttled.rate"] == "700"
    assert fault.measure_effect(hosts, injection).confirmed
    drawn, injection = aimed("config.throttle")
    assert not drawn.measure_effect(hosts, injection).confirmed
    cluster.debts = "nobody answers"
    assert not drawn.measure_heal(hosts, injection).confirmed


def test_each_tick_creates_a_topic_and_deletes_the_one_before(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """With each pulse there is a new one, and the one before it is gone."""
    hosts = machines.hosts()
    fault, injection = aimed("topic.create-delete", partitions="2")
    fault.inject(hosts, injection)
    first = set(cluster.topics()) - {"a"}
    assert fault.measure_effect(hosts, injection).confirmed
    fault.tick(hosts, injection, 1000)
    second = set(cluster.topics()) - {"a"}
    assert len(first) == len(second) == 1
    assert first != second


def test_records_of_an_unused_topic_are_written_and_deleted(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """No record of the run's topics is; a tick without an answer is no failure."""
    hosts = machines.hosts()
    fault, injection = aimed("records.delete", partitions="1")
    fault.inject(hosts, injection)
    (name,) = set(cluster.topics()) - {"a"}
    for elapsed_ms in (500, 1000, 1500):
        fault.tick(hosts, injection, elapsed_ms)
    assert set(cluster.logs) == {(name, 0)}
    start, end = cluster.logs[name, 0]
    assert 0 < start <= end
    found = fault.measure_effect(hosts, injection)
    assert (found.confirmed, found.evidence) == (True, f"the logs of {name} start at {start}")
    cluster.deaf = True
    fault.tick(hosts, injection, 2000)
    assert not fault.measure_effect(hosts, injection).confirmed


def test_a_slow_cluster_is_not_asked_on_and_on(
    machines: FakeMachines, cluster: FakeAdministration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heal waits for the tick, so a tick ends with the request after which its time is over."""
    time_s, asked = [0.0], []

    def find_offset(partition: PartitionKey, timestamp_ms: int) -> int:
        time_s[0] += 0.2
        asked.append(timestamp_ms)
        return 0

    hosts = machines.hosts()
    monkeypatch.setattr(hosts.task_runner, "now_s", lambda: time_s[0])
    monkeypatch.setattr(cluster, "find_offset", find_offset)
    fault, injection = aimed("records.delete", partitions="1")
    fault.tick(hosts, injection, 500)
    assert len(asked) == 3, asked


def test_a_topic_grows_to_its_bound(machines: FakeMachines, cluster: FakeAdministration) -> None:
    """A partition at a time."""
    hosts = machines.hosts()
    fault, injection = aimed("partitions.grow", most="4")
    fault.inject(hosts, injection)
    (name,) = set(cluster.topics()) - {"a"}
    assert cluster.topics()[name] == 2
    for turn in range(5):
        fault.tick(hosts, injection, 1000 * turn)
    assert cluster.topics()[name] == 4
    assert fault.measure_effect(hosts, injection).confirmed


def test_a_new_broker_gets_replicas_once(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """It takes the place of others; and stays after the heal where that was asked."""
    hosts = machines.hosts()
    fault, injection = aimed("broker.add", replicas="1", stay="yes")
    fault.inject(hosts, injection)
    for turn in range(3):
        fault.tick(hosts, injection, 1000 * turn)
    held = [at for at, each in cluster.placed.items() if 4 in each.assignment]
    assert len(held) == 1
    assert fault.measure_effect(hosts, injection).confirmed
    fault.heal(hosts, injection)
    assert cluster.kept == [injection.detail("layer")]
    assert cluster.undone == []
    assert fault.measure_heal(hosts, injection).evidence == "it stays"


def test_a_broker_is_removed_only_if_its_replicas_have_a_place(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """Otherwise that is futile, as it is for one that is not in service."""
    hosts = machines.hosts()
    fault, injection = aimed("broker.remove", 2)
    fault.inject(hosts, injection)
    assert cluster.left == {2}
    assert fault.measure_effect(hosts, injection).confirmed
    with pytest.raises(NotApplicable, match="not brokers in service"):
        fault.inject(hosts, injection)
    with pytest.raises(NotApplicable, match="has nowhere to go"):
        fault.inject(hosts, aimed("broker.remove", 3)[1])


PLACED: list[tuple[PartitionKey, Placement]] = [(("a", 0), Placement(1, (1, 2), (1, 2)))]


@pytest.mark.parametrize(
    ("node", "brokers", "found"),
    [(1, [1, 2, 3], None), (1, [1, 2], ("a", 0)), (3, [1, 2, 3], None), (1, [2, 3], None)],
)
def test_a_broker_can_leave_only_if_every_partition_has_enough_others(
    node: int, brokers: list[int], found: PartitionKey | None
) -> None:
    """Whoever holds a replica for which no other broker would be left cannot."""
    assert partition_that_needs(node, PLACED, brokers) == found


def test_a_new_broker_replaces_one_replica() -> None:
    """The new one takes somebody's place, and nobody is there twice."""
    for seed in range(10):
        found = with_replica_on((1, 2, 3), 4, random.Random(seed))
        assert len(set(found)) == 3
        assert 4 in found


def test_a_vote_is_removed_only_while_enough_voters_remain(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """One of several targets; two voters keep theirs."""
    hosts = machines.hosts()
    fault, injection = aimed("quorum.remove-voter", 1, 2)
    assert injection.detail("nodes") in ("1", "2")
    assert fault.label(injection) == f"quorum.remove-voter node {injection.detail('nodes')}"
    assert injection.nodes == (), "nobody is excused by it"
    assert not fault.measure_effect(hosts, injection).confirmed
    fault.inject(hosts, injection)
    assert fault.measure_effect(hosts, injection).confirmed
    with pytest.raises(NotApplicable, match="cannot give up a vote"):
        fault.inject(hosts, aimed("quorum.remove-voter", 3)[1])


def test_compacted_topics_are_cleaned_and_their_checkpoints_prove_it(
    machines: FakeMachines, cluster: FakeAdministration
) -> None:
    """Only compacted topics change; a checkpoint that stays, or of another topic, is no proof."""
    cluster.placed["b", 0] = Placement(1, (1,), (1,))
    cluster.settings |= {("a", "cleanup.policy"): "compact,delete"}
    path = "data/log/cleaner-offset-checkpoint"
    machines.disks.contents[1][path] = b"0\n2\na 0 5\nb 0 5\n"
    fault, injection = aimed("records.compact")
    hosts = machines.hosts()
    fault.inject(hosts, injection)
    assert cluster.settings["a", "min.cleanable.dirty.ratio"] == "0"
    assert cluster.settings["a", "segment.ms"] == "100"
    assert ("b", "segment.ms") not in cluster.settings
    machines.disks.contents[1][path] = b"0\n2\na 0 5\nb 0 9\n"
    assert not fault.measure_effect(hosts, injection).confirmed
    machines.disks.contents[1][path] = b"0\n3\na 0 7\na 1 2\nb 0"
    found = fault.measure_effect(hosts, injection)
    assert found.confirmed
    assert found.evidence == (
        "node 1 a/0 clean up to 7, before up to 5; node 1 a/1 clean up to 2, before up to 0"
    )
    cluster.debts = "segment.ms of a is to be restored"
    assert not fault.measure_heal(hosts, injection).confirmed


def test_without_a_compacted_topic_nothing_is_cleaned(machines: FakeMachines) -> None:
    """Also if a topic is named that is not compacted."""
    for params in ({}, {"topic": "a"}):
        fault, injection = aimed("records.compact", **params)
        with pytest.raises(NotApplicable, match="no topic is compacted"):
            fault.inject(machines.hosts(), injection)
