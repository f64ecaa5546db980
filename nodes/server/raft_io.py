"""The metadata quorum's shell: carries out what the pure Quorum decides, on one node.

It owns the metadata log, the quorum-state file, the timers and the tasks; `raft_follow` fetches
from the leader, `raft_handlers` answers requests, `raft_delivery` hands committed batches to the
listeners.

Guarantees: actions are carried out in the quorum's order and before any answer leaves, so a vote
is on disk before it counts. Flushes are grouped (what is appended during one shares the next) and
off the loop: a leader with a slow disk commits by the others' disks, a follower with one stops
fetching. A failed write, a broken invariant or a failing listener halts the quorum member at once:
it would no longer know what it has promised.

Left to others: what the records mean, and ending the process of a member that halted (`on_halt`).
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, assert_never

from nodes.ids import NO_EPOCH, Epoch, NodeId, Offset
from nodes.log.batch import Record, encode_batch
from nodes.log.errors import LogOffline
from nodes.log.log import Log
from nodes.raft.election_state import FILE_NAME, ElectionState, decode, encode
from nodes.raft.errors import NotLeader, RaftError
from nodes.raft.messages import (
    Action,
    AppendLeaderChange,
    BecameLeader,
    BeginEpochRequest,
    EndEpochRequest,
    HighWatermarkAdvanced,
    LostLeadership,
    Persist,
    Send,
    Truncate,
    VoteRequest,
)
from nodes.raft.quorum import Quorum
from nodes.raft.timing import QuorumTiming
from nodes.server import raft_wire
from nodes.server.raft_delivery import Delivery, RaftListener
from nodes.server.raft_follow import follow
from nodes.server.raft_handlers import RaftHandlers
from nodes.storage.disk import Disk
from nodes.wire.errors import ChannelError
from nodes.wire.server import Api

DIRECTORY: Final = f"{raft_wire.METADATA_TOPIC}-0"
FAREWELL_S: Final = 0.5
"""How long a leader that stops waits for the others to hear of it."""

log = logging.getLogger("nodes.raft")


class Peer(Protocol):
    """A connection to a voter; `nodes.wire.client.Channel` is one."""

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Raises ChannelError."""

    def close(self) -> None:
        """Idempotent."""


class Halted(RaftError):
    """This node's quorum member stopped for good; the reason is the cause."""


