"""Transactions by requests, on real brokers: coordination, fencing, failover, administration."""

import asyncio
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.internal_topics import TRANSACTIONS_TOPIC
from nodes.server.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    PRODUCE,
)
from nodes.server.coordinators import completions
from nodes.server.coordinators.producer_ids import ProducerIds
from tests.support.nodes.batches import batch
from tests.support.nodes.cluster import Cluster, eventually, running
from tests.support.nodes.transaction_requests import TransactionalProducer

NONE = ErrorCode.none
LIMIT = timedelta(seconds=5)
VERIFICATION = "transaction.partition.verification.enable"


async def with_topic(cluster: Cluster) -> None:
    await cluster.create_topic("t", num_partitions=2, replication_factor=len(cluster.ids))
    await cluster.leader("t", 0)


def latest_of(partition: int) -> dict[str, Any]:
    """ListOffsets of the end of a partition of the topic t."""
    row = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
    return {"name": "t", "partitions": [row]}


def test_a_producer_without_a_transactional_id_gets_an_unused_id() -> None:
    """From any broker."""

    async def main() -> None:
        async with running(1) as cluster:
            ids = [await cluster.ask(1, INIT_PRODUCER_ID, 5) for _ in range(3)]
            assert len({answer.producer_id for answer in ids}) == 3
            assert {answer.producer_epoch for answer in ids} == {0}

    asyncio.run(main())


@pytest.mark.parametrize("latest", [True, False])
def test_a_transaction_is_begun_and_decided(latest: bool) -> None:
    """And seen by administrators; the epoch follows the client's version."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a", latest=latest)
            assert await producer.init() is NONE
            assert producer.stamp.epoch == 0
            assert await producer.state() == "Empty"
            assert await producer.add("t", 0, 1) is NONE
            assert await producer.state() == "Ongoing"
            assert await producer.listed("Ongoing") == ["a"]
            assert await producer.listed("Empty") == []
            assert await producer.add("missing", 0) is ErrorCode.unknown_topic_or_partition
            assert await producer.end(commit=True) is NONE
            assert producer.stamp.epoch == (1 if latest else 0)

            async def completed() -> bool:
                return await producer.state() == "CompleteCommit"

            await eventually(completed)
            for partition in range(2):
                answer = await cluster.ask(
                    1,
                    LIST_OFFSETS,
                    7,
                    isolation_level=1,
                    replica_id=-1,
                    topics=[latest_of(partition)],
                )
                assert answer.topics[0].partitions[0].offset == 1  # behind the marker

    asyncio.run(main())


def test_end_of_a_transaction_needs_no_producer_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it does not wait for a controller that nobody can reach."""

    async def never(ids: ProducerIds) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a")
            await producer.init()
            await producer.add("t", 0)
            monkeypatch.setattr(ProducerIds, "reserve", never)
            assert await asyncio.wait_for(producer.end(commit=True), 60) is NONE

    asyncio.run(main())


def test_a_second_producer_fences_the_first() -> None:
    """Old clients hear it by the error that they know (KIP-588)."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            first, second = (TransactionalProducer(cluster, "a") for _ in range(2))
            await first.init()
            await second.init()
            assert second.stamp == (first.stamp.producer_id, 1)
            assert await first.add("t", 0) is ErrorCode.producer_fenced
            assert await first.end(commit=True) is ErrorCode.producer_fenced
            old = await first.ask(
                ADD_PARTITIONS_TO_TXN,
                1,
                v3_and_below_transactional_id="a",
                v3_and_below_producer_id=first.stamp.producer_id,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[{"name": "t", "partitions": [0]}],
            )
            (row,) = old.results_by_topic_v3_and_below[0].results_by_partition
            assert row.partition_error_code is ErrorCode.invalid_producer_epoch

    asyncio.run(main())


def test_brokers_verify_and_add_for_several_transactions() -> None:
    """AddPartitionsToTxn from version 4 on; each transaction and partition has its own error."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a")
            await producer.init()

            def row(partition: int, *, adds: bool, epoch: int = 0) -> dict[str, Any]:
                return {
                    "transactional_id": "a",
                    "producer_id": producer.stamp.producer_id,
                    "producer_epoch": epoch,
                    "verify_only": not adds,
                    "topics": [{"name": "t", "partitions": [partition]}],
                }

            async def asked(*rows: dict[str, Any]) -> list[ErrorCode]:
                answer = await cluster.ask(1, ADD_PARTITIONS_TO_TXN, 5, transactions=rows)
                return [
                    result.topic_results[0].results_by_partition[0].partition_error_code
                    for result in answer.results_by_transaction
                ]

            assert await asked(row(0, adds=True)) == [NONE]
            assert await asked(
                row(0, adds=False),
                row(1, adds=False),
                row(9, adds=True),
                row(0, adds=False, epoch=5),
            ) == [
                NONE,
                ErrorCode.transaction_abortable,
                ErrorCode.unknown_topic_or_partition,
                ErrorCode.producer_fenced,
            ]

    asyncio.run(main())


