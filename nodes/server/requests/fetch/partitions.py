"""The partitions of a fetch request or a fetch session, and which of them have to be read.

A partition watches its replica. It is *due* from the moment something may have happened to it until
a response has sent everything. Only due partitions are read, so a fetch costs what changed since
the last one, not what the session holds. A partition that is not due has nothing new: no record to
read, no error, the same high watermark and log start. For a follower it is also in sync.

After a change of leaders thousands of partitions are due at once. A request of a session reads a
limited number of them, so that it does not hold the event loop for long. The next request reads
more.
"""

import asyncio
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any, Final, NamedTuple
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
from nodes.replication.progress import SessionActivity
from nodes.server.replicas.replica import Replica

READ_AT_ONCE: Final = 1_000
"""How many partitions a request of a session reads, at 20 to 40 microseconds each."""
JOINING_AT_ONCE: Final = 250
"""How many of these at most may only join the ISR. A request with more than READ_AT_ONCE due
partitions does not wait for them.
"""


class FetchPartitionKey(NamedTuple):
    """A partition as the request names it: its topic by id (Fetch v13 on) or by name."""

    topic: UUID | str | None
    partition: int


class FetchPartition:
    """One partition: what the request asks for, and what the last response sent."""

    __slots__ = (
        "key",
        "last_epoch",
        "leader_epoch",
        "log_start",
        "max_bytes",
        "offset",
        "replica",
        "same_topic",
        "sent_high_watermark",
        "sent_log_start",
        "topic_partition",
        "watcher",
    )

    def __init__(self, key: FetchPartitionKey) -> None:
        self.key = key
        self.watcher: FetchPartitionSet | None = None  # None while not watching: no reference cycle
        self.topic_partition: TopicPartition | None = None
        self.replica: Replica | None = None
        self.same_topic = False
        """Whether the request names the replica's topic by its id."""
        self.offset = Offset(0)
        self.max_bytes = 0
        self.leader_epoch = NO_EPOCH
        self.last_epoch = NO_EPOCH
        self.log_start = NO_OFFSET
        self.sent_high_watermark = NO_OFFSET
        self.sent_log_start = NO_OFFSET

    def update(self, requested: Any) -> None:
        """Take over the fields of the request for this partition, in any version of Fetch."""
        self.offset = Offset(requested.fetch_offset)
        self.max_bytes = requested.partition_max_bytes
        self.leader_epoch = Epoch(getattr(requested, "current_leader_epoch", NO_EPOCH))
        self.last_epoch = Epoch(getattr(requested, "last_fetched_epoch", NO_EPOCH))
        self.log_start = Offset(getattr(requested, "log_start_offset", NO_OFFSET))

    def set_replica(self, topic_partition: TopicPartition | None, replica: Replica | None) -> None:
        """Set the replica that serves this partition now."""
        self.topic_partition = topic_partition
        if replica is self.replica:
            return
        watcher = self.watcher
        self.unwatch()
        self.replica = replica
        self.same_topic = replica is not None and replica.topic_id == self.key.topic
        if watcher is not None:
            self.watch(watcher)

    def watch(self, watcher: "FetchPartitionSet") -> None:
        """Notify `watcher` of changes of the replica, also if another replica is set later."""
        self.watcher = watcher
        if self.replica is not None:
            self.replica.watchers.add(self, appends=watcher.follower != NO_NODE)

    def unwatch(self) -> None:
        """Stop watching the replica."""
        self.watcher = None
        if self.replica is not None:
            self.replica.watchers.discard(self)

    def appended(self) -> None:
        if self.watcher is not None:
            self.watcher.mark_changed(self)

    def committed(self) -> None:
        watcher = self.watcher
        if watcher is not None:
            watcher.due[self] = watcher.unread_changes[self] = None
            if watcher.joining:
                watcher.joining.pop(self, None)
            if watcher.wakes_on_commit:
                watcher.wake()

    def changed(self) -> None:
        if self.watcher is not None:
            self.watcher.mark_changed(self)


