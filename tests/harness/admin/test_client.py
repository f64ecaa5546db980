"""The admin client against fake brokers: versions, routing, retries and time limits."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.admin import reassignments, topics
from harness.admin.client import CONTROLLER, AdminClient, parse_bootstrap
from harness.admin.errors import BadRequest, RequestRefused, TransientError, Unreachable
from nodes.ids import TopicPartition
from tests.support.clusters.fake_brokers import METADATA, FakeBrokers
from tests.support.clusters.fake_node import serving

CREATE_TOPICS, ALTER = 19, 45
A0 = TopicPartition("a", 0)


@pytest.fixture
def brokers() -> FakeBrokers:
    """Two brokers."""
    return FakeBrokers()


def created(code: ErrorCode) -> Callable[[Any], dict[str, Any]]:
    """An answer to CreateTopics."""
    return lambda _: {"topics": [{"name": "a", "error_code": code, "error_message": "because"}]}


def test_request_for_the_controller_goes_to_the_one_that_metadata_names(
    brokers: FakeBrokers,
) -> None:
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = created(ErrorCode.none)
    brokers.run(lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1))
    assert len(brokers.seen(1, CREATE_TOPICS)) == 1
    assert not brokers.seen(2, CREATE_TOPICS)


def test_not_controller_makes_the_client_find_the_controller_again(brokers: FakeBrokers) -> None:

    def moved(_: Any) -> dict[str, Any]:
        brokers.controller = 2
        return {"topics": [{"name": "a", "error_code": ErrorCode.not_controller}]}

    brokers.nodes[1].answers[CREATE_TOPICS] = moved
    brokers.nodes[2].answers[CREATE_TOPICS] = created(ErrorCode.none)
    brokers.run(lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1))
    assert len(brokers.seen(2, CREATE_TOPICS)) == 1


def test_topic_that_exists_at_the_second_attempt_was_created_by_the_first(
    brokers: FakeBrokers,
) -> None:
    codes = iter([ErrorCode.request_timed_out, ErrorCode.topic_already_exists])
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = lambda request: created(next(codes))(request)
    brokers.run(lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1))


def test_refused_request_is_not_repeated(brokers: FakeBrokers) -> None:
    """The message has Kafka's words."""
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = created(ErrorCode.topic_already_exists)
    with pytest.raises(RequestRefused, match=r"topic a: TOPIC_ALREADY_EXISTS: because") as refused:
        brokers.run(lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1))
    assert refused.value.code is ErrorCode.topic_already_exists
    assert len(brokers.seen(1, CREATE_TOPICS)) == 1


def test_existing_topic_is_no_error_with_exist_ok(brokers: FakeBrokers) -> None:
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = created(ErrorCode.topic_already_exists)
    brokers.run(
        lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1, exist_ok=True)
    )


def test_in_sync_check_asks_every_named_broker(brokers: FakeBrokers) -> None:

    def look(replicas: int, *, preferred: bool = False) -> None:
        async def ask(admin: AdminClient) -> None:
            by = [("127.0.0.1", brokers.nodes[node].port) for node in (1, 2)]
            await topics.check_in_sync(
                admin, "a", partitions=1, replicas=replicas, by=by, preferred=preferred
            )

        brokers.run(ask)

    row = {"partition_index": 0, "leader_id": 1, "replica_nodes": [2, 1], "isr_nodes": [2, 1]}
    brokers.topics = [{"name": "a", "partitions": [row]}]
    look(2)
    assert [len(brokers.seen(node, METADATA)) for node in (1, 2)] == [1, 1]
    with pytest.raises(TransientError, match=r"a-0 with leader 1 and in-sync replicas \[2, 1\]"):
        look(3)
    with pytest.raises(TransientError, match="a-0 with leader 1"):
        look(2, preferred=True)
    brokers.topics = [{"name": "a", "partitions": []}]
    with pytest.raises(TransientError, match="sees no a-0"):
        look(1)


def test_client_gives_up_after_the_time_limit_with_the_last_error(brokers: FakeBrokers) -> None:
    for node in brokers.nodes.values():
        node.answers[CREATE_TOPICS] = created(ErrorCode.not_controller)
    with pytest.raises(Unreachable, match=r"gave up after 0.3 s: topic a: NOT_CONTROLLER"):
        brokers.run(
            lambda admin: topics.create(admin, "a", partitions=1, replication_factor=1), 0.3
        )


def test_request_that_the_broker_does_not_serve_is_not_sent(brokers: FakeBrokers) -> None:
    with pytest.raises(BadRequest, match="does not serve elect_leaders"):
        brokers.run(lambda admin: reassignments.elect(admin, reassignments.PREFERRED, [A0]))


def test_version_that_lacks_a_needed_field_is_refused(brokers: FakeBrokers) -> None:
    """The field is never left out silently."""
    with pytest.raises(BadRequest, match="lack a field of this request"):
        brokers.run(lambda admin: admin.request("metadata", at_least=99))


def test_result_of_a_reassignment_has_only_the_refused_partitions(brokers: FakeBrokers) -> None:

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


def test_one_bootstrap_server_that_answers_is_enough(brokers: FakeBrokers) -> None:
    """If none answers, the error names all of them."""
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


def test_unknown_broker_is_refused_with_the_known_ones(brokers: FakeBrokers) -> None:
    with pytest.raises(BadRequest, match="broker 7 is not in service; those that are: 1, 2"):
        brokers.run(lambda admin: admin.request("metadata", to=7))


def test_unknown_topic_is_refused(brokers: FakeBrokers) -> None:
    brokers.topics = [{"name": "b", "error_code": ErrorCode.unknown_topic_or_partition}]
    with pytest.raises(RequestRefused, match="topic b does not exist"):
        brokers.run(lambda admin: topics.describe(admin, ["b"]))


@pytest.mark.parametrize("text", ["", "host", "host:port", "a:1,b", "a:0", "a:65536"])
def test_wrong_bootstrap_servers_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="host:port"):
        parse_bootstrap(text)


def test_bootstrap_servers_are_parsed() -> None:
    """Blanks and the brackets of an IPv6 address are removed."""
    assert parse_bootstrap("a:1, [::1]:65535") == (("a", 1), ("::1", 65535))
