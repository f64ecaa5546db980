"""A client that sends all the time, and records the time of each answer.

Some partitions of one topic get a message with acks=all every few milliseconds; each waits for its
answer before the next. When a leader is gone or refuses, the probe asks all brokers for the new
leader, again and again with pauses too short to matter. So the gaps that remain are the cluster's
own. Every wait is bounded. A Probe belongs to one event loop.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest
from kio.schema.produce.v7.request import ProduceRequest

from harness.admin.client import Address
from harness.bench.clients import frames
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill

PACE_S: Final = 0.004
ASK_S: Final = 0.002
"""The pause between two questions for the leader."""
REQUEST_TIMEOUT_S: Final = 1.0
VALUE_BYTES: Final = 100


class Probe:
    """Sends to `partitions` of `topic`; `brokers` is every node's address."""

    def __init__(self, brokers: Mapping[int, Address], topic: str, partitions: Sequence[int]):
        self.acked_ns: dict[int, list[int]] = {partition: [] for partition in partitions}
        """The times of the answers for each partition, ascending."""
        self._leader_found_ns: dict[int, int] = {}
        self._last_sent_ns = dict.fromkeys(partitions, 0)  # the last answered send
        self._topic = topic
        self._channels = {
            node: Channel(*address, client_id=frames.CLIENT_ID, request_timeout_s=REQUEST_TIMEOUT_S)
            for node, address in brokers.items()
        }
        self._leaders: dict[int, tuple[int, int]] = {}  # partition -> (leader epoch, node)
        self._asking: asyncio.Task[None] | None = None
        self._sending: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Probe":
        await self._ask()
        # A broker builds its codec at the first request of a kind. That time is no part of an
        # outage, so every node gets one request before.
        first = self._request(min(self.acked_ns))
        await asyncio.gather(*(self._send(node, first) for node in self._channels))
        self._sending = [
            asyncio.create_task(self._keep_sending(partition)) for partition in self.acked_ns
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        asking = [self._asking] if self._asking is not None else []
        for task in (*self._sending, *asking):
            task.cancel()
        await asyncio.gather(*self._sending, *asking, return_exceptions=True)
        for channel in self._channels.values():
            channel.close()

    def answered(self, partition: int, sent_ns: int, answered_ns: int) -> None:
        """Record an acknowledgement."""
        self.acked_ns[partition].append(answered_ns)
        self._last_sent_ns[partition] = sent_ns

    def everywhere_since(self, at_ns: int) -> bool:
        """Return whether a send after this moment was answered in every partition.

        The time of the answer alone would not do: a stopped node's answers may still arrive.
        """
        return all(sent_ns > at_ns for sent_ns in self._last_sent_ns.values())

    def takeover_ms(self, partition: int) -> float:
        """Return the time from finding the last leader to its first answer; 0 without an answer."""
        found_ns = self._leader_found_ns.get(partition, 0)
        after = (at for at in self.acked_ns[partition] if at > found_ns)
        return (next(after, found_ns) - found_ns) / 1e6

    def _request(self, partition: int) -> Any:
        records = frames.batch(1, VALUE_BYTES, time.time_ns() // 1_000_000)
        return fill(
            ProduceRequest,
            transactional_id=None,
            acks=-1,
            timeout=frames.ACKS_TIMEOUT,
            topic_data=[
                {
                    "name": self._topic,
                    "partition_data": [{"index": partition, "records": records}],
                }
            ],
        )

    async def _keep_sending(self, partition: int) -> None:
        request = self._request(partition)
        while True:
            known = self._leaders.get(partition)
            sent_ns = time.monotonic_ns()
            if known is not None and await self._send(known[1], request):
                self.answered(partition, sent_ns, time.monotonic_ns())
                await asyncio.sleep(PACE_S)
            elif known == self._leaders.get(partition):
                await self._find_leaders()

    async def _send(self, node: int, request: Any) -> bool:
        try:
            answer = await self._channels[node].request(request)
        except WireError:
            return False
        return answer.responses[0].partition_responses[0].error_code is ErrorCode.none

    async def _find_leaders(self) -> None:
        """Ask for the leaders; partitions that wait at the same time share the answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        await asyncio.shield(self._asking)

    async def _ask(self) -> None:
        """Ask all brokers; return after the first answers, without waiting for a frozen broker."""
        asked = [asyncio.create_task(self._ask_one(node)) for node in self._channels]
        await asyncio.wait(asked, timeout=REQUEST_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(ASK_S)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    async def _ask_one(self, node: int) -> None:
        request = fill(MetadataRequest, topics=[{"name": self._topic}])
        try:
            answer = await self._channels[node].request(request)
        except WireError:
            await asyncio.sleep(
                REQUEST_TIMEOUT_S
            )  # a stopped node must not count as the first answer
            return
        for each in answer.topics[0].partitions:
            found = (int(each.leader_epoch), int(each.leader_id))
            partition = int(each.partition_index)
            if found[1] in self._channels and found > self._leaders.get(partition, (-1, -1)):
                self._leaders[partition] = found
                self._leader_found_ns[partition] = time.monotonic_ns()


def longest_gap_ms(times_ns: Sequence[int], from_ns: int) -> float:
    """Return the longest time between two answers, the later of which came after `from_ns`.

    It is 0 with fewer than two answers.
    """
    return max(
        ((later - earlier) / 1e6 for earlier, later in pairwise(times_ns) if later > from_ns),
        default=0.0,
    )
