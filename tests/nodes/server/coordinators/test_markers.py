"""Markers reach the leaders of their partitions, whatever fails, and complete the transaction."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import Effects, Now, ProducerStamp, Token
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.coordinators.transactions.settings import TransactionSettings
from nodes.coordinators.transactions.state import State
from nodes.ids import NO_NODE, BrokerEpoch, NodeId, TopicPartition
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.markers import MOST_PARTITIONS, RETRY_S, MarkerSender
from nodes.server.coordinators.shard import Access, Shard
from nodes.wire.errors import ConnectFailed
from tests.support.nodes.coordinator_shard import FOLLOWER, WALL_MS, LedPartition, run

A, B, C = (TopicPartition("t", number) for number in range(3))
OK = ErrorCode.none


class Brokers:
    """Brokers that answer as the test says, and the leaders of the partitions."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, NodeId] = dict.fromkeys((A, B, C), NodeId(1))
        self.down: set[NodeId] = set()
        self.error: Callable[[TopicPartition], ErrorCode] = lambda partition: OK
        self.silent: set[TopicPartition] = set()
        """The partitions that no answer names."""
        self.sent: list[tuple[NodeId, list[dict[str, Any]]]] = []
        self.attempts: list[tuple[NodeId, list[dict[str, Any]]]] = []
        self.delay_s = 0.0

    def partition(self, topic: str, number: int) -> Any:
        leader = self.leaders.get(TopicPartition(topic, number))
        return None if leader is None else SimpleNamespace(leader=leader)

    async def request(self, node: NodeId, draft: Any, *, timeout_s: float | None = None) -> Any:
        self.attempts.append((node, draft.values["markers"]))
        await asyncio.sleep(self.delay_s)
        if node in self.down:
            raise ConnectFailed("down")
        self.sent.append((node, draft.values["markers"]))
        return SimpleNamespace(markers=[self._row(marker) for marker in draft.values["markers"]])

    def _row(self, marker: dict[str, Any]) -> Any:
        topics = [
            SimpleNamespace(
                name=topic["name"],
                partitions=[
                    SimpleNamespace(
                        partition_index=number,
                        error_code=self.error(TopicPartition(topic["name"], number)),
                    )
                    for number in topic["partition_indexes"]
                    if TopicPartition(topic["name"], number) not in self.silent
                ],
            )
            for topic in marker["topics"]
        ]
        return SimpleNamespace(producer_id=marker["producer_id"], topics=topics)

    def partitions_sent(self) -> list[tuple[NodeId, list[int]]]:
        """Each request: the broker, and the partitions of the topic t."""
        return [
            (
                node,
                [n for m in markers for topic in m["topics"] for n in topic["partition_indexes"]],
            )
            for node, markers in self.sent
        ]


class World:
    """One coordinator whose log has a follower, and its sender."""

    def __init__(self) -> None:
        self.led = LedPartition()
        self.brokers = Brokers()
        self.ids = iter(range(1000, 2000))
        self.shards: list[Shard[TransactionCoordinator]] = []
        self.sender = MarkerSender(
            SimpleNamespace(all=lambda: self.shards, find=self._find),  # type: ignore[arg-type]
            self.brokers,  # type: ignore[arg-type]
            lambda: self.brokers,  # type: ignore[arg-type, return-value]
        )

    def _find(self, name: str) -> Shard[TransactionCoordinator]:
        (shard,) = self.shards
        return shard

    async def lead(self, epoch: int = 1) -> Shard[TransactionCoordinator]:
        if epoch > 1:
            self.led.lead(epoch)
        shard = Shard(self.led.replica, self._make, lambda: WALL_MS, commit_timeout_ms=5_000)
        self.shards = [shard]
        await asyncio.wait([shard.loading])
        return shard

    def _make(self) -> TransactionCoordinator:
        return TransactionCoordinator(
            TransactionSettings(),
            transaction_version=lambda: 2,
            new_id=lambda: next(self.ids),
            decided=self.sender.wake,
        )

    def decide(self, *partitions: TopicPartition, name: str = "x", commit: bool = True) -> None:
        """A transaction of these partitions is ended; nothing is replicated."""
        (shard,) = self.shards

        def do(operation: Callable[[TransactionCoordinator, Token, Now], Effects]) -> None:
            shard.perform(operation, Access.WRITE).add_done_callback(lambda _: None)

        do(
            lambda m, t, now: m.init_producer_id(
                t, now, transactional_id=name, timeout_ms=60_000, expected=None
            )
        )
        known = shard.machine.transactions[name]
        producer = ProducerStamp(known.producer_id, known.epoch)
        do(
            lambda m, t, now: m.add_partitions(
                t,
                now,
                transactional_id=name,
                producer=producer,
                partitions=partitions,
                client_version=2,
            )
        )
        do(
            lambda m, t, now: m.end(
                t,
                now,
                transactional_id=name,
                producer=producer,
                commit=commit,
                client_version=2,
            )
        )

    async def settle(self, seconds: float = 1.0) -> None:
        """Time passes, and the follower follows."""
        for _ in range(round(seconds * 100)):
            self.led.replicate()
            await asyncio.sleep(0.01)

    def state(self, name: str = "x") -> State:
        return self.shards[0].machine.transactions[name].state


