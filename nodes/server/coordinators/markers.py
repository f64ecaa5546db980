"""Sends transaction markers: the coordinators' decisions, to the leaders of the partitions.

What is to be sent follows from the coordinators' state alone: the decisions that are committed, and
the partitions that have not confirmed. So nothing is remembered here but what is on its way.

- Each broker gets one request at a time, with the markers of all its partitions.
- A marker that fails is sent again after a pause, for as long as this broker is the coordinator in
  the same epoch. A later coordinator goes on by itself.
- A deleted partition needs no marker.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import Answer, Effects, Now, Token
from nodes.coordinators.transactions.coordinator import Marker, TransactionCoordinator
from nodes.ids import NO_NODE, NodeId, Offset, TopicPartition
from nodes.metadata.image import ClusterImage
from nodes.server.coordinators.brokers import BrokerLink
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access, Shard, State
from nodes.server.coordinators.shards import Shards
from nodes.wire.errors import ChannelError
from nodes.wire.versions import Draft

log = logging.getLogger("nodes.coordinators")

WRITE_TXN_MARKERS: Final = 27
VERSION: Final = 2
RETRY_S: Final = 0.1
"""The pause after a failure, and the longest time until what waits for a leader is looked at."""
MOST_PARTITIONS: Final = 500
"""The partitions of one request."""

TxnShard = Shard[TransactionCoordinator]


class _Due(NamedTuple):
    """One partition that lacks its marker."""

    shard: TxnShard
    marker: Marker
    partition: TopicPartition

    @property
    def key(self) -> "_Key":
        """Equal for the same marker, however often it is found due."""
        return (*self.decision, self.partition)

    @property
    def decision(self) -> "_Decision":
        """The decision that the marker is of."""
        return self.shard, self.marker.transactional_id, self.marker.decided

    @property
    def is_lacking(self) -> bool:
        """Whether the partition lacks it now.

        It may have been found due before it was confirmed. Sent again, it could end the next
        transaction of the producer, which may have the same epoch before transaction.version 2.
        """
        marker = self.marker
        return self.shard.state is State.ACTIVE and self.shard.machine.lacks_marker(
            marker.transactional_id, marker.decided, self.partition
        )


_Decision = tuple[TxnShard, str, Offset]
_Key = tuple[TxnShard, str, Offset, TopicPartition]


class MarkerSender:
    """See the module. `wake` names what is decided; it is also looked for after a failure."""

    def __init__(
        self,
        shards: Shards[TransactionCoordinator],
        brokers: BrokerLink,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._shards = shards
        self._brokers = brokers
        self._image = image
        self._loop = asyncio.get_running_loop()
        self._next_look: asyncio.TimerHandle | None = None
        self._asked: set[TxnShard] = set()
        """The coordinators that were asked for all of their markers, and have not answered."""
        self._decided: dict[str, None] = {}
        self._queues: dict[NodeId, dict[_Key, _Due]] = {}
        self._sending: dict[NodeId, asyncio.Task[bool]] = {}
        self._on_their_way: set[_Key] = set()

    def wake(self, transactional_id: str) -> None:
        """The end of this transaction is decided."""
        if not self._decided:
            self._loop.call_soon(self._ask_for_decided)  # not within a coordinator's operation
        self._decided[transactional_id] = None

    def close(self) -> None:
        """Send no more."""
        if self._next_look is not None:
            self._next_look.cancel()
        for task in self._sending.values():
            task.cancel()

    def _ask_for_decided(self) -> None:
        """Ask for the markers of the transactions that `wake` named."""
        by_shard: dict[TxnShard, list[str]] = {}
        for name in self._decided:
            with contextlib.suppress(CoordinatorError):  # the coordinator is elsewhere by now
                by_shard.setdefault(self._shards.find(name), []).append(name)
        self._decided.clear()
        for shard, names in by_shard.items():
            self._ask(shard, names)

    def _look_later(self) -> None:
        """Look at everything after a pause."""
        if self._next_look is None:
            self._next_look = self._loop.call_later(RETRY_S, self._look)

    def _look(self) -> None:
        """Ask every coordinator for all markers that are due."""
        self._next_look = None
        for shard in self._shards.all():
            if shard in self._asked:
                self._look_later()
            else:
                self._ask(shard)

    def _ask(self, shard: TxnShard, names: Iterable[str] | None = None) -> None:
        """The answer is given when everything before it is committed: so the markers are due."""
        try:
            answer = shard.perform(
                lambda machine, token, now: machine.due_markers(token, names), Access.READ
            )
        except CoordinatorError as error:
            if error.code is not ErrorCode.not_coordinator:
                self._look_later()
            return
        if names is None:
            self._asked.add(shard)
            answer.add_done_callback(lambda _: self._asked.discard(shard))
        answer.add_done_callback(partial(self._answered, shard))

    def _answered(self, shard: TxnShard, answer: "asyncio.Future[Answer]") -> None:
        try:
            markers: tuple[Marker, ...] = answer.result()["markers"]
        except CoordinatorError as error:
            if error.code is not ErrorCode.not_coordinator:
                self._look_later()
            return
        except asyncio.CancelledError:
            return
        for marker in markers:
            if not marker.partitions:
                self._confirm_one(shard, marker, ())
            for partition in marker.partitions:
                self._dispatch(_Due(shard, marker, partition))
        for leader in list(self._queues):
            self._send(leader)

    def _dispatch(self, due: _Due) -> None:
        """Queue a marker for its leader, unless it is on its way."""
        found = self._image().partition(*due.partition)
        if due.key in self._on_their_way:
            return
        if found is None:
            self._confirm([due])
        elif found.leader == NO_NODE:
            self._look_later()
        else:
            self._on_their_way.add(due.key)
            self._queues.setdefault(found.leader, {})[due.key] = due

    def _send(self, leader: NodeId) -> None:
        """Send what is queued for a broker, unless it has a request already."""
        if leader in self._sending:
            return
        queue = self._queues[leader]
        taken = [queue.pop(key) for key in list(islice(queue, MOST_PARTITIONS))]
        if not queue:
            del self._queues[leader]
        dues = [due for due in taken if due.is_lacking]
        if not dues:
            self._on_their_way.difference_update(due.key for due in taken)
            if leader in self._queues:
                self._send(leader)
            return
        task = self._loop.create_task(self._request(leader, dues))
        self._sending[leader] = task
        task.add_done_callback(partial(self._sent, leader, taken))

    def _sent(self, leader: NodeId, dues: list[_Due], task: "asyncio.Task[bool]") -> None:
        self._on_their_way.difference_update(due.key for due in dues)
        del self._sending[leader]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("the markers for broker %d were not sent", leader, exc_info=error)
        # Not before: a look meanwhile takes what failed for still on its way.
        if error is not None or not task.result():
            self._look_later()
        if leader in self._queues:
            self._send(leader)

    async def _request(self, leader: NodeId, dues: list[_Due]) -> bool:
        """Send markers and confirm them; false, after a pause, unless all were written."""
        request = Draft(load_request_schema(WRITE_TXN_MARKERS, VERSION), _request_fields(dues))
        try:
            response = await self._brokers.request(leader, request)
        except ChannelError as error:
            log.info("no markers to broker %d: %s", leader, error)
            # What waits behind may have another leader by now.
            self._on_their_way.difference_update(self._queues.pop(leader, {}))
            await asyncio.sleep(RETRY_S / 2)
            return False
        errors = _errors(dues, response)
        self._confirm([due for due, code in zip(dues, errors, strict=True) if not code])
        failed = next(((due, code) for due, code in zip(dues, errors, strict=True) if code), None)
        if failed is not None:
            due, code = failed
            log.info("%s: no marker on broker %d: %s", due.partition, leader, code.name)
            await asyncio.sleep(RETRY_S / 2)
        return failed is None

    def _confirm(self, dues: Iterable[_Due]) -> None:
        """Tell the coordinators which partitions have their markers."""
        for first, partitions in _by_decision(dues):
            self._confirm_one(first.shard, first.marker, partitions)

    def _confirm_one(
        self, shard: TxnShard, marker: Marker, partitions: Iterable[TopicPartition]
    ) -> None:
        def written(machine: TransactionCoordinator, token: Token, now: Now) -> Effects:
            effects = machine.markers_written(
                now,
                transactional_id=marker.transactional_id,
                decided=marker.decided,
                partitions=partitions,
            )
            return Effects(effects.records, ((token, {}),))

        try:
            shard.perform(written, Access.WRITE).add_done_callback(_ignore)
        except CoordinatorError:  # it is due again, as long as this broker is the coordinator
            self._look_later()


def _ignore(answer: "asyncio.Future[Any]") -> None:
    """Avoid asyncio's warning: what a lost leadership does to the record is for the next leader."""
    if not answer.cancelled():
        answer.exception()


