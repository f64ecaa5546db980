"""Administration over the wire: every request through any broker, in every version, and refused
in the shape of its own response.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.server import error_responses
from nodes.server.requests.describe_configs import MAX_DESCRIBED
from nodes.wire.codec import decode_response, encode_response
from nodes.wire.versions import fill
from tests.support.nodes.cluster import Cluster, eventually, running

OK = ErrorCode.none
TIMEOUT = timedelta(seconds=10)
BY_HAND = {"num_partitions": -1, "replication_factor": -1}

# What each request names, and where its response has an error for it.
REQUESTS: dict[int, tuple[range, dict[str, Any], str]] = {
    19: (range(2, 8), {"topics": [{"name": "t"}]}, "topics.0"),
    20: (
        range(1, 7),
        {"topic_names": ["t"], "topics": [{"name": "t"}]},
        "responses.0",
    ),
    33: (range(3), {"resources": [{"resource_type": 2, "resource_name": "t"}]}, "responses.0"),
    37: (range(4), {"topics": [{"name": "t", "count": 2}]}, "results.0"),
    43: (
        range(3),
        {"topic_partitions": [{"topic": "t", "partitions": [0]}]},
        "replica_election_results.0.partition_result.0",
    ),
    44: (range(2), {"resources": [{"resource_type": 2, "resource_name": "t"}]}, "responses.0"),
    45: (
        range(2),
        {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
        "responses.0.partitions.0",
    ),
    46: (range(1), {"topics": None}, ""),
    64: (range(1), {"broker_id": 1}, ""),
}


def at(answer: Any, path: str) -> Any:
    """What `path` leads to: attributes and indexes."""
    for step in filter(None, path.split(".")):
        answer = answer[int(step)] if step.isdigit() else getattr(answer, step)
    return answer


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(key, version) for key, (versions, _, _) in REQUESTS.items() for version in versions],
)
def test_refusal_has_the_form_of_its_response(api_key: int, version: int) -> None:
    """The error is repeated for everything in the request, in every version; a broker sees from it
    that it asked the wrong node."""
    _, values, path = REQUESTS[api_key]
    request = fill(load_request_schema(api_key, version), **values)
    for code in (ErrorCode.not_controller, ErrorCode.request_timed_out):
        refused = error_responses.refuse(request, code, "why")
        answer = decode_response(encode_response(refused, 1)[4:], api_key, version)
        assert at(answer, path).error_code is code
        wrong_node = code is ErrorCode.not_controller
        assert error_responses.refused_by_non_controller(answer) == wrong_node


async def _configured(cluster: Cluster, node: int, name: str) -> str | None:
    resource = {"resource_type": 2, "resource_name": "t", "configuration_keys": [name]}
    answer = await cluster.ask(node, 32, 4, resources=[resource], include_synonyms=True)
    (result,) = answer.results
    return next((config.value for config in result.configs), None)


def test_topic_is_created_changed_and_deleted_through_any_broker() -> None:
    """Every broker forwards to the controller."""

    async def main() -> None:
        async with running(3) as cluster:
            await cluster.create_topic(
                "t", assignments=[{"partition_index": 0, "broker_ids": [1, 2]}], **BY_HAND
            )
            grown = await cluster.ask(
                2,
                37,
                3,
                topics=[{"name": "t", "count": 2, "assignments": [{"broker_ids": [2, 3]}]}],
                timeout=TIMEOUT,
            )
            assert grown.results[0].error_code is OK
            assert await cluster.leader("t", 1) == 2
            change = {"name": "flush.ms", "config_operation": 0, "value": "7"}
            altered = await cluster.ask(
                3,
                44,
                1,
                resources=[{"resource_type": 2, "resource_name": "t", "configs": [change]}],
            )
            assert altered.responses[0].error_code is OK
            for node in cluster.ids:
                await eventually(lambda n=node: _is(_configured(cluster, n, "flush.ms"), "7"))
            moved = await cluster.ask(
                1,
                45,
                1,
                timeout=TIMEOUT,
                topics=[{"name": "t", "partitions": [{"partition_index": 0, "replicas": [3, 2]}]}],
            )
            assert moved.responses[0].partitions[0].error_code is OK
            await eventually(lambda: _is(_replicas(cluster, "t"), (3, 2)))
            topic_id = (await cluster.metadata(1, "t")).topics[0].topic_id
            deleted = await cluster.ask(3, 20, 6, topics=[{"topic_id": topic_id}], timeout=TIMEOUT)
            assert (deleted.responses[0].name, deleted.responses[0].error_code) == ("t", OK)
            await eventually(lambda: _is(_replicas(cluster, "t"), None))

    asyncio.run(main())


async def _is(found: Any, expected: Any) -> bool:
    return bool(await found == expected)


async def _replicas(cluster: Cluster, topic: str) -> tuple[int, ...] | None:
    (found,) = (await cluster.metadata(1, topic)).topics
    return found.partitions[0].replica_nodes if found.partitions else None


def test_describe_topic_partitions_returns_pages_and_describe_cluster_fenced_brokers() -> None:
    """Topics come in order of name with their eligible leader replicas; fenced brokers come if
    requested."""

    async def main() -> None:
        async with running(3) as cluster:
            for name in "ba":
                await cluster.create_topic(
                    name,
                    assignments=[{"partition_index": i, "broker_ids": [3, 1]} for i in range(3)],
                    **BY_HAND,
                )
                await cluster.leader(name, isr=2)
            seen, cursor, pages = [], None, 0
            while pages == 0 or cursor is not None:
                page = await cluster.ask(1, 75, 0, response_partition_limit=2, cursor=cursor)
                seen += [(t.name, p.partition_index) for t in page.topics for p in t.partitions]
                cursor, pages = page.next_cursor, pages + 1
            assert seen == [(name, index) for name in "ab" for index in range(3)]
            assert pages == 3
            lost = await cluster.ask(1, 75, 0, topics=[{"name": "x"}, {"name": "?"}])
            assert [t.error_code for t in lost.topics] == [
                ErrorCode.invalid_topic_exception,
                ErrorCode.unknown_topic_or_partition,
            ]
            change = {"name": "min.insync.replicas", "config_operation": 0, "value": "2"}
            await cluster.ask(
                1,
                44,
                1,
                resources=[{"resource_type": 2, "resource_name": "a", "configs": [change]}],
            )
            await cluster.stop(3)

            async def eligible() -> bool:
                page = await cluster.ask(1, 75, 0, topics=[{"name": "a"}])
                (first, *_) = page.topics[0].partitions
                return (first.isr_nodes, first.eligible_leader_replicas) == ((1,), (3,))

            await eventually(eligible)
            for fenced, count in ((False, 2), (True, 3)):
                answer = await cluster.ask(1, 60, 2, include_fenced_brokers=fenced, endpoint_type=1)
                assert len(answer.brokers) == count
                assert [b.broker_id for b in answer.brokers if b.is_fenced] == [3] * fenced
            wrong = await cluster.ask(1, 60, 2, endpoint_type=2)
            assert wrong.error_code is ErrorCode.mismatched_endpoint_type

    asyncio.run(main())


def test_describe_configs_names_the_source_of_each_value() -> None:
    """The file, the cluster's default, Kafka's default; only the broker itself describes its
    configuration."""

    async def main() -> None:
        async with running(1) as cluster:
            answer = await cluster.ask(
                1,
                32,
                4,
                include_synonyms=True,
                resources=[
                    {"resource_type": 4, "resource_name": name, "configuration_keys": None}
                    for name in ("1", "", "2", "x")
                ],
            )
            own, cluster_wide, *others = answer.results
            configs = {config.name: config for config in own.configs}
            session = configs["broker.session.timeout.ms"]
            assert (session.value, session.config_source, session.config_type) == ("600", 4, 3)
            assert session.read_only
            assert [(s.value, s.source) for s in session.synonyms] == [("600", 4), ("9000", 5)]
            minimum = configs["min.insync.replicas"]
            assert (minimum.value, minimum.config_source, minimum.read_only) == ("1", 3, False)
            assert [config.name for config in cluster_wide.configs] == ["min.insync.replicas"]
            assert [r.error_code for r in others] == [ErrorCode.invalid_request] * 2

    asyncio.run(main())


@pytest.mark.parametrize("enabled", [True, False])
def test_topics_are_auto_created_if_configured(enabled: bool) -> None:
    """auto.create.topics.enable, unless the client forbids it; the first response is "unknown"."""

    async def main() -> None:
        properties = {"auto_create_topics_enable": str(enabled).lower(), "num_partitions": "2"}
        async with running(1, **properties) as cluster:

            async def ask(name: str, *, allow: bool = True) -> Any:
                answer = await cluster.ask(
                    1, 3, 12, topics=[{"name": name}], allow_auto_topic_creation=allow
                )
                return answer.topics[0]

            bad = ErrorCode.invalid_topic_exception
            unknown = ErrorCode.unknown_topic_or_partition
            assert (await ask("a/b")).error_code is bad
            assert (await ask("new", allow=False)).error_code is unknown
            assert (await ask("new", allow=False)).error_code is unknown
            assert (await ask("new")).error_code is unknown
            if enabled:

                async def there() -> bool:
                    return len((await ask("new")).partitions) == 2

                await eventually(there)

    asyncio.run(main())


def test_request_times_out_without_a_controller() -> None:
    """One of three nodes is no majority; each topic in the response has the error."""

    async def main() -> None:
        async with running(3) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=1)
            await cluster.stop(2)
            await cluster.stop(3)
            answer = await cluster.ask(
                1, 37, 3, topics=[{"name": "t", "count": 2}], timeout=timedelta(seconds=1)
            )
            assert answer.results[0].error_code is ErrorCode.request_timed_out

    asyncio.run(main())


def test_describe_configs_refuses_resources_beyond_its_limit() -> None:
    """Each resource has dozens of configurations; thousands in one response would block the event
    loop."""

    async def main() -> None:
        async with running(1) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=1)
            await cluster.leader("t")
            asked = {"resource_type": 2, "resource_name": "t", "configuration_keys": None}
            answer = await cluster.ask(1, 32, 4, resources=[asked] * (MAX_DESCRIBED + 2))
            codes = [row.error_code for row in answer.results]
            assert codes[:MAX_DESCRIBED] == [ErrorCode.none] * MAX_DESCRIBED
            assert codes[MAX_DESCRIBED:] == [ErrorCode.invalid_request] * 2
            assert all(row.configs for row in answer.results[:MAX_DESCRIBED])

    asyncio.run(main())
