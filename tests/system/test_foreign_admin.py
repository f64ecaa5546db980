"""Other people's administrative clients do to a cluster of ours what they do to Kafka.

Three nodes run in a thread of this process, on loopback ports and disks in memory. Each operation
is asked for by every client that has it, and looked at with another.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioPartitions
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.admin.config_resource import ConfigResource as AioResource
from aiokafka.admin.config_resource import ConfigResourceType as AioType
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)

from tests.support.clients.kafka_python import ConfigResource as PyResource
from tests.support.clients.kafka_python import ConfigResourceType as PyType
from tests.support.clients.kafka_python import KafkaAdminClient
from tests.support.clients.kafka_python import NewPartitions as PyPartitions
from tests.support.clients.kafka_python import NewTopic as PyTopic
from tests.support.clients.kafka_python import TopicPartition as PyPartition
from tests.support.nodes.cluster import Cluster, running

pytestmark = pytest.mark.slow

T = TypeVar("T")
PATIENCE_S = 60.0


class Background:
    """A cluster on an event loop of its own thread."""

    def __init__(self) -> None:
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self.cluster: Cluster
        self.loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event

    async def _main(self) -> None:
        self.loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with running(3) as self.cluster:
            self._up.set()
            await self._end.wait()

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(PATIENCE_S)

    def do(self, job: Callable[[], Any]) -> Any:
        """Run a coroutine of the cluster's to its end."""
        return asyncio.run_coroutine_threadsafe(job(), self.loop).result(PATIENCE_S)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_S)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.cluster.ports.values())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Background]:
    """Three nodes."""
    background = Background()
    background.start()
    yield background
    background.stop()


@pytest.fixture(scope="module")
def rd(cluster: Background) -> AdminClient:
    """librdkafka's administrative client."""
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


@pytest.fixture
def py(cluster: Background) -> Iterator[Any]:
    """kafka-python's."""
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


def placed(name: str, *assignment: list[int], **values: Any) -> NewTopic:
    """A topic placed by hand; librdkafka wants the count besides."""
    return NewTopic(name, len(assignment), replica_assignment=list(assignment), **values)


def done(futures: dict[Any, Any]) -> list[Any]:
    """The results of librdkafka's futures."""
    return [future.result(PATIENCE_S) for future in futures.values()]


def eventually(look: Callable[[], T], holds: Callable[[T], object]) -> T:
    """What `look` gives once it `holds`; every node follows the metadata in its own time."""
    until = time.monotonic() + PATIENCE_S
    while True:
        found = look()
        if holds(found):
            return found
        assert time.monotonic() < until, found
        time.sleep(0.05)


def described(rd: AdminClient, topic: str) -> Any:
    """The topic as librdkafka describes it, or None while the node asked does not know it."""
    try:
        return rd.describe_topics(TopicCollection([topic]))[topic].result(PATIENCE_S)
    except KafkaException:
        return None


def replicas(rd: AdminClient, topic: str) -> list[list[int]]:
    """The assignment of every partition."""
    found = described(rd, topic)
    return [] if found is None else [[n.id for n in p.replicas] for p in found.partitions]


def code_of(call: Callable[[], object]) -> int:
    """The error code with which librdkafka refuses."""
    with pytest.raises(KafkaException) as failure:
        call()
    return int(failure.value.args[0].code())


def test_librdkafka_creates_grows_and_deletes(rd: AdminClient) -> None:
    """By count and by hand, validated first, with configuration; the name is free afterwards."""
    plain = NewTopic("rd.plain", num_partitions=4, replication_factor=3)
    done(rd.create_topics([plain], validate_only=True))
    assert described(rd, "rd.plain") is None
    by_hand = placed("rd-hand", [3, 1], [2, 3], config={"retention.ms": "9"})
    done(rd.create_topics([plain, by_hand]))
    eventually(lambda: replicas(rd, "rd-hand"), lambda found: found == [[3, 1], [2, 3]])
    first = eventually(lambda: described(rd, "rd.plain"), bool)
    assert sorted(p.leader.id for p in first.partitions)[0] >= 1

    def create(name: str, **values: Any) -> Callable[[], object]:
        return lambda: done(rd.create_topics([NewTopic(name, **values)]))

    assert code_of(create("rd.plain")) == KafkaError.TOPIC_ALREADY_EXISTS
    assert code_of(create("rd_plain")) == KafkaError.TOPIC_EXCEPTION
    assert code_of(create("no/slash")) == KafkaError.TOPIC_EXCEPTION
    assert code_of(create("x", replication_factor=9)) == KafkaError.INVALID_REPLICATION_FACTOR
    assert code_of(create("x", config={"what": "1"})) == KafkaError.INVALID_CONFIG
    assert (
        code_of(create("x", num_partitions=1, replica_assignment=[[8]]))
        == KafkaError.INVALID_REPLICA_ASSIGNMENT
    )

    try:
        done(rd.create_partitions([NewPartitions("rd-hand", 3, [[1, 2]])]))
    except KafkaException as error:  # a busy machine answers late, and librdkafka asks again
        if error.args[0].code() != KafkaError.INVALID_PARTITIONS:
            raise
    eventually(lambda: replicas(rd, "rd-hand"), lambda found: found == [[3, 1], [2, 3], [1, 2]])
    fewer = code_of(lambda: done(rd.create_partitions([NewPartitions("rd-hand", 2)])))
    assert fewer == KafkaError.INVALID_PARTITIONS

    done(rd.delete_topics(["rd.plain", "rd-hand"], operation_timeout=10))
    eventually(lambda: described(rd, "rd.plain"), lambda found: found is None)
    gone = code_of(lambda: done(rd.delete_topics(["rd.plain"])))
    assert gone == KafkaError.UNKNOWN_TOPIC_OR_PART
    done(rd.create_topics([NewTopic("rd_plain", 1, 1)]))
    done(rd.delete_topics(["rd_plain"]))


