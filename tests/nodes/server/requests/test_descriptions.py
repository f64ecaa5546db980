"""Descriptions of a cluster as in Kafka 4.2: features, controllers, operations, disk space."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.ids import Offset
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import METADATA_VERSION_FEATURE
from nodes.server import features
from nodes.server.features import KRAFT_VERSION_FEATURE
from nodes.storage.memory import CAPACITY_BYTES
from nodes.wire.client import Channel
from nodes.wire.versions import fill
from tests.support.nodes.cluster import Cluster, eventually, running

LIST_OFFSETS, METADATA, API_VERSIONS, DESCRIBE_CONFIGS = 2, 3, 18, 32
DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER, DESCRIBE_TOPICS = 35, 55, 60, 75
UPDATE_FEATURES, LIST_CONFIG_RESOURCES = 57, 74
BROKERS, CONTROLLERS, STRANGERS = 1, 2, 9
NOT_ASKED = -(2**31)
TOPIC_OPERATIONS, CLUSTER_OPERATIONS = 3576, 8096
"""What Kafka 4.2 without an authorizer answers."""


async def ask_controller(cluster: Cluster, node: int, key: int, version: int, **values: Any) -> Any:
    """One request to a node's controller listener."""
    channel = Channel("127.0.0.1", cluster.controller_ports[node], client_id="test")
    try:
        return await channel.request(fill(load_request_schema(key, version), **values))
    finally:
        channel.close()


def test_features_depend_on_the_api_versions_version() -> None:
    """Old clients cannot read ranges from 0 on; features at level 0 and unknown ones are not
    finalized."""
    levels = {
        METADATA_VERSION_FEATURE: 23,
        "eligible.leader.replicas.version": 0,
        "share.version": 1,
    }
    image = ClusterImage(offset=Offset(7), features=levels)
    for version, supported in ((3, 1), (4, 5)):
        found = features.feature_fields(version, image, kraft_version=1)
        assert len(found["supported_features"]) == supported
        finalized = {row["name"]: row["max_version_level"] for row in found["finalized_features"]}
        assert finalized == {METADATA_VERSION_FEATURE: 23, KRAFT_VERSION_FEATURE: 1}
        assert found["finalized_features_epoch"] == 7
    static = features.feature_fields(4, image, kraft_version=0)
    assert [row["name"] for row in static["finalized_features"]] == [METADATA_VERSION_FEATURE]


def test_every_listener_reports_the_features() -> None:
    """The same for brokers and controllers, within the supported levels; not before version 3."""

    async def main() -> None:
        async with running(1) as cluster:
            for version in range(3):
                old = await cluster.ask(1, API_VERSIONS, version)
                assert not hasattr(old, "finalized_features")
            software = {"client_software_name": "t", "client_software_version": "1"}
            for ask in (cluster.ask, partial(ask_controller, cluster)):
                answer = await ask(1, API_VERSIONS, 4, **software)
                ranges = {f.name: f for f in answer.supported_features}
                assert answer.finalized_features_epoch > 0
                assert {f.name for f in answer.finalized_features} == set(features.SUPPORTED)
                for level in answer.finalized_features:
                    found = ranges[level.name]
                    assert found.min_version <= level.max_version_level <= found.max_version

    asyncio.run(main())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_levels_are_changed_by_administrators(version: int) -> None:
    """Every node reports the new level; a refused request has one error for all."""
    ways = {"allow_downgrade": True} if version == 0 else {"upgrade_type": 2}

    async def main() -> None:
        async with running(1) as cluster:

            async def update(level: int, **way: Any) -> Any:
                row = {"feature": "transaction.version", "max_version_level": level, **way}
                return await cluster.ask(1, UPDATE_FEATURES, version, feature_updates=[row])

            async def level() -> int:
                software = {"client_software_name": "t", "client_software_version": "1"}
                answer = await cluster.ask(1, API_VERSIONS, 4, **software)
                found = {row.name: row.max_version_level for row in answer.finalized_features}
                return int(found.get("transaction.version", 0))

            async def has(wanted: int) -> bool:
                return await level() == wanted

            # A new controller writes the levels of a new cluster a moment after it began to serve.
            await eventually(partial(has, 2))
            assert (await update(1)).error_code is ErrorCode.invalid_update_version
            assert await level() == 2
            assert (await update(1, **ways)).error_code is ErrorCode.none
            await eventually(partial(has, 1))

    asyncio.run(main())