class RaftNode:
    """See the module. `settings` are the quorum's times; `connect` makes a channel to an address.

    `voters` maps each voter to its host and port. `log` is owned from here on, and closed by
    `stop`. Times shown outside are the loop's, in milliseconds.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        cluster_id: str,
        voters: Mapping[NodeId, tuple[str, int]],
        log: Log,
        disk: Disk,
        settings: QuorumTiming,
        rng: random.Random,
        wall_clock: Callable[[], int],
        connect: Callable[[str, int], Peer],
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.voters = dict(voters)
        self.log = log
        self.rng = rng
        self.wall_clock = wall_clock
        self.last_contact_ms: dict[NodeId, float] = {}
        self.halted: Exception | None = None
        self.on_halt: Callable[[Exception], None] | None = None
        others = sorted(voter for voter in voters if voter != node_id)
        # Two connections to each: answers come in order, and a vote must not wait for a long poll.
        self.fetch_peers = {voter: connect(*voters[voter]) for voter in others}
        self._vote_peers = {voter: connect(*voters[voter]) for voter in others}
        self._disk = disk
        self._settings = settings
        self._quorum: Quorum | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._next_task = 0
        self._following: asyncio.Task[None] | None = None
        self._followed: tuple[NodeId | None, Epoch] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._moved: asyncio.Future[None] | None = None
        self._delivery = Delivery(log, self._later)
        self._handlers = RaftHandlers(self)

    # -- what others see

    @property
    def quorum(self) -> Quorum:
        """The state machine. Raises Halted, and RaftError before `start`."""
        if self.halted is not None:
            raise Halted("the quorum member halted") from self.halted
        if self._quorum is None:
            raise RaftError("the quorum member has not been started")
        return self._quorum

    @property
    def listeners(self) -> list[RaftListener]:
        """Told of commits and of leadership, in this order. Add to it before `start`."""
        return self._delivery.listeners

    @property
    def leader_id(self) -> NodeId | None:
        """The quorum's leader as last heard; None when unknown."""
        return None if self._quorum is None or self.halted else self._quorum.leader_id

    @property
    def epoch(self) -> Epoch:
        """The latest quorum epoch heard of."""
        return NO_EPOCH if self._quorum is None else self._quorum.epoch

    @property
    def high_watermark(self) -> Offset:
        """Everything below is known here as committed."""
        return Offset(0) if self._quorum is None else self._quorum.high_watermark

    @property
    def is_active(self) -> bool:
        """Whether this node leads, has committed in its epoch, and has delivered up to there."""
        return self._delivery.active_epoch is not None

    def apis(self) -> dict[int, Api]:
        """The requests served here, by api key, for a Dispatcher."""
        return self._handlers.apis()

    def append(self, records: Sequence[bytes]) -> Offset:
        """Append the records as one batch, all or nothing; the last one's offset.

        Raises NotLeader and MessageTooLarge: nothing was appended. OSError: it may have been.
        """
        epoch = self._led_epoch()
        batch = encode_batch(
            [Record(value=record) for record in records], timestamp_ms=self.wall_clock()
        )
        return self._append(batch, epoch)

    async def committed(self, offset: Offset, epoch: Epoch) -> None:
        """Wait until `offset` is committed and delivered. Raises NotLeader when this node does not
        lead `epoch`, or no longer: the record may still commit, or may be gone."""
        if self._led_epoch() != epoch:
            raise NotLeader(self.leader_id, self.epoch)
        await self._delivery.wait(offset)

    def _led_epoch(self) -> Epoch:
        leads = self.halted is None and self._quorum is not None and self._quorum.leadership
        if not leads:
            raise NotLeader(self.leader_id, self.epoch)
        return leads.epoch

    # -- life

    async def start(self) -> None:
        """Take part. Raises QuorumStateCorrupt, OSError."""
        state = self._load_state()
        self._quorum = Quorum(
            node_id=self.node_id,
            voters=self.voters,
            state=state,
            log=self.log,
            timing=self._settings,
            rng=self.rng,
            now_ms=self.now_ms(),
        )
        self._moved = asyncio.get_running_loop().create_future()
        log.info("starts as %s with %s", self._quorum.role.name, state)
        self.carry_out([])

    def _load_state(self) -> ElectionState:
        path = f"{DIRECTORY}/{FILE_NAME}"
        state = decode(self._disk.read(path)) if self._disk.exists(path) else ElectionState()
        if state.epoch < self.log.last_epoch:
            # The file was lost, the log was not: never be candidate of an epoch that has records.
            log.warning("quorum-state is older than the log: epoch %d", self.log.last_epoch)
            state = ElectionState(epoch=self.log.last_epoch)
        return state

    async def stop(self) -> None:
        """Resign if leader, tell the others, and close the log. Idempotent."""
        if self._quorum is not None and self.halted is None:
            self.carry_out(self._quorum.resign(self.now_ms()))
            farewells = list(self._tasks.values())
            if farewells:
                await asyncio.wait(farewells, timeout=FAREWELL_S)
        if self._flushing is not None:
            await asyncio.wait([self._flushing])
        was_halted, self.halted = self.halted, self.halted or Halted("stopped")
        self._cease()
        self._delivery.lose(NotLeader(None, self.epoch))
        if not was_halted:
            self.log.close()

    def _cease(self) -> None:
        """No more timers, tasks or connections; those who wait are told."""
        if self._timer is not None:
            self._timer.cancel()
        for task in [*self._tasks.values(), self._following]:
            if task is not None:
                task.cancel()
        for peer in [*self.fetch_peers.values(), *self._vote_peers.values()]:
            peer.close()
        self._wake()

    @contextmanager
    def critical(self) -> Iterator[None]:
        """Whatever goes wrong inside leaves the member in doubt: halt it."""
        try:
            yield
        except Exception as error:
            self._halt(error)
            raise

    def _halt(self, error: Exception) -> None:
        if self.halted is not None:
            return
        log.critical("the quorum member halts: %r", error, exc_info=error)
        self.halted = error
        self._cease()
        self._delivery.lose(NotLeader(None, self.epoch))
        if self.on_halt is not None:
            self.on_halt(error)

    # -- carrying out

    def now_ms(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time() * 1000

    def heard_from(self, node: NodeId) -> None:
        """A message of that node arrived."""
        if node in self.voters and node != self.node_id:
            self.last_contact_ms[node] = self.now_ms()

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Do what the quorum decided, in order; then set the timer, and follow who leads now."""
        with self.critical():
            for action in actions:
                self._do(action)
            self._schedule()
            self._retarget()

    def _do(self, action: Action) -> None:
        match action:
            case Persist(state=state):
                self._disk.write_atomic(f"{DIRECTORY}/{FILE_NAME}", encode(state, self.voters))
            case Send(to=to, request=request):
                self._spawn(self._ask(to, request))
            case Truncate(offset=offset):
                log.info("truncates to %d, from %d", offset, self.log.end_offset)
                self.log.truncate_to(offset)
            case AppendLeaderChange():
                record = Record(
                    key=raft_wire.LEADER_CHANGE_KEY, value=raft_wire.leader_change(action)
                )
                batch = encode_batch([record], timestamp_ms=self.wall_clock(), control=True)
                self._append(batch, action.epoch)
            case HighWatermarkAdvanced():
                self._delivery.advance(self.quorum.high_watermark, self.quorum.leadership)
                self._wake()
            case BecameLeader(epoch=epoch):
                log.info("leads epoch %d from offset %d", epoch, self.log.end_offset)
            case LostLeadership(epoch=epoch):
                log.info("leads epoch %d no more", epoch)
                self._delivery.lose(NotLeader(self.leader_id, self.epoch))
                self._wake()
            case _:
                assert_never(action)

    def _append(self, batch: bytes, epoch: Epoch) -> Offset:
        try:
            appended = self.log.append_as_leader(batch, epoch)
        except (OSError, LogOffline) as error:
            self._halt(error)
            raise
        self.flush()
        self._wake()
        return appended.last_offset

    def append_fetched(self, records: bytes) -> None:
        """Append what the leader sent. Raises CorruptBatch, OffsetGap, EpochRegression: nothing
        was appended."""
        try:
            self.log.append_as_follower(records)
        except (OSError, LogOffline) as error:
            self._halt(error)
            raise

    def flush(self) -> "asyncio.Task[None]":
        """The flush that runs, or one begun now; it ends when all that was appended is on disk.

        Shield it when awaiting: others share it.
        """
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())
            self._flushing.add_done_callback(self._ended)
        return self._flushing

    async def _flush(self) -> None:
        while self.log.flushed_offset < self.log.end_offset and self.halted is None:
            try:
                await self.log.flush_async()
            except (OSError, LogOffline) as error:
                self._halt(error)
                return
            if self.halted is None:
                self.carry_out(self.quorum.log_advanced())

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.quorum.next_deadline_ms()
        if deadline_ms != float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(deadline_ms / 1000, self._tick)

    def _tick(self) -> None:
        self.carry_out(self.quorum.tick(self.now_ms()))

    def _retarget(self) -> None:
        """Keep one fetch task for the leader and epoch that are now; an observer always has one."""
        quorum = self.quorum
        target = quorum.fetch_target(self.now_ms())
        wanted = (quorum.leader_id, quorum.epoch) if target or not quorum.is_voter else None
        if wanted == self._followed:
            return
        if self._following is not None:
            self._following.cancel()
            self._following = None
        self._followed = wanted
        if wanted is not None:
            self._following = asyncio.get_running_loop().create_task(follow(self))
            self._following.add_done_callback(self._ended)

    # -- talking

    def _spawn(self, job: Coroutine[Any, Any, None]) -> None:
        self._next_task += 1
        number = self._next_task
        task = asyncio.get_running_loop().create_task(job)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """A task that failed, rather than being cancelled, takes the member with it."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._halt(error)

    async def _ask(
        self, to: NodeId, request: VoteRequest | BeginEpochRequest | EndEpochRequest
    ) -> None:
        entity = raft_wire.write_request(request, self.cluster_id, to)
        try:
            response = await self._vote_peers[to].request(entity)
            self.heard_from(to)
            match request:
                case VoteRequest():
                    vote = raft_wire.read_vote_answer(response)
                    decide = self.quorum.on_vote_answer(self.now_ms(), to, request, vote)
                case BeginEpochRequest() | EndEpochRequest():
                    answer = raft_wire.read_answer(response)
                    decide = self.quorum.on_answer(self.now_ms(), answer)
                case _:
                    assert_never(request)
            self.carry_out(decide)
        except ChannelError:
            pass  # the quorum's timers ask again
        except raft_wire.BadAnswer as error:
            log.warning("voter %d refuses a request: %s", to, error)

    # -- waking

    def _later(self, do: Callable[[], None]) -> None:
        def run() -> None:
            if self.halted is None:
                with self.critical():
                    do()

        asyncio.get_running_loop().call_soon(run)

    def moved(self) -> "asyncio.Future[None]":
        """Done when the log, the high watermark or the leadership next moves."""
        assert self._moved is not None
        return self._moved

    def _wake(self) -> None:
        if self._moved is not None and not self._moved.done():
            self._moved.set_result(None)
            self._moved = self._moved.get_loop().create_future()
