"""How a leader applies the controller's responses to its ISR changes."""

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset, TopicPartition
from nodes.log.log import Log, LogConfig
from nodes.replication.partition import PartitionRegistration, PartitionState, Role
from nodes.server.replicas.isr import IsrManager
from nodes.server.replicas.replica import Replica
from nodes.storage.memory import MemoryDisk
from nodes.wire.versions import fill
from tests.support.nodes.fetching import topic_id

ALTER_PARTITION = 56
HERE, LEAVING, JOINING = NodeId(1), NodeId(2), NodeId(3)
PARTITION = TopicPartition("t0", 0)
BEFORE = PartitionRegistration(
    replicas=(HERE, LEAVING, JOINING),
    isr=(HERE, LEAVING),
    leader=HERE,
    leader_epoch=Epoch(5),
    partition_epoch=7,
)


@dataclass(slots=True)
class Registered:
    """A broker in service."""

    broker_epoch: BrokerEpoch = BrokerEpoch(1)  # noqa: RUF009 - an int


class Controller:
    """Commits every proposal as it is, in the given leader epoch."""

    def __init__(self, leader_epoch: int) -> None:
        self.leader_epoch = leader_epoch
        self.asked = asyncio.Event()

    async def request(self, request: Any) -> Any:
        (topic,) = request.topics
        (wanted,) = topic.partitions
        self.asked.set()
        row = {
            "partition_index": wanted.partition_index,
            "error_code": ErrorCode.none,
            "leader_id": HERE,
            "leader_epoch": self.leader_epoch,
            "isr": tuple(member.broker_id for member in wanted.new_isr_with_epochs),
            "partition_epoch": wanted.partition_epoch + 1,
        }
        schema = load_response_schema(ALTER_PARTITION, 3)
        return fill(schema, topics=[{"topic_id": topic.topic_id, "partitions": [row]}])


class Hosted:
    """The one replica of this broker."""

    def topic_name(self, topic: object) -> str:
        return PARTITION.topic

    def eligible(self, broker: NodeId) -> bool:
        return True


async def after_growing(leader_epoch: int) -> Replica:
    """A leader whose proposal to add JOINING the controller answered in `leader_epoch`."""
    log = Log.open(MemoryDisk(), "t0-0", LogConfig(), clean=True)
    replica = Replica(PARTITION, topic_id(0), log, PartitionState(HERE, Offset(0)))
    replica.apply(BEFORE, 1, 0.0)
    controller = Controller(leader_epoch)
    manager = IsrManager(
        HERE,
        cast(Any, Hosted()),
        cast(Any, controller),
        Registered(),
        lag_max_ms=10_000,
        now_ms=lambda: 0.0,
    )
    sending = asyncio.ensure_future(manager.send())
    for member in (LEAVING, JOINING):
        replica.record_fetch(member, Offset(0), BrokerEpoch(1), 0.0)
    manager.maybe_expand_isr(replica, JOINING)
    await asyncio.wait_for(controller.asked.wait(), 60)
    for _ in range(10):
        await asyncio.sleep(0)
    sending.cancel()
    return replica


def test_isr_change_in_the_same_leader_epoch_is_applied_at_once() -> None:
    """The ISR is the new one before the metadata log shows it."""
    replica = asyncio.run(after_growing(BEFORE.leader_epoch))
    assert replica.state.isr == {HERE, LEAVING, JOINING}
    assert replica.state.partition_epoch == BEFORE.partition_epoch + 1
    assert replica.state.proposal is None


def test_isr_change_with_a_new_leader_epoch_waits_for_the_metadata_log() -> None:
    """The change that ends a reassignment may also begin a leader epoch, with the same leader.

    Its partition epoch taken alone would make the record that has both look like old news, and the
    leader would refuse everybody who knows of the new epoch.
    """
    replica = asyncio.run(after_growing(BEFORE.leader_epoch + 1))
    state = replica.state
    assert state.partition_epoch == BEFORE.partition_epoch
    assert state.maximal_isr == {HERE, LEAVING, JOINING}
    ended = PartitionRegistration(
        replicas=(HERE, JOINING),
        isr=(HERE, JOINING),
        leader=HERE,
        leader_epoch=Epoch(BEFORE.leader_epoch + 1),
        partition_epoch=BEFORE.partition_epoch + 1,
    )
    assert replica.apply(ended, 1, 0.0)
    assert state.role is Role.LEADER
    assert (state.leader_epoch, state.isr) == (ended.leader_epoch, {HERE, JOINING})
