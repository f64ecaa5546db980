"""Sends ISR changes to the controller with AlterPartition.

The state of each partition decides what to propose. This module batches the proposals, sends one
request at a time, and passes the results back. A proposal without a known result stays pending (the
high watermark then waits for the maximal ISR). It is sent again until the controller responds or
the metadata log shows the result.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch, NodeId, TopicPartition
from nodes.replication.partition import IsrProposal, Role
from nodes.server.control_plane import ControllerClient, Registration
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

log = logging.getLogger("nodes.isr")

RETRY_MS = 50
CHECKED_PER_TURN = 500
PROPOSALS_PER_REQUEST = 500
_REJECTED = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})
# The controller's state is ahead of ours: the metadata log will show the state that holds.
_STALE = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.new_leader_elected,
    }
)


class IsrManager:
    """One per broker; `send` and `watch_lag` are its tasks."""

    def __init__(
        self,
        node_id: NodeId,
        replicas: ReplicaManager,
        controller: ControllerClient,
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

    def maybe_expand_isr(self, replica: Replica, follower: NodeId) -> None:
        """Propose to add a follower that is in sync now; called after each of its fetches."""
        state = replica.state
        if follower in state.isr or state.proposal is not None:
            return
        proposal = state.grown_isr(follower, replica.claimed_end, self._replicas.eligible)
        self._enqueue(replica, proposal)

    def _enqueue(self, replica: Replica, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            self._proposals[replica.partition] = (replica, proposal)
            self._work.set()

    async def watch_lag(self) -> None:
        """Propose to remove ISR members that lag; checks twice per lag time, for ever.

        It checks a few partitions at a time: thousands at once would delay requests.
        """
        while True:
            await asyncio.sleep(self._lag_max_ms / 2000)
            for number, replica in enumerate(self._replicas.all()):
                if number % CHECKED_PER_TURN == CHECKED_PER_TURN - 1:
                    await asyncio.sleep(0)
                if replica.state.role is Role.LEADER:
                    self._maybe_shrink_isr(replica)

    def _maybe_shrink_isr(self, replica: Replica) -> None:
        end = replica.claimed_end
        self._enqueue(replica, replica.state.shrunk_isr(end, self._lag_max_ms, self._now_ms()))

    async def send(self) -> None:
        """Send proposals as they come, for ever."""
        while True:
            await self._work.wait()
            self._work.clear()
            batch = self._next_batch()
            if batch:
                await self._send_batch(batch)
            if self._proposals:
                all_were_sent = len(batch) >= len(self._proposals)
                await asyncio.sleep(RETRY_MS / 1000 if all_were_sent else 0)
                self._work.set()

    def _next_batch(self) -> dict[TopicPartition, tuple[Replica, IsrProposal]]:
        """The proposals to send now, oldest first."""
        current = [
            (partition, (replica, proposal))
            for partition, (replica, proposal) in self._proposals.items()
            if replica.state.proposal is proposal  # the metadata log has not made it stale
        ]
        batch, others = current[:PROPOSALS_PER_REQUEST], current[PROPOSALS_PER_REQUEST:]
        self._proposals = dict(others + batch)
        return dict(batch)

    async def _send_batch(self, batch: dict[TopicPartition, tuple[Replica, IsrProposal]]) -> None:
        try:
            response = await self._controller.request(self._request(batch))
        except ChannelError as error:
            log.info("the controller did not respond to an ISR change: %s", error)
            return
        if response.error_code is not ErrorCode.none:
            log.info("the controller refused an ISR change: %s", response.error_code.name)
            return
        made = 0
        for topic in response.topics:
            name = self._replicas.topic_name(topic.topic_id)
            for row in topic.partitions:
                if name is not None:
                    partition = TopicPartition(name, row.partition_index)
                    made += self._handle_result(partition, row, batch)
        # One line for each would be thousands when a broker comes or goes.
        first = next(iter(batch))
        log.info("ISR changes of %d partitions (%s, ...): %d were made", len(batch), first, made)

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

    def _handle_result(
        self,
        partition: TopicPartition,
        row: Any,
        batch: dict[TopicPartition, tuple[Replica, IsrProposal]],
    ) -> bool:
        """Act on the response for one partition; return whether the change was made."""
        if partition not in batch:
            return False
        replica, proposal = batch[partition]
        error = row.error_code
        if error is not ErrorCode.none and error not in _REJECTED | _STALE:
            return False  # sent again
        current = self._proposals.get(partition)
        if current is not None and current[1] is proposal:
            del self._proposals[partition]
        if error is ErrorCode.none and row.leader_epoch != proposal.leader_epoch:
            log.debug("%s: ISR change is stale: leader epoch %d", partition, row.leader_epoch)
        elif error is ErrorCode.none:
            isr = [NodeId(member) for member in row.isr]
            replica.isr_change_completed(proposal, isr, row.partition_epoch)
            log.debug("%s: ISR %s, partition epoch %d", partition, isr, row.partition_epoch)
            return True
        elif error in _REJECTED:
            replica.isr_change_completed(proposal, None, row.partition_epoch)
        else:
            log.debug("%s: ISR change is stale: %s", partition, error.name)
        return False
