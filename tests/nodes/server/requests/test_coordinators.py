"""FindCoordinator, and the internal topics that it needs."""

import asyncio

from kio.schema.errors import ErrorCode

from nodes.coordinators.partitioning import partition_for
from nodes.ids import NO_NODE
from nodes.server.apis import DESCRIBE_CONFIGS, FIND_COORDINATOR
from tests.nodes.server.test_broker import batch, produce
from tests.support.nodes.cluster import running
from tests.support.nodes.group_requests import coordinator_of

GROUPS = [f"group-{number}" for number in range(8)]


def test_the_leader_of_the_groups_partition_is_the_coordinator() -> None:
    """All nodes say so, in every version; the topic is created at the first request."""

    async def main() -> None:
        async with running(3) as cluster:
            first = await cluster.ask(1, FIND_COORDINATOR, 0, key=GROUPS[0])
            assert first.error_code is ErrorCode.coordinator_not_available
            for group in GROUPS:
                leader = await cluster.leader("__consumer_offsets", partition_for(group, 4))
                for node in cluster.ids:
                    assert await coordinator_of(cluster, group, asked=node) == leader
            for version in range(7):
                answer = await cluster.ask(
                    1, FIND_COORDINATOR, version, key=GROUPS[0], coordinator_keys=GROUPS
                )
                rows = answer.coordinators if version >= 4 else [answer]
                assert {row.error_code for row in rows} == {ErrorCode.none}
                assert all(row.port == cluster.ports[row.node_id] for row in rows)
                if version >= 4:
                    assert [row.key for row in rows] == GROUPS

    asyncio.run(main())


def test_the_internal_topic_has_kafkas_configuration() -> None:
    """Metadata calls it internal, and clients may not write to it."""

    async def main() -> None:
        async with running(1) as cluster:
            await coordinator_of(cluster, "g")
            answer = await cluster.metadata(1, "__consumer_offsets")
            topic = answer.topics[0]
            assert (topic.is_internal, len(topic.partitions)) == (True, 4)
            described = await cluster.ask(
                1,
                DESCRIBE_CONFIGS,
                4,
                resources=[{"resource_type": 2, "resource_name": topic.name}],
            )
            configs = {row.name: row.value for row in described.results[0].configs}
            assert configs["cleanup.policy"] == "compact"
            assert configs["segment.bytes"] == str(100 << 20)
            refused = await produce(cluster, 1, batch(b"x"), topic=topic.name)
            assert refused.error_code is ErrorCode.invalid_topic_exception

    asyncio.run(main())


def test_coordinators_that_are_not_served_are_refused_at_once() -> None:
    """Key type 2 is that of share groups, 3 does not exist."""

    async def main() -> None:
        async with running(1) as cluster:
            codes = []
            for key_type in (2, 3):
                answer = await cluster.ask(
                    1, FIND_COORDINATOR, 6, key_type=key_type, coordinator_keys=["k"]
                )
                assert answer.coordinators[0].node_id == NO_NODE
                codes.append(answer.coordinators[0].error_code)
            assert codes == [ErrorCode.invalid_request, ErrorCode.invalid_request]

    asyncio.run(main())
