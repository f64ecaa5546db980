"""Observes a simulated run: the values that were sent to each node, the result of each request,
which node led with which log, which processes ended and which connections were reset.

Methods of clients and nodes are wrapped during the run: each wrapper calls the method and records
the result. It draws no random number, sets no timer and sends nothing, so a run has the same trace
with and without it. Times are ns since the run began.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.simulation.invariants.partition_history import Batch
from harness.simulation.invariants.replicas import ReplicaChecker
from harness.simulation.run import Simulation
from harness.simulation.world.host import Host
from harness.simulation.world.network.tcp import Socket
from harness.workloads.clients.own.partition_queue import Message
from harness.workloads.clients.own.producer import Producer
from harness.workloads.clients.payload import peek_value
from nodes.log.batch import decode_records
from nodes.replication.partition import Role
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.requests.produce import ProduceHandler

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A client handed a batch to its connection to `node`, which it held for the leader of `epoch`.

    before: the batches that it had handed to the same connection before."""

    at_ns: int
    node: int
    epoch: int
    socket: int
    values: tuple[int, ...]
    before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """A node decided about a batch: error is the name of an error code, or `none`.

    epoch: of the partition as the node had it; None where it has no replica of it. leads: what else
    the node led, where it refused the batch.
    """

    at_ns: int
    node: int
    epoch: int | None
    error: str
    values: tuple[int, ...]
    base_offset: int
    leads: frozenset[Partition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """A node began to lead; last: the last batch that it had, which knows those before it."""

    at_ns: int
    node: int
    epoch: int
    last: Batch | None


@dataclass(slots=True, kw_only=True)
class Observations:
    """Everything that was observed."""

    posted: dict[Partition, list[Posted]] = field(default_factory=lambda: defaultdict(list))
    handled: dict[Partition, list[Handled]] = field(default_factory=lambda: defaultdict(list))
    led: dict[Partition, dict[int, Led]] = field(default_factory=lambda: defaultdict(dict))
    """By leader epoch."""
    elected: dict[Partition, dict[int, int]] = field(default_factory=dict)
    """The leader of each leader epoch, from the metadata."""
    ended: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """When each node's programs ended."""
    reset: dict[int, int] = field(default_factory=dict)
    """When somebody reset a connection, by the number of the client's socket."""
    held_up: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """When segments of a socket did not get through."""


class Witness:
    """See the module. Observes the network of `simulation`, too (`sim.observer.Observer`)."""

    def __init__(self, simulation: Simulation) -> None:
        self.seen = Observations()
        self._simulation = simulation
        self._world = simulation.world
        self._base_ns = simulation.world.now_ns
        self._topics = {topic.name for topic in simulation.recording.prepared.plan.topics}
        self._posts: dict[int, int] = defaultdict(int)
        simulation.cluster.network.observer = self

    def _now_ns(self) -> int:
        return self._world.now_ns - self._base_ns

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Wrap the observed methods, and unwrap them at the end."""
        with ExitStack() as stack:
            for kind, name, wrapper in (
                (Producer, "_request", self._of_request),
                (ProduceHandler, "_produce", self._of_produce),
                (ReplicaChecker, "_check_role", self._of_role),
                (Socket, "reset_both_ends", self._of_reset),
            ):
                plain = getattr(kind, name)
                stack.callback(setattr, kind, name, plain)
                setattr(kind, name, wrapper(plain))
            yield
        assert self._simulation.invariants is not None
        for partition in self._simulation.invariants.images.partitions.values():
            topic, _, number = partition.history.name.rpartition("-")
            self.seen.elected[topic, int(number)] = dict(partition.history.leaders)

    def _of_request(self, plain: Callable[..., bool]) -> Callable[..., bool]:
        def request(producer: Any, link: Any, node: int, sent: Sequence[Any]) -> bool:
            connection = link._connection
            transport = None if connection is None else connection.transport
            left = plain(producer, link, node, sent)
            if transport is not None and left:
                for partition, batch in sent:
                    leader = producer._cluster._leaders.get(partition)
                    place = producer._cluster.topic, partition
                    self._posted(place, node, leader, transport, batch.messages)
            return left

        return request

    def _posted(
        self, place: Partition, node: int, leader: Any, transport: Any, messages: Sequence[Message]
    ) -> None:
        number = transport.number
        self.seen.posted[place].append(
            Posted(
                at_ns=self._now_ns(),
                node=node,
                epoch=-1 if leader is None else leader.epoch,
                socket=number,
                values=tuple(peek_value(message.payload) for message in messages),
                before=self._posts[number],
            )
        )
        self._posts[number] += 1

    def _of_produce(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        def produce(handler: Any, request: Any, part: Any, acks: int, context: Any) -> Any:
            made = plain(handler, request, part, acks, context)
            if part.partition is not None and part.partition.topic in self._topics:
                replica = handler._replicas.find(part.partition)
                refused = made.error.name != "none"
                self.seen.handled[part.partition.topic, part.partition.partition].append(
                    Handled(
                        at_ns=self._now_ns(),
                        node=handler._replicas._config.node_id,
                        epoch=None if replica is None else replica.state.leader_epoch,
                        error=made.error.name,
                        values=_values(part.records),
                        base_offset=int(made.base_offset),
                        leads=_led_by(handler._replicas) if refused else frozenset(),
                    )
                )
            return made

        return produce

    def _of_role(self, plain: Callable[..., str]) -> Callable[..., str]:
        def check_role(watched: Any, state: Any, image: Any) -> str:
            if state.role is Role.LEADER:
                name = watched.replica.partition
                led = Led(
                    at_ns=self._now_ns(),
                    node=watched._node,
                    epoch=int(state.leader_epoch),
                    last=watched.copy.last,
                )
                self.seen.led[name.topic, name.partition].setdefault(led.epoch, led)
            return plain(watched, state, image)

        return check_role

    def _of_reset(self, plain: Callable[..., bool]) -> Callable[..., bool]:
        def reset_both_ends(socket: Any) -> bool:
            there_was = plain(socket)
            if there_was:
                for end in (socket, socket.peer):
                    self.seen.reset.setdefault(end.number, self._now_ns())
            return there_was

        return reset_both_ends

    # -- what the network tells

    def sent(self, socket: Socket, number: int, data: bytes) -> None:
        """See the protocol."""

    def held_up(self, socket: Socket, number: int) -> None:
        """See the protocol."""
        self.seen.held_up[socket.number].append(self._now_ns())

    def arrived(self, socket: Socket, number: int) -> None:
        """See the protocol."""

    def noted(self, host: Host, what: str) -> None:
        """See the protocol."""
        if what != "boot":
            self.seen.ended[host.number].append(self._now_ns())


def _led_by(replicas: ReplicaManager) -> frozenset[Partition]:
    leading = (each for each in replicas.all() if each.state.role is Role.LEADER)
    return frozenset((each.partition.topic, each.partition.partition) for each in leading)


def _values(records: bytes | None) -> tuple[int, ...]:
    found = decode_records(records or b"")
    return tuple(peek_value(each.value) for each in found if each.value is not None)