def test_markers_go_to_the_leaders_and_complete_the_transaction() -> None:
    """One request for each broker, with the coordinator's epoch."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.leaders[C] = NodeId(2)
        world.decide(A, B, C)
        await asyncio.sleep(0.05)
        assert world.brokers.sent == []  # the decision is not replicated yet
        await world.settle()
        assert world.brokers.partitions_sent() == [(1, [0, 1]), (2, [2])]
        marker = world.brokers.sent[0][1][0]
        assert marker["coordinator_epoch"] == 1
        assert (marker["producer_epoch"], marker["transaction_version"]) == (1, 2)
        assert marker["transaction_result"] is True
        assert world.state() is State.COMPLETE_COMMIT

    run(test())


@pytest.mark.parametrize(
    "error", [ErrorCode.not_leader_or_follower, ErrorCode.invalid_producer_epoch]
)
def test_a_partition_that_fails_is_sent_again(error: ErrorCode) -> None:
    """Alone, and to the leader of that time."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.error = lambda partition: error if partition == B else OK
        world.decide(A, B)
        await world.settle(0.05)
        assert world.state() is State.PREPARE_COMMIT
        world.brokers.error = lambda partition: OK
        world.brokers.leaders[B] = NodeId(2)
        await world.settle()
        assert world.brokers.partitions_sent() == [(1, [0, 1]), (2, [1])]
        assert world.state() is State.COMPLETE_COMMIT

    run(test())


def test_a_broker_that_is_down_delays_only_its_own_markers() -> None:
    """It is tried for as long as it leads."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.leaders[B] = NodeId(2)
        world.brokers.down = {NodeId(2)}
        world.decide(A, name="x")
        world.decide(B, name="y")
        await world.settle(30)
        assert world.state("x") is State.COMPLETE_COMMIT
        assert world.state("y") is State.PREPARE_COMMIT
        assert len(world.brokers.sent) == 1
        world.brokers.down = set()
        await world.settle()
        assert world.state("y") is State.COMPLETE_COMMIT

    run(test())


def test_a_partition_without_a_leader_is_waited_for_and_a_deleted_one_is_not() -> None:
    """As in Kafka."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.leaders[A] = NO_NODE
        del world.brokers.leaders[B]
        world.decide(A, B)
        await world.settle()
        assert world.state() is State.PREPARE_COMMIT
        world.brokers.leaders[A] = NodeId(1)
        await world.settle()
        assert world.brokers.partitions_sent() == [(1, [0])]
        assert world.state() is State.COMPLETE_COMMIT

    run(test())


def test_an_abort_without_partitions_completes_at_once() -> None:
    """No marker is needed."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.decide(commit=False)
        await world.settle()
        assert world.brokers.sent == []
        assert world.state() is State.COMPLETE_ABORT

    run(test())


def test_a_new_coordinator_goes_on_and_the_old_one_stops() -> None:
    """In the middle of a commit."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.down = {NodeId(1)}
        world.decide(A)
        await world.settle()
        world.led.lead(2, leader=FOLLOWER)
        await world.settle()  # a request that was on its way ends
        world.brokers.down = set()
        await world.settle()
        assert world.brokers.sent == []
        await world.lead(3)
        await world.settle()
        assert [marker["coordinator_epoch"] for _, (marker,) in world.brokers.sent] == [3]
        assert world.state() is State.COMPLETE_COMMIT

    run(test())


def test_a_marker_is_not_sent_twice_while_it_is_on_its_way() -> None:
    """However often the coordinators are asked meanwhile; later ones follow in the next request."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.delay_s = 0.5
        world.decide(A, name="x")
        await world.settle(0.1)
        world.decide(A, name="y")
        world.decide(B, name="z")
        await world.settle(3)
        assert world.brokers.partitions_sent() == [(1, [0]), (1, [0, 1])]

    run(test())


def test_what_waits_behind_a_failure_goes_to_the_leader_of_then() -> None:
    """Not once more to the broker that is down."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.delay_s = 0.5
        world.brokers.down = {NodeId(1)}
        world.decide(A, name="x")
        await world.settle(0.1)
        world.decide(B, name="y")
        await world.settle(0.1)
        world.brokers.leaders[B] = NodeId(2)
        await world.settle(3)
        assert world.state("y") is State.COMPLETE_COMMIT
        tried = [
            node for node, (marker,) in world.brokers.attempts if marker["producer_id"] == 1001
        ]
        assert tried == [2]

    run(test())


