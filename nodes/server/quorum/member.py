"""A running member of the metadata quorum: it carries out what the pure Quorum decides.

It owns the metadata log, the quorum-state file, the timers and the tasks. `quorum_node` joins it
with the request handlers, the fetch loop and the snapshot writer, which this module does not know.

Guarantees: the actions are carried out in the quorum's order and before any response is sent, so a
vote is on disk before it counts. Flushes are grouped (what is appended during a flush shares the
next one) and run off the loop: a leader with a slow disk commits by the disks of the others, and a
follower with a slow disk stops fetching. A failed write, a broken invariant or a failing listener
halts the member at once, because it would no longer know what it has promised.

Left to others: requests, the meaning of the records, and ending the process of a member that halted
(`on_halt`).
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Final, assert_never
from uuid import UUID

from nodes.ids import NO_EPOCH, Epoch, NodeId, Offset
from nodes.log.batch import encode_batch
from nodes.log.errors import LogOffline
from nodes.raft.control_records import (
    DYNAMIC_KRAFT_VERSION,
    ControlMessage,
    kraft_version,
    leader_change,
    record_of,
    voters_record,
)
from nodes.raft.election_state import FILE_NAME, ElectionState, decode, encode
from nodes.raft.epochs import credible_state
from nodes.raft.errors import ControlRecordError, NotLeader, RaftError
from nodes.raft.messages import (
    Action,
    AppendLeaderChange,
    AppendVoters,
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
from nodes.raft.snapshot import Snapshot
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import Voter, VoterEndpoint, VoterSet
from nodes.server.quorum import translation
from nodes.server.quorum.delivery import Delivery, RaftListener
from nodes.server.quorum.metadata_log import MetadataLog
from nodes.server.quorum.peers import Address, PeerChannel, PeerChannels
from nodes.storage.disk import Disk
from nodes.wire.errors import ChannelError

DIRECTORY: Final = f"{translation.METADATA_TOPIC}-0"
RESIGN_WAIT_S: Final = 0.5
"""How long a leader that stops waits until its resignation is sent to the others."""

log = logging.getLogger("nodes.raft")

VoterMessage = VoteRequest | BeginEpochRequest | EndEpochRequest


class Halted(RaftError):
    """This node's quorum member stopped for good; `__cause__` is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """Who this member is. `voters` are the configured ones, with host and port; `bootstrap` are
    addresses to ask for the leader (controller.quorum.bootstrap.servers)."""

    node_id: NodeId
    directory_id: UUID | None
    cluster_id: str
    voters: Mapping[NodeId, Address]
    bootstrap: tuple[Address, ...]
    listener: str = "CONTROLLER"
    """The controllers' listener."""
    endpoints: tuple[VoterEndpoint, ...]
    """This node's own, that the others reach it at."""
    timing: QuorumTiming


