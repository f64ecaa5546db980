"""Kafka's own consumers and producers, in groups and transactions, driven step by step.

Each test runs on Apache Kafka and on the built-in broker.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clusters.cluster_command import PATIENCE_S, cluster_up, known_everywhere
from tests.support.foreign import java
from tests.support.foreign.java.driven import PROGRAM, Driven, Refused, driven
from tests.support.require import require
from tests.support.tiers import nightly

pytestmark = pytest.mark.slow

PARTITIONS: Final = 4
COOPERATIVE: Final = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
AT_NIGHT: Final = nightly(
    "system/test_java_clients.py::test_members_of_classic_groups_share_the_partitions_and_commit"
)
BOTH: Final = (pytest.param("kafka", marks=AT_NIGHT), "nodes")
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    require("kafka", "javac")
    folder = tmp_path_factory.mktemp("classes")
    java.compiled(PROGRAM, folder)
    return folder


def on(systems: Iterable[Any]) -> pytest.MarkDecorator:
    """Run a test on a cluster of each of these systems."""
    return pytest.mark.parametrize("bootstrap", systems, indirect=True, scope="module")


@pytest.fixture(scope="module")
def bootstrap(
    request: pytest.FixtureRequest, classes: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Three nodes."""
    require("netns")
    store = tmp_path_factory.mktemp("clients") / "store"
    settings = (
        *("--config", "group.initial.rebalance.delay.ms=0"),
        *("--config", "group.consumer.min.heartbeat.interval.ms=500"),
        *("--config", "group.consumer.heartbeat.interval.ms=500"),
    )
    with cluster_up(store, "--system", request.param, *settings) as up:
        yield up.bootstrap


@pytest.fixture(scope="module")
def process(bootstrap: str, classes: Path) -> Iterator[Driven]:
    """A process for Kafka's clients: it starts once, and what it has compiled stays."""
    with driven(bootstrap, classes) as found:
        yield found


@pytest.fixture
def clients(process: Driven) -> Iterator[Driven]:
    """The process, without the clients of other tests."""
    yield process
    process.close_all()


def created(bootstrap: str, topic: str) -> str:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(PATIENCE_S)
    known_everywhere(bootstrap, topic)
    return topic


def share_all(clients: Driven, *members: str) -> bool:
    """Whether the members own all partitions, each once and each member some."""
    owned = [clients.owned(member) for member in members]
    return all(owned) and sum(map(len, owned)) == len(set().union(*owned)) == PARTITIONS


@on(BOTH)
@pytest.mark.parametrize("name", ["eager", "cooperative"])
def test_members_of_classic_groups_share_the_partitions_and_commit(
    bootstrap: str, clients: Driven, name: str
) -> None:
    """A second member joins and leaves. Only eager members give up what they keep."""
    strategy = {"eager": RANGE, "cooperative": COOPERATIVE}[name]
    _shared(bootstrap, clients, name, {"partition_assignment_strategy": strategy})


@on(BOTH)
def test_members_of_consumer_groups_share_the_partitions_and_commit(
    bootstrap: str, clients: Driven
) -> None:
    """A second member joins and leaves (KIP-848)."""
    _shared(bootstrap, clients, "consumer", {"group_protocol": "consumer"})


def _shared(bootstrap: str, clients: Driven, name: str, settings: dict[str, str]) -> None:
    topic, group = created(bootstrap, f"shared-{name}"), f"group-{name}"
    clients.consumer("one", group, topic, **settings)
    clients.until(lambda: len(clients.owned("one")) == PARTITIONS, "one member to own all")
    clients.consumer("two", group, topic, **settings)
    clients.until(lambda: share_all(clients, "one", "two"), "two members to share all")
    revoked = [each["partitions"] for each in clients.events("one", "revoked")]
    assert max(map(len, revoked)) == (PARTITIONS if name == "eager" else 2)

    clients.producer("p")
    kept = min(clients.owned("one"))
    number = int(kept.rpartition("-")[2])
    assert clients.call("p", "send", topic=topic, partition=number, value="v") == 0
    clients.until(lambda: clients.values("one") == ["v"], "the record")
    clients.call("one", "commit")
    found = clients.call("two", "committed", partitions=[kept])
    assert found == {kept: 1}
    clients.call("two", "close")
    clients.until(lambda: len(clients.owned("one")) == PARTITIONS, "the first to own all again")


@on(BOTH)
def test_static_member_returns_without_a_rebalance(bootstrap: str, clients: Driven) -> None:
    """Under its instance id it gets what it had, and the other member keeps its own."""
    topic = created(bootstrap, "static")
    for member in ("one", "two"):
        clients.consumer(member, "static", topic, group_instance_id=f"instance-{member}")
    clients.until(lambda: share_all(clients, "one", "two"), "two members to share all")
    before = clients.owned("two")
    kept = len(clients.events("one"))
    clients.call("two", "close")
    clients.consumer("three", "static", topic, group_instance_id="instance-two")
    clients.until(lambda: clients.owned("three") == before, "the member to return")
    assert clients.call("three", "member")["instance"] == "instance-two"
    assert len(clients.events("one")) == kept