def test_controllers_describe_themselves() -> None:
    """KIP-919: their addresses and the active one; only brokers describe brokers."""

    async def main() -> None:
        async with running(3) as cluster:
            for version in (1, 2):
                found = await ask_controller(
                    cluster, 1, DESCRIBE_CLUSTER, version, endpoint_type=CONTROLLERS
                )
                ports = {broker.broker_id: broker.port for broker in found.brokers}
                assert ports == cluster.controller_ports
                assert found.controller_id in cluster.ids
                assert found.endpoint_type == CONTROLLERS
            for ask, other in (
                (cluster.ask, CONTROLLERS),
                (partial(ask_controller, cluster), BROKERS),
            ):
                for wanted, code in (
                    (other, ErrorCode.mismatched_endpoint_type),
                    (STRANGERS, ErrorCode.unsupported_endpoint_type),
                ):
                    refused = await ask(1, DESCRIBE_CLUSTER, 2, endpoint_type=wanted)
                    assert refused.error_code is code
                    assert refused.error_message
            untyped = await ask_controller(cluster, 1, DESCRIBE_CLUSTER, 0)
            assert untyped.error_code is ErrorCode.invalid_request

    asyncio.run(main())


def test_controllers_describe_configurations() -> None:
    """Their own and topics', as a tool with --bootstrap-controller asks."""

    async def main() -> None:
        async with running(1) as cluster:
            resources = [{"resource_type": 4, "resource_name": "1"}]
            found = await ask_controller(cluster, 1, DESCRIBE_CONFIGS, 4, resources=resources)
            (broker,) = found.results
            assert broker.error_code is ErrorCode.none
            assert {"node.id", "log.dirs"} <= {config.name for config in broker.configs}

    asyncio.run(main())


def test_resources_with_configurations_are_listed_by_type() -> None:
    """Version 0 knows only client metrics, of which there are none. Kafka 4.2 answers the same."""
    topic, broker, logger, client_metrics, group, unknown = 2, 4, 8, 16, 32, 99

    async def main() -> None:
        async with running(3) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=1)
            await cluster.leader("t")

            async def listed(*types: int) -> list[tuple[int, str]]:
                answer = await cluster.ask(1, LIST_CONFIG_RESOURCES, 1, resource_types=types)
                assert answer.error_code is ErrorCode.none
                return sorted((r.resource_type, r.resource_name) for r in answer.config_resources)

            assert await listed(topic) == [(topic, "t")]
            brokers = [(type_, name) for type_ in (broker, logger) for name in ("1", "2", "3")]
            assert await listed(logger, broker) == brokers
            assert await listed(client_metrics, group) == []
            assert await listed() == [(topic, "t"), *brokers]
            refused = await cluster.ask(
                1, LIST_CONFIG_RESOURCES, 1, resource_types=(topic, unknown)
            )
            assert refused.error_code is ErrorCode.unsupported_version
            assert refused.config_resources == ()
            old = await cluster.ask(1, LIST_CONFIG_RESOURCES, 0)
            assert (old.error_code, old.config_resources) == (ErrorCode.none, ())
            await cluster.stop(3)

            async def in_service() -> bool:
                return await listed(broker) == [(broker, "1"), (broker, "2")]

            await eventually(in_service)

    asyncio.run(main())


