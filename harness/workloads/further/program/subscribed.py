"""A consumer of a client program that subscribes as a member of a group, and is recorded.

The program joins, sends heartbeats, and writes of each rebalance while it polls. Before it gives
partitions up it waits for `resume`, so the member's owner may commit once more.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError

from harness.workloads.clients.memberships import Membership
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.program.consumer import (
    ERROR_PAUSE_S,
    RESET,
    open_consumer,
    read_from,
)
from harness.workloads.clients.program.process import Program
from harness.workloads.clients.program.producer import CALL_S
from harness.workloads.clients.program.protocol import (
    Answer,
    Assigned,
    Event,
    Lost,
    Noted,
    ProtocolError,
    Revoked,
    Sent,
    Values,
    by_topic,
    number_in,
    offsets_of,
)
from harness.workloads.clients.reads import MemberReads
from harness.workloads.further.threads.library import VANISHED, BeforeRevocation, Group, Taken
from nodes.ids import TopicPartition

HEARTBEATS: Final = 6
"""How many heartbeats a member sends in the time after which it is removed."""
REBALANCE_S: Final = 30.0
"""How long a poll may take because the member commits in it."""


def open_member(
    options: ProducerOptions, wanted: Group, index: int, reads: MemberReads
) -> dict[str, Any]:
    """Return the values of an `open-consumer` of the member number `index`."""
    return {
        **open_consumer(options, reads),
        "group": wanted.group,
        "protocol": wanted.protocol,
        "instance_id": f"{wanted.group}-{index}" if wanted.static else None,
        "session_timeout_ms": wanted.session_timeout_ms,
        "heartbeat_interval_ms": max(1, wanted.session_timeout_ms // HEARTBEATS),
        "max_poll_interval_ms": max(30_000, wanted.session_timeout_ms),
    }


class Subscribed:
    """See the module. For one thread. `before_revocation` may commit."""

    def __init__(
        self,
        program: Program,
        values: Values,
        reads: MemberReads,
        membership: Membership,
        *,
        before_revocation: BeforeRevocation,
    ) -> None:
        """Open a member with the values of an `open-consumer`. Raises ProgramFailed."""
        self.positions: dict[TopicPartition, int] = {}
        """The next offset of each partition that the member owns."""
        self.over = False
        """Whether this member must not go on: it could not be made, it does not know where it is,
        or a commit got no answer and may arrive later."""
        self._program = program
        self._reads = reads
        self._membership = membership
        self._before_revocation = before_revocation
        reads.open()
        if self._done(self._ask("open-consumer", values)):
            topics = reads.topics
            self._done(
                self._ask("subscribe", {"topics": topics} if topics[1:] else {"topic": topics[0]})
            )

    @property
    def generation(self) -> int:
        """The generation of the group, or the member's epoch."""
        return self._number(self._ask("group-metadata", {}), "generation")

    @property
    def metadata(self) -> object:
        """What the program itself needs to send offsets of this member in a transaction."""
        return self._ask("group-metadata", {}).values.get("metadata")

    def take(self, count: int, timeout_s: float) -> Sequence[Taken]:
        """Return up to `count` records, and move the positions behind them; rebalances happen in
        this call."""
        invoke_ns = self._reads.now_ns()
        values = {"timeout_ms": round(timeout_s * 1000), "max_records": count}
        answer = self._ask("poll", values, timeout_s + REBALANCE_S)
        if not self._done(answer):
            time.sleep(ERROR_PAUSE_S)
            failure = answer.failure
            if failure is not None and failure.code == KafkaError.OFFSET_OUT_OF_RANGE:
                for partition in failure.partitions:
                    self._out_of_range(self._place(failure.topic, partition))
            return []
        taken = []
        for topic, read in read_from(self._program, answer):
            place = self._place(topic, read.partition)
            if place in self.positions:
                taken.append(Taken(place.topic, read, invoke_ns))
                self.positions[place] = read.offset + 1
        return taken

    def record(self, taken: Sequence[Taken]) -> None:
        """Record that the group's member has got the records, which are of one `take`."""
        if taken:
            self._reads.polled([(t.topic, t.read) for t in taken], taken[0].invoke_ns)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Outcome]:
        """Commit offsets, and record the outcome of each partition."""
        results: dict[TopicPartition, Outcome] = {}
        for topic, positions in by_topic(offsets).items():
            results |= self._commit({TopicPartition(topic, p): n for p, n in positions.items()})
        return results

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Outcome]:
        """Commit offsets of one topic."""
        generation, invoke_ns = self.generation, self._reads.now_ns()
        ((topic, positions),) = by_topic(offsets).items()
        failure = self._ask("commit", {"topic": topic, "offsets": positions}).failure
        if failure is None:
            result: tuple[Outcome, str | None] = Outcome.OK, None
        else:
            outcome = Outcome.FAIL if failure.definite else Outcome.INFO
            result = outcome, failure.name
            self.over = self.over or outcome is Outcome.INFO or failure.then == "close"
        self._membership.committed(offsets, generation, invoke_ns, dict.fromkeys(offsets, result))
        return dict.fromkeys(offsets, result[0])

    def go_back(self) -> bool:
        """Go on from the committed offsets; return whether they are known."""
        for topic, positions in by_topic(self.positions).items():
            invoke_ns = self._reads.now_ns()
            answer = self._ask("committed", {"topic": topic, "partitions": [*positions]})
            if not self._done(answer):
                return False
            try:
                found = offsets_of(answer)
            except ProtocolError as error:
                raise self._program.fail(str(error)) from error
            back = {partition: found.get(partition) or 0 for partition in positions}
            if not self._done(self._ask("seek", {"topic": topic, "positions": back})):
                return False
            moved = {TopicPartition(topic, p): offset for p, offset in back.items()}
            self._reads.moved(moved, invoke_ns)
            self.positions |= moved
        return True

    def close(self, *, leave: bool) -> None:
        """Leave the group, or vanish: then the coordinator has to notice."""
        self._ask("close", {"leave": leave}, REBALANCE_S)
        if self.positions:
            error = None if leave else VANISHED
            self._membership.lost(self.positions, self._reads.generation or 0, error=error)
            self.positions = {}
        self._reads.close()

    def _done(self, answer: Answer) -> bool:
        """Return whether a command was done; note why not, and whether the member is over."""
        if answer.failure is not None:
            self._reads.note(answer.failure.name)
            self.over = self.over or answer.failure.then == "close"
        return answer.failure is None

    def _place(self, topic: str | None, partition: int) -> TopicPartition:
        """Return a partition of a topic, which a client with one topic need not name."""
        return TopicPartition(topic or self._reads.topics[0], partition)

    def _out_of_range(self, place: TopicPartition) -> None:
        """Go on from the first record, if those before it were removed. Else the log was truncated,
        or a deposed leader has a shorter one: the next member asks for the committed offset."""
        invoke_ns, (topic, partition) = self._reads.now_ns(), place
        position = self.positions.get(place)
        answer = self._ask("offsets", {"topic": topic, "partition": partition})
        low = self._number(answer, "beginning") if answer.failure is None else None
        if low is None or position is None or position >= low:
            self.over = True
        elif self._done(self._ask("seek", {"topic": topic, "positions": {partition: low}})):
            self.positions[place] = low
            self._reads.moved({place: low}, invoke_ns, reason=RESET)

    def _ask(self, do: str, values: Values, within_s: float = CALL_S) -> Answer:
        client = self._reads.client
        return self._program.ask(client, do, values, within_s=within_s, handle=self._heard)

    def _number(self, answer: Answer, name: str) -> int:
        if answer.failure is not None:  # the member is in no group at present
            return self._reads.generation or 0
        try:
            return number_in(answer, name)
        except ProtocolError as error:
            raise self._program.fail(str(error)) from error

    # -- rebalances

    def _heard(self, event: Event) -> None:
        match event:
            case Assigned():
                self._assigned(event)
            case Revoked():
                mine = self._mine(event)
                self._before_revocation(mine)
                self._membership.revoked(mine, self._reads.generation or 0)
                self._drop(event)
                self._program.tell(self._reads.client, "resume", {})
            case Lost():
                self._membership.lost(self._mine(event), self._reads.generation or 0)
                self._drop(event)
            case Noted():
                self._reads.note(event.error)
            case Sent():
                raise self._program.fail(f"the client program wrote {event} about a consumer")

    def _assigned(self, event: Assigned) -> None:
        now_ns = self._reads.now_ns()
        positions = {
            self._place(event.topic, partition): offset
            for partition, offset in event.positions.items()
            if offset is not None
        }
        if len(positions) < len(event.positions):
            # Without a position nothing can be judged; the next member asks again.
            self.over = True
        self._reads.generation = event.generation
        self._membership.assigned(positions, event.generation, now_ns)
        self._reads.moved(positions, now_ns)
        self.positions |= positions

    def _mine(self, event: Revoked | Lost) -> list[TopicPartition]:
        places = (self._place(event.topic, partition) for partition in event.partitions)
        return [place for place in places if place in self.positions]

    def _drop(self, event: Revoked | Lost) -> None:
        for partition in event.partitions:
            self.positions.pop(self._place(event.topic, partition), None)