@on(BOTH)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_pattern_subscribes_to_topics_that_are_created_later(
    bootstrap: str, clients: Driven, protocol: str
) -> None:
    """The brokers evaluate the pattern of the new protocol, the client that of the old one."""
    created(bootstrap, f"pattern-{protocol}-1")
    clients.consumer("c", f"pattern-{protocol}", group_protocol=protocol, metadata_max_age_ms="500")
    by = {"classic": "pattern", "consumer": "expression"}[protocol]
    clients.call("c", "subscribe", **{by: f"pattern-{protocol}-."})
    clients.until(lambda: len(clients.owned("c")) == PARTITIONS, "the first topic's partitions")
    created(bootstrap, f"pattern-{protocol}-2")
    clients.until(lambda: len(clients.owned("c")) == 2 * PARTITIONS, "the second topic's, too")


@on(BOTH)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_that_does_not_poll_loses_its_partitions_and_cannot_commit(
    bootstrap: str, clients: Driven, protocol: str
) -> None:
    """The other member gets them; a transaction with the old membership is refused, too."""
    topic, group = created(bootstrap, f"stuck-{protocol}"), f"stuck-{protocol}"
    clients.consumer("stuck", group, topic, group_protocol=protocol, max_poll_interval_ms="3000")
    clients.until(lambda: len(clients.owned("stuck")) == PARTITIONS, "one member to own all")
    clients.consumer("other", group, topic, group_protocol=protocol)
    clients.until(lambda: share_all(clients, "stuck", "other"), "two members to share all")
    mine = min(clients.owned("stuck"))
    clients.call("stuck", "polls", on=False)
    clients.until(lambda: len(clients.owned("other")) == PARTITIONS, "the other to own all")
    with pytest.raises(Refused) as refused:
        clients.call("stuck", "commit", offsets={mine: 1})
    assert refused.value.kind in ("CommitFailedException", "RebalanceInProgressException")
    clients.producer("p", f"stuck-{protocol}")
    clients.call("p", "begin")
    with pytest.raises(Refused) as refused:
        clients.call("p", "send_offsets", of="stuck", offsets={mine: 1})
    assert refused.value.kind == "CommitFailedException"
    clients.call("p", "abort")
    assert clients.call("other", "committed", partitions=[mine]) == {mine: None}


@on(BOTH)
def test_members_of_both_protocols_share_a_group(bootstrap: str, clients: Driven) -> None:
    """A classic group becomes a consumer group while its members are replaced (KIP-848)."""
    topic = created(bootstrap, "upgraded")
    clients.consumer("old", "upgraded", topic)
    clients.until(lambda: len(clients.owned("old")) == PARTITIONS, "one member to own all")
    clients.call("old", "commit", offsets={f"{topic}-0": 3})
    clients.consumer("new", "upgraded", topic, group_protocol="consumer")
    clients.until(lambda: share_all(clients, "old", "new"), "both to share all")
    clients.call("old", "close")
    clients.until(lambda: len(clients.owned("new")) == PARTITIONS, "the new one to own all")
    assert clients.call("new", "committed", partitions=[f"{topic}-0"]) == {f"{topic}-0": 3}


@on(BOTH)
def test_read_committed_sees_what_transactions_commit(bootstrap: str, clients: Driven) -> None:
    """Not what they abort."""
    topic = created(bootstrap, "transacted")
    clients.consumer("committed", "committed", topic, isolation_level="read_committed")
    clients.consumer("everything", "everything", topic)
    clients.producer("p", "tx")
    for value, end in (("a", "commit"), ("b", "abort"), ("c", "commit")):
        clients.call("p", "begin")
        clients.call("p", "send", topic=topic, partition=0, value=value)
        clients.until(lambda value=value: value in clients.values("everything"), value)
        assert value not in clients.values("committed")
        clients.call("p", end)
    clients.until(lambda: clients.values("committed") == ["a", "c"], "what is committed")
    assert clients.values("everything") == ["a", "b", "c"]


@on(BOTH)
def test_offsets_are_committed_with_their_transaction(bootstrap: str, clients: Driven) -> None:
    topic = created(bootstrap, "offsets")
    clients.consumer("c", "offsets", topic)
    clients.until(lambda: len(clients.owned("c")) == PARTITIONS, "the member to own all")
    clients.producer("p", "tx-offsets")
    partition = f"{topic}-1"
    for offset, end, committed in ((5, "commit", 5), (6, "abort", 5), (7, "commit", 7)):
        clients.call("p", "begin")
        clients.call("p", "send_offsets", of="c", offsets={partition: offset})
        clients.call("p", end)
        assert clients.call("c", "committed", partitions=[partition]) == {partition: committed}


@on(BOTH)
def test_producer_is_fenced_by_the_next_of_its_transactional_id(
    bootstrap: str, clients: Driven
) -> None:
    topic = created(bootstrap, "fenced")
    clients.producer("old", "fenced")
    clients.call("old", "begin")
    clients.call("old", "send", topic=topic, partition=0, value="lost")
    clients.producer("new", "fenced")
    with pytest.raises(Refused) as refused:
        clients.call("old", "commit")
    assert refused.value.kind in ("ProducerFencedException", "InvalidProducerEpochException")
