"""Starts clients in processes of their own, lets them begin together, and ends them whatever comes.

A client that does not answer within its time and a margin is killed, and so is every client when
the benchmark is told to stop. At the end of the block no process is left.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

READY_S: Final = 30.0
MARGIN_S: Final = 25.0
"""A client may be silent for 10 s before it gives up, and then has to say so."""
LOOK_S: Final = 0.2


class MeasureError(Exception):
    """A point could not be measured; the message says why."""


class Stopped(Exception):
    """The benchmark was told to stop."""


class Worker:
    """One running client."""

    def __init__(self, job: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
        """Start it; `blobs` are the frames that the job announces, in order."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.bench.clients.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent, which ends its clients
            bufsize=0,
        )
        self._read = b""
        self._tell(json.dumps(job).encode() + b"\n", *blobs)

    def go(self) -> None:
        """Let it begin; it must be ready."""
        self._tell(b"go\n")

    def line(self, bound_s: float, stopped: Callable[[], bool]) -> str:
        """Its next line. Raises MeasureError at the bound or its end, Stopped."""
        assert self._process.stdout is not None
        end_s = time.monotonic() + bound_s
        while b"\n" not in self._read:
            if stopped():
                raise Stopped
            if time.monotonic() > end_s:
                raise MeasureError(f"a client said nothing for {bound_s:.0f} s")
            if select.select([self._process.stdout], [], [], LOOK_S)[0]:
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise MeasureError("a client died; what it said is above")
                self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def end(self) -> None:
        """End it at once, in case it still runs."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _tell(self, *parts: bytes) -> None:
        assert self._process.stdin is not None
        try:
            for part in parts:
                rest = memoryview(part)
                while rest:  # unbuffered pipes may take less than all
                    rest = rest[self._process.stdin.write(rest) :]
        except BrokenPipeError:
            raise MeasureError("a client died; what it said is above") from None


@contextmanager
def started(job: Mapping[str, Any], *blobs: bytes) -> Iterator[Worker]:
    """A client for the block."""
    worker = Worker(job, blobs)
    try:
        yield worker
    finally:
        worker.end()


def together(
    jobs: Sequence[tuple[Mapping[str, Any], Sequence[bytes]]],
    stopped: Callable[[], bool],
    *,
    margin_s: float = MARGIN_S,
) -> list[dict[str, Any]]:
    """Run clients side by side: all are ready before the first begins. Their results, in order.

    `margin_s` is how long they may take beyond their time.

    Raises MeasureError when one of them could not measure, Stopped.
    """
    workers: list[Worker] = []
    try:
        for job, blobs in jobs:
            workers.append(Worker(job, blobs))
        for worker in workers:
            _expect_ready(worker.line(READY_S, stopped))
        for worker in workers:
            worker.go()
        bound_s = max(job["warmup_s"] + job["duration_s"] for job, _ in jobs) + margin_s
        return [_result(worker.line(bound_s, stopped)) for worker in workers]
    finally:
        for worker in workers:
            worker.end()


def _expect_ready(line: str) -> None:
    if line != "ready":
        _result(line)
        raise MeasureError(f"a client said {line!r} instead of being ready")


def _result(line: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(line)
    if error := result.get("error"):
        raise MeasureError(str(error))
    return result
