"""The world of a simulation: one clock, one order of events, one random stream per purpose.

Time is virtual, in whole nanoseconds. Time stands still while code runs, and jumps to the next
timer when no event is ready. Timers of one instant fire in the order in which they were set. So a
run is a function of its seed and of the code.

`World.stream` gives each purpose, link and host its own random stream: a new draw in one place
shifts no other draw.

MAX_EVENTS_PER_INSTANT events without any passing of time are a livelock and end the run.
`World.fail` ends a run with an error, also if the code under test catches that error. Garbage is
collected at kills, at boots and every COLLECT_NS, and never in between, because a finalizer is an
event too. So a process has one world at a time, until `end`. Processor time costs no virtual time.
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
MAX_EVENTS_PER_INSTANT: Final = 100_000
COLLECT_NS: Final = 30 * NS
YOUNG: Final = 1
"""The collector's generation whose collection leaves no young object: survivors become old."""
PRUNE_AT: Final = 256
"""The world removes cancelled timers from the heap when there are more than this, and more than
half of all timers."""


class HostDead(BaseException):
    """Raised in code of a dead incarnation wherever the code would have an effect."""


class SimulationError(Exception):
    """Base of the errors that end a run.

    SimulationError
    ├── Livelock          events follow each other and time does not pass
    ├── NothingLeft       no event is left, and the awaited future is not done
    ├── TooLate           the awaited future was not done in time
    └── RealWorldTouched  (in `guard`) code reached around the simulation
    """


class Livelock(SimulationError):
    """Events follow each other and time does not pass."""


class NothingLeft(SimulationError):
    """No event is left, and the awaited future is not done."""


class TooLate(SimulationError):
    """The awaited future was not done in time."""


class Owner:
    """The owner of events: one incarnation of a host, or the kernel below all hosts."""

    running: asyncio.AbstractEventLoop | None = None
    """The event loop that the owner's code sees as the running loop."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.dead = False
        self.held: deque[Call] | None = None
        """The owner's events that are held back, in order; None while nothing is held back."""


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
        # Does not call the base class, which asks the loop for its debug mode: this is the hottest
        # code of the simulator.
        self.world = world
        self.owner = owner
        self._when = when_ns
        self._callback = callback
        self._args = args
        self._context = context
        self._cancelled = False

    def cancel(self) -> None:
        """Cancel the call."""
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None  # type: ignore[assignment]
            if self._when:
                self.world.timer_cancelled()

    def when(self) -> float:
        """Return the time of the call in the world's seconds; 0 once it is due."""
        return self._when / NS


class Trouble(NamedTuple):
    """An exception that no code caught."""

    at_ns: int
    host: str
    message: str
    error: BaseException | None


