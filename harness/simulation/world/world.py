"""The world of a simulation: one clock, one order of events, one tree of random streams.

Time is virtual and in whole nanoseconds. It stands still while code runs and jumps to the next
timer when nothing is left to do; timers of one instant fire in the order in which they were set. So
a run is a function of its seed and of the code.

Chance comes from `World.stream`: every purpose, link and host has a stream of its own, so that a
new draw in one place shifts no other.

Bounds: EVENTS_AT_ONCE events without the passing of time are a livelock and end the run. What fails
a run wherever it is noticed, in a callback or an `except` of the code under test, is told to `fail`
and raised by `run`. Garbage is collected only where `collect` is called (kills, boots, and now and
then), since a finalizer is an event too; so a process has one world at a time, until its `end`.
Processor time is free.
"""

import asyncio
import gc
import hashlib
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

from harness.simulation.world.trace import Trace

NS: Final = 1_000_000_000
MS: Final = 1_000_000
EVENTS_AT_ONCE: Final = 100_000
COLLECT_NS: Final = 30 * NS
PRUNE_AT: Final = 256
"""Cancelled timers that may lie about, unless more than as many are not cancelled."""


class HostDead(BaseException):
    """Raised into code of an incarnation that is no more, wherever it would have an effect."""


class SimulationError(Exception):
    """Base of what ends a run.

    SimulationError
    ├── Livelock          events follow each other and time does not pass
    ├── NothingLeft       what was waited for can never happen: no event is left
    ├── TooLate           what was waited for did not happen in time
    └── RealWorldTouched  (in `guard`) code reached around the simulation
    """


class Livelock(SimulationError):
    """Events follow each other and time does not pass."""


class NothingLeft(SimulationError):
    """What was waited for can never happen: no event is left."""


class TooLate(SimulationError):
    """What was waited for did not happen in time."""


class Owner:
    """Whose events they are: a host's incarnation, or the machinery beneath all of them."""

    running: asyncio.AbstractEventLoop | None = None
    """The event loop that code sees as the running one."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.dead = False
        self.held: deque[Call] | None = None
        """What would have run, in order, while the owner is held up; None while it is not."""


class Call(asyncio.TimerHandle):
    """One event: a callback that is ready, or set for a time."""

    __slots__ = ("owner", "world")

    def __init__(
        self,
        world: "World",
        owner: Owner,
        when_ns: int,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context,
    ) -> None:
        # Not the base's, which asks the loop for its debug mode: this is the hottest place of all.
        self.world = world
        self.owner = owner
        self._when = when_ns
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        """The callback will not be called."""
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]
            if self._when:
                self.world.timer_cancelled()

    def when(self) -> float:
        """When it is set for, in the world's seconds; 0 once it is due."""
        return self._when / NS


class Trouble(NamedTuple):
    """An exception that nobody took."""

    at_ns: int
    host: str
    message: str
    error: BaseException | None


