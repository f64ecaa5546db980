"""Offsets that a producer commits in its transaction, on whole clusters."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from nodes.server.apis import ADD_OFFSETS_TO_TXN, OFFSET_FETCH, TXN_OFFSET_COMMIT
from tests.support.nodes.cluster import Cluster, eventually, running
from tests.support.nodes.group_requests import WAITS, commit, committed, coordinator_of
from tests.support.nodes.transaction_requests import TransactionalProducer

NONE = ErrorCode.none
GROUP = "g"


async def producer_of(cluster: Cluster, *, latest: bool = True) -> TransactionalProducer:
    """A topic t, and a producer of a new transactional id."""
    await cluster.create_topic("t", num_partitions=1, replication_factor=len(cluster.ids))
    await cluster.leader("t", isr=len(cluster.ids))
    await coordinator_of(cluster, GROUP)
    producer = TransactionalProducer(cluster, "a", latest=latest)
    assert await producer.init() is NONE
    return producer


async def add_offsets(producer: TransactionalProducer) -> None:
    answer = await producer.ask(
        ADD_OFFSETS_TO_TXN,
        3,
        transactional_id=producer.name,
        producer_id=producer.stamp.producer_id,
        producer_epoch=producer.stamp.epoch,
        group_id=GROUP,
    )
    assert answer.error_code is NONE


async def stage(
    cluster: Cluster, producer: TransactionalProducer, offset: int, version: int = 5, **who: object
) -> ErrorCode:
    """TxnOffsetCommit of partition 0 of the topic t; asked again while nobody serves it."""
    found: list[ErrorCode] = []

    async def served() -> bool:
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        values: dict[str, object] = {"member_id": "", "generation_id": -1, **who}
        answer = await cluster.ask(
            await coordinator_of(cluster, GROUP),
            TXN_OFFSET_COMMIT,
            version,
            transactional_id=producer.name,
            group_id=GROUP,
            producer_id=producer.stamp.producer_id,
            producer_epoch=producer.stamp.epoch,
            topics=[{"name": "t", "partitions": [row]}],
            **values,
        )
        found[:] = [answer.topics[0].partitions[0].error_code]
        return found[0] not in WAITS

    await eventually(served)
    return found[0]


async def stable(cluster: Cluster) -> ErrorCode | int:
    """What a fetch that requires stable offsets says."""
    wanted = [{"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0]}]}]
    node = await coordinator_of(cluster, GROUP)
    answer = await cluster.ask(node, OFFSET_FETCH, 9, groups=wanted, require_stable=True)
    row = answer.groups[0].topics[0].partitions[0]
    return ErrorCode(row.error_code) if row.error_code is not NONE else int(row.committed_offset)


async def until_stable(cluster: Cluster) -> int:
    """The offset, once no transaction has one pending: the markers come after EndTxn's answer."""
    found: list[ErrorCode | int] = []

    async def decided() -> bool:
        found[:] = [await stable(cluster)]
        return not isinstance(found[0], ErrorCode)

    await eventually(decided)
    return int(found[0])


@pytest.mark.parametrize("version", range(6))
def test_offsets_count_when_the_transaction_is_committed(version: int) -> None:
    """Not before, and never if it is aborted; version 5 adds the partition itself."""
    latest = version == 5

    async def main() -> None:
        async with running(1) as cluster:
            producer = await producer_of(cluster, latest=latest)
            assert await commit(cluster, GROUP, 3) is NONE
            for decided, expected in ((False, 3), (True, 8)):
                if not latest:
                    await add_offsets(producer)
                assert await stage(cluster, producer, 8, version) is NONE
                assert await committed(cluster, GROUP) == {("t", 0): 3}
                assert await stable(cluster) is ErrorCode.unstable_offset_commit
                assert await producer.end(commit=decided) is NONE
                assert await until_stable(cluster) == expected

    asyncio.run(main())


def test_offsets_outside_of_a_transaction_are_refused() -> None:
    """A late commit must not open a transaction that nobody ends (KIP-890)."""

    async def main() -> None:
        async with running(1) as cluster:
            producer = await producer_of(cluster, latest=False)
            assert await stage(cluster, producer, 8, 3) is ErrorCode.invalid_txn_state
            assert await stage(cluster, producer, 8, 4) is ErrorCode.transaction_abortable
            assert await committed(cluster, GROUP) == {}

    asyncio.run(main())


def test_a_member_that_is_not_in_the_group_commits_nothing() -> None:
    """KIP-447: a zombie's transaction fails at its offsets."""

    async def main() -> None:
        async with running(1) as cluster:
            producer = await producer_of(cluster)
            refused = await stage(cluster, producer, 8, member_id="zombie", generation_id=5)
            assert refused is ErrorCode.illegal_generation
            assert await committed(cluster, GROUP) == {}

    asyncio.run(main())


def test_pending_offsets_survive_their_coordinator() -> None:
    """The new one knows them as pending, and hears how the transaction ends."""

    async def main() -> None:
        async with running(3) as cluster:
            producer = await producer_of(cluster)
            assert await commit(cluster, GROUP, 3) is NONE
            assert await stage(cluster, producer, 8) is NONE
            await cluster.restart_all()
            assert await committed(cluster, GROUP) == {("t", 0): 3}
            assert await stable(cluster) is ErrorCode.unstable_offset_commit
            assert await producer.end(commit=True) is NONE
            assert await until_stable(cluster) == 8
            await cluster.restart_all()
            assert await committed(cluster, GROUP) == {("t", 0): 8}

    asyncio.run(main())
