"""Unclean recovery: the controller asks brokers where their logs end until a leader is elected."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller.recovery import LogQuery
from nodes.ids import BrokerEpoch, NodeId
from nodes.log.batch import Record, encode_batch
from nodes.metadata.image import ClusterImage
from nodes.server.controller.recovery import LAST_PAUSE_MS, UncleanRecoveryManager
from nodes.server.requests.replica_log_info import ReplicaLogInfoHandler
from nodes.wire.client import Channel
from nodes.wire.errors import RequestTimedOut
from nodes.wire.replica_log_info import (
    MAX_PARTITIONS,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
)
from nodes.wire.versions import fill
from tests.support.nodes import virtual_time
from tests.support.nodes.cluster import eventually
from tests.support.nodes.controller_node import Node
from tests.support.nodes.fetching import EPOCH, SOMEBODY, FetchBroker, topic_id

# -- the broker's side -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Registered:
    """This broker's registration."""

    broker_epoch: BrokerEpoch


def told(broker: FetchBroker, *asked: tuple[UUID, list[int]]) -> Any:
    """What the broker answers; topics and the partitions of each."""
    rows = [{"topic_id": each, "partitions": numbers} for each, numbers in asked]
    request = fill(GetReplicaLogInfoRequest, topic_partitions=rows)
    return ReplicaLogInfoHandler(cast(Any, broker.hosted), Registered(BrokerEpoch(17))).handle(
        request, SOMEBODY
    )


def rows_of(answer: Any) -> list[tuple[int, int, int, ErrorCode]]:
    """Last written epoch, current one, log end, error; of every partition."""
    return [
        (
            row.last_written_leader_epoch,
            row.current_leader_epoch,
            row.log_end_offset,
            row.error_code,
        )
        for topic in answer.topic_partition_log_info_list
        for row in topic.partition_log_info
    ]


def test_broker_reports_where_its_logs_end() -> None:
    """With the epoch of the last record, not that of an epoch without records."""

    async def run() -> None:
        broker = FetchBroker(2)
        broker.replica(0).append(encode_batch([Record(value=b"x")], timestamp_ms=1))
        broker.assign(0, epoch=EPOCH + 1)
        answer = told(broker, (topic_id(0), [0, 7]), (topic_id(1), [0]), (UUID(int=99), [0]))
        assert answer.broker_epoch == 17
        assert not answer.truncated
        assert rows_of(answer) == [
            (EPOCH, EPOCH + 1, 1, ErrorCode.none),
            (-1, -1, -1, ErrorCode.unknown_topic_or_partition),
            (-1, EPOCH, 0, ErrorCode.none),
            (-1, -1, -1, ErrorCode.unknown_topic_id),
        ]

    virtual_time.run(run())