def test_the_next_transaction_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator answers the end first, and lets the next request wait until it is complete.

    So neither the broker nor the client pauses after CONCURRENT_TRANSACTIONS.
    """
    monkeypatch.setattr(completions, "WAIT_S", 20.0)

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a")
            await producer.init()
            for _ in range(3):
                row = {
                    "transactional_id": "a",
                    "producer_id": producer.stamp.producer_id,
                    "producer_epoch": producer.stamp.epoch,
                    "verify_only": False,
                    "topics": [{"name": "t", "partitions": [0]}],
                }
                answer = await cluster.ask(1, ADD_PARTITIONS_TO_TXN, 5, transactions=[row])
                result = answer.results_by_transaction[0].topic_results[0].results_by_partition[0]
                assert result.partition_error_code is NONE
                assert await producer.end(commit=True) is NONE

    asyncio.run(main())


def test_a_client_adds_no_partition_of_an_internal_topic() -> None:
    """As in Kafka; it would block the coordinator's log, and hold back its answers."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a")
            await producer.init()
            topics = [
                {"name": "t", "partitions": [0]},
                {"name": TRANSACTIONS_TOPIC, "partitions": [0]},
            ]
            answer = await cluster.ask(
                1,
                ADD_PARTITIONS_TO_TXN,
                3,
                v3_and_below_transactional_id="a",
                v3_and_below_producer_id=producer.stamp.producer_id,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=topics,
            )
            assert [
                row.results_by_partition[0].partition_error_code
                for row in answer.results_by_topic_v3_and_below
            ] == [ErrorCode.operation_not_attempted, ErrorCode.topic_authorization_failed]
            assert await producer.state() == "Empty"

    asyncio.run(main())