def test_librdkafka_configures_topics_and_brokers(cluster: Background, rd: AdminClient) -> None:
    """Set, append, delete; sources and synonyms; the cluster's default below a broker's own."""
    done(rd.create_topics([NewTopic("conf", 1, 3, config={"retention.ms": "1000"})]))
    topic = ("topic", "conf")

    def values(kind: str, name: str) -> dict[str, Any]:
        (found,) = done(rd.describe_configs([ConfigResource(kind, name)]))
        return dict(found)

    def alter(kind: str, name: str, *entries: tuple[str, str | None, Any]) -> None:
        changes = [ConfigEntry(k, v, incremental_operation=op) for k, v, op in entries]
        done(
            rd.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=changes)])
        )

    described = eventually(lambda: values(*topic), lambda v: v["retention.ms"].value == "1000")
    assert described["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert described["segment.bytes"].is_default
    throttled = "leader.replication.throttled.replicas"
    alter(
        *topic,
        ("retention.ms", "2000", AlterConfigOpType.SET),
        (throttled, "0:1,0:2", AlterConfigOpType.APPEND),
    )
    alter(*topic, (throttled, "0:2", AlterConfigOpType.SUBTRACT))
    described = eventually(lambda: values(*topic), lambda v: v[throttled].value == "0:1")
    assert described["retention.ms"].value == "2000"
    alter(*topic, ("retention.ms", None, AlterConfigOpType.DELETE))
    # None of the clients takes the empty name, which stands for the default of all brokers.
    retention = "log.retention.ms"
    default = {
        "resource_type": 4,
        "resource_name": "",
        "configs": [{"name": retention, "config_operation": 0, "value": "77"}],
    }
    answer = cluster.do(lambda: cluster.cluster.ask(1, 44, 1, resources=[default]))
    assert answer.responses[0].error_code == 0
    described = eventually(lambda: values(*topic), lambda v: v["retention.ms"].value == "77")
    assert described["retention.ms"].source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value
    alter("broker", "2", ("log.retention.ms", "66", AlterConfigOpType.SET))
    own = eventually(lambda: values("broker", "2"), lambda v: v["log.retention.ms"].value == "66")
    assert own["log.retention.ms"].source == ConfigSource.DYNAMIC_BROKER_CONFIG.value
    assert own["node.id"].is_read_only
    assert own["node.id"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    with pytest.deprecated_call():
        done(rd.alter_configs([ConfigResource("topic", "conf", set_config={"flush.ms": "5"})]))
    described = eventually(lambda: values(*topic), lambda v: v["flush.ms"].value == "5")
    assert described[throttled].is_default
    for entry in (("retention.ms", "x"), ("unheard.of", "1"), ("cleanup.policy", "fold")):
        refused = code_of(partial(alter, *topic, (*entry, AlterConfigOpType.SET)))
        assert refused == KafkaError.INVALID_CONFIG
    static = code_of(lambda: alter("broker", "2", ("node.id", "9", AlterConfigOpType.SET)))
    assert static == KafkaError.INVALID_REQUEST
    alter("broker", "2", ("log.retention.ms", None, AlterConfigOpType.DELETE))
    described = eventually(lambda: values("broker", "2"), lambda v: v[retention].value == "77")


def test_librdkafka_elects_preferred_leaders(rd: AdminClient, py: Any) -> None:
    """After a reassignment that only changes the order, the first replica leads when asked to."""
    done(rd.create_topics([placed("elect", [1, 2, 3])]))
    partition = RdPartition("elect", 0)
    full = eventually(lambda: described(rd, "elect"), lambda t: t and len(t.partitions[0].isr) == 3)
    assert full.partitions[0].leader.id == 1
    (needless,) = rd.elect_leaders(ElectionType.PREFERRED, [partition]).result(PATIENCE_S).values()
    assert needless.code() == KafkaError.ELECTION_NOT_NEEDED
    py.alter_partition_reassignments({PyPartition("elect", 0): [2, 3, 1]})
    eventually(lambda: replicas(rd, "elect"), lambda found: found == [[2, 3, 1]])
    (error,) = rd.elect_leaders(ElectionType.PREFERRED, [partition]).result(PATIENCE_S).values()
    assert error is None
    eventually(lambda: described(rd, "elect").partitions[0].leader.id, lambda leader: leader == 2)
    (none,) = rd.elect_leaders(ElectionType.UNCLEAN, [partition]).result(PATIENCE_S).values()
    assert none.code() == KafkaError.ELECTION_NOT_NEEDED


def test_kafka_python_reassigns_and_cancels(cluster: Background, rd: AdminClient, py: Any) -> None:
    """To a live broker, to the end; to a stopped one, until it is cancelled; listed meanwhile."""
    done(rd.create_topics([placed("move", [1, 2], [2, 1])]))
    eventually(lambda: replicas(rd, "move"), len)
    py.alter_partition_reassignments({PyPartition("move", 0): [3, 2]})
    eventually(lambda: replicas(rd, "move")[0], lambda found: found == [3, 2])
    eventually(lambda: described(rd, "move").partitions[0].leader.id, lambda id_: id_ in (2, 3))
    assert not py.list_partition_reassignments()
    cluster.do(lambda: cluster.cluster.stop(3))
    try:
        stuck = PyPartition("move", 1)
        assert py.alter_partition_reassignments({stuck: [3, 1]}) == {stuck: None}
        listed = py.list_partition_reassignments()
        assert listed
        assert "move" in str(listed)
        wider = eventually(lambda: replicas(rd, "move")[1], lambda found: len(found) == 3)
        assert wider == [3, 1, 2]
        assert py.alter_partition_reassignments({stuck: None}) == {stuck: None}
        # As in Kafka, the order is that of the target: the partition does not keep its old one.
        eventually(lambda: replicas(rd, "move")[1], lambda found: found == [1, 2])
        assert not py.list_partition_reassignments()
    finally:
        cluster.do(lambda: cluster.cluster.start(3))
        cluster.do(lambda: cluster.cluster.in_service(3))


def test_kafka_python_creates_configures_grows_describes_and_deletes(py: Any) -> None:
    """Its whole set, in the versions that it speaks."""
    py.create_topics([PyTopic("py", num_partitions=2, replication_factor=3)])
    eventually(lambda: "py" in py.list_topics(), bool)
    py.create_partitions({"py": PyPartitions(total_count=3)})
    eventually(
        lambda: [len(t["partitions"]) for t in py.describe_topics(["py"])], lambda n: n == [3]
    )
    py.alter_configs([PyResource(PyType.TOPIC, "py", configs={"retention.ms": "12345"})])
    eventually(
        lambda: str(py.describe_configs([PyResource(PyType.TOPIC, "py")])),
        lambda text: "12345" in text,
    )
    page = py.describe_topic_partitions(["py"], response_partition_limit=2)
    assert "eligible_leader_replicas" in str(page)
    assert len(py.describe_cluster()["brokers"]) == 3
    py.elect_leaders(0, {"py": [0]}, raise_errors=False)
    py.delete_topics(["py"])
    eventually(lambda: "py" in py.list_topics(), lambda there: not there)


def test_aiokafka_creates_configures_grows_and_deletes(cluster: Background) -> None:
    """Its whole set; it sends the oldest versions of all."""

    async def main() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            created = await admin.create_topics([AioTopic("aio", 2, 3)])
            assert created.topic_errors[0][1] == 0
            await until(admin.list_topics, lambda names: "aio" in names)
            grown = await admin.create_partitions({"aio": AioPartitions(total_count=4)})
            assert grown.topic_errors[0][1] == 0
            await until(
                lambda: admin.describe_topics(["aio"]), lambda t: len(t[0]["partitions"]) == 4
            )
            resource = AioResource(AioType.TOPIC, "aio", configs={"retention.ms": "4321"})
            (altered,) = await admin.alter_configs([resource])
            assert altered.resources[0][0] == 0
            await until(
                lambda: admin.describe_configs([AioResource(AioType.TOPIC, "aio")]),
                lambda found: "4321" in str(found),
            )
            deleted = await admin.delete_topics(["aio"])
            assert deleted.topic_error_codes[0][1] == 0
            await until(admin.list_topics, lambda names: "aio" not in names)
        finally:
            await admin.close()

    async def until(look: Callable[[], Any], holds: Callable[[Any], object]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds(await look()):
            assert time.monotonic() < end
            await asyncio.sleep(0.05)

    asyncio.run(main())