class QuorumMember:
    """See the module. `fetch_loop` is the endless job that fetches from the leader."""

    def __init__(
        self,
        config: MemberConfig,
        *,
        log: MetadataLog,
        snapshot: Snapshot | None,
        disk: Disk,
        rng: random.Random,
        wall_clock: Callable[[], int],
        connect: Callable[[str, int], PeerChannel],
        fetch_loop: Callable[["QuorumMember"], Coroutine[Any, Any, None]],
    ) -> None:
        self.config = config
        self.log = log
        self.rng = rng
        self.wall_clock = wall_clock
        self.last_contact_ms: dict[NodeId, float] = {}
        self.halted: Exception | None = None
        self.on_halt: Callable[[Exception], None] | None = None
        self.peers = PeerChannels(config.voters, connect)
        self.peers.set_voters(log.voters)
        self.delivery = Delivery(log, self._call_soon)
        self._snapshot = snapshot
        self._fetch_loop = fetch_loop
        self._disk = disk
        self._quorum: Quorum | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = inf
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._next_task = 0
        self._fetch_task: asyncio.Task[None] | None = None
        self._fetch_target: tuple[NodeId | None, Epoch] | None = None
        self._flush_task: asyncio.Task[None] | None = None
        self._change: asyncio.Future[None] | None = None

    # -- state

    @property
    def quorum(self) -> Quorum:
        """The state machine. Raises Halted after a halt, and RaftError before `start`."""
        if self.halted is not None:
            raise Halted("the quorum member halted") from self.halted
        if self._quorum is None:
            raise RaftError("the quorum member has not been started")
        return self._quorum

    @property
    def listeners(self) -> list[RaftListener]:
        """The listeners, in the order of notification. Add to the list before `start`."""
        return self.delivery.listeners

    @property
    def leader_id(self) -> NodeId | None:
        """The quorum's leader as this node knows it; None if unknown."""
        return None if self._quorum is None or self.halted else self._quorum.leader_id

    @property
    def epoch(self) -> Epoch:
        """The latest quorum epoch that this node knows."""
        return NO_EPOCH if self._quorum is None else self._quorum.epoch

    @property
    def high_watermark(self) -> Offset:
        """Everything below this offset is committed, as far as this node knows."""
        return Offset(0) if self._quorum is None else self._quorum.high_watermark

    # -- start and stop

    async def start(self) -> None:
        """Join the quorum. Raises QuorumStateCorrupt, OSError."""
        state = self._load_state()
        self._quorum = Quorum(
            node_id=self.config.node_id,
            directory_id=self.config.directory_id,
            state=state,
            log=self.log,
            timing=self.config.timing,
            rng=self.rng,
            now_ms=self.now_ms(),
        )
        self._change = asyncio.get_running_loop().create_future()
        log.info("starts as %s with %s", self._quorum.role.name, state)
        if self._snapshot is not None:
            with self.critical():
                self.delivery.restore(self._snapshot)
            self._snapshot = None
        self.carry_out([])

    def _load_state(self) -> ElectionState:
        path = f"{DIRECTORY}/{FILE_NAME}"
        state = decode(self._disk.read(path)) if self._disk.exists(path) else ElectionState()
        if state.epoch < self.log.last_epoch:
            # The file was lost, but not the log: never be a candidate in an epoch with records.
            log.warning("quorum-state is older than the log: epoch %d", self.log.last_epoch)
            state = ElectionState(epoch=self.log.last_epoch)
        credible = credible_state(state, self.log.last_epoch)
        if credible != state:
            log.warning("quorum-state holds an impossible epoch: %s, not %s", credible, state)
        return credible

    async def stop(self) -> bool:
        """Resign if leader, notify the others, and close the log. Idempotent.

        Returns false if the member had halted before.
        """
        if self._quorum is not None and self.halted is None:
            self.carry_out(self._quorum.resign(self.now_ms()))
            sends = list(self._tasks.values())
            if sends:
                await asyncio.wait(sends, timeout=RESIGN_WAIT_S)
        if self._flush_task is not None:
            await asyncio.wait([self._flush_task])
        was_halted, self.halted = self.halted, self.halted or Halted("stopped")
        self._cancel_all()
        self.delivery.leadership_lost(NotLeader(None, self.epoch))
        if not was_halted:
            self.log.close()
        return not was_halted

    def _cancel_all(self) -> None:
        """Cancel the timer and the tasks, close the channels, and wake what waits for a change."""
        if self._timer is not None:
            self._timer.cancel()
        for task in [*self._tasks.values(), self._fetch_task]:
            if task is not None:
                task.cancel()
        self.peers.close()
        self._notify_change()

    @contextmanager
    def critical(self) -> Iterator[None]:
        """Halt the member if the body raises: its state would be in doubt."""
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
        self._cancel_all()
        self.delivery.leadership_lost(NotLeader(None, self.epoch))
        if self.on_halt is not None:
            self.on_halt(error)

    # -- carrying out

    def now_ms(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time() * 1000

    def record_contact(self, node: NodeId) -> None:
        """Record the time of a message from `node`."""
        if node in self.quorum.voters.ids and node != self.config.node_id:
            self.last_contact_ms[node] = self.now_ms()

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Carry out what the quorum decided, in order.

        Then set the timer, and fetch from the leader of now.
        """
        with self.critical():
            for action in actions:
                self._execute(action)
            self.peers.set_voters(self.log.voters)
            self._schedule()
            self._update_fetch_task()

    def _execute(self, action: Action) -> None:
        match action:
            case Persist(state=state):
                data = encode(state, self.log.voters)
                self._disk.write_atomic(f"{DIRECTORY}/{FILE_NAME}", data)
            case Send(to=to, request=request):
                self.spawn(self._send(to, request))
            case Truncate(offset=offset):
                log.info("truncates to %d, from %d", offset, self.log.end_offset)
                self.log.truncate_to(offset)
                self.carry_out(self.quorum.log_advanced(self.now_ms()))
            case AppendLeaderChange(epoch=epoch):
                self._append_control([leader_change(action)], epoch)
            case AppendVoters(epoch=epoch, voters=voters, first=first):
                log.info("appends the voters %s", [tuple(v.key) for v in voters.voters])
                messages: list[ControlMessage] = [voters_record(voters)]
                if first:
                    messages.insert(0, kraft_version(DYNAMIC_KRAFT_VERSION))
                self._append_control(messages, epoch)
                self.carry_out(self.quorum.log_advanced(self.now_ms()))
            case HighWatermarkAdvanced():
                self.delivery.advance(self.quorum.high_watermark, self.quorum.leadership)
                self._notify_change()
            case BecameLeader(epoch=epoch):
                log.info("leads epoch %d from offset %d", epoch, self.log.end_offset)
            case LostLeadership(epoch=epoch):
                log.info("leads epoch %d no more", epoch)
                self.delivery.leadership_lost(NotLeader(self.leader_id, self.epoch))
                self._notify_change()
            case _:
                assert_never(action)

    def _append_control(self, messages: Sequence[ControlMessage], epoch: Epoch) -> None:
        records = [record_of(message) for message in messages]
        batch = encode_batch(records, timestamp_ms=self.wall_clock(), control=True)
        self.append_batch(batch, epoch)

    def append_batch(self, batch: bytes, epoch: Epoch) -> Offset:
        """Append one batch as the leader of `epoch`; return its last offset.

        Raises MessageTooLarge, OSError, LogOffline.
        """
        try:
            appended = self.log.append_as_leader(batch, epoch)
        except (OSError, LogOffline) as error:
            self._halt(error)
            raise
        self.flush()
        self._notify_change()
        return appended.last_offset

    def append_fetched(self, records: bytes, high_watermark: Offset) -> None:
        """Append the records of the leader's response, and follow its high watermark.

        Raises CorruptBatch, OffsetGap, EpochRegression: nothing was appended.
        """
        if records:
            try:
                self.log.append_as_follower(records)
            except (OSError, LogOffline, ControlRecordError) as error:
                self._halt(error)
                raise
        self.carry_out(self.quorum.appended_as_follower(self.now_ms(), high_watermark))

    def install(self, snapshot: Snapshot) -> None:
        """Replace the log by a snapshot that was fetched from the leader."""
        log.info("the log restarts after the leader's snapshot %s", snapshot.snapshot_id)
        with self.critical():
            self.log.install(snapshot, configured_voters(self.config))
            self.delivery.restore(snapshot)
        self.carry_out(self.quorum.installed_snapshot(self.now_ms()))

    def flush(self) -> "asyncio.Task[None]":
        """Return the running flush, or start one. It ends when all that was appended is on disk.

        Shield it when awaiting it, because others share it.
        """
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = asyncio.get_running_loop().create_task(self._flush())
            self._flush_task.add_done_callback(self._task_ended)
        return self._flush_task

    async def _flush(self) -> None:
        while self.log.flushed_offset < self.log.end_offset and self.halted is None:
            try:
                await self.log.flush_async()
            except (OSError, LogOffline) as error:
                self._halt(error)
                return
            if self.halted is None:
                self.carry_out(self.quorum.log_advanced(self.now_ms()))

    def _schedule(self) -> None:
        """Set the timer for the quorum's deadline. A timer that would fire earlier is kept."""
        due_s = self.quorum.next_deadline_ms() / 1000
        if due_s < self._timer_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_s = due_s
            self._timer = asyncio.get_running_loop().call_at(due_s, self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_s = None, inf
        self.carry_out(self.quorum.tick(self.now_ms()))

    def _update_fetch_task(self) -> None:
        """Keep one fetch task for the current leader and epoch; an observer always has one."""
        quorum = self.quorum
        target = quorum.fetch_target(self.now_ms())
        fetches = target is not None or not quorum.is_voter
        wanted = (quorum.leader_id, quorum.epoch) if fetches else None
        if wanted == self._fetch_target:
            return
        if self._fetch_task is not None:
            self._fetch_task.cancel()
            self._fetch_task = None
        self._fetch_target = wanted
        if wanted is not None:
            self._fetch_task = asyncio.get_running_loop().create_task(self._fetch_loop(self))
            self._fetch_task.add_done_callback(self._task_ended)

    # -- requests to other members

    def spawn(self, job: Coroutine[Any, Any, None]) -> None:
        """Run a background task; it is cancelled when the member stops or halts."""
        self._next_task += 1
        number = self._next_task
        task = asyncio.get_running_loop().create_task(job)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        """Halt the member if the task failed (and was not cancelled)."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._halt(error)

    async def _send(self, to: NodeId, request: VoterMessage) -> None:
        peer = self.peers.vote_channel(to)
        if peer is None:
            return
        own = self.config.endpoints
        entity = translation.write_request(request, self.config.cluster_id, to, own)
        try:
            response = await peer.request(entity)
            self.handle_contact(to, response)
            match request:
                case VoteRequest():
                    vote = translation.read_vote_answer(response)
                    decide = self.quorum.on_vote_response(self.now_ms(), to, request, vote)
                case BeginEpochRequest() | EndEpochRequest():
                    answer = translation.read_answer(response)
                    decide = self.quorum.on_response(self.now_ms(), answer)
                case _:
                    assert_never(request)
            self.carry_out(decide)
        except ChannelError:
            pass  # the quorum's timers ask again
        except translation.InvalidResponse as error:
            log.warning("voter %d refused a request: %s", to, error)

    def handle_contact(self, sender: NodeId | None, response: Any) -> None:
        """A response arrived: record the contact, and the leader's address if it names it."""
        if sender is not None:
            self.record_contact(sender)
        found = translation.leader_endpoint(response)
        if found is not None:
            self.peers.set_address(*found)

    # -- waiting for a change

    def _call_soon(self, do: Callable[[], None]) -> None:
        def run() -> None:
            if self.halted is None:
                with self.critical():
                    do()

        asyncio.get_running_loop().call_soon(run)

    def next_change(self) -> "asyncio.Future[None]":
        """A future that is done when the log, the high watermark or the leadership changes."""
        assert self._change is not None
        return self._change

    def _notify_change(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
            self._change = self._change.get_loop().create_future()


def configured_voters(config: MemberConfig) -> VoterSet:
    """The voters of the configuration: ids and addresses, without directory ids."""
    return VoterSet.of(
        Voter(
            node_id=node,
            endpoints=(VoterEndpoint(config.listener, host, port),),
        )
        for node, (host, port) in config.voters.items()
    )