def test_what_waits_for_a_request_is_not_sent_after_the_coordinator_ended() -> None:
    """The next one sends it, with its own epoch."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.delay_s = 0.5
        world.decide(A, name="x")
        await world.settle(0.1)
        world.decide(B, name="y")
        await world.settle(0.1)
        world.led.lead(2, leader=FOLLOWER)
        await world.settle(3)
        assert world.brokers.partitions_sent() == [(1, [0])]

    run(test())


def test_marker_that_was_confirmed_since_it_was_asked_for_is_not_sent_again() -> None:
    """The answer waited for records of others. Before transaction.version 2 the next transaction
    may have the same epoch, and the late marker would end it.
    """

    async def test() -> None:
        world = World()
        await world.lead()
        replica = world.led.replica
        world.brokers.error = lambda partition: (
            ErrorCode.not_leader_or_follower if partition == C else OK
        )
        world.decide(C, name="fails")  # so that everything is looked for again and again
        await world.settle(0.3)
        world.decide(A, name="x")
        await asyncio.sleep(0)
        decided = replica.log.end_offset
        world.decide(B, name="other")
        await asyncio.sleep(0.25)
        replica.record_fetch(FOLLOWER, decided, BrokerEpoch(1), 0.0)
        await asyncio.sleep(0.05)
        assert world.state("x") is State.COMPLETE_COMMIT
        world.brokers.sent.clear()
        await world.settle(0.3)
        sent_to = [number for _, numbers in world.brokers.partitions_sent() for number in numbers]
        assert A.partition not in sent_to
        assert B.partition in sent_to

    run(test())


def test_a_partition_that_an_answer_does_not_name_has_no_marker() -> None:
    """It is sent again."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.brokers.silent = {B}
        world.decide(A, B)
        await world.settle()
        assert world.state() is State.PREPARE_COMMIT
        world.brokers.silent = set()
        await world.settle()
        assert world.state() is State.COMPLETE_COMMIT

    run(test())


def test_a_coordinator_is_asked_once_at_a_time_for_everything() -> None:
    """While its decisions are not replicated it does not answer."""

    async def test() -> None:
        world = World()
        shard = await world.lead()
        world.decide(A)
        await asyncio.sleep(0.01)
        waiting = len(shard._waiting)
        for _ in range(20):
            world.sender._look_later()
            await asyncio.sleep(RETRY_S)
        assert len(shard._waiting) == waiting + 1

    run(test())


def test_a_decision_does_not_wait_for_an_earlier_one() -> None:
    """Its markers are asked for at once, also while the earlier ones are not replicated yet."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.decide(A, name="x")
        await asyncio.sleep(0.01)
        world.decide(B, name="y")
        await asyncio.sleep(0.01)
        world.led.replicate()
        await asyncio.sleep(RETRY_S / 10)
        assert world.state("x") is world.state("y") is State.COMPLETE_COMMIT

    run(test())


def test_a_decision_of_a_coordinator_that_is_elsewhere_by_now_is_left_to_it() -> None:
    """The other ones of that time are asked for."""

    async def test() -> None:
        world = World()
        await world.lead()
        found = world.sender._shards.find

        def find(name: str) -> Shard[TransactionCoordinator]:
            if name == "elsewhere":
                raise CoordinatorError(ErrorCode.not_coordinator)
            return found(name)

        vars(world.sender._shards)["find"] = find
        world.sender.wake("elsewhere")
        world.decide(A, name="x")
        await world.settle(0.1)
        assert world.state("x") is State.COMPLETE_COMMIT

    run(test())


def test_a_request_has_a_limit() -> None:
    """A request may not have as many elements as a transaction has partitions."""

    async def test() -> None:
        world = World()
        await world.lead()
        many = [TopicPartition("m", number) for number in range(MOST_PARTITIONS + 1)]
        world.brokers.leaders.update(dict.fromkeys(many, NodeId(1)))
        world.decide(*many)
        await world.settle()
        assert [len(numbers) for _, numbers in world.brokers.partitions_sent()] == [500, 1]
        assert world.state() is State.COMPLETE_COMMIT

    run(test())


def test_an_unexpected_error_is_logged_and_the_markers_are_sent_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise a transaction would hang, and no log would say why."""

    async def test() -> None:
        world = World()
        await world.lead()

        def broken(partition: TopicPartition) -> ErrorCode:
            raise KeyError("a bug")

        world.brokers.error = broken
        world.decide(A)
        await world.settle(0.05)
        assert "the markers for broker 1 were not sent" in caplog.text
        assert "a bug" in caplog.text
        world.brokers.error = lambda partition: OK
        await world.settle()
        assert world.state() is State.COMPLETE_COMMIT

    run(test())


def test_the_event_loop_of_real_nodes_serves_it() -> None:
    """uvloop, unlike asyncio's."""

    async def test() -> None:
        world = World()
        await world.lead()
        world.decide(A, name="x")
        world.decide(B, name="y")
        for _ in range(3):
            world.sender._look_later()
        await world.settle(0.3)
        assert world.state("x") is world.state("y") is State.COMPLETE_COMMIT

    uvloop.run(test())
