"""Refuses the real world while a simulated world runs: clocks, randomness, threads, sockets.

Code that uses one of them fails the run with RealWorldTouched, even if that code catches the
exception. The error names the use and the line of code. The standard library's logging may ask for
the time and gets the world's time. Other threads (of a library in the same process) are not part of
the world, and nothing is refused to them.

Not detected: `datetime.now`, and `random.Random()` imported by name, because C code answers them; a
lint of the broker's sources forbids both.
"""

import os
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from harness.simulation.world.clocks import EPOCH_MS
from harness.simulation.world.world import MS, SimulationError, World

T = TypeVar("T")

_LIBRARY: Final = str(Path(random.__file__).parent) + os.sep
_MODULE_CHANCE: Final = (
    "random",
    "uniform",
    "randint",
    "randrange",
    "randbytes",
    "choice",
    "choices",
    "sample",
    "shuffle",
    "getrandbits",
    "expovariate",
    "gauss",
    "seed",
)
_CLOCKS: Final = (
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "process_time_ns",
    "clock_gettime",
    "clock_gettime_ns",
    "sleep",
)
_REFUSED: Final[tuple[tuple[Any, str, str], ...]] = (
    *((time, name, f"the real clock: time.{name}") for name in _CLOCKS),
    *((random, name, f"real chance: random.{name}") for name in _MODULE_CHANCE),
    (random, "SystemRandom", "real chance: random.SystemRandom"),
    (os, "urandom", "real chance: os.urandom"),
    (uuid, "uuid1", "real chance: uuid.uuid1"),
    (uuid, "uuid4", "real chance: uuid.uuid4"),
    (threading.Thread, "start", "a thread"),
    (socket.socket, "__init__", "a real socket"),
    (socket, "getaddrinfo", "the real resolver"),
    (subprocess.Popen, "__init__", "a real process"),
)


class RealWorldTouched(SimulationError):
    """Code reached around the simulation; the message says what it used, and where."""


@contextmanager
def guard(world: World) -> Iterator[None]:
    """Refuse the real world to all code that this thread runs in the context."""
    inside = threading.get_ident()
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in _REFUSED]
    saved += [(time, name, getattr(time, name)) for name in ("time", "time_ns")]
    saved += [(random, "Random", random.Random)]
    for owner, name, what in _REFUSED:
        setattr(owner, name, _refusal(world, what, inside, getattr(owner, name)))
    time.time = _for_logging(world, "time", inside, lambda: _now_ns(world) / 1e9)
    time.time_ns = _for_logging(world, "time_ns", inside, lambda: _now_ns(world))
    random.Random = _seeded_only(world, inside)  # type: ignore[misc]
    try:
        yield
    finally:
        for owner, name, original in reversed(saved):
            setattr(owner, name, original)


def _refusal(
    world: World, what: str, inside: int, original: Callable[..., Any]
) -> Callable[..., Any]:
    def refuse(*args: object, **options: object) -> Any:
        if threading.get_ident() != inside:
            return original(*args, **options)
        raise _touched(world, what)

    return refuse


def _now_ns(world: World) -> int:
    return EPOCH_MS * MS + world.now_ns


def _for_logging(
    world: World, name: str, inside: int, simulated: Callable[[], T]
) -> Callable[[], T]:
    """Until Python 3.12, log records ask for `time.time`; since 3.13, for `time.time_ns`."""
    original = getattr(time, name)

    def now() -> T:
        if threading.get_ident() != inside:
            answer: T = original()
            return answer
        if sys._getframe(1).f_globals.get("__name__") != "logging":
            raise _touched(world, f"the real clock: time.{name}")
        return simulated()

    return now


def _seeded_only(world: World, inside: int) -> type[random.Random]:
    original = random.Random

    class Seeded(original):  # type: ignore[misc, valid-type]
        def __new__(cls, *seed: Any) -> Any:
            if threading.get_ident() == inside and (not seed or seed[0] is None):
                raise _touched(world, "real chance: random.Random without a seed")
            return original(*seed)

    return Seeded


def _touched(world: World, what: str) -> RealWorldTouched:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame = frame.f_back  # the caller of the library
    where = f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_qualname})"
    owner = "between events" if world.current is None else f"on {world.current.name}"
    error = RealWorldTouched(f"{what} was used in {where}, {owner}, at {world.now_ns} ns")
    world.fail(error)
    return error
