"""A consumer that reads given partitions of one topic from given offsets on.

It sends at most one fetch at a time to each leader, for all partitions of that leader. When the
leader epoch changes, the consumer checks its position: it asks where the epoch of the last record
ends (KIP-320). Every fetch names that epoch too. So a log that was truncated below the position is
never read on silently: the reader is told, and decides whether to go back.

The meaning of records is left to the reader. Nothing is committed, and there are no groups.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.connection import BrokerConnection
from harness.workloads.clients.own.leaders import Leader
from harness.workloads.clients.own.offsets import CONSUMER, BoundsUnknown, bounds
from harness.workloads.clients.own.records import Fetched, decode
from nodes.log.errors import CorruptBatch
from nodes.wire.errors import ChannelError, ConnectFailed

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""Isolation levels."""
OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"
TRUNCATED: Final = "LOG_TRUNCATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Sizes and times of fetches."""

    max_wait_s: float = 0.5
    """How long a leader may wait for records before it answers."""
    pause_s: float = 0.0
    """How long a partition is not fetched after it had records."""
    partition_bytes: int = 1 << 20
    fetch_bytes: int = 8 << 20
    rewind_records: int = 1_000
    """How many records the consumer goes back when the log was truncated below its position."""
    read_committed: bool = False
    """Read the records of committed transactions only (isolation.level)."""


class Reader(Protocol):
    """Receives the records."""

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        """Take records by partition, at least one, of a fetch sent at `invoke_ns` to `node`."""
        ...

    def truncated(self, partition: int, reason: str) -> bool:
        """The log was truncated below the position. Return true to go back, false to stop."""
        ...

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """The consumer went back to `offset`; it began to look for it at `invoke_ns`."""
        ...

    def failed(self, partition: int, error: str) -> None:
        """A partition could not be read at the moment."""
        ...


@dataclass(slots=True, kw_only=True)
class _Position:
    """The position in a partition; `epoch` is that of the record before it (-1: unknown)."""

    offset: int
    epoch: int = -1
    checked_epoch: int = -1
    """The leader epoch in which the position was last found in the leader's log."""
    busy: bool = False
    """Whether a request about it is in flight."""
    over: bool = False
    failures: int = 0
    not_before_s: float = 0.0


class _Wanted(NamedTuple):
    partition: int
    position: _Position
    leader: Leader


