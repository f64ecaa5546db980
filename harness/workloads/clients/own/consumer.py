"""A consumer that reads given partitions of one topic from given offsets on.

One fetch is under way to each leader, for all that it leads. A position is checked whenever the
leader's epoch changes, by asking where the epoch of the last record read ends (KIP-320), and again
by every fetch that says that epoch: a log that was cut below the position is never read on as if
nothing had happened. Its reader is told, and decides whether to go back.

Left to the reader: what records mean. Nothing is committed; there are no groups.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.connection import Link
from harness.workloads.clients.own.leaders import Leader
from harness.workloads.clients.own.offsets import CONSUMER, NoAnswer, bounds
from harness.workloads.clients.own.records import Fetched, decode
from nodes.log.errors import CorruptBatch
from nodes.wire.errors import ChannelError, ConnectFailed

OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"
TRUNCATED: Final = "LOG_TRUNCATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """How much a fetch may bring, how long a leader may wait for something to say, how long a
    partition is left alone after it had something, and how many records a consumer goes back when
    the log below its position was cut."""

    max_wait_s: float = 0.5
    pause_s: float = 0.0
    partition_bytes: int = 1 << 20
    fetch_bytes: int = 8 << 20
    rewind_records: int = 1_000


class Reader(Protocol):
    """Who wants the records."""

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        """Records of partitions, by a fetch sent at `invoke_ns` to `node`; at least one."""
        ...

    def cut(self, partition: int, reason: str) -> bool:
        """The log was cut below the position; whether to go back, and not to stop reading it."""
        ...

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """The consumer went back to `offset`; looking for it began at `invoke_ns`."""
        ...

    def failed(self, partition: int, error: str) -> None:
        """A partition could not be read just now."""
        ...


@dataclass(slots=True, kw_only=True)
class _Position:
    """Where a partition is read next; `epoch` is that of the record before (-1: not known)."""

    offset: int
    epoch: int = -1
    checked_epoch: int = -1
    """The leader epoch in which the position is known to be on the leader's log."""
    busy: bool = False
    """Something is being asked about it."""
    over: bool = False
    failures: int = 0
    not_before_s: float = 0.0


class _Wanted(NamedTuple):
    partition: int
    position: _Position
    leader: Leader