class FetchPartitionSet:
    """The partitions of one fetch or session, by key, in the order of the requests.

    `follower`: the node that fetches, or NO_NODE for a consumer. `wakes_on_commit`: whether an
    advance of the high watermark ends a wait; followers wait for records instead.
    """

    def __init__(
        self, follower: NodeId, broker_epoch: BrokerEpoch, *, wakes_on_commit: bool
    ) -> None:
        self.follower = follower
        self._broker_epoch = broker_epoch
        self.wakes_on_commit = wakes_on_commit
        self.activity = SessionActivity()
        self.by_key: dict[FetchPartitionKey, FetchPartition] = {}
        self.due: dict[FetchPartition, None] = {}
        self.joining: dict[FetchPartition, None] = {}
        """Those of the due ones of which nothing is new, but whose follower may join the ISR."""
        self.unread_changes: dict[FetchPartition, None] = {}
        self._watching = False
        self._callback: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self.by_key)

    def add(self, key: FetchPartitionKey, requested: Any) -> None:
        """Add a partition, or change what is requested of it."""
        partition = self.by_key.get(key)
        if partition is None:
            partition = self.by_key[key] = FetchPartition(key)
            if self._watching:
                partition.watch(self)
        partition.update(requested)
        self.due[partition] = None
        if self.joining:
            self.joining.pop(partition, None)

    def forget(self, key: FetchPartitionKey) -> None:
        """Remove a partition, if it is there."""
        partition = self.by_key.pop(key, None)
        if partition is None:
            return
        for kept in (self.due, self.joining, self.unread_changes):
            kept.pop(partition, None)
        partition.unwatch()
        replica = partition.replica
        if replica is not None:
            replica.state.left_session(self.follower, self.activity, replica.log.end_offset)

    def set_follower(self, follower: NodeId, broker_epoch: BrokerEpoch) -> None:
        """Set who fetches now. If a follower registered again, all partitions are due (KIP-903)."""
        if (follower, broker_epoch) != (self.follower, self._broker_epoch):
            self.follower, self._broker_epoch = follower, broker_epoch
            self.due.update(dict.fromkeys(self.by_key.values()))
            self.joining.clear()

    def watch(self) -> None:
        """Start to watch the replicas."""
        if not self._watching:
            self._watching = True
            for partition in self.by_key.values():
                partition.watch(self)

    def release(self) -> None:
        """Stop watching the replicas, and wake the fetch that waits."""
        self._watching = False
        for partition in self.by_key.values():
            partition.unwatch()
        self.wake()

    def mark_changed(self, partition: FetchPartition) -> None:
        """`partition` changed: wake the fetch that waits."""
        self.due[partition] = self.unread_changes[partition] = None
        if self.joining:
            self.joining.pop(partition, None)
        self.wake()

    # -- what is due ---------------------------------------------------------------------------

    def take_due(self, *, some: bool) -> tuple[list[FetchPartition], bool]:
        """Return the due partitions to read now, and whether others should not wait.

        They are all due ones, or with `some` at most READ_AT_ONCE.
        """
        due, joining = self.due, self.joining
        if not some or len(due) <= READ_AT_ONCE:
            return list(due), False
        chosen = list(islice(joining, JOINING_AT_ONCE))
        room = READ_AT_ONCE - len(chosen)
        others = list(islice((each for each in due if each not in joining), room + 1))
        chosen += others[:room]
        for partition in chosen:  # next time, the others come first
            del due[partition]
            due[partition] = None
            if partition in joining:
                del joining[partition]
                joining[partition] = None
        return chosen, len(others) > room

    def take_changed(self) -> Collection[FetchPartition]:
        """Return the partitions that changed since the last call."""
        changes, self.unread_changes = self.unread_changes, {}
        return changes

    # -- waiting -------------------------------------------------------------------------------

    def wait(self, callback: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Let the running loop call `callback` soon after the next change.

        There is one callback at a time: the one before it is called now.
        """
        self.wake()
        self._callback, self._loop = callback, loop

    def stop_waiting(self, callback: Callable[[], None]) -> None:
        """Do not call `callback` any more."""
        if self._callback == callback:
            self._callback = None

    def wake(self) -> None:
        """Call the callback of the fetch that waits, if there is one."""
        callback, self._callback = self._callback, None
        if callback is not None and self._loop is not None:
            self._loop.call_soon(callback)
