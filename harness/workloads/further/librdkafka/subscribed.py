"""A librdkafka consumer that subscribes as a member of a group, and records what it goes through.

librdkafka joins, sends heartbeats and calls back. The member is told of a rebalance only while it
polls, so its owner may commit once more before a partition is given up.
"""

import struct
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from harness.workloads.clients.access import Access
from harness.workloads.clients.librdkafka import POLL_RECORDS, SOCKET_TIMEOUT_MS, consumer_config
from harness.workloads.clients.memberships import Membership
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.reads import MemberReads, Read
from harness.workloads.further.threads.library import VANISHED, BeforeRevocation, Group, Taken
from nodes.ids import TopicPartition

_METADATA: Final = struct.Struct("=7si")
"""The beginning of librdkafka's group metadata: a mark, and the generation or member epoch."""
_MARK: Final = b"CGMDv2:"
HEARTBEATS: Final = 6
"""How many heartbeats a member sends in the time after which it is removed."""


def without_member(group: str) -> bytes:
    """Return group metadata that names no member and no generation."""
    return _METADATA.pack(_MARK, -1) + group.encode() + b"\0\0\1"


def generation_of(metadata: bytes) -> int:
    """Return the generation, or member epoch, in librdkafka's group metadata."""
    mark, generation = _METADATA.unpack_from(metadata)
    assert mark == _MARK, "librdkafka has changed its group metadata"
    return int(generation)


