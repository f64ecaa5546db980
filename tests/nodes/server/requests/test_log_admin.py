"""DescribeLogDirs, AlterReplicaLogDirs, DescribeProducers and DeleteRecords on whole nodes."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, cast

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.coordinators.internal_topics import OFFSETS_TOPIC
from nodes.ids import TopicPartition
from nodes.log.checkpoints import LOG_START_OFFSETS, OffsetCheckpoint
from nodes.server.apis import FIND_COORDINATOR, INCREMENTAL_ALTER_CONFIGS
from nodes.server.requests.log_admin import LogAdminHandler
from nodes.wire.versions import fill
from tests.nodes.server.test_broker import batch, consume, produce, values_of
from tests.support.nodes.batches import end_transaction, write_in_transaction
from tests.support.nodes.cluster import Cluster, running
from tests.support.nodes.fetching import SOMEBODY, FetchBroker

DELETE_RECORDS, ALTER_LOG_DIRS, DESCRIBE_LOG_DIRS, DESCRIBE_PRODUCERS = 21, 34, 35, 61
PLACED_ON_2 = [{"partition_index": 0, "broker_ids": (2,)}]


def whole_cluster(count: int, test: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run `test` against `count` nodes with a topic `t` of one partition on all of them."""

    async def run() -> None:
        async with running(count) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=count)
            await cluster.leader("t", isr=count)
            await test(cluster)

    asyncio.run(run())


async def delete_records(
    cluster: Cluster,
    node: int,
    offset: int,
    topic: str = "t",
    timeout: timedelta = timedelta(seconds=3),
) -> Any:
    part = {"partition_index": 0, "offset": offset}
    answer = await cluster.ask(
        node,
        DELETE_RECORDS,
        2,
        topics=[{"name": topic, "partitions": [part]}],
        timeout=timeout,
    )
    return answer.topics[0].partitions[0]


def test_describe_log_dirs_reports_all_or_some_replicas() -> None:
    """The one directory with its logs."""

    async def test(cluster: Cluster) -> None:
        await produce(cluster, 1, batch(b"1"))
        size = len(batch(b"1"))
        for topics in (None, [{"topic": "t", "partitions": [0, 7]}]):
            answer = await cluster.ask(1, DESCRIBE_LOG_DIRS, 4, topics=topics)
            (directory,) = answer.results
            assert directory.log_dir == "/memory"
            ((topic, parts),) = [(t.name, t.partitions) for t in directory.topics]
            assert topic == "t"
            assert [(p.partition_index, p.partition_size) for p in parts] == [(0, size)]
        other = await cluster.ask(1, DESCRIBE_LOG_DIRS, 4, topics=[])
        assert other.results[0].topics == ()

    whole_cluster(1, test)


def test_replica_is_in_the_only_directory_already() -> None:
    """Other directories are unknown, and so are partitions that are elsewhere or nowhere; the
    errors are those of Kafka 4.2."""

    async def test(cluster: Cluster) -> None:
        await cluster.create_topic(
            "elsewhere", num_partitions=-1, replication_factor=-1, assignments=PLACED_ON_2
        )
        await cluster.leader("elsewhere")

        async def error(path: str, topic: str, number: int) -> ErrorCode:
            topics = [{"name": topic, "partitions": [number]}]
            dirs = [{"path": path, "topics": topics}]
            answer = await cluster.ask(1, ALTER_LOG_DIRS, 2, dirs=dirs)
            ((part,),) = [found.partitions for found in answer.results]
            assert (answer.results[0].topic_name, part.partition_index) == (topic, number)
            return cast(ErrorCode, part.error_code)

        assert await error("/memory", "t", 0) is ErrorCode.none
        assert await error("/other", "t", 0) is ErrorCode.log_dir_not_found
        assert await error("/memory", "elsewhere", 0) is ErrorCode.replica_not_available
        assert await error("/memory", "t", 7) is ErrorCode.unknown_topic_or_partition

    whole_cluster(2, test)


