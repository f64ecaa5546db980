"""A controller with a metadata log in memory: operations go through bytes, as on a real node."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller.controller import NO_BROKER_EPOCH, Controller, HeartbeatResult
from nodes.controller.isr import AlterIsrRequest, AlterIsrResult
from nodes.controller.partition_changes import LogEnd
from nodes.controller.recovery import LogQuery, ReplicaLogInfo, log_queries, recover
from nodes.controller.settings import ControlSettings
from nodes.controller.situation import ControllerResult
from nodes.controller.topics import CreateTopicResult, NewTopic, create_topics
from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, PartitionImage
from nodes.metadata.records import BrokerEndpoint, MetadataRecord, decode, encode

R = TypeVar("R")

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
SESSION_MS = 1000.0


def node(number: int) -> NodeId:
    """Node ids, short to write."""
    return NodeId(number)


def state_of(partition: PartitionImage) -> tuple[NodeId, tuple[NodeId, ...], int]:
    """Leader, in-sync replicas and leader epoch."""
    return partition.leader, partition.isr, partition.leader_epoch


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    """Several node ids."""
    return tuple(map(NodeId, numbers))


def endpoint(number: int) -> tuple[BrokerEndpoint, ...]:
    """Where broker `number` listens."""
    return (BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9000 + number),)


class Cluster:
    """Drives one Controller and replays what it writes into an image of its own."""

    def __init__(
        self,
        *,
        brokers: int = 0,
        seed: int = 1,
        min_isr: int = 1,
        unclean: bool = False,
        **settings: object,
    ) -> None:
        static = {
            "min.insync.replicas": str(min_isr),
            "unclean.leader.election.enable": str(unclean).lower(),
        }
        values = {"session_timeout_ms": SESSION_MS, "static": static, **settings}
        self.controller = Controller(
            cluster_id=CLUSTER_ID,
            settings=ControlSettings(**values),  # type: ignore[arg-type]
            rng=random.Random(seed),
        )
        self.now_ms = 10_000.0
        self.replayed = ClusterImage(offset=Offset(0), epoch=Epoch(0))
        self.epochs: dict[NodeId, BrokerEpoch] = {}
        self.written: list[MetadataRecord] = []
        self.on_batch: Callable[[], None] | None = None
        self.epoch = Epoch(0)
        self.take_over()
        self.tick()
        for number in range(1, brokers + 1):
            self.register(number)
            self.beat(number)

    def take_over(self, heard: Mapping[NodeId, float] | None = None) -> None:
        """A new controller, in the next quorum epoch, from what the log holds."""
        self.epoch = Epoch(self.epoch + 1)
        self.controller.on_inactive()
        self.controller.on_active(self.epoch, self.replayed, self.now_ms, heard or {})

    def take(self, result: ControllerResult[R]) -> R:
        """Append a result's records to the log, and replay them."""
        records = list(result.records)
        self.written = records
        if records:
            offset = Offset(self.controller.image.offset + len(records))
            self.controller.appended(records, offset)
            read = [decode(encode(record)) for record in records]
            self.replayed, _ = self.replayed.apply(read, offset, self.epoch)
            assert self.replayed == self.controller.image
            if self.on_batch is not None:
                self.on_batch()
        return result.response

    def register(
        self,
        number: int,
        incarnation: int | None = None,
        *,
        clean: bool = False,
        log_dirs: tuple[UUID, ...] = (),
    ) -> BrokerEpoch:
        """Register broker `number`; its incarnation is its number when not said otherwise."""
        before = self.epochs.get(node(number), NO_BROKER_EPOCH)
        epoch = self.take(
            self.controller.register_broker(
                broker_id=node(number),
                cluster_id=CLUSTER_ID,
                incarnation_id=UUID(int=number if incarnation is None else incarnation),
                endpoints=endpoint(number),
                log_dirs=log_dirs,
                previous_broker_epoch=before if clean else NO_BROKER_EPOCH,
                now_ms=self.now_ms,
            )
        )
        self.epochs[node(number)] = epoch
        return epoch

    def beat(
        self,
        number: int,
        *,
        epoch: int | None = None,
        offset: int | None = None,
        want_fence: bool = False,
        want_shut_down: bool = False,
    ) -> HeartbeatResult:
        """A heartbeat of a broker that has read everything, when not said otherwise."""
        at = self.controller.image.offset if offset is None else offset
        known = self.epochs.get(node(number), BrokerEpoch(-1))
        return self.take(
            self.controller.heartbeat(
                broker_id=node(number),
                broker_epoch=known if epoch is None else BrokerEpoch(epoch),
                current_metadata_offset=Offset(at),
                want_fence=want_fence,
                want_shut_down=want_shut_down,
                now_ms=self.now_ms,
            )
        )

    def tick(self) -> None:
        """Run a tick of the controller."""
        self.take(self.controller.tick(self.now_ms))

    def recover(self, ends: Mapping[int, tuple[int, int]] | None = None) -> list[LogQuery]:
        """Leaderless partitions are asked for; brokers answer as `ends` says by their numbers
        (last epoch, end offset), all alike when it says nothing. What was asked.
        """
        state = self.controller.state
        asked = log_queries(state.image, state.policy, self.controller.leaderless)
        reports = [
            self.report(query, number, (ends or {}).get(number, (0, 0)))
            for query in asked
            for number in query.candidates
            if ends is None or number in ends
        ]
        self.take(recover(state, asked, reports))
        return asked

    def report(self, query: LogQuery, number: int, end: tuple[int, int]) -> ReplicaLogInfo:
        """What broker `number` says, having heard of everything."""
        return ReplicaLogInfo(
            node=node(number),
            broker_epoch=self.image.brokers[node(number)].epoch,
            topic_id=query.key.topic_id,
            partition=query.key.partition,
            leader_epoch=self.partition(query.key.topic, query.key.partition).leader_epoch,
            end=LogEnd(Epoch(end[0]), Offset(end[1])),
        )

    def wait(self, ms: float, *alive: int) -> None:
        """Time passes, in ticks of 50 ms; the brokers `alive` send heartbeats."""
        end = self.now_ms + ms
        while self.now_ms < end:
            self.now_ms += 50
            for number in alive:
                self.beat(number)
            self.tick()

    def lose(self, *dead: int) -> None:
        """Let the sessions of these brokers run out while the other unfenced ones live."""
        alive = [b.node_id for b in self.image.brokers.values() if not b.fenced]
        self.wait(SESSION_MS, *(n for n in alive if n not in dead))

    def create(
        self, name: str = "t", *assignments: tuple[NodeId, ...], **values: object
    ) -> CreateTopicResult:
        """Create one topic, with the given replicas or by count."""
        topic = NewTopic(
            name=name,
            assignments=tuple(enumerate(assignments)),
            **values,  # type: ignore[arg-type]
        )
        (answer,) = self.take(create_topics(self.controller.state, [topic]))
        return answer

    def partition(self, name: str = "t", number: int = 0) -> PartitionImage:
        """A partition that must exist."""
        partition = self.image.partition(name, number)
        assert partition is not None
        return partition

    def alter(
        self,
        leader: int,
        isr: Sequence[int] = (),
        *,
        members: tuple[tuple[NodeId, BrokerEpoch], ...] | None = None,
        name: str = "t",
        number: int = 0,
        **other: object,
    ) -> AlterIsrResult:
        """A leader's AlterPartition under the current epochs, when not said otherwise."""
        topic = self.image.topic(name)
        partition = self.image.partition(name, number)
        values: dict[str, object] = {
            "topic_id": topic and topic.topic_id,
            "partition": number,
            "leader_epoch": partition.leader_epoch if partition else Epoch(0),
            "partition_epoch": partition.partition_epoch if partition else 0,
            "isr": members
            or tuple((node(n), self.epochs.get(node(n), BrokerEpoch(0))) for n in isr),
        }
        request = AlterIsrRequest(**(values | other))  # type: ignore[arg-type]
        (answer,) = self.take(
            self.controller.alter_partition(node(leader), self.epochs[node(leader)], [request])
        )
        return answer

    @property
    def image(self) -> ClusterImage:
        """What the controller holds."""
        return self.controller.image


class refused:
    """`with refused(ErrorCode.x):` expects a ControlError with that code."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code
        self._raises = pytest.raises(ControlError)

    def __enter__(self) -> None:
        self._info = self._raises.__enter__()

    def __exit__(self, *details: object) -> bool:
        swallowed = self._raises.__exit__(*details)  # type: ignore[arg-type]
        assert self._info.value.code is self._code
        return bool(swallowed)
