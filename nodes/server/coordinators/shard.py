"""One coordinator: the machine of one partition that this broker leads, in one leader epoch.

Kept true here, whatever the machine:

- The machine changes by records that are in the log, and by nothing else. If an append fails, the
  shard loads a new machine.
- An answer is given when the high watermark covers the log's end at the time of its operation, and
  only while this broker leads in the same epoch (KAFKA-20634).
- A shard serves nothing before its log is loaded. It ends with the leadership, also in the middle
  of loading (KAFKA-16030); whoever waits is told NOT_COORDINATOR.
- While the in-sync replicas are fewer than min.insync.replicas nothing is appended: operations that
  may write are refused, and what is due waits. Afterwards the machine is loaded anew if it missed
  something: a member that was not heard has not ended its session.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import (
    Answer,
    Effects,
    Machine,
    Now,
    Position,
    ProducerStamp,
    Token,
)
from nodes.ids import Epoch, Offset
from nodes.log.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    LogError,
    MessageTooLarge,
)
from nodes.log.key_values import encode_key_values
from nodes.log.transactions.markers import Marker
from nodes.log.transactions.verification import VerificationGuard
from nodes.replication.partition import ProduceStatus, Role
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.loading import load
from nodes.server.replicas.replica import Replica

log = logging.getLogger("nodes.coordinators")

M = TypeVar("M", bound=Machine)

Operation = Callable[[M, Token, Now], Effects]
"""What a request wants of the machine; see `nodes.coordinators.machine`."""

MAX_WAITING: Final = 20_000
"""The most requests that one shard lets wait; more are told COORDINATOR_NOT_AVAILABLE."""


_APPEND_ERRORS: Final[Mapping[type[Exception], ErrorCode]] = {
    MessageTooLarge: ErrorCode.record_list_too_large,
    InvalidProducerEpoch: ErrorCode.invalid_producer_epoch,
    InvalidTransactionState: ErrorCode.invalid_txn_state,
}
"""Errors of an append that the client caused."""

NO_PRODUCER: Final = ProducerStamp(-1, -1)


class Access(Enum):
    """What an operation may do to the machine."""

    READ = "it writes no record"
    WRITE = "it may write records, and changes nothing else"
    CHANGE = "it may also change what is in no record, as a rebalance does"


class State(Enum):
    """The life of a shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class _Uncommitted(NamedTuple):
    """Answers that wait for the high watermark."""

    required: Offset
    deadline_s: float
    answers: tuple[tuple[Token, Answer], ...]


