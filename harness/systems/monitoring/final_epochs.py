"""Records the leader epochs of every partition at the end of a run, and where each began.

The partition's leader is asked (OffsetForLeaderEpoch). It refuses when it is no leader any more;
while a cluster balances its leaders, that can happen between two requests. Then the leader of the
newest view is asked again, up to a time limit. Partitions without an answer by then are reported.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderEpochRequest

from harness.systems.monitoring.cluster_view import PartitionView, epoch_starts
from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill

PATIENCE_S: Final = 10.0
"""How long a partition without an answer is asked for: a leader change takes less."""
POLL_S: Final = 0.1
AT_ONCE: Final = 32
CLIENT: Final = -1


class LeaderRefused(Exception):
    """The leader answered with an error; the message has the node and the error."""


class Rows(Protocol):
    """Takes rows by column names."""

    def append_named(self, **columns: Any) -> None: ...


class FinalEpochs:
    """Asks leaders for epochs, and records rows of CLUSTER.

    `views` returns the newest views of the partitions; another object keeps them up to date.
    `channels` are the connections to the brokers. `now_ns` is the time of the rows.
    """

    def __init__(
        self,
        views: Callable[[], Mapping[TopicPartition, PartitionView]],
        channels: Mapping[int, Channel],
        rows: Rows,
        now_ns: Callable[[], int],
    ) -> None:
        self._views = views
        self._channels = channels
        self._rows = rows
        self._now_ns = now_ns

    async def record(self, partitions: Sequence[TopicPartition]) -> list[str]:
        """Record all epochs of each partition, or none of them. Return what could not be learnt."""
        deadline_ns = self._now_ns() + round(PATIENCE_S * 1e9)
        left = list(partitions)
        while True:
            problems = {each: why for each in left if (why := await self._record_one(each))}
            left = list(problems)
            if not left or self._now_ns() > deadline_ns:
                return list(problems.values())
            await asyncio.sleep(POLL_S)

    async def _record_one(self, partition: TopicPartition) -> str:
        """Record the epochs of one partition; return why it failed, empty when it is done."""
        view = self._views().get(partition)
        if view is None or view.leader is None or view.leader not in self._channels:
            return f"{partition} has no leader to ask for its epochs"
        try:
            ends = await self._ask(partition, view)
        except (WireError, LeaderRefused) as error:
            return f"{partition}: {error}"
        for epoch, start, end in epoch_starts(ends):
            self._rows.append_named(
                at_ns=self._now_ns(), kind="epoch", node=view.leader,
                topic=partition.topic, partition=partition.partition, leader=view.leader,
                leader_epoch=epoch, start_offset=start, end_offset=end,
                source="offset-for-leader-epoch",
            )  # fmt: skip
        return ""

    async def _ask(
        self, partition: TopicPartition, view: PartitionView
    ) -> Sequence[tuple[int, int]]:
        """Return (epoch, end offset) for every epoch up to the current one. Pipelined.

        Raises LeaderRefused when the leader refuses one of them, because the start of an epoch is
        known only with the end of the epoch before.
        """
        assert view.leader is not None
        channel = self._channels[view.leader]
        answers: list[Any] = []
        for first in range(0, view.leader_epoch + 1, AT_ONCE):
            epochs = range(first, min(first + AT_ONCE, view.leader_epoch + 1))
            requests = [_request(partition, view.leader_epoch, epoch) for epoch in epochs]
            answers += await asyncio.gather(*(channel.request(each) for each in requests))
        found = [each for answer in answers for topic in answer.topics for each in topic.partitions]
        for each in found:
            if each.error_code is not ErrorCode.none:
                raise LeaderRefused(f"node {view.leader} answers {each.error_code.name}")
        return [(int(each.leader_epoch), int(each.end_offset)) for each in found]


def _request(partition: TopicPartition, current_epoch: int, epoch: int) -> Any:
    asked = {
        "partition": partition.partition,
        "current_leader_epoch": current_epoch,
        "leader_epoch": epoch,
    }
    return fill(
        OffsetForLeaderEpochRequest,
        replica_id=CLIENT,
        topics=[{"topic": partition.topic, "partitions": [asked]}],
    )
