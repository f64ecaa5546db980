"""A deterministic network of pure quorum members, with faults, that checks safety at every step.

Virtual milliseconds, one seeded generator, no sockets. Messages are dropped, delayed (and so
reordered) and duplicated; links are cut one way; nodes crash in the middle of their actions, lose
what they had not flushed, and restart from what they had persisted; they take snapshots and forget
the log before them, lose their whole disk, leave and join the voters. `Violation` names the broken
invariant.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from nodes.ids import Epoch, NodeId, Offset
from nodes.raft.election_state import ElectionState
from nodes.raft.errors import InvariantBroken
from nodes.raft.membership import VoterChangeRefused
from nodes.raft.messages import (
    Action,
    AppendLeaderChange,
    AppendVoters,
    BecameLeader,
    BeginEpochRequest,
    EndEpochRequest,
    FetchOutcome,
    FetchRequest,
    FetchResponse,
    HighWatermarkAdvanced,
    LostLeadership,
    Persist,
    Response,
    Send,
    Truncate,
    VoteRequest,
    VoteResponse,
)
from nodes.raft.quorum import Quorum
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from tests.support.nodes.memory_log import Entry, MemoryLog

FETCH_PAUSE_MS = 40.0
REQUEST_TIMEOUT_MS = 300.0
TIMING = QuorumTiming(fetch_timeout_ms=600, election_timeout_ms=300, election_backoff_max_ms=300)


class Violation(AssertionError):
    """A safety invariant does not hold."""


@dataclass(slots=True)
class Node:
    """One machine: what survives a crash (`log`, `disk`), and the member running on it, if any."""

    node_id: NodeId
    log: MemoryLog
    disk: ElectionState
    directory_id: UUID
    quorum: Quorum | None = None
    life: int = 0
    fetching: bool = False
    flushing: bool = False
    turn: int = 0

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How bad the network is."""

    drop: float = 0.0
    duplicate: float = 0.0
    delay_ms: float = 20.0
    crash_in_action: float = 0.0
    flush_ms: float = 30.0