def test_describe_producers_shows_open_transactions_and_coordinators() -> None:
    """What finds hanging transactions."""
    made = FetchBroker(1)
    log = made.replica(0).log
    write_in_transaction(log, (7, 0, 0))
    write_in_transaction(log, (8, 0, 0), 2)
    end_transaction(log, 7, coordinator_epoch=3)
    handler = LogAdminHandler(cast(Any, None), made.disk, cast(Any, made.hosted))
    topics = [{"name": "t0", "partition_indexes": [0]}]
    request = fill(load_request_schema(DESCRIBE_PRODUCERS, 0), topics=topics)
    (part,) = handler.describe_producers(request, SOMEBODY).topics[0].partitions
    assert [
        (p.producer_id, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
        for p in part.active_producers
    ] == [(7, 0, 3, -1), (8, 1, -1, 1)]


def test_describe_producers_is_answered_by_the_leader() -> None:
    """Id, epoch and last sequence (KIP-664); other replicas return the error."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        for sequence in range(2):
            records = batch(b"1", producer_id=9, epoch=4, sequence=sequence)
            await produce(cluster, leader, records)
        topics = [{"name": "t", "partition_indexes": [0, 5]}]
        answer = await cluster.ask(leader, DESCRIBE_PRODUCERS, 0, topics=topics)
        known, unknown = answer.topics[0].partitions
        (producer,) = known.active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 4, 1)
        assert unknown.error_code is ErrorCode.unknown_topic_or_partition
        other = next(node for node in cluster.ids if node != leader)
        elsewhere = await cluster.ask(other, DESCRIBE_PRODUCERS, 0, topics=topics)
        code = elsewhere.topics[0].partitions[0].error_code
        assert code is ErrorCode.not_leader_or_follower

    whole_cluster(2, test)


def test_the_next_request_after_delete_records_sees_the_new_start() -> None:
    """Also before the response; confluent-kafka's own tests ask so."""
    made = FetchBroker(1)
    log = made.replica(0).log
    write_in_transaction(log, (7, 0, 0), 1)
    end_transaction(log, 7, coordinator_epoch=0)
    made.replica(0).state.high_watermark = log.end_offset
    handler = LogAdminHandler(cast(Any, None), made.disk, cast(Any, made.hosted))
    parts = [{"partition_index": 0, "offset": 1}]
    request = fill(
        load_request_schema(DELETE_RECORDS, 2),
        topics=[{"name": "t0", "partitions": parts}],
        timeout=timedelta(seconds=1),
    )
    response = handler.delete_records(request, SOMEBODY)
    assert log.start_offset == 1
    response.close()


def test_a_delete_records_without_time_succeeds_if_there_is_no_follower() -> None:
    """As in Kafka; with one, it is likely to time out."""

    async def test(cluster: Cluster) -> None:
        await produce(cluster, 1, batch(b"1"))
        answer = await delete_records(cluster, 1, 1, timeout=timedelta(0))
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 1)

    whole_cluster(1, test)


def test_delete_records_deletes_on_every_replica() -> None:
    """The response comes after the followers' log starts have moved too (KIP-107), and the start is
    on the leader's disk."""

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        for number in range(4):
            await produce(cluster, leader, batch(b"%d" % number))
        answer = await delete_records(cluster, leader, 3)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 3)
        dark = copy.deepcopy(cluster.disks[leader])
        dark.crash()
        starts = OffsetCheckpoint(dark, LOG_START_OFFSETS).read()
        assert starts == {TopicPartition("t", 0): 3}
        gone = await consume(cluster, leader, 2)
        assert gone.error_code is ErrorCode.offset_out_of_range
        assert values_of((await consume(cluster, leader, 3)).records) == [b"3"]
        assert (await delete_records(cluster, leader, -1)).low_watermark == 4
        beyond = await delete_records(cluster, leader, 5)
        assert beyond.error_code is ErrorCode.offset_out_of_range
        assert (await produce(cluster, leader, batch(b"4"))).base_offset == 4
        other = next(node for node in cluster.ids if node != leader)
        elsewhere = await delete_records(cluster, other, 4)
        assert elsewhere.error_code is ErrorCode.not_leader_or_follower

    whole_cluster(2, test)


def test_delete_records_is_refused_by_a_topic_that_only_compacts() -> None:
    """As in Kafka: cleanup.policy does not contain delete."""

    async def run() -> None:
        async with running(1) as cluster:
            configs = [{"name": "cleanup.policy", "value": "compact"}]
            await cluster.create_topic("t", num_partitions=1, replication_factor=1, configs=configs)
            await cluster.leader("t", isr=1)
            assert (await delete_records(cluster, 1, 0)).error_code is ErrorCode.policy_violation

    asyncio.run(run())


def test_delete_records_is_refused_by_internal_topics() -> None:
    """Also where the policy would allow it: a coordinator needs its whole log."""

    async def run() -> None:
        async with running(1) as cluster:
            await cluster.ask(1, FIND_COORDINATOR, 6, key_type=0, coordinator_keys=["g"])
            await cluster.leader(OFFSETS_TOPIC, isr=1)
            policy = {"name": "cleanup.policy", "config_operation": 0, "value": "delete"}
            resource = {"resource_type": 2, "resource_name": OFFSETS_TOPIC, "configs": [policy]}
            await cluster.ask(1, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
            answer = await delete_records(cluster, 1, 0, OFFSETS_TOPIC)
            assert answer.error_code is ErrorCode.invalid_topic_exception

    asyncio.run(run())


def test_new_replica_copies_a_log_that_begins_inside_of_a_batch() -> None:
    """Records were deleted up to there. The replica begins with the whole batch, and then deletes
    as the leader did.
    """

    async def test(cluster: Cluster) -> None:
        leader = await cluster.leader("t")
        follower = 3 - leader
        await produce(cluster, leader, batch(b"0", b"1", b"2", b"3"))
        assert (await delete_records(cluster, leader, 2)).low_watermark == 2
        await cluster.stop(follower)
        disk = cluster.disks[follower]
        for name in disk.listdir("t-0"):
            disk.unlink(f"t-0/{name}")
        disk.remove_dir("t-0")
        await produce(cluster, leader, batch(b"4"), acks=1)
        await cluster.start(follower)
        await cluster.leader("t", isr=2)
        instance = cluster.nodes[follower]
        assert instance is not None
        assert instance.broker is not None
        replica = instance.broker.replicas.find(TopicPartition("t", 0))
        assert replica is not None
        assert (replica.log.start_offset, replica.log.end_offset) == (2, 5)

    whole_cluster(2, test)