def test_a_group_is_configured_described_and_listed() -> None:
    """As Kafka 4.2 answers; the coordinator tells the members the new interval."""
    group, session, interval = 32, "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    mine = {"resource_type": group, "resource_name": "g"}

    async def main() -> None:
        async with running(1) as cluster:

            async def alter(name: str, value: str) -> ErrorCode:
                configs = [{"name": name, "config_operation": 0, "value": value}]
                answer = await cluster.ask(1, 44, 1, resources=[{**mine, "configs": configs}])
                return ErrorCode(answer.responses[0].error_code)

            async def described(**resource: Any) -> Any:
                answer = await cluster.ask(
                    1,
                    DESCRIBE_CONFIGS,
                    4,
                    resources=[{**mine, "configuration_keys": None, **resource}],
                    include_synonyms=True,
                )
                return answer.results[0]

            async def heard() -> int:
                answer = await cluster.ask(
                    1,
                    68,
                    1,
                    group_id="g",
                    member_id="m",
                    rebalance_timeout=timedelta(seconds=60),
                    subscribed_topic_names=["t"],
                    topic_partitions=[],
                )
                return int(answer.heartbeat_interval.total_seconds())

            assert await alter(interval, "6000") is ErrorCode.none
            assert await alter("foo", "6000") is ErrorCode.invalid_config
            rows = {row.name: row for row in (await described()).configs}
            assert (rows[session].value, rows[session].config_source) == ("45000", 5)
            row = rows[interval]
            assert (row.value, row.config_source, row.config_type) == ("6000", 8, 3)
            assert [(each.value, each.source) for each in row.synonyms] == [("6000", 8)]
            nameless = await described(resource_name="")
            assert nameless.error_code is ErrorCode.invalid_request
            listed = await cluster.ask(1, LIST_CONFIG_RESOURCES, 1, resource_types=(group,))
            assert [each.resource_name for each in listed.config_resources] == ["g"]
            await cluster.ask(1, 10, 6, key_type=0, coordinator_keys=["g"])

            async def told() -> bool:
                return await heard() == 6

            await eventually(told)

    asyncio.run(main())


@pytest.mark.parametrize("asked", [False, True])
def test_authorized_operations_are_sent_if_requested(asked: bool) -> None:
    """All are allowed; otherwise the field says that they were not requested (KIP-430)."""
    wanted = {
        "include_cluster_authorized_operations": asked,
        "include_topic_authorized_operations": asked,
    }
    of_cluster = CLUSTER_OPERATIONS if asked else NOT_ASKED
    of_topic = TOPIC_OPERATIONS if asked else NOT_ASKED

    async def main() -> None:
        async with running(1) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=1)
            for version in range(8, 14):
                names = [{"name": "t"}, {"name": "none"}]
                found = await cluster.ask(1, METADATA, version, topics=names, **wanted)
                told = {topic.name: topic.topic_authorized_operations for topic in found.topics}
                assert told == {"t": of_topic, "none": NOT_ASKED}
                if version <= 10:
                    assert found.cluster_authorized_operations == of_cluster
            for version in range(3):
                values = {**wanted, "endpoint_type": BROKERS}
                described = await cluster.ask(1, DESCRIBE_CLUSTER, version, **values)
                assert described.cluster_authorized_operations == of_cluster
            page = await cluster.ask(1, DESCRIBE_TOPICS, 0, topics=[{"name": "t"}])
            assert page.topics[0].topic_authorized_operations == TOPIC_OPERATIONS

    asyncio.run(main())


def test_describe_log_dirs_reports_the_disk_space() -> None:
    """From version 4 on (KIP-827)."""

    async def main() -> None:
        async with running(1) as cluster:
            (directory,) = (await cluster.ask(1, DESCRIBE_LOG_DIRS, 4, topics=None)).results
            assert directory.total_bytes == CAPACITY_BYTES
            assert 0 < directory.usable_bytes < CAPACITY_BYTES

    asyncio.run(main())


def test_earliest_pending_upload_has_no_offset() -> None:
    """ListOffsets has this timestamp from version 11 on (KIP-1023); there is no tiered storage."""

    async def main() -> None:
        async with running(1) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=1)
            leader = await cluster.leader("t")
            for version, code in ((10, ErrorCode.unsupported_version), (11, ErrorCode.none)):
                parts = [{"partition_index": 0, "timestamp": -6}]
                answer = await cluster.ask(
                    leader,
                    LIST_OFFSETS,
                    version,
                    replica_id=-1,
                    topics=[{"name": "t", "partitions": parts}],
                )
                (part,) = answer.topics[0].partitions
                assert (part.error_code, part.offset) == (code, -1)

    asyncio.run(main())


def test_quorum_leader_is_described_as_caught_up_now() -> None:
    """As in Kafka: its times are those of the response."""

    async def main() -> None:
        async with running(1) as cluster:
            topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
            found = await cluster.ask(1, DESCRIBE_QUORUM, 2, topics=topics)
            (voter,) = found.topics[0].partitions[0].current_voters
            assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp
            assert voter.last_fetch_timestamp > 0

    asyncio.run(main())
