"""What a coordinator is: a state machine for one partition of an internal topic.

The broker that leads the partition runs the machine. The shell (`nodes.server.coordinators`)
replays the partition's records when the broker becomes the leader, and forgets the machine when it
is the leader no more.

The rule that holds everything together: what a coordinator remembers is a function of the log.
An operation decides, and returns Effects. It does not change what is remembered. The shell appends
the records as one batch (see `Effects`), and then calls `replay` for each, as it does when it loads
the log. If the append fails, none of the batch was replayed, and the shell loads the machine anew.

Only the state that Kafka does not write either may change in an operation: who waits in a
rebalance, when a session ends. It is lost with the leadership, and `loaded` makes it anew.

Every answer, also of a read, waits until the high watermark covers the log's end at the time of its
operation, in the same leader epoch (KAFKA-20634). So nobody is told what a later leader does not
know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NewType, Protocol

from nodes.coordinators.records import CoordinatorRecord
from nodes.ids import Offset

Token = NewType("Token", int)
"""A request that waits for its answer."""

Answer = Mapping[str, Any]
"""The fields of a response, as `nodes.wire.versions.respond` takes them."""


class Now(NamedTuple):
    """The time of an operation."""

    ms: float
    """Monotonic milliseconds: for sessions and time-outs."""
    wall_ms: int
    """Wall-clock milliseconds: for what is written, and for expiry."""


class ProducerStamp(NamedTuple):
    """The producer of a transactional batch."""

    producer_id: int
    epoch: int


class Position(NamedTuple):
    """Where a record comes from."""

    offset: Offset
    timestamp: int
    """Wall-clock milliseconds."""
    producer: ProducerStamp | None
    """Set for a record of a transaction that has not ended yet."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What an operation wants: records to append as one batch, and answers to give after it.

    `producer` makes the batch a part of that producer's transaction. An operation whose answer must
    wait for another event (a rebalance, say) leaves it out; a later operation gives it.

    `separable`: each record stands alone. If they do not fit into one batch, they become several.
    """

    records: tuple[CoordinatorRecord, ...] = ()
    answers: tuple[tuple[Token, Answer], ...] = ()
    producer: ProducerStamp | None = None
    separable: bool = False


class Machine(Protocol):
    """A coordinator's state machine. `replay` and `end_transaction` alone change what is kept."""

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        """Apply a record of the log, in the log's order. Raises RecordError."""
        ...

    def end_transaction(self, producer: ProducerStamp, position: Position, *, commit: bool) -> None:
        """Apply a transaction's marker: the producer's records in this log count, or never did."""
        ...

    def loaded(self, now: Now) -> Effects:
        """The whole log was replayed, and this broker leads: begin to serve."""
        ...

    def deadline_ms(self) -> float | None:
        """When `tick` is due (monotonic milliseconds); None if nothing is awaited."""
        ...

    def tick(self, now: Now) -> Effects:
        """Do what is due: end sessions and rebalances, expire what is too old."""
        ...

    def abandoned(self, token: Token) -> None:
        """The request `token` waits no more: its connection ended, or it timed out."""
        ...
