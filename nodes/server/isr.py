"""Carries ISR changes to the controller by AlterPartition.

The decisions are the partition state's; here they are batched, sent one request at a time, and
their answers handed back. A proposal whose fate is unknown stays pending (the high watermark then
waits for the maximal ISR) and is sent again, until the controller answers or the metadata log does.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch, NodeId, TopicPartition
from nodes.replication.partition import IsrProposal
from nodes.server.controller_link import ControllerLink
from nodes.server.replica import Replica
from nodes.server.replicas import ReplicaManager
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

log = logging.getLogger("nodes.isr")

RETRY_MS = 50
_SURELY_REFUSED = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})
# The controller's state is ahead of ours: the metadata log will say what holds.
_OVERTAKEN = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)


class Registration(Protocol):
    """This broker's registration."""

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The current broker epoch; -1 before the first registration."""
        ...


class IsrManager:
    """One per broker; `run` is its task."""

    def __init__(
        self,
        node_id: NodeId,
        replicas: ReplicaManager,
        controller: ControllerLink,
        registration: Registration,
        *,
        lag_max_ms: int,
        now_ms: Callable[[], float],
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._controller = controller
        self._registration = registration
        self._lag_max_ms = lag_max_ms
        self._now_ms = now_ms
        self._proposals: dict[TopicPartition, tuple[Replica, IsrProposal]] = {}
        self._work = asyncio.Event()

    def consider_growing(self, replica: Replica, follower: NodeId) -> None:
        """After a follower's fetch: propose to add it if it is in sync now."""
        state = replica.state
        if follower in state.isr or state.proposal is not None:
            return
        proposal = state.grown_isr(follower, replica.claimed_end, self._replicas.eligible)
        self._enqueue(replica, proposal)

    def consider_shrinking(self) -> None:
        """Propose to drop members that lag, of every partition led here."""
        now_ms = self._now_ms()
        for replica in self._replicas.all():
            proposal = replica.state.shrunk_isr(replica.claimed_end, self._lag_max_ms, now_ms)
            self._enqueue(replica, proposal)

    def _enqueue(self, replica: Replica, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            self._proposals[replica.partition] = (replica, proposal)
            self._work.set()

    async def watch_lag(self) -> None:
        """Check for lagging members twice per lag time, for ever."""
        while True:
            await asyncio.sleep(self._lag_max_ms / 2000)
            self.consider_shrinking()

    async def send(self) -> None:
        """Send proposals as they come, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            await self._send_once()
            if self._proposals:
                await asyncio.sleep(RETRY_MS / 1000)
                self._work.set()

    async def _send_once(self) -> None:
        batch = {
            partition: (replica, proposal)
            for partition, (replica, proposal) in self._proposals.items()
            if replica.state.proposal is proposal  # not overtaken by the metadata log
        }
        self._proposals = dict(batch)
        if not batch:
            return
        try:
            response = await self._controller.request(self._request(batch))
        except ChannelError as error:
            log.info("the controller did not answer an ISR change: %s", error)
            return
        if response.error_code is not ErrorCode.none:
            log.info("the controller refused an ISR change: %s", response.error_code.name)
            return
        for topic in response.topics:
            name = self._replicas.topic_name(topic.topic_id)
            for answer in topic.partitions:
                if name is not None:
                    self._answered(TopicPartition(name, answer.partition_index), answer, batch)

    def _request(self, batch: dict[TopicPartition, tuple[Replica, IsrProposal]]) -> Any:
        topics: dict[Any, list[dict[str, Any]]] = {}
        for partition, (replica, proposal) in batch.items():
            row = {
                "partition_index": partition.partition,
                "leader_epoch": proposal.leader_epoch,
                "partition_epoch": proposal.partition_epoch,
                "new_isr_with_epochs": [
                    {"broker_id": member, "broker_epoch": self._epoch_of(member, epoch)}
                    for member, epoch in proposal.isr
                ],
            }
            topics.setdefault(replica.topic_id, []).append(row)
        return fill(
            AlterPartitionRequest,
            broker_id=self._node_id,
            broker_epoch=self._registration.broker_epoch,
            topics=[{"topic_id": key, "partitions": rows} for key, rows in topics.items()],
        )

    def _epoch_of(self, member: NodeId, epoch: BrokerEpoch) -> BrokerEpoch:
        return self._registration.broker_epoch if member == self._node_id else epoch

    def _answered(
        self,
        partition: TopicPartition,
        answer: Any,
        batch: dict[TopicPartition, tuple[Replica, IsrProposal]],
    ) -> None:
        if partition not in batch:
            return
        replica, proposal = batch[partition]
        error = answer.error_code
        if error is not ErrorCode.none and error not in _SURELY_REFUSED | _OVERTAKEN:
            return  # asked again
        current = self._proposals.get(partition)
        if current is not None and current[1] is proposal:
            del self._proposals[partition]
        if error is ErrorCode.none:
            isr = [NodeId(member) for member in answer.isr]
            replica.isr_answered(proposal, isr, answer.partition_epoch)
            log.info("%s: ISR %s, partition epoch %d", partition, isr, answer.partition_epoch)
        elif error in _SURELY_REFUSED:
            replica.isr_answered(proposal, None, answer.partition_epoch)
        else:
            log.info("%s: ISR change overtaken: %s", partition, error.name)
