"""The client against canned brokers: versions agreed, the right one asked, asked again, bounded."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from kio.schema.errors import ErrorCode

from harness.admin import reassignments, topics
from harness.admin.client import CONTROLLER, AdminClient, parse_bootstrap
from harness.admin.errors import BadRequest, Passing, Refused, Unreachable
from nodes.ids import TopicPartition
from tests.support.clusters.fake_node import FakeNode, serving

T = TypeVar("T")

METADATA, API_VERSIONS, CREATE_TOPICS, ALTER = 3, 18, 19, 45
A0 = TopicPartition("a", 0)


class Brokers:
    """Two fake brokers that know of each other."""

    def __init__(self, versions: dict[int, int]) -> None:
        self.versions = versions
        self.controller = 1
        self.topics: list[dict[str, Any]] = []
        answers = {METADATA: self.metadata}
        self.nodes = {node: FakeNode(answers) for node in (1, 2)}

    def metadata(self, _: Any) -> dict[str, Any]:
        brokers = [
            {"node_id": number, "host": "127.0.0.1", "port": node.port}
            for number, node in self.nodes.items()
        ]
        return {"brokers": brokers, "controller_id": self.controller, "topics": self.topics}

    def seen(self, node: int, key: int) -> list[Any]:
        """The requests of a kind that a broker got."""
        return [each for each in self.nodes[node].seen if int(each.__api_key__) == key]

    def run(self, work: Callable[[AdminClient], Awaitable[T]], timeout_s: float = 5.0) -> T:
        """Run `work` with a client that was told of broker 2 only."""

        async def connected() -> T:
            addresses = [("127.0.0.1", self.nodes[2].port)]
            async with AdminClient(addresses, timeout_s=timeout_s) as admin:
                return await work(admin)

        with serving(*self.nodes.values()):
            return asyncio.run(connected())


@pytest.fixture
def brokers() -> Brokers:
    """Two brokers."""
    return Brokers({})


def created(code: ErrorCode) -> Callable[[Any], dict[str, Any]]:
    """An answer to CreateTopics."""
    return lambda _: {"topics": [{"name": "a", "error_code": code, "error_message": "because"}]}


def test_the_controller_is_asked(brokers: Brokers) -> None:
    """Only the broker that Metadata names as controller gets what the controller decides."""
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = created(ErrorCode.none)
    brokers.run(lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1))
    assert len(brokers.seen(1, CREATE_TOPICS)) == 1
    assert not brokers.seen(2, CREATE_TOPICS)


def test_not_controller_is_asked_again_where_it_is(brokers: Brokers) -> None:
    """NOT_CONTROLLER makes the client look again for the controller."""

    def moved(_: Any) -> dict[str, Any]:
        brokers.controller = 2
        return {"topics": [{"name": "a", "error_code": ErrorCode.not_controller}]}

    brokers.nodes[1].answers[CREATE_TOPICS] = moved
    brokers.nodes[2].answers[CREATE_TOPICS] = created(ErrorCode.none)
    brokers.run(lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1))
    assert len(brokers.seen(2, CREATE_TOPICS)) == 1


def test_what_was_done_by_a_lost_attempt_is_done(brokers: Brokers) -> None:
    """A topic that exists at the second attempt was made by the first."""
    codes = iter([ErrorCode.request_timed_out, ErrorCode.topic_already_exists])
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = lambda request: created(next(codes))(request)
    brokers.run(lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1))


def test_a_refusal_is_final(brokers: Brokers) -> None:
    """It is told in Kafka's words and not asked again."""
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = created(ErrorCode.topic_already_exists)
    with pytest.raises(Refused, match=r"topic a: TOPIC_ALREADY_EXISTS: because") as refused:
        brokers.run(lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1))
    assert refused.value.code is ErrorCode.topic_already_exists
    assert len(brokers.seen(1, CREATE_TOPICS)) == 1


def test_a_topic_may_exist_where_that_will_do(brokers: Brokers) -> None:
    """Whoever wants it to be there does not care who made it."""
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = created(ErrorCode.topic_already_exists)
    brokers.run(
        lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1, exist_ok=True)
    )