class Consumer:
    """See the module. `cluster` is the consumer's own from here on, and closed with it."""

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
        cluster.on_change = self.look

    def add(self, partition: int, offset: int) -> None:
        """Read one more partition, from there."""
        self._positions[partition] = _Position(offset=offset)
        self.look()

    def position(self, partition: int) -> int:
        """The offset that is read next."""
        return self._positions[partition].offset

    def look(self) -> None:
        """Ask every leader for what it has, unless it is being asked already."""
        if self._closed:
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
            link = self._cluster.link(node)
            if link is not None and not self._fetching.get(node):
                self._ask(node, link, wanted)
        self._look_at(min(later_s, default=None))

    def _look_at(self, when_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if when_s is None else self._loop.call_at(when_s, self.look)

    async def close(self) -> None:
        """Stop reading."""
        self._closed = True
        self._look_at(None)
        resets = list(self._resets.values())
        for reset in resets:
            reset.cancel()
        await asyncio.gather(*resets, return_exceptions=True)
        await self._cluster.close()

    # -- asking

    def _ask(self, node: int, link: Link, wanted: Sequence[_Wanted]) -> None:
        unchecked = [w for w in wanted if w.position.epoch >= 0 and _is_new(w)]
        asked, ask, answered = (
            (unchecked, self._epoch_ends, self._checked)
            if unchecked
            else (wanted, self._fetch, self._fetched)
        )
        try:
            future = ask(link, asked)
        except ConnectFailed:
            self._cluster.refresh()
            return
        self._fetching[node] = True
        for each in asked:
            each.position.busy = True
        future.add_done_callback(partial(self._answered, node, asked, self._now_ns(), answered))

    def _epoch_ends(self, link: Link, wanted: Sequence[_Wanted]) -> Any:
        rows = [
            {
                "partition": partition,
                "current_leader_epoch": leader.epoch,
                "leader_epoch": position.epoch,
            }
            for partition, position, leader in wanted
        ]
        topics = ({"topic": self._cluster.topic, "partitions": rows},)
        return link.start("offset_for_leader_epoch", replica_id=CONSUMER, topics=topics)

    def _fetch(self, link: Link, wanted: Sequence[_Wanted]) -> Any:
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
        return link.start(
            "fetch",
            replica_id=CONSUMER,
            max_wait=timedelta(seconds=settings.max_wait_s),
            min_bytes=1,
            max_bytes=settings.fetch_bytes,
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
        self.look()

    def _checked(self, node: int, invoke_ns: int, asked: Sequence[_Wanted], answer: Any) -> None:
        rows = {int(row.partition): row for topic in answer.topics for row in topic.partitions}
        for each in asked:
            row = rows.get(each.partition)
            if row is None or row.error_code is not ErrorCode.none:
                name = "NO_ANSWER" if row is None else row.error_code.name.upper()
                self._failed(each, name)
            elif 0 <= row.end_offset < each.position.offset:
                self._cut(each, TRUNCATED, int(row.end_offset))
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
        if row is None:
            self._failed(wanted, "NO_ANSWER")
            return None
        if row.error_code is ErrorCode.offset_out_of_range:
            self._cut(wanted, OUT_OF_RANGE, position.offset)
            return None
        if row.error_code is not ErrorCode.none:
            self._failed(wanted, row.error_code.name.upper())
            if self._cluster.hint(wanted.partition, answer, row):
                position.not_before_s = 0.0
            return None
        diverging = getattr(row, "diverging_epoch", None)
        if diverging is not None and diverging.end_offset >= 0:
            self._cut(wanted, TRUNCATED, int(diverging.end_offset))
            return None
        try:
            fetched = decode(row.records or b"", offset=position.offset, epoch=position.epoch)
        except CorruptBatch:
            self._failed(wanted, "CORRUPT_MESSAGE")
            return None
        position.failures = 0
        if fetched.records:
            position.not_before_s = self._loop.time() + self._settings.pause_s
        position.offset, position.epoch = fetched.next_offset, fetched.last_epoch
        position.checked_epoch = max(position.checked_epoch, wanted.leader.epoch)
        return fetched

    def _failed(self, wanted: _Wanted, error: str) -> None:
        position, cluster = wanted.position, self._cluster
        position.failures += 1
        pause_s = cluster.timing.retry.pause_s(position.failures, cluster.rng)
        position.not_before_s = self._loop.time() + pause_s
        cluster.refresh()
        self._reader.failed(wanted.partition, error)

    # -- going back

    def _cut(self, wanted: _Wanted, reason: str, end: int) -> None:
        if not self._reader.cut(wanted.partition, reason):
            wanted.position.over = True
            return
        wanted.position.busy = True
        going_back = self._go_back(wanted.partition, wanted.position, reason, end)
        self._resets[wanted.partition] = self._loop.create_task(going_back)

    async def _go_back(self, partition: int, position: _Position, reason: str, end: int) -> None:
        """Go on from a place that exists, some records before where the log was cut."""
        invoke_ns = self._now_ns()
        failures = 0
        cluster = self._cluster
        while True:
            try:
                low, high = await bounds(cluster, partition)
                break
            except NoAnswer as error:
                failures += 1
                self._reader.failed(partition, str(error))
                await asyncio.sleep(cluster.timing.retry.pause_s(failures, cluster.rng))
        back_to = min(high, end, position.offset) - self._settings.rewind_records
        position.offset, position.epoch = max(low, back_to), -1
        position.busy = False
        self._reader.moved(invoke_ns, partition, position.offset, reason)
        self.look()


def _is_new(wanted: _Wanted) -> bool:
    """The leader leads in an epoch in which the position was not checked."""
    return wanted.leader.epoch > wanted.position.checked_epoch