class Shard(Generic[M]):
    """See the module. `make` makes an empty machine."""

    def __init__(
        self,
        replica: Replica,
        make: Callable[[], M],
        wall_clock_ms: Callable[[], int],
        *,
        commit_timeout_ms: int,
    ) -> None:
        self.state = State.LOADING
        self.replica = replica
        """Only for reading."""
        self._epoch: Epoch = replica.state.leader_epoch
        self._make = make
        self.machine = make()
        """Only for looking at it; only this class calls it."""
        self._wall_clock_ms = wall_clock_ms
        self._commit_timeout_s = commit_timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._tokens = 0
        self._waiting: dict[Token, asyncio.Future[Answer]] = {}
        self._uncommitted: deque[_Uncommitted] = deque()
        self._missed = False
        """Whether the machine was not asked, or not told the time, for want of replicas."""
        self._after_loading: list[Callable[[M], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0.0  # a handle of uvloop need not tell
        self._commit_timer: asyncio.TimerHandle | None = None
        replica.watchers.add(self, appends=False)
        replica.on_marker = self._marker_appended
        self.loading = self._loop.create_task(self._load())
        """Done when the log is loaded, or cannot be."""

    @property
    def epoch(self) -> Epoch:
        """The leader epoch of this shard."""
        return self._epoch

    # -- operations ----------------------------------------------------------------------------

    def perform(
        self,
        operation: Operation[M],
        access: Access = Access.CHANGE,
        guard: VerificationGuard | None = None,
    ) -> "asyncio.Future[Answer]":
        """Run an operation; return its future answer, or a future CoordinatorError.

        `guard`: the verification of the transaction that the records are a part of. To cancel the
        future is to stop waiting. Raises CoordinatorError if nothing was done.
        """
        self._check_serving(access)
        if len(self._waiting) >= MAX_WAITING:
            raise CoordinatorError(ErrorCode.coordinator_not_available)
        self._tokens += 1
        token = Token(self._tokens)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._waiting[token] = answer
        try:
            effects = operation(self.machine, token, self._now())
            self._apply(effects, guard)
        except (LogError, OSError) as error:
            del self._waiting[token]
            raise self._append_failed(error, access) from error
        except Exception:  # a bug: the machine may not be what its log says
            del self._waiting[token]
            self._reload()
            raise
        if not answer.done():
            answer.add_done_callback(lambda done: self._stopped_waiting(token, done))
        self._set_timer()
        return answer

    def tell(self, event: Callable[[M], None]) -> None:
        """Tell the machine what happened, now or when the log is loaded. Nobody gets an answer, and
        what the machine writes because of it, it writes in its own time."""
        if self.state is State.LOADING:
            self._after_loading.append(event)
        elif self.state is State.ACTIVE and self._leads:
            self._apply_unasked(partial(_told, self.machine, event))

    def _check_serving(self, access: Access) -> None:
        """Raise CoordinatorError unless this shard may run an operation now."""
        if self.state is State.LOADING:
            raise CoordinatorError(ErrorCode.coordinator_load_in_progress)
        if self.state is not State.ACTIVE or not self._leads:
            raise CoordinatorError(ErrorCode.not_coordinator)
        if access is not Access.READ and not self._may_append:
            self._missed |= access is Access.CHANGE
            raise CoordinatorError(ErrorCode.coordinator_not_available)

    def _apply(self, effects: Effects, guard: VerificationGuard | None = None) -> None:
        """Append and replay the records; give the answers when they are committed.

        Raises LogError, OSError: no answer is given.
        """
        if effects.records:
            self._append(effects, guard)
        if effects.answers:
            required = self.replica.log.end_offset
            deadline_s = self._loop.time() + self._commit_timeout_s
            self._uncommitted.append(_Uncommitted(required, deadline_s, effects.answers))
            self._give_answers()

    def _append(self, effects: Effects, guard: VerificationGuard | None) -> None:
        """Append and replay the records. Raises LogError, OSError: of separable records, the first
        ones may have been appended and replayed."""
        try:
            self._append_batch(effects, guard)
        except MessageTooLarge:
            middle = len(effects.records) // 2
            if not effects.separable or not middle:
                raise
            for part in (effects.records[:middle], effects.records[middle:]):
                self._append(replace(effects, records=part), guard)

    def _append_batch(self, effects: Effects, guard: VerificationGuard | None) -> None:
        now_wall_ms = self._wall_clock_ms()
        producer = effects.producer or NO_PRODUCER
        batch = encode_key_values(
            effects.records,
            now_wall_ms,
            transactional=effects.producer is not None,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )
        appended = self.replica.append(batch, guard=guard, from_coordinator=True)
        for number, record in enumerate(effects.records):
            offset = Offset(appended.base_offset + number)
            self.machine.replay(record, Position(offset, now_wall_ms, effects.producer))

    def _marker_appended(self, marker: Marker, offset: Offset) -> None:
        """A transaction ended in this log. A loading machine will read its marker."""
        if self.state is not State.ACTIVE or not self._leads:
            return
        producer = ProducerStamp(marker.producer_id, marker.producer_epoch)
        position = Position(offset, self._wall_clock_ms(), None)
        try:
            self.machine.end_transaction(producer, position, commit=marker.committed)
        except Exception as error:  # a bug: the marker is in the log all the same
            log.error("%s: the coordinator failed", self.replica.partition, exc_info=error)
            self._reload()
        self._set_timer()

    def _append_failed(self, error: Exception, access: Access) -> CoordinatorError:
        """The machine may remember what is not in the log: load it anew, if it can."""
        log.warning("%s: the coordinator could not write: %s", self.replica.partition, error)
        if access is not Access.WRITE:
            self._reload()
        unavailable = ErrorCode.coordinator_not_available
        return CoordinatorError(_APPEND_ERRORS.get(type(error), unavailable))

    def _stopped_waiting(self, token: Token, done: "asyncio.Future[Answer]") -> None:
        """The request has its answer, or its connection is lost."""
        self._waiting.pop(token, None)
        if done.cancelled() and self.state is State.ACTIVE:
            self.machine.abandoned(token)
            self._set_timer()

    # -- answers -------------------------------------------------------------------------------

    def _give_answers(self) -> None:
        """Give the answers that are committed."""
        committed = self.replica.state.high_watermark
        while self._uncommitted and self._uncommitted[0].required <= committed:
            for token, answer in self._uncommitted.popleft().answers:
                future = self._waiting.pop(token, None)
                if future is not None and not future.done():
                    future.set_result(answer)
        if self._uncommitted and self._commit_timer is None:
            self._commit_timer = self._loop.call_at(
                self._uncommitted[0].deadline_s, self._time_out_answers
            )

    def _time_out_answers(self) -> None:
        """Refuse those whose records take too long: they may be committed, or not."""
        self._commit_timer = None
        now_s = self._loop.time()
        while self._uncommitted and self._uncommitted[0].deadline_s <= now_s:
            answers = self._uncommitted.popleft().answers
            self._refuse([token for token, _ in answers], ErrorCode.coordinator_not_available)
        self._give_answers()

    def _refuse(self, tokens: list[Token], code: ErrorCode) -> None:
        for token in tokens:
            future = self._waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_exception(CoordinatorError(code))

    # -- loading and closing -------------------------------------------------------------------

    async def _load(self) -> None:
        replica, machine, started_s = self.replica, self.machine, self._loop.time()
        try:
            end = await load(machine, replica.log)
        except Exception as error:  # damaged records, a failed disk, a bug: none may look like none
            log.error("%s: the coordinator cannot load", replica.partition, exc_info=error)
            self.state = State.FAILED
            return
        self.state = State.ACTIVE
        self._apply_unasked(machine.loaded)
        if self.state is not State.ACTIVE:
            return  # it loads again, and these events wait for that
        events, self._after_loading = self._after_loading, []
        for event in events:
            self.tell(event)
        if end > replica.log.start_offset:
            log.info(
                "%s: coordinator in leader epoch %d: loaded %d offsets in %d ms",
                replica.partition,
                self._epoch,
                end - replica.log.start_offset,
                1000 * (self._loop.time() - started_s),
            )

    def _reload(self) -> None:
        self.state, self._missed = State.LOADING, False
        self._cancel_timer()
        computed = {token for each in self._uncommitted for token, _ in each.answers}
        pending = [token for token in self._waiting if token not in computed]
        self._refuse(pending, ErrorCode.not_coordinator)
        self.machine = self._make()
        self.loading = self._loop.create_task(self._load())

    def close(self) -> None:
        """This broker is the coordinator no more: refuse whoever waits. Idempotent."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self.loading.cancel()
        self._cancel_timer()
        if self._commit_timer is not None:
            self._commit_timer.cancel()
        self._uncommitted.clear()
        self._refuse(list(self._waiting), ErrorCode.not_coordinator)
        # Now, not within a call to all watchers of the replica.
        self._loop.call_soon(self.replica.watchers.discard, self)

    # -- time ----------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Call the machine when its next deadline comes."""
        due_ms = self.machine.deadline_ms() if self.state is State.ACTIVE else None
        if self._timer is not None:
            if due_ms == self._timer_ms:
                return
            self._cancel_timer()
        if due_ms is not None and not self._missed:
            self._timer_ms = due_ms
            self._timer = self._loop.call_at(due_ms / 1000, self._tick)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        if self.state is not State.ACTIVE or not self._leads:
            return
        if self._may_append:
            self._apply_unasked(self.machine.tick)
        else:
            self._missed = True

    def _apply_unasked(self, happening: Callable[[Now], Effects]) -> None:
        """Apply what the machine does by itself."""
        try:
            self._apply(happening(self._now()))
        except (LogError, OSError) as error:
            self._append_failed(error, Access.CHANGE)
        except Exception as error:  # a bug: the machine may not be what its log says
            log.error("%s: the coordinator failed", self.replica.partition, exc_info=error)
            self._reload()
        self._set_timer()

    def _now(self) -> Now:
        return Now(self._loop.time() * 1000, self._wall_clock_ms())

    # -- the replica ---------------------------------------------------------------------------

    @property
    def _leads(self) -> bool:
        state = self.replica.state
        return state.role is Role.LEADER and state.leader_epoch == self._epoch

    @property
    def _may_append(self) -> bool:
        return self.replica.state.check_append(-1) is ProduceStatus.OK

    def appended(self) -> None:
        """Part of Watcher; not asked for."""

    def committed(self) -> None:
        """The high watermark or the ISR may have changed."""
        if self.state is not State.CLOSED and self._leads:
            self._give_answers()
            self._catch_up()

    def changed(self) -> None:
        """The leadership may be over."""
        if self._leads:
            self._catch_up()
        else:
            self.close()

    def _catch_up(self) -> None:
        """Load the machine anew if it missed something while there were too few replicas."""
        if self._missed and self._may_append and self.state is State.ACTIVE:
            self._reload()


def _told(machine: M, event: Callable[[M], None], _: Now) -> Effects:
    event(machine)
    return Effects()