def test_each_broker_is_asked_what_it_sees(brokers: Brokers) -> None:
    """In sync means: at every broker that is named, whatever another one says."""

    def look(replicas: int, *, preferred: bool = False) -> None:
        async def ask(admin: AdminClient) -> None:
            by = [("127.0.0.1", brokers.nodes[node].port) for node in (1, 2)]
            await topics.see_in_sync(
                admin, "a", partitions=1, replicas=replicas, by=by, preferred=preferred
            )

        brokers.run(ask)

    row = {"partition_index": 0, "leader_id": 1, "replica_nodes": [2, 1], "isr_nodes": [2, 1]}
    brokers.topics = [{"name": "a", "partitions": [row]}]
    look(2)
    assert [len(brokers.seen(node, METADATA)) for node in (1, 2)] == [1, 1]
    with pytest.raises(Passing, match=r"a-0 with leader 1 and in-sync replicas \[2, 1\]"):
        look(3)
    with pytest.raises(Passing, match="a-0 with leader 1"):
        look(2, preferred=True)
    brokers.topics = [{"name": "a", "partitions": []}]
    with pytest.raises(Passing, match="sees no a-0"):
        look(1)


def test_waiting_has_an_end(brokers: Brokers) -> None:
    """What does not pass is given up, with the last reason."""
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = created(ErrorCode.not_controller)
    with pytest.raises(Unreachable, match=r"gave up after 0.3 s: topic a: NOT_CONTROLLER"):
        brokers.run(
            lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1), 0.3
        )


def test_an_unknown_request_is_named(brokers: Brokers) -> None:
    """A broker that does not serve it is not asked."""
    with pytest.raises(BadRequest, match="does not serve elect_leaders"):
        brokers.run(lambda admin: reassignments.elect(admin, reassignments.PREFERRED, [A0]))


def test_a_version_too_old_is_refused(brokers: Brokers) -> None:
    """What an agreed version cannot express is never silently left out."""
    with pytest.raises(BadRequest, match="cannot express this"):
        brokers.run(lambda admin: admin.request("metadata", at_least=99))


def test_only_what_failed_is_told(brokers: Brokers) -> None:
    """Partitions that were accepted are not in the result."""

    def answer(request: Any) -> dict[str, Any]:
        rows = [
            {"partition_index": each.partition_index, "error_code": code}
            for topic in request.topics
            for each, code in zip(
                topic.partitions,
                (ErrorCode.none, ErrorCode.invalid_replica_assignment),
                strict=True,
            )
        ]
        return {"responses": [{"name": "a", "partitions": rows}]}

    for node in brokers.nodes.values():
        node.answers[ALTER] = answer
    targets = {A0: (1,), TopicPartition("a", 1): None}
    failed = brokers.run(lambda admin: reassignments.alter(admin, targets))
    assert failed == {TopicPartition("a", 1): (ErrorCode.invalid_replica_assignment, None)}
    (request,) = brokers.seen(1, ALTER)
    assert [each.replicas for each in request.topics[0].partitions] == [(1,), None]


def test_the_dead_are_passed_over(brokers: Brokers) -> None:
    """Of several bootstrap servers, one that answers is enough; of none, all are named."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = ("127.0.0.1", unused.getsockname()[1])

        async def first_dead() -> int:
            async with AdminClient([dead, ("127.0.0.1", brokers.nodes[1].port)]) as admin:
                return int((await admin.refresh()).controller_id)

        with serving(*brokers.nodes.values()):
            assert asyncio.run(first_dead()) == 1

        async def all_dead() -> None:
            async with AdminClient([dead]) as admin:
                await admin.request("metadata", to=CONTROLLER)

        with pytest.raises(Unreachable, match=f"cannot connect to 127.0.0.1:{dead[1]}"):
            asyncio.run(all_dead())


def test_a_broker_that_is_not_there(brokers: Brokers) -> None:
    """Asking one broker names those that could have been asked."""
    with pytest.raises(BadRequest, match="broker 7 is not in service; those that are: 1, 2"):
        brokers.run(lambda admin: admin.request("metadata", to=7))


def test_unknown_topics(brokers: Brokers) -> None:
    """A topic that is not there is a refusal about that topic."""
    brokers.topics = [{"name": "b", "error_code": ErrorCode.unknown_topic_or_partition}]
    with pytest.raises(Refused, match="topic b does not exist"):
        brokers.run(lambda admin: topics.describe(admin, ["b"]))


@pytest.mark.parametrize("text", ["", "host", "host:port", "a:1,b"])
def test_bootstrap_servers_that_cannot_be(text: str) -> None:
    """Each mistake says what was expected."""
    with pytest.raises(BadRequest, match="host:port"):
        parse_bootstrap(text)


def test_bootstrap_servers() -> None:
    """Several, blanks and IPv6 included."""
    assert parse_bootstrap("a:1, [::1]:2") == (("a", 1), ("::1", 2))
