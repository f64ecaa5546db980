"""A consumer of a client program that subscribes as a member of a group, and is recorded.

The program joins, sends heartbeats, and writes of each rebalance while it polls. Before it gives
partitions up it waits for `resume`, so the member's owner may commit once more.
"""

import time
from collections.abc import Collection, Mapping, Sequence
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
    number_in,
    offsets_of,
)
from harness.workloads.clients.reads import Reads
from harness.workloads.further.threads.library import VANISHED, BeforeRevocation, Group, Taken

HEARTBEATS: Final = 6
"""How many heartbeats a member sends in the time after which it is removed."""
REBALANCE_S: Final = 30.0
"""How long a poll may take because the member commits in it."""


def open_member(
    options: ProducerOptions, wanted: Group, index: int, reads: Reads
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
        reads: Reads,
        membership: Membership,
        *,
        before_revocation: BeforeRevocation,
    ) -> None:
        """Open a member with the values of an `open-consumer`. Raises ProgramFailed."""
        self.positions: dict[int, int] = {}
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
            self._done(self._ask("subscribe", {"topic": reads.topic}))

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
                    self._out_of_range(partition)
            return []
        read = read_from(self._program, answer)
        taken = [Taken(each, invoke_ns) for each in read if each.partition in self.positions]
        for each in taken:
            self.positions[each.read.partition] = each.read.offset + 1
        return taken

    def record(self, taken: Sequence[Taken]) -> None:
        """Record that the group's member has got the records, which are of one `take`."""
        if taken:
            self._reads.polled([each.read for each in taken], taken[0].invoke_ns)

    def commit(self, offsets: Mapping[int, int]) -> Mapping[int, Outcome]:
        """Commit offsets, and record the outcome of each partition."""
        generation, invoke_ns = self.generation, self._reads.now_ns()
        answer = self._ask("commit", {"topic": self._reads.topic, "offsets": dict(offsets)})
        failure = answer.failure
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
        invoke_ns, topic = self._reads.now_ns(), self._reads.topic
        answer = self._ask("committed", {"topic": topic, "partitions": [*self.positions]})
        if not self._done(answer):
            return False
        try:
            found = offsets_of(answer)
        except ProtocolError as error:
            raise self._program.fail(str(error)) from error
        self.positions = {partition: found.get(partition) or 0 for partition in self.positions}
        if not self._done(self._ask("seek", {"topic": topic, "positions": self.positions})):
            return False
        self._reads.moved(self.positions, invoke_ns)
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

    def _out_of_range(self, partition: int) -> None:
        """Go on from the first record, if those before it were removed. Else the log was truncated,
        or a deposed leader has a shorter one: the next member asks for the committed offset."""
        invoke_ns, topic = self._reads.now_ns(), self._reads.topic
        position = self.positions.get(partition)
        answer = self._ask("offsets", {"topic": topic, "partition": partition})
        low = self._number(answer, "beginning") if answer.failure is None else None
        if low is None or position is None or position >= low:
            self.over = True
        elif self._done(self._ask("seek", {"topic": topic, "positions": {partition: low}})):
            self.positions[partition] = low
            self._reads.moved({partition: low}, invoke_ns, reason=RESET)

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
                mine = self._mine(event.partitions)
                self._before_revocation(mine)
                self._membership.revoked(mine, self._reads.generation or 0)
                self._drop(event.partitions)
                self._program.tell(self._reads.client, "resume", {})
            case Lost():
                self._membership.lost(self._mine(event.partitions), self._reads.generation or 0)
                self._drop(event.partitions)
            case Noted():
                self._reads.note(event.error)
            case Sent():
                raise self._program.fail(f"the client program wrote {event} about a consumer")

    def _assigned(self, event: Assigned) -> None:
        now_ns = self._reads.now_ns()
        positions = {p: offset for p, offset in event.positions.items() if offset is not None}
        if len(positions) < len(event.positions):
            # Without a position nothing can be judged; the next member asks again.
            self.over = True
        self._reads.generation = event.generation
        self._membership.assigned(positions, event.generation, now_ns)
        self._reads.moved(positions, now_ns)
        self.positions |= positions

    def _mine(self, partitions: Collection[int]) -> list[int]:
        return [partition for partition in partitions if partition in self.positions]

    def _drop(self, partitions: Collection[int]) -> None:
        for partition in partitions:
            self.positions.pop(partition, None)