@pytest.mark.parametrize("broker", ["", "1"])
def test_verification_is_altered_while_the_broker_runs(broker: str) -> None:
    """For all brokers, or one; the broker describes what holds."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a", latest=False)
            await producer.init()
            resource = {"resource_type": 4, "resource_name": broker}

            async def produced() -> ErrorCode:
                identity = (producer.stamp.producer_id, producer.stamp.epoch, 0)
                records = batch(1, producer=identity, transactional=True)
                data = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
                answer = await cluster.ask(
                    1, PRODUCE, 11, transactional_id="a", acks=-1, timeout=LIMIT, topic_data=[data]
                )
                return ErrorCode(answer.responses[0].partition_responses[0].error_code)

            async def alter(operation: int, value: str | None) -> ErrorCode:
                change = {"name": VERIFICATION, "config_operation": operation, "value": value}
                answer = await cluster.ask(
                    1, INCREMENTAL_ALTER_CONFIGS, 1, resources=[{**resource, "configs": [change]}]
                )
                return ErrorCode(answer.responses[0].error_code)

            assert await produced() is ErrorCode.transaction_abortable
            assert await alter(0, "perhaps") is ErrorCode.invalid_request
            assert await alter(0, "false") is NONE

            async def accepted() -> bool:
                return await produced() is NONE

            await eventually(accepted)
            answer = await cluster.ask(
                1,
                DESCRIBE_CONFIGS,
                4,
                resources=[
                    {"resource_type": 4, "resource_name": "1", "configuration_keys": [VERIFICATION]}
                ],
            )
            (row,) = answer.results[0].configs
            assert (row.value, row.read_only, row.config_type) == ("false", False, 1)

    asyncio.run(main())


def test_transactional_ids_are_listed_by_a_pattern() -> None:
    """KIP-1152. An invalid pattern, and one that costs too much, are told; the next is served."""

    async def main() -> None:
        async with running(1) as cluster:
            for name in ("pay:1", "pay:2", "".join(Random(1).choices("ab", k=3_000))):
                await TransactionalProducer(cluster, name).init()

            async def listed(pattern: str | None) -> list[str] | ErrorCode:
                answer = await cluster.ask(
                    1, LIST_TRANSACTIONS, 2, transactional_id_pattern=pattern
                )
                names = sorted(row.transactional_id for row in answer.transaction_states)
                return names if answer.error_code is NONE else ErrorCode(answer.error_code)

            assert await listed("pay:[0-9]") == ["pay:1", "pay:2"]
            assert await listed("pay") == []
            assert await listed("(") is ErrorCode.invalid_regular_expression
            assert await listed("(a|b)*a(a|b){100}") is ErrorCode.invalid_regular_expression
            assert len(await listed(None)) == 3

    asyncio.run(main())


def test_offsets_of_a_group_join_the_transaction() -> None:
    """The group's partition of __consumer_offsets does, and that topic is created for it."""

    async def main() -> None:
        async with running(1) as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a")
            await producer.init()
            answer = await producer.ask(
                ADD_OFFSETS_TO_TXN,
                3,
                transactional_id="a",
                producer_id=producer.stamp.producer_id,
                producer_epoch=0,
                group_id="g",
            )
            assert answer.error_code is NONE
            assert await producer.state() == "Ongoing"

    asyncio.run(main())


def test_the_next_coordinator_knows_all_that_was_answered() -> None:
    """The node that coordinates stops; the open transaction is still open, its producer valid."""

    async def main() -> None:
        async with running(3, transaction_state_log_min_isr="2") as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a")
            await producer.init()
            assert await producer.add("t", 0) is NONE
            before = await producer.coordinator()
            await cluster.stop(before)
            assert await producer.state() == "Ongoing"
            assert await producer.coordinator() != before
            assert await producer.add("t", 1) is NONE
            assert await producer.end(commit=False) is NONE
            assert producer.stamp.epoch == 1

    asyncio.run(main())


def test_the_next_coordinator_completes_a_commit() -> None:
    """The node that coordinates dies after its decision, before it sent a marker."""

    async def main() -> None:
        async with running(3, transaction_state_log_min_isr="2") as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a")
            await producer.init()
            assert await producer.add("t", 0, 1) is NONE
            before = await producer.coordinator()
            node = cluster.nodes[before]
            assert node is not None
            assert node.broker is not None
            vars(node.broker._transactions._markers)["_ask"] = lambda shard, names=None: None
            assert await producer.end(commit=True) is NONE
            await asyncio.sleep(0.3)
            assert await producer.state() == "PrepareCommit"
            await cluster.stop(before)

            async def completed() -> bool:
                return await producer.state() == "CompleteCommit"

            await eventually(completed)

    asyncio.run(main())


def test_an_open_transaction_times_out() -> None:
    """By the coordinator alone; its producer is fenced."""

    async def main() -> None:
        interval = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "50"}
        async with running(1, **interval) as cluster:
            await with_topic(cluster)
            producer = TransactionalProducer(cluster, "a")
            await producer.init(timeout_ms=100)
            await producer.add("t", 0)

            async def aborted() -> bool:
                return await producer.state() == "CompleteAbort"

            await eventually(aborted)

    asyncio.run(main())