def _by_decision(dues: Iterable[_Due]) -> list[tuple[_Due, list[TopicPartition]]]:
    grouped: dict[_Decision, tuple[_Due, list[TopicPartition]]] = {}
    for due in dues:
        grouped.setdefault(due.decision, (due, []))[1].append(due.partition)
    return list(grouped.values())


def _request_fields(dues: list[_Due]) -> dict[str, Any]:
    return {
        "markers": [
            {
                "producer_id": due.marker.producer.producer_id,
                "producer_epoch": due.marker.producer.epoch,
                "transaction_result": due.marker.commit,
                "coordinator_epoch": due.shard.epoch,
                "transaction_version": due.marker.transaction_version,
                "topics": list(_topics(partitions)),
            }
            for due, partitions in _by_decision(dues)
        ]
    }


def _topics(partitions: Iterable[TopicPartition]) -> Iterator[dict[str, Any]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    for topic, indexes in by_topic.items():
        yield {"name": topic, "partition_indexes": indexes}


def _errors(dues: list[_Due], response: Any) -> list[ErrorCode]:
    """The error of each; what the response does not name failed too.

    It names markers by their producer ids, which belong to one decision at a time.
    """
    found = {
        (row.producer_id, topic.name, each.partition_index): each.error_code
        for row in response.markers
        for topic in row.topics
        for each in topic.partitions
    }
    return [
        found.get((due.marker.producer.producer_id, *due.partition), ErrorCode.unknown_server_error)
        for due in dues
    ]