class World:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ns = NS  # not 0, because 0 marks a call that is due
        self.trace = Trace()
        self.troubles: list[Trouble] = []
        """What reached the exception handlers of live hosts."""
        self.kernel = Owner("kernel", 0)
        """The owner of events that happen whatever becomes of the hosts."""
        self.after_event: list[Callable[[], None]] = []
        """Callbacks to call once after the current event: changes that the event's own code cannot
        make to itself."""
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
        gc.collect()
        if self._froze:
            gc.freeze()  # so that the collection at each kill skips older objects

    # -- chance

    def stream(self, *purpose: str | int) -> random.Random:
        """Return the random stream of a purpose."""
        text = repr((self.seed, *purpose))
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return random.Random(int.from_bytes(digest, "little"))

    # -- events

    def next_number(self) -> int:
        """Return 1, 2, 3...: numbers identify and order objects without their addresses."""
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
        """Schedule an event of `owner` at `when_ns`; at once if that time has passed."""
        if when_ns < self.now_ns:
            when_ns = self.now_ns
        call = Call(self, owner, when_ns, callback, args, context)
        self._last_number = number = self._last_number + 1
        heappush(self._timers, (when_ns, number, call))
        return call

    def after(self, delay_ns: int, callback: Callable[..., Any], *args: Any) -> Call:
        """Schedule an event of the kernel after this delay."""
        return self.set_timer(self.now_ns + delay_ns, self.kernel, callback, args, self._context)

    def timer_cancelled(self) -> None:
        """Count a timer that was cancelled before it was due."""
        self._cancelled_timers += 1
        if self._cancelled_timers > max(PRUNE_AT, len(self._timers) // 2):
            self._prune(lambda call: not call.cancelled())

    def forget(self, owner: Owner) -> None:
        """Drop all events of a dead owner."""
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
                entry[2]._when = 0  # no longer in the heap: its cancellation must not count
        self._timers[:] = kept
        heapify(self._timers)
        self._cancelled_timers = 0

    def hold(self, owner: Owner) -> None:
        """Hold back the owner's events from the next one on; time continues without the owner."""
        if owner.held is None:
            owner.held = deque()

    def release(self, owner: Owner) -> None:
        """Make the events that were held back ready, in order."""
        if owner.held is not None:
            held, owner.held = owner.held, None
            self._ready.extend(held)

    @property
    def pending(self) -> int:
        """The number of events that are ready or have a timer."""
        return len(self._ready) + len(self._timers) - self._cancelled_timers

    # -- running

    @property
    def current(self) -> Owner | None:
        """The owner of the current event; None between events."""
        return self._current

    def fail(self, error: BaseException) -> None:
        """End the run with `error` after this event, also if the code under test catches
        the error.
        """
        self._failure = self._failure or error
        self._stopping = True

    def recheck(self) -> None:
        """Let `run_until` check after this event whether its future is done."""
        self._stopping = True

    def run_for(self, seconds: float) -> None:
        """Let this much time pass. Raises SimulationError, and any error given to `fail`."""
        until_ns = self.now_ns + round(seconds * NS)
        while self._run(until_ns):
            pass
        self.now_ns = max(self.now_ns, until_ns)

    def run_until(self, future: "asyncio.Future[Any]", within_s: float = 3600.0) -> Any:
        """Let time pass until the future is done, and return its result. Raises NothingLeft,
        TooLate, the errors of `run_for`, and the future's own exception.
        """
        if not future.done():
            future.add_done_callback(lambda _: self.recheck(), context=self._context)
        until_ns = self.now_ns + round(within_s * NS)
        while not future.done():
            if not self._run(until_ns):
                if self.pending:
                    raise TooLate(f"{future!r} was not done within {within_s:g} s")
                raise NothingLeft(f"no event is left, and {future!r} is not done")
        return future.result()

    def _run(self, until_ns: int) -> bool:
        """Run the events up to `until_ns`; return whether an event stopped the run early."""
        self._stopping = self._failure is not None
        with _collector_off(), _no_running_loop():
            try:
                self._run_events(until_ns)
            finally:
                self._current = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return self._stopping

    def _run_events(self, until_ns: int) -> None:
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
            if at_once > MAX_EVENTS_PER_INSTANT:
                self.fail(
                    Livelock(f"{at_once} events at {self.now_ns} ns, the last one of {owner.name}")
                )
            called(self.now_ns, owner.number, callback)
            try:
                call._context.run(callback, *call._args)
            except HostDead:
                pass
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._unhandled(owner, error)
            if self.after_event:
                self._after_event()

    def _advance(self, until_ns: int) -> bool:
        """Advance to the next instant with a due event; return false if there is none in time."""
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

    def _unhandled(self, owner: Owner, error: BaseException) -> None:
        if owner.running is None:
            self.fail(error)  # an error of the simulator itself
        else:
            context = {"message": "an exception in a callback", "exception": error}
            owner.running.call_exception_handler(context)

    def end(self) -> None:
        """End the world; nothing more happens in it."""
        if self._froze:
            gc.unfreeze()

    def collect(self) -> None:
        """Collect all garbage now."""
        self._last_collection_ns = self.now_ns
        gc.collect()

    def collect_young(self) -> None:
        """Collect the garbage among the objects made since the last collection, as at each boot and
        kill: a search of everything would take a tenth of a run.
        """
        gc.collect(YOUNG)


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