class Consumer:
    """Reads partitions of one topic. The consumer owns `cluster`, and closes it at its own end."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        offsets: Mapping[int, int],
        reader: Reader,
        *,
        now_ns: Callable[[], int],
    ) -> None:
        self.fatal: str | None = None
        """Why nothing can be read any more."""
        self.paused = False
        """Whether no further fetches are sent; call `fetch_due` after its end."""
        self._cluster = cluster
        self._settings = settings
        self._reader = reader
        self._now_ns = now_ns
        self._positions = {p: _Position(offset=offset) for p, offset in offsets.items()}
        self._fetching: dict[int, bool] = {}
        self._resets: dict[int, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        cluster.on_change = self.fetch_due

    def add(self, partition: int, offset: int) -> None:
        """Read one more partition, from `offset` on."""
        self._positions[partition] = _Position(offset=offset)
        self.fetch_due()

    def drop(self, partition: int) -> None:
        """Stop reading a partition; an answer that is under way is ignored."""
        position = self._positions.pop(partition, None)
        if position is not None:
            position.over = True
        if (reset := self._resets.pop(partition, None)) is not None:
            reset.cancel()

    def position(self, partition: int) -> int:
        """Return the offset that is read next."""
        return self._positions[partition].offset

    def fetch_due(self) -> None:
        """Send a fetch to every leader that has none in flight."""
        if self._closed or self.paused:
            return
        by_node: dict[int, list[_Wanted]] = {}
        now_s = self._loop.time()
        later_s = []
        for partition, position in self._positions.items():
            if position.busy or position.over:
                continue
            if position.not_before_s > now_s:
                later_s.append(position.not_before_s)
            elif (leader := self._cluster.leader(partition)) is not None:
                by_node.setdefault(leader.node, []).append(_Wanted(partition, position, leader))
        for node, wanted in by_node.items():
            connection = self._cluster.connection(node)
            if connection is not None and not self._fetching.get(node):
                self._ask(node, connection, wanted)
        self._wake_at(min(later_s, default=None))

    def _wake_at(self, when_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if when_s is None else self._loop.call_at(when_s, self.fetch_due)

    async def close(self) -> None:
        """Stop reading."""
        self._closed = True
        self._wake_at(None)
        resets = list(self._resets.values())
        for reset in resets:
            reset.cancel()
        await asyncio.gather(*resets, return_exceptions=True)
        await self._cluster.close()

    # -- asking

    def _ask(self, node: int, connection: BrokerConnection, wanted: Sequence[_Wanted]) -> None:
        unchecked = [w for w in wanted if w.position.epoch >= 0 and _is_new(w)]
        asked, ask, answered = (
            (unchecked, self._epoch_ends, self._checked)
            if unchecked
            else (wanted, self._fetch, self._fetched)
        )
        try:
            future = ask(connection, asked)
        except ConnectFailed:
            self._cluster.refresh()
            return
        self._fetching[node] = True
        for each in asked:
            each.position.busy = True
        future.add_done_callback(partial(self._answered, node, asked, self._now_ns(), answered))

    def _epoch_ends(self, connection: BrokerConnection, wanted: Sequence[_Wanted]) -> Any:
        rows = [
            {
                "partition": partition,
                "current_leader_epoch": leader.epoch,
                "leader_epoch": position.epoch,
            }
            for partition, position, leader in wanted
        ]
        topics = ({"topic": self._cluster.topic, "partitions": rows},)
        return connection.start("offset_for_leader_epoch", replica_id=CONSUMER, topics=topics)

    def _fetch(self, connection: BrokerConnection, wanted: Sequence[_Wanted]) -> Any:
        settings = self._settings
        rows = [
            {
                "partition": partition,
                "current_leader_epoch": leader.epoch,
                "fetch_offset": position.offset,
                "last_fetched_epoch": position.epoch,
                "partition_max_bytes": settings.partition_bytes,
            }
            for partition, position, leader in wanted
        ]
        return connection.start(
            "fetch",
            replica_id=CONSUMER,
            max_wait=timedelta(seconds=settings.max_wait_s),
            min_bytes=1,
            max_bytes=settings.fetch_bytes,
            isolation_level=READ_COMMITTED if settings.read_committed else READ_UNCOMMITTED,
            topics=({"topic": self._cluster.topic, "partitions": rows},),
        )

    # -- answers

    def _answered(
        self,
        node: int,
        asked: Sequence[_Wanted],
        invoke_ns: int,
        answered: Callable[[int, int, Sequence[_Wanted], Any], None],
        future: "asyncio.Future[Any]",
    ) -> None:
        self._fetching[node] = False
        error = future.exception()
        if self._closed:
            return
        for each in asked:
            each.position.busy = False
        if error is None:
            answered(node, invoke_ns, asked, future.result())
        else:
            if not isinstance(error, ChannelError):
                self.fatal = f"an answer to a fetch could not be handled: {error!r}"
            for each in asked:
                self._failed(each, type(error).__name__)
        self.fetch_due()

    def _checked(self, node: int, invoke_ns: int, asked: Sequence[_Wanted], answer: Any) -> None:
        rows = {int(row.partition): row for topic in answer.topics for row in topic.partitions}
        for each in asked:
            row = rows.get(each.partition)
            if each.position.over:
                continue
            if row is None or row.error_code is not ErrorCode.none:
                name = "NO_ANSWER" if row is None else row.error_code.name.upper()
                self._failed(each, name)
            elif 0 <= row.end_offset < each.position.offset:
                self._truncated(each, TRUNCATED, int(row.end_offset))
            else:
                each.position.checked_epoch = each.leader.epoch

    def _fetched(self, node: int, invoke_ns: int, asked: Sequence[_Wanted], answer: Any) -> None:
        if (error := getattr(answer, "error_code", ErrorCode.none)) is not ErrorCode.none:
            for each in asked:
                self._failed(each, error.name.upper())
            return
        rows = {int(r.partition_index): r for topic in answer.responses for r in topic.partitions}
        read: list[tuple[int, Fetched]] = []
        for each in asked:
            fetched = self._fetched_one(each, answer, rows.get(each.partition))
            if fetched is not None and fetched.records:
                read.append((each.partition, fetched))
        if read:
            self._reader.polled(invoke_ns, node, read)

    def _fetched_one(self, wanted: _Wanted, answer: Any, row: Any) -> Fetched | None:
        position = wanted.position
        if position.over:
            return None
        if row is None:
            self._failed(wanted, "NO_ANSWER")
            return None
        if row.error_code is ErrorCode.offset_out_of_range:
            self._truncated(wanted, OUT_OF_RANGE, position.offset)
            return None
        if row.error_code is not ErrorCode.none:
            self._failed(wanted, row.error_code.name.upper())
            if self._cluster.hint(wanted.partition, answer, row):
                position.not_before_s = 0.0
            return None
        diverging = getattr(row, "diverging_epoch", None)
        if diverging is not None and diverging.end_offset >= 0:
            self._truncated(wanted, TRUNCATED, int(diverging.end_offset))
            return None
        try:
            fetched = decode(
                row.records or b"",
                offset=position.offset,
                epoch=position.epoch,
                aborted=self._aborted(row),
            )
        except CorruptBatch:
            self._failed(wanted, "CORRUPT_MESSAGE")
            return None
        position.failures = 0
        if fetched.records:
            position.not_before_s = self._loop.time() + self._settings.pause_s
        position.offset, position.epoch = fetched.next_offset, fetched.last_epoch
        position.checked_epoch = max(position.checked_epoch, wanted.leader.epoch)
        return fetched

    def _aborted(self, row: Any) -> Sequence[tuple[int, int]]:
        """Return producer id and first offset of aborted transactions among a row's records."""
        if not self._settings.read_committed:
            return ()
        return [
            (int(each.producer_id), int(each.first_offset))
            for each in row.aborted_transactions or ()
        ]

    def _failed(self, wanted: _Wanted, error: str) -> None:
        position, cluster = wanted.position, self._cluster
        position.failures += 1
        pause_s = cluster.timing.retry.pause_s(position.failures, cluster.rng)
        position.not_before_s = self._loop.time() + pause_s
        cluster.refresh()
        self._reader.failed(wanted.partition, error)

    # -- going back

    def _truncated(self, wanted: _Wanted, reason: str, end: int) -> None:
        if not self._reader.truncated(wanted.partition, reason):
            wanted.position.over = True
            return
        wanted.position.busy = True
        going_back = self._go_back(wanted.partition, wanted.position, reason, end)
        self._resets[wanted.partition] = self._loop.create_task(going_back)

    async def _go_back(self, partition: int, position: _Position, reason: str, end: int) -> None:
        """Go on from an offset that exists, some records before the truncation."""
        invoke_ns = self._now_ns()
        failures = 0
        cluster = self._cluster
        while True:
            try:
                low, high = await bounds(cluster, partition)
                break
            except BoundsUnknown as error:
                failures += 1
                self._reader.failed(partition, str(error))
                await asyncio.sleep(cluster.timing.retry.pause_s(failures, cluster.rng))
        back_to = min(high, end, position.offset) - self._settings.rewind_records
        position.offset, position.epoch = max(low, back_to), -1
        position.busy = False
        self._reader.moved(invoke_ns, partition, position.offset, reason)
        self.fetch_due()


def _is_new(wanted: _Wanted) -> bool:
    """Return whether the position was not checked in the leader's epoch yet."""
    return wanted.leader.epoch > wanted.position.checked_epoch
