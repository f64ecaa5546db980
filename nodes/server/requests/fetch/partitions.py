"""The partitions that a fetch, or a fetch session, asks for, and which of them may have news.

A part watches its replica and is *due* from when something may have happened to it until an answer
has told all there is; only due parts are looked at. So a fetch costs what changed since the last
one, not what the session holds. A part that is not due has nothing to tell that was not told: no
record to read, no error, the same high watermark and log start; a follower's is in sync as well.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from uuid import UUID

from nodes.ids import (
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    BrokerEpoch,
    Epoch,
    NodeId,
    Offset,
    TopicPartition,
)
from nodes.replication.progress import Pulse
from nodes.server.replicas.replica import Replica


class PartKey(NamedTuple):
    """A partition as the request names it: its topic by id (Fetch v13 on) or by name."""

    topic: UUID | str | None
    partition: int


class Part:
    """One partition: what is asked of it, and what the fetcher was told of it last."""

    __slots__ = (
        "key",
        "last_epoch",
        "leader_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "partition",
        "replica",
        "told_high_watermark",
        "told_log_start",
        "watcher",
    )

    def __init__(self, key: PartKey) -> None:
        self.key = key
        self.watcher: PartSet | None = None  # only while it watches: they hold each other
        self.partition: TopicPartition | None = None
        self.replica: Replica | None = None
        self.offset = Offset(0)
        self.max_bytes = 0
        self.leader_epoch = NO_EPOCH
        self.last_epoch = NO_EPOCH
        self.log_start = NO_OFFSET
        self.told_high_watermark = NO_OFFSET
        self.told_log_start = NO_OFFSET

    def ask(self, wanted: Any) -> None:
        """Take over what the request (a FetchPartition of any version) wants of the partition."""
        self.offset = Offset(wanted.fetch_offset)
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = Epoch(getattr(wanted, "current_leader_epoch", NO_EPOCH))
        self.last_epoch = Epoch(getattr(wanted, "last_fetched_epoch", NO_EPOCH))
        self.log_start = Offset(getattr(wanted, "log_start_offset", NO_OFFSET))

    def host(self, partition: TopicPartition | None, replica: Replica | None) -> None:
        """The replica that serves this part now."""
        self.partition = partition
        if replica is self.replica:
            return
        watcher = self.watcher
        self.unwatch()
        self.replica = replica
        if watcher is not None:
            self.watch(watcher)

    def watch(self, watcher: "PartSet") -> None:
        """Tell `watcher` of news of the replica, whichever it is."""
        self.watcher = watcher
        if self.replica is not None:
            self.replica.watchers.add(self, appends=watcher.follower != NO_NODE)

    def unwatch(self) -> None:
        """Tell nobody of news."""
        self.watcher = None
        if self.replica is not None:
            self.replica.watchers.discard(self)

    def appended(self) -> None:
        if self.watcher is not None:
            self.watcher.has_news(self)

    def committed(self) -> None:
        watcher = self.watcher
        if watcher is not None:
            watcher.due[self] = watcher.fresh[self] = None
            if watcher.commits_are_news:
                watcher.wake()

    def changed(self) -> None:
        if self.watcher is not None:
            self.watcher.has_news(self)


class PartSet:
    """The parts of one fetch or session, by key, in the order in which they were asked for.

    `follower`: the node that fetches, or NO_NODE. `commits_are_news`: whether an advance of the
    high watermark should end a wait (it does not for followers, who want records).
    """

    def __init__(
        self, follower: NodeId, broker_epoch: BrokerEpoch, *, commits_are_news: bool
    ) -> None:
        self.follower = follower
        self._broker_epoch = broker_epoch
        self.commits_are_news = commits_are_news
        self.pulse = Pulse()
        self.parts: dict[PartKey, Part] = {}
        self.due: dict[Part, None] = {}
        self.fresh: dict[Part, None] = {}
        self._watching = False
        self._woken: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self.parts)

    def ask(self, key: PartKey, wanted: Any) -> None:
        """Add a partition, or change what is wanted of it."""
        part = self.parts.get(key)
        if part is None:
            part = self.parts[key] = Part(key)
            if self._watching:
                part.watch(self)
        part.ask(wanted)
        self.due[part] = None

    def forget(self, key: PartKey) -> None:
        """Do not ask for this partition any more."""
        part = self.parts.pop(key, None)
        if part is None:
            return
        self.due.pop(part, None)
        self.fresh.pop(part, None)
        part.unwatch()
        replica = part.replica
        if replica is not None:
            replica.state.left_session(self.follower, self.pulse, replica.log.end_offset)

    def fetched_by(self, follower: NodeId, broker_epoch: BrokerEpoch) -> None:
        """Who continues: a follower that registered anew says everything again (KIP-903)."""
        if (follower, broker_epoch) != (self.follower, self._broker_epoch):
            self.follower, self._broker_epoch = follower, broker_epoch
            self.due.update(dict.fromkeys(self.parts.values()))

    def watch(self) -> None:
        """Be told of news from now on."""
        if not self._watching:
            self._watching = True
            for part in self.parts.values():
                part.watch(self)

    def release(self) -> None:
        """Be told of nothing any more. Whoever waits is woken."""
        self._watching = False
        for part in self.parts.values():
            part.unwatch()
        self.wake()

    def has_news(self, part: Part) -> None:
        """`part` is worth an answer now."""
        self.due[part] = self.fresh[part] = None
        self.wake()

    def take_fresh(self) -> Iterable[Part]:
        """The parts that something happened to since the last call."""
        fresh, self.fresh = self.fresh, {}
        return fresh

    # -- waiting -------------------------------------------------------------------------------

    def wait(self, woken: Callable[[], None]) -> None:
        """Call `woken` soon after the next news; a newer one takes the place of an older, which is
        called too."""
        self.wake()
        self._woken = woken

    def leave(self, woken: Callable[[], None]) -> None:
        """Do not call `woken` any more."""
        if self._woken == woken:
            self._woken = None

    def wake(self) -> None:
        """Wake whoever waits."""
        woken, self._woken = self._woken, None
        if woken is not None:
            asyncio.get_running_loop().call_soon(woken)