class Network:
    """`voters` members numbered from 1, then `observers` more."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        observers: int = 1,
        weather: Weather | None = None,
        quorum_class: type[Quorum] = Quorum,
        persists: bool = True,
        flushes_first: bool = True,
        wiped_keep_directory: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 0.0
        self.weather = weather or Weather()
        self.quorum_class = quorum_class
        self.persists = persists
        self.flushes_first = flushes_first
        self.wiped_keep_directory = wiped_keep_directory
        self.voters = [NodeId(n) for n in range(1, voters + 1)]
        self.configured = VoterSet.static(self.voters)
        self.nodes = {
            NodeId(n): Node(
                NodeId(n), MemoryLog([], self.configured), ElectionState(), self._directory()
            )
            for n in range(1, voters + observers + 1)
        }
        self.cut: dict[tuple[NodeId, NodeId], bool] = {}
        self.leaders: dict[Epoch, NodeId] = {}
        self.committed: list[Entry] = []
        self.appended = 0
        self.elections = 0
        self.truncations = 0
        self.lost: dict[ReplicaKey, list[Entry]] = {}
        self.installs = 0
        self.wipes = 0
        self.changes = 0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        for node in self.nodes.values():
            self.start(node)

    # -- running

    def at(self, delay_ms: float, do: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._sequence, do))

    def run(self, for_ms: float) -> None:
        """Let `for_ms` virtual milliseconds pass."""
        end = self.now_ms + for_ms
        while self._heap and self._heap[0][0] <= end:
            self.now_ms, _, do = heapq.heappop(self._heap)
            try:
                do()
            except InvariantBroken as error:
                raise Violation(f"{type(error).__name__}: {error}") from error
        self.now_ms = end

    def start(self, node: Node) -> None:
        """Start a member on what its disk holds; what recovery found is flushed first."""
        node.life += 1
        node.fetching = node.flushing = False
        node.log.flushed = len(node.log.entries)
        node.quorum = self.quorum_class(
            node_id=node.node_id,
            directory_id=node.directory_id,
            state=node.disk,
            log=node.log,
            timing=TIMING,
            rng=random.Random(self.rng.random()),
            now_ms=self.now_ms,
        )
        self._poll(node, node.life)

    def crash(self, node: Node, *, power_loss: bool = True) -> None:
        """Stop at once. A power loss takes a random part of what was not flushed."""
        node.quorum = None
        node.life += 1
        if power_loss:
            node.log.truncate(self.rng.randint(node.log.flushed, len(node.log.entries)))

    def _directory(self) -> UUID:
        return UUID(int=self.rng.getrandbits(128))

    def wipe(self, node: Node) -> None:
        """It loses its disk, and comes back with an empty one: on another directory.

        Once the voters have changed, the first configuration names the wrong ones; it must join by
        bootstrap servers then. So it does at times before.
        """
        self.crash(node, power_loss=False)
        self.wipes += 1
        self.lost[node.key] = node.log.entries[: node.log.flushed]
        keeps = self.changes == 0 and self.rng.random() < 0.5
        node.log = MemoryLog([], self.configured if keeps else VoterSet())
        node.disk = ElectionState()
        if not self.wiped_keep_directory:
            node.directory_id = self._directory()
        self.start(node)

    def may_wipe(self, node: Node) -> bool:
        """Whether every voter has the recorded voters on disk, and no other one is empty."""
        recorded = [n for n in self.nodes.values() if not n.log.voters.is_static]
        fresh = [n for n in self.nodes.values() if n is not node and not n.log.entries]
        if fresh or not recorded:
            return False
        newest = max(recorded, key=lambda n: n.log.voters_offset).log
        members = [n for n in self.nodes.values() if newest.voters.has(n.key)]
        settled = all(n.log.voters_offset == newest.voters_offset < n.log.flushed for n in members)
        left = [n for n in members if n is not node]
        return settled and len(left) >= newest.voters.majority

    def change_voters(self) -> None:
        """Have the leader remove a voter, or add a replica, as it allows."""
        leader = self.leader()
        if leader is None or leader.quorum is None:
            return
        quorum = leader.quorum
        absent = [n for n in self.nodes.values() if not quorum.voters.has(n.key)]
        gone = [v.key for v in quorum.voters.voters if self.nodes[v.node_id].key != v.key]
        try:
            if gone:
                actions = quorum.remove_voter(gone[0])
            elif absent and self.rng.random() < 0.7:
                node = self.rng.choice(absent)
                place = (VoterEndpoint("CONTROLLER", "node", node.node_id),)
                voter = Voter(node_id=node.node_id, directory_id=node.directory_id, endpoints=place)
                actions = quorum.add_voter(self.now_ms, voter)
            elif len(quorum.voters.voters) > 2:
                actions = quorum.remove_voter(self.rng.choice(quorum.voters.voters).key)
            else:
                return
        except VoterChangeRefused:
            return
        self.changes += 1
        self._do(leader, actions)

    def heal(self) -> None:
        """No more faults; everybody runs."""
        self.cut.clear()
        self.weather = Weather()
        for node in self.nodes.values():
            if node.quorum is None:
                self.start(node)

    def leader(self) -> Node | None:
        """The running leader of the newest epoch."""
        leading = [n for n in self.nodes.values() if n.quorum and n.quorum.leadership]
        return max(leading, key=lambda n: n.quorum.epoch if n.quorum else -1, default=None)

    def append(self, node: Node) -> bool:
        """Append one unique record there, if it leads."""
        if node.quorum is None or node.quorum.leadership is None:
            return False
        self.appended += 1
        node.log.entries.append((node.quorum.epoch, self.appended))
        self._flush(node)
        self._do(node, node.quorum.log_advanced(self.now_ms))
        return True

    # -- what QuorumMember does

    def _poll(self, node: Node, life: int) -> None:
        """The member's timers and fetch loop, as one short poll."""
        if node.life != life or node.quorum is None:
            return
        self.at(self.rng.uniform(5, 15), lambda: self._poll(node, life))
        self._do(node, node.quorum.tick(self.now_ms))
        if node.life == life and not node.fetching:
            self._fetch(node)

    def _fetch(self, node: Node) -> None:
        quorum = node.quorum
        assert quorum is not None
        target = quorum.fetch_target(self.now_ms)
        if target is None and not quorum.is_voter:
            node.turn += 1
            known = [v for v in quorum.voters.ids or self.voters if v != node.node_id]
            target = known[node.turn % len(known)]
        if target is None:
            return
        if self.flushes_first and node.log.flushed < len(node.log.entries):
            self._flush(node)
            return
        life, leader = node.life, target
        request = quorum.fetch_request()
        node.fetching = True

        def again() -> None:
            if node.life == life:
                node.fetching = False

        self.at(REQUEST_TIMEOUT_MS, again)
        self._deliver(node, leader, lambda peer: self._serve_fetch(peer, node, life, request))

    def _serve_fetch(self, leader: Node, node: Node, life: int, request: FetchRequest) -> None:
        assert leader.quorum is not None
        leader_life = leader.life
        answer, actions = leader.quorum.on_fetch(self.now_ms, request)
        self._do(leader, actions)
        if leader.life != leader_life:
            return
        records: list[Entry] = []
        if answer.plain:
            assert request.offset >= leader.log.start_offset, "nobody reads below the start"
            records = leader.log.entries[request.offset : request.offset + self.rng.randint(1, 5)]
        sender = leader.node_id
        content = leader.log.entries[: answer.snapshot.offset] if answer.snapshot else []

        def back(to: Node) -> None:
            if to.life == life:
                self._fetched(to, sender, request, answer, records or content)

        self._deliver(leader, node.node_id, back)

    def _fetched(
        self,
        node: Node,
        sender: NodeId,
        request: FetchRequest,
        answer: FetchResponse,
        records: list[Entry],
    ) -> None:
        assert node.quorum is not None
        life = node.life
        outcome, actions = node.quorum.on_fetch_response(self.now_ms, sender, request, answer)
        self._do(node, actions)
        if node.life != life:
            return
        if outcome is FetchOutcome.APPEND:
            node.log.entries.extend(records)
            self._flush(node)
            hw = answer.high_watermark
            self._do(node, node.quorum.appended_as_follower(self.now_ms, hw))
        elif outcome is FetchOutcome.SNAPSHOT and answer.snapshot is not None:
            self.installs += 1
            node.log.install(answer.snapshot, records)
            self._do(node, node.quorum.installed_snapshot(self.now_ms))

        def again() -> None:
            if node.life == life:
                node.fetching = False

        self.at(0.0 if records else FETCH_PAUSE_MS, again)

    def _flush(self, node: Node) -> None:
        """What is in the log now will be durable a while later."""
        if node.flushing:
            return
        node.flushing = True
        life, end = node.life, len(node.log.entries)

        def done() -> None:
            if node.life != life or node.quorum is None:
                return
            node.flushing = False
            node.log.flushed = max(node.log.flushed, min(end, len(node.log.entries)))
            if node.log.flushed < len(node.log.entries):
                self._flush(node)
            self._do(node, node.quorum.log_advanced(self.now_ms))

        self.at(self.rng.uniform(0, self.weather.flush_ms), done)

    def _do(self, node: Node, actions: list[Action]) -> None:
        for action in actions:
            if node.quorum is None:
                return
            if self.rng.random() < self.weather.crash_in_action:
                self.crash(node)
                return
            self._do_one(node, action)

    def _do_one(self, node: Node, action: Action) -> None:
        assert node.quorum is not None
        match action:
            case Persist(state=state):
                self._check_persist(node, state)
                if self.persists:
                    node.disk = state
            case Send(to=to, request=request):
                self._send(node, to, request)
            case Truncate(offset=offset):
                self.truncations += 1
                node.log.truncate(offset)
                self._do(node, node.quorum.log_advanced(self.now_ms))
            case AppendLeaderChange(epoch=epoch):
                node.log.entries.append((epoch, "leader"))
                self._flush(node)
                self._do(node, node.quorum.log_advanced(self.now_ms))
            case AppendVoters(epoch=epoch, voters=voters):
                node.log.entries.append((epoch, voters))
                self._flush(node)
                self._do(node, node.quorum.log_advanced(self.now_ms))
            case HighWatermarkAdvanced(offset=offset):
                self._check_commit(node, offset)
            case BecameLeader(epoch=epoch):
                self._check_leader(node, epoch)
            case LostLeadership():
                pass
            case _:
                assert_never(action)

    def _send(
        self, node: Node, to: NodeId, request: VoteRequest | BeginEpochRequest | EndEpochRequest
    ) -> None:
        life = node.life

        def serve(peer: Node) -> None:
            assert peer.quorum is not None
            peer_life = peer.life
            answer: Response
            match request:
                case VoteRequest():
                    answer, actions = peer.quorum.on_vote(self.now_ms, request)
                case BeginEpochRequest():
                    answer, actions = peer.quorum.on_begin_epoch(self.now_ms, request)
                case EndEpochRequest():
                    answer, actions = peer.quorum.on_end_epoch(self.now_ms, request)
                case _:
                    assert_never(request)
            self._do(peer, actions)
            if peer.life == peer_life:  # a crash before the answer: no answer
                self._deliver(peer, node.node_id, lambda me: back(me, answer))

        def back(me: Node, answer: object) -> None:
            if me.life != life or me.quorum is None:
                return
            if isinstance(request, VoteRequest) and isinstance(answer, VoteResponse):
                self._do(me, me.quorum.on_vote_response(self.now_ms, to, request, answer))

        self._deliver(node, to, serve)

    def _deliver(self, sender: Node, to: NodeId, do: Callable[[Node], None]) -> None:
        """Carry one message over the network, perhaps not at all, perhaps twice."""
        copies = 2 if self.rng.random() < self.weather.duplicate else 1
        link = (sender.node_id, to)

        def arrive() -> None:
            peer = self.nodes[to]
            if peer.quorum is not None and not self.cut.get(link, False):
                do(peer)

        for _ in range(copies):
            if self.rng.random() >= self.weather.drop:
                self.at(self.rng.uniform(0.1, self.weather.delay_ms), arrive)

    # -- invariants

    def _check_persist(self, node: Node, state: ElectionState) -> None:
        old = node.disk
        if state.epoch < old.epoch:
            raise Violation(f"node {node.node_id}: persisted epoch goes back: {old} -> {state}")
        if state.epoch == old.epoch:
            if old.voted_for is not None and state.voted_for != old.voted_for:
                raise Violation(f"node {node.node_id}: vote changes: {old} -> {state}")
            if old.leader_id is not None and state.leader_id != old.leader_id:
                raise Violation(f"node {node.node_id}: leader changes: {old} -> {state}")

    def _check_leader(self, node: Node, epoch: Epoch) -> None:
        self.elections += 1
        if epoch in self.leaders:
            raise Violation(f"epoch {epoch} led by {self.leaders[epoch]} and {node.node_id}")
        self.leaders[epoch] = node.node_id
        if node.log.entries[: len(self.committed)] != self.committed:
            raise Violation(f"leader {node.node_id} of epoch {epoch} lacks committed records")

    def _check_commit(self, node: Node, offset: Offset) -> None:
        assert node.quorum is not None
        entries = node.log.entries[:offset]
        if len(entries) < offset:
            raise Violation(f"node {node.node_id}: high watermark {offset} beyond its log")
        known = self.committed[:offset]
        if entries[: len(known)] != known:
            raise Violation(f"node {node.node_id}: committed records changed below {offset}")
        if offset <= len(self.committed):
            return
        if self.leaders.get(node.quorum.epoch) != node.node_id:
            raise Violation(f"node {node.node_id} learnt of commits that no leader made")
        if entries[-1][0] != node.quorum.epoch:
            raise Violation(f"leader {node.node_id} commits records of older epochs only")
        voters = node.quorum.voters
        flushed = {n.key: n.log.entries[: n.log.flushed] for n in self.nodes.values()} | self.lost
        holders = [
            key for key, log in flushed.items() if voters.has(key) and log[:offset] == entries
        ]
        if len(holders) < voters.majority:
            raise Violation(f"high watermark {offset} is flushed on {holders} only")
        self.committed = entries
