"""Code that uses the real world fails the run, whatever it does with the error."""

import asyncio
import contextlib
import logging
import os
import random
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from harness.simulation.world.clocks import EPOCH_MS
from harness.simulation.world.guard import RealWorldTouched, guard
from harness.simulation.world.world import World
from tests.support.simulation.worlds import MakeBare


@pytest.mark.parametrize(
    ("reach", "named"),
    [
        (lambda: time.time(), "time.time"),
        (lambda: time.time_ns(), "time.time_ns"),
        (lambda: time.monotonic(), "time.monotonic"),
        (lambda: time.perf_counter(), "time.perf_counter"),
        (lambda: time.sleep(0.01), "time.sleep"),
        (lambda: random.random(), "random.random"),
        (lambda: random.shuffle([1, 2]), "random.shuffle"),
        (lambda: random.Random(), "random.Random without a seed"),
        (lambda: os.urandom(4), "os.urandom"),
        (lambda: uuid.uuid4(), "uuid.uuid4"),
        (lambda: threading.Thread(target=print).start(), "a thread"),
        (lambda: socket.socket(), "a real socket"),
        (lambda: socket.create_connection(("127.0.0.1", 9)), "the real resolver"),
        (lambda: subprocess.Popen(["true"]), "a real process"),
    ],
)
def test_use_of_the_real_world_fails_the_run(
    make: MakeBare, reach: Callable[[], Any], named: str
) -> None:
    """Also if the code under test catches all exceptions."""
    world = make()

    async def main() -> None:
        with contextlib.suppress(Exception):
            reach()
        await asyncio.sleep(10)

    with guard(world.world), pytest.raises(RealWorldTouched, match=named) as touched:
        world.run(1, main)
    assert "test_guard.py" in str(touched.value)
    assert "on node-1" in str(touched.value)


def test_guard_restores_the_real_functions(make: MakeBare) -> None:
    """Also after a guard that failed."""

    def real() -> list[object]:
        chance = [random.random, random.Random, os.urandom]
        return [time.time, time.sleep, *chance, socket.socket.__init__]

    before = real()
    with contextlib.suppress(KeyError), guard(make().world):
        assert real() != before
        raise KeyError
    assert real() == before


def test_seeded_random_numbers_and_log_lines_are_permitted(make: MakeBare) -> None:
    """Log records have the world's time."""
    world = make()
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger = logging.Logger("sim")
    logger.addHandler(Keep())

    async def main() -> float:
        await asyncio.sleep(2)
        logger.info("hello")
        return random.Random(3).random()

    with guard(world.world):
        drawn = world.run(1, main)
    assert drawn == random.Random(3).random()
    assert records[0].created == pytest.approx(EPOCH_MS / 1000 + 3, abs=0.01)


@pytest.mark.parametrize(("call", "ns"), [("time.time()", 1_000_000_000), ("time.time_ns()", 1)])
def test_logging_may_ask_for_either_time(make: MakeBare, call: str, ns: int) -> None:
    """Python 3.13 asks for nanoseconds. Other modules may ask for neither."""
    world = make()

    async def main() -> float:
        return float(eval(call, {"time": time, "__name__": "logging"}))

    async def other() -> float:
        return float(eval(call, {"time": time, "__name__": "other"}))

    with guard(world.world):
        assert world.run(1, main) * ns == pytest.approx(EPOCH_MS * 1e6, rel=1e-6)
    world = make()
    with guard(world.world), pytest.raises(RealWorldTouched, match=r"the real clock: time\.time"):
        world.run(1, other)


def test_other_threads_may_use_the_real_world() -> None:
    """A thread of a library, started before, may sleep."""
    world = World(1)
    go, slept = threading.Event(), threading.Event()

    def sleeper() -> None:
        go.wait(10)
        time.sleep(0.001)
        slept.set()

    thread = threading.Thread(target=sleeper)
    thread.start()
    try:
        with guard(world):
            go.set()
            assert slept.wait(10)
    finally:
        thread.join()
        world.end()