class World:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ns = NS  # never 0, which marks a call that is due
        self.trace = Trace()
        self.troubles: list[Trouble] = []
        """What came to the exception handlers of hosts that were alive."""
        self.kernel = Owner("kernel", 0)
        """Whose events go on whatever becomes of the hosts."""
        self.after_event: list[Callable[[], None]] = []
        """Called once each after the present event: what its own code cannot do to itself."""
        self._ready: deque[Call] = deque()
        self._timers: list[tuple[int, int, Call]] = []
        self._cancelled_timers = 0
        self._last_number = 0
        self._context = Context()
        self._failure: BaseException | None = None
        self._stopping = False
        self._current: Owner | None = None
        self._last_collection_ns = NS
        self.ready = self._ready.append
        self._froze = gc.get_freeze_count() == 0
        if self._froze:
            gc.collect()
            gc.freeze()  # what was there before need not be looked through at every kill

    # -- chance

    def stream(self, *purpose: str | int) -> random.Random:
        """A stream of random numbers of its own for a purpose."""
        text = repr((self.seed, *purpose))
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return random.Random(int.from_bytes(digest, "little"))

    # -- events

    def next_number(self) -> int:
        """1, 2, 3...: what is numbered can be told apart and put in order without its address."""
        self._last_number = number = self._last_number + 1
        return number

    def set_timer(
        self,
        when_ns: int,
        owner: Owner,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context,
    ) -> Call:
        """Call it at that time, as an event of `owner`'s; now, if that is over."""
        if when_ns < self.now_ns:
            when_ns = self.now_ns
        call = Call(self, owner, when_ns, callback, args, context)
        self._last_number = number = self._last_number + 1
        heappush(self._timers, (when_ns, number, call))
        return call

    def after(self, delay_ns: int, callback: Callable[..., Any], *args: Any) -> Call:
        """Call it when so much time has passed, whatever becomes of the hosts."""
        return self.set_timer(self.now_ns + delay_ns, self.kernel, callback, args, self._context)

    def timer_cancelled(self) -> None:
        """A timer that is not due yet was cancelled."""
        self._cancelled_timers += 1
        if self._cancelled_timers > max(PRUNE_AT, len(self._timers) // 2):
            self._prune(lambda call: not call.cancelled())

    def forget(self, owner: Owner) -> None:
        """Drop every event of a dead owner."""
        self._prune(lambda call: call.owner is not owner and not call.cancelled())
        kept = [call for call in self._ready if call.owner is not owner]
        self._ready.clear()
        self._ready.extend(kept)
        owner.held = None

    def _prune(self, keep: Callable[[Call], bool]) -> None:
        kept = []
        for entry in self._timers:
            if keep(entry[2]):
                kept.append(entry)
            else:
                entry[2]._when = 0  # it is not in the heap any more, and not to be counted
        self._timers[:] = kept
        heapify(self._timers)
        self._cancelled_timers = 0

    def hold(self, owner: Owner) -> None:
        """Keep the owner's events back, from the next on; time goes on without it."""
        if owner.held is None:
            owner.held = deque()

    def release(self, owner: Owner) -> None:
        """Let what was kept back happen now, in order."""
        if owner.held is not None:
            held, owner.held = owner.held, None
            self._ready.extend(held)

    @property
    def pending(self) -> int:
        """Events that are ready or set for a time."""
        return len(self._ready) + len(self._timers) - self._cancelled_timers

    # -- running

    @property
    def current(self) -> Owner | None:
        """Whose event is happening; None between events."""
        return self._current

    def fail(self, error: BaseException) -> None:
        """End the run after this event, with `error`, whatever the code under test makes of it."""
        self._failure = self._failure or error
        self._stopping = True

    def look(self) -> None:
        """Let `run_until` look after this event whether what it waits for is there."""
        self._stopping = True

    def run_for(self, seconds: float) -> None:
        """Let so much time pass. Raises SimulationError, and what was told to `fail`."""
        until_ns = self.now_ns + round(seconds * NS)
        while self._run(until_ns):
            pass
        self.now_ns = max(self.now_ns, until_ns)

    def run_until(self, future: "asyncio.Future[Any]", within_s: float = 3600.0) -> Any:
        """Let time pass until the future is done; its result. Raises NothingLeft, TooLate, what
        `run_for` raises, and the future's own exception.
        """
        if not future.done():
            future.add_done_callback(lambda _: self.look(), context=self._context)
        until_ns = self.now_ns + round(within_s * NS)
        while not future.done():
            if not self._run(until_ns):
                if self.pending:
                    raise TooLate(f"{future!r} was not done within {within_s:g} s")
                raise NothingLeft(f"no event is left, and {future!r} is not done")
        return future.result()

    def _run(self, until_ns: int) -> bool:
        """Take what is due until then; whether somebody ended that early."""
        self._stopping = self._failure is not None
        with _collector_off(), _no_running_loop():
            try:
                self._take_events(until_ns)
            finally:
                self._current = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return self._stopping

    def _take_events(self, until_ns: int) -> None:
        ready, called, set_running_loop = self._ready, self.trace.called, events._set_running_loop
        at_once = 0
        while not self._stopping:
            if not ready:
                before_ns = self.now_ns
                if not self._advance(until_ns):
                    return
                if self.now_ns != before_ns:
                    at_once = 0
                continue
            call = ready.popleft()
            callback = call._callback
            if callback is None:  # cancelled
                continue
            owner = call.owner
            if owner.held is not None:
                owner.held.append(call)
                continue
            if owner is not self._current:
                self._current = owner
                set_running_loop(owner.running)
            at_once += 1
            if at_once > EVENTS_AT_ONCE:
                self.fail(Livelock(f"{at_once} events at {self.now_ns} ns, now {owner.name}'s"))
            called(self.now_ns, owner.number, callback)
            try:
                call._context.run(callback, *call._args)
            except HostDead:
                pass
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._untaken(owner, error)
            if self.after_event:
                self._after_event()

    def _advance(self, until_ns: int) -> bool:
        """Go on to the next instant at which something is due; false if there is none in time."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
            self._cancelled_timers -= 1
        if not timers or timers[0][0] > until_ns:
            return False
        self.now_ns = now_ns = timers[0][0]
        while timers and timers[0][0] == now_ns:
            call = heappop(timers)[2]
            if call._cancelled:
                self._cancelled_timers -= 1
            else:
                call._when = 0
                self._ready.append(call)
        if now_ns - self._last_collection_ns > COLLECT_NS:
            self.collect()
        return True

    def _after_event(self) -> None:
        self._current = None  # so that the next event's loop is set in any case
        events._set_running_loop(None)
        while self.after_event:
            self.after_event.pop(0)()

    def _untaken(self, owner: Owner, error: BaseException) -> None:
        if owner.running is None:
            self.fail(error)  # ours
        else:
            context = {"message": "an exception in a callback", "exception": error}
            owner.running.call_exception_handler(context)

    def end(self) -> None:
        """Nothing more will happen here."""
        if self._froze:
            gc.unfreeze()

    def collect(self) -> None:
        """Collect garbage now, as at every boot and kill: finalizers are events, too."""
        self._last_collection_ns = self.now_ns
        gc.collect()


@contextmanager
def _collector_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def _no_running_loop() -> Iterator[None]:
    before = events._get_running_loop()
    try:
        yield
    finally:
        events._set_running_loop(before)