def member_config(
    bootstrap: str, access: Access, wanted: Group, index: int, *, isolation_level: str
) -> dict[str, Any]:
    """Return librdkafka's configuration of the member number `index`."""
    settings = {
        **consumer_config(bootstrap=bootstrap, group=wanted.group, access=access),
        "group.protocol": wanted.protocol,
        "isolation.level": isolation_level,
    }
    if wanted.protocol == "classic":
        settings |= {
            "session.timeout.ms": wanted.session_timeout_ms,
            "heartbeat.interval.ms": max(1, wanted.session_timeout_ms // HEARTBEATS),
            "max.poll.interval.ms": max(30_000, wanted.session_timeout_ms),
        }
    if wanted.static:
        settings["group.instance.id"] = f"{wanted.group}-{index}"
    return settings


class Subscribed:
    """See the module. For one thread. `before_revocation` may commit."""

    def __init__(
        self,
        config: Mapping[str, Any],
        reads: MemberReads,
        membership: Membership,
        *,
        before_revocation: BeforeRevocation,
    ) -> None:
        self.positions: dict[TopicPartition, int] = {}
        """The next offset of each partition that the member owns."""
        self.over = False
        """Whether this member must not go on: a commit got no answer and may arrive later, a broker
        does not have its position, or the committed offsets that it has to go back to are not
        known."""
        self._reads = reads
        self._membership = membership
        self._before_revocation = before_revocation
        self._incremental = config["group.protocol"] == "consumer"
        reads.open()
        self._consumer: Consumer | None = Consumer(
            {**config, "error_cb": lambda error: reads.note(error.name())}
        )
        self._consumer.subscribe(
            reads.topics,
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    @property
    def generation(self) -> int:
        """The generation of the group, or the member's epoch."""
        return generation_of(self.metadata)

    @property
    def metadata(self) -> bytes:
        """The group metadata that belongs to offsets in a transaction."""
        assert self._consumer is not None
        found: bytes = self._consumer.consumer_group_metadata()
        return found

    def take(self, count: int, timeout_s: float) -> Sequence[Taken]:
        """Return up to `count` records, and move the positions behind them; rebalances happen in
        this call."""
        assert self._consumer is not None
        invoke_ns = self._reads.now_ns()
        taken = []
        for message in self._consumer.consume(min(count, POLL_RECORDS), timeout_s):
            if (error := message.error()) is not None:
                self._reads.note(error.name())
                if error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self._out_of_range(_place_of(message))
            elif (place := _place_of(message)) in self.positions:
                taken.append(Taken(place.topic, _read(message), invoke_ns))
                self.positions[place] = message.offset() + 1
        return taken

    def record(self, taken: Sequence[Taken]) -> None:
        """Record that the group's member has got the records, which are of one `take`."""
        if taken:
            self._reads.polled([(t.topic, t.read) for t in taken], taken[0].invoke_ns)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Outcome]:
        """Commit offsets, and record the outcome of each partition.

        librdkafka repeats a commit, and reports the error of the last attempt. So an error does not
        say that nothing was committed.
        """
        assert self._consumer is not None
        invoke_ns, generation = self._reads.now_ns(), self.generation
        results: dict[TopicPartition, tuple[Outcome, str | None]] = {}
        try:
            done = self._consumer.commit(offsets=places(offsets), asynchronous=False)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            results = dict.fromkeys(offsets, (Outcome.INFO, reason.name()))
        else:
            for place in done or ():
                failed = place.error
                results[_own(place)] = (
                    (Outcome.OK, None) if failed is None else (Outcome.INFO, failed.name())
                )
        results = {p: results.get(p, (Outcome.INFO, "NO_ANSWER")) for p in offsets}
        self.over = self.over or any(outcome is Outcome.INFO for outcome, _ in results.values())
        self._membership.committed(offsets, generation, invoke_ns, results)
        return {place: outcome for place, (outcome, _) in results.items()}

    def go_back(self) -> bool:
        """Go on from the committed offsets; return whether they are known."""
        assert self._consumer is not None
        invoke_ns = self._reads.now_ns()
        try:
            self.positions = self._committed(self.positions)
            for place in places(self.positions):
                self._consumer.seek(place)
        except KafkaException as error:
            self._reads.note(error.args[0].name())
            return False
        self._reads.moved(self.positions, invoke_ns)
        return True

    def close(self, *, leave: bool) -> None:
        """Leave the group, or vanish: then the coordinator has to notice."""
        assert self._consumer is not None
        if leave:
            self._consumer.close()  # calls back
        if self.positions:
            self._membership.lost(self.positions, self._reads.generation or 0, error=VANISHED)
            self.positions = {}
        self._reads.close()
        vanishing, self._consumer = [self._consumer], None
        # Without a close, librdkafka does not leave the group. With the consumer protocol it may
        # then wait for ever, so it gets a thread of its own.
        threading.Thread(target=vanishing.clear, daemon=True).start()

    def _out_of_range(self, place: TopicPartition) -> None:
        """Go on from the first record, if those before it were removed. Else the log was truncated,
        or a deposed leader has a shorter one: the next member asks for the committed offset."""
        assert self._consumer is not None
        invoke_ns, position = self._reads.now_ns(), self.positions.get(place)
        where = confluent_kafka.TopicPartition(*place)
        try:
            low, _ = self._consumer.get_watermark_offsets(where, timeout=SOCKET_TIMEOUT_MS / 1000)
            if position is None or position >= low:
                self.over = True
                return
            self._consumer.seek(confluent_kafka.TopicPartition(*place, low))
        except KafkaException as error:
            self._reads.note(error.args[0].name())
            self.over = True
            return
        self.positions[place] = low
        self._reads.moved({place: low}, invoke_ns, reason="_AUTO_OFFSET_RESET")

    # -- callbacks

    def _assigned(
        self, consumer: Consumer, given: Sequence[confluent_kafka.TopicPartition]
    ) -> None:
        invoke_ns = self._reads.now_ns()
        try:
            positions = self._committed([*map(_own, given)])
        except KafkaException as error:
            # Without positions nothing can be read; the next member asks again.
            self._reads.note(error.args[0].name())
            self.over, positions = True, {}
        wanted = places(positions)
        if self._incremental:
            consumer.incremental_assign(wanted)
        else:
            consumer.assign(wanted)
        generation = self._reads.generation = self.generation
        self._membership.assigned(positions, generation, invoke_ns)
        self._reads.moved(positions, invoke_ns)
        self.positions |= positions

    def _revoked(self, consumer: Consumer, given: Sequence[confluent_kafka.TopicPartition]) -> None:
        mine = self._mine(given)
        self._before_revocation(mine)
        self._membership.revoked(mine, self._reads.generation or 0)
        self._drop(consumer, given)

    def _lost(self, consumer: Consumer, given: Sequence[confluent_kafka.TopicPartition]) -> None:
        self._membership.lost(self._mine(given), self._reads.generation or 0)
        self._drop(consumer, given)

    def _mine(self, given: Sequence[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
        return [place for place in map(_own, given) if place in self.positions]

    def _drop(self, consumer: Consumer, given: Sequence[confluent_kafka.TopicPartition]) -> None:
        for place in map(_own, given):
            self.positions.pop(place, None)
        if self._incremental:
            consumer.incremental_unassign(list(given))
        else:
            consumer.unassign()

    def _committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the position of each partition: the committed offset, or the beginning. Raises
        KafkaException."""
        if not partitions:
            return {}
        assert self._consumer is not None
        asked = [confluent_kafka.TopicPartition(*place) for place in partitions]
        found = self._consumer.committed(asked, timeout=SOCKET_TIMEOUT_MS / 1000)
        for place in found:
            if place.error is not None:
                raise KafkaException(place.error)
        return {_own(place): max(place.offset, 0) for place in found}


def places(offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    """Return offsets by partition as librdkafka has them."""
    return [confluent_kafka.TopicPartition(*place, offset) for place, offset in offsets.items()]


def _own(place: confluent_kafka.TopicPartition) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)


def _place_of(message: Message) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())


def _read(message: Message) -> Read:
    return Read(message.partition(), message.offset(), message.leader_epoch(), message.value())