def test_log_emptied_by_retention_reports_its_last_epoch() -> None:
    """It counts as long as one that still has its records."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.replica(0).append(encode_batch([Record(value=b"x")], timestamp_ms=1))
        broker.commit(0)
        broker.replica(0).advance_start(broker.replica(0).log.end_offset)
        assert rows_of(told(broker, (topic_id(0), [0]))) == [(EPOCH, EPOCH, 1, ErrorCode.none)]

    virtual_time.run(run())


def test_replica_log_info_response_is_bounded() -> None:
    """It has the first MAX_PARTITIONS partitions, and says that there were more."""

    async def run() -> None:
        answer = told(FetchBroker(1), (topic_id(0), [0] * (MAX_PARTITIONS + 1)))
        assert answer.truncated
        assert len(rows_of(answer)) == MAX_PARTITIONS

    virtual_time.run(run())


# -- the controller's side -------------------------------------------------------------------------


@dataclass
class FakeBroker:
    """Answers for all its partitions alike."""

    image: Callable[[], ClusterImage]
    number: int
    end: int
    epoch: int | None = None
    """The broker epoch that it gives; None: the one that it has."""
    hangs: bool = False
    host: str = "h"
    asked: list[int] = field(default_factory=list)
    """How many partitions each request named."""
    closed: int = 0

    @property
    def port(self) -> int:
        return 9000 + self.number

    async def request(self, entity: Any, *, timeout_s: float) -> Any:
        wanted = [(t.topic_id, n) for t in entity.topic_partitions for n in t.partitions]
        self.asked.append(len(wanted))
        if self.hangs:
            await asyncio.sleep(timeout_s)
            raise RequestTimedOut("no answer")
        image = self.image()
        topics = [
            {
                "topic_id": each,
                "partition_log_info": [
                    {
                        "partition": number,
                        "current_leader_epoch": image.topics[each].partitions[number].leader_epoch,
                        "log_end_offset": self.end,
                    }
                ],
            }
            for each, number in wanted
        ]
        epoch = image.brokers[NodeId(self.number)].epoch if self.epoch is None else self.epoch
        return fill(
            GetReplicaLogInfoResponse, broker_epoch=epoch, topic_partition_log_info_list=topics
        )

    def close(self) -> None:
        self.closed += 1


@dataclass
class Outage:
    """A controller; two brokers that both came back uncleanly, and were in sync together."""

    node: Node
    brokers: dict[int, FakeBroker]
    recovery: UncleanRecoveryManager

    def leaders(self) -> list[int]:
        topic = self.node.controller.image.topic("t")
        assert topic is not None
        return [partition.leader for partition in topic.partitions.values()]

    async def recovered(self) -> None:
        async def led() -> bool:
            return -1 not in self.leaders()

        await eventually(led)

    async def pass_time(self, half_seconds: int) -> None:
        """Both brokers stay in service."""
        for _ in range(half_seconds):
            await asyncio.sleep(0.5)
            for number in (1, 2):
                broker = self.node.controller.image.brokers[NodeId(number)]
                await self.node.beat(number, broker.epoch)


def outage(partitions: int, test: Callable[[Outage], Coroutine[Any, Any, None]]) -> None:
    """Run `test` in virtual time, at most a minute of it."""

    async def run() -> None:
        node = Node(session_timeout_ms=1000)
        brokers = {n: FakeBroker(lambda: node.controller.image, n, 10 * n) for n in (1, 2)}
        node.quorum.lead()
        await node.brokers(2)
        settings = [{"name": "min.insync.replicas", "value": "2"}]
        await node.create(num_partitions=partitions, replication_factor=2, configs=settings)
        node.quorum_controller.start()
        await asyncio.sleep(2)
        for number in (1, 2):
            epoch = (await node.register(number, 10 + number)).broker_epoch
            await node.beat(number, epoch)
        connect = cast(Callable[[str, int], Channel], lambda _, port: brokers[port - 9000])
        recovery = UncleanRecoveryManager(node.quorum_controller, connect, "PLAINTEXT")
        running = asyncio.create_task(recovery.run())
        made = Outage(node, brokers, recovery)
        assert set(made.leaders()) == {-1}
        try:
            async with asyncio.timeout(60):
                await test(made)
        finally:
            running.cancel()
            await node.quorum_controller.stop()
            recovery.close()

    virtual_time.run(run())


def test_recovery_asks_for_many_partitions_in_few_requests() -> None:
    """The replicas with the longer logs are elected."""

    async def test(made: Outage) -> None:
        await made.recovered()
        assert set(made.leaders()) == {2}
        bounded = [MAX_PARTITIONS, MAX_PARTITIONS, 5]
        assert made.brokers[1].asked == made.brokers[2].asked == bounded

    outage(2 * MAX_PARTITIONS + 5, test)


@pytest.mark.parametrize("changed", [{"hangs": True}, {"epoch": 1}], ids=str)
def test_recovery_repeats_a_question_at_growing_intervals(changed: dict[str, Any]) -> None:
    """While a replica does not answer, or only an earlier incarnation of it did; then at once."""

    async def test(made: Outage) -> None:
        for name, value in changed.items():
            setattr(made.brokers[2], name, value)
        await made.pass_time(40)
        assert made.leaders() == [-1]
        assert 8 < len(made.brokers[1].asked) < 20_000 / LAST_PAUSE_MS + 10
        made.brokers[2].hangs, made.brokers[2].epoch = False, None
        await made.pass_time(6)
        assert made.leaders() == [2]

    outage(1, test)


def test_recovery_asks_nothing_while_nothing_changes() -> None:
    """Neither for a partition with a leader, nor for one that waits for a broker."""

    async def test(made: Outage) -> None:
        await made.recovered()
        before = list(made.brokers[1].asked)
        await asyncio.sleep(20)  # in which both are fenced for their silence
        assert made.leaders() == [-1]
        assert made.brokers[1].asked == before

    outage(1, test)


def test_recovery_uses_the_current_address_of_a_broker() -> None:
    """The channel to the old address is closed."""

    async def test(made: Outage) -> None:
        await made.recovered()
        made.brokers[2].host = "elsewhere"  # what was connected to is not what is registered
        key = next(iter(made.node.controller.image.partitions()))[0]
        both = (NodeId(1), NodeId(2))
        await made.recovery.ask([LogQuery(key=key, partition_epoch=0, candidates=both)])
        assert (made.brokers[1].closed, made.brokers[2].closed) == (0, 1)

    outage(1, test)
