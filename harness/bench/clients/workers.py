"""Starts clients in processes of their own, lets them begin together, and ends them in any case.

A client that does not answer within its time and a margin is killed. So is every client when the
benchmark is stopped. No process is left at the end of the block.
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
"""A client waits 10 s for an answer before it gives up, and then has to report that."""
LOOK_S: Final = 0.2
CLIENT_ENDED: Final = "a client process ended early; its error is printed above"

Stop = Callable[[], bool]
"""Returns whether the benchmark was stopped."""


class MeasureError(Exception):
    """A point could not be measured; the message says why."""


class Stopped(Exception):
    """The benchmark was stopped."""


class Worker:
    """The process of one client."""

    def __init__(self, job: Mapping[str, Any], blobs: Sequence[bytes]) -> None:
        """Start the client; `blobs` are the frames that the job announces, in order."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.bench.clients.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the parent, which ends its clients
            bufsize=0,
        )
        self._read = b""
        self._write(json.dumps(job).encode() + b"\n", *blobs)

    def go(self) -> None:
        """Let the client begin; it must be ready."""
        self._write(b"go\n")

    def line(self, bound_s: float, stopped: Stop) -> str:
        """Return the client's next line.

        Raises MeasureError after `bound_s` or when the process has ended, Stopped.
        """
        assert self._process.stdout is not None
        end_s = time.monotonic() + bound_s
        while b"\n" not in self._read:
            if stopped():
                raise Stopped
            if time.monotonic() > end_s:
                raise MeasureError(f"a client printed nothing for {bound_s:.0f} s")
            if select.select([self._process.stdout], [], [], LOOK_S)[0]:
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    raise MeasureError(CLIENT_ENDED)
                self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def end(self) -> None:
        """Kill the process if it still runs."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _write(self, *parts: bytes) -> None:
        assert self._process.stdin is not None
        try:
            for part in parts:
                rest = memoryview(part)
                while rest:  # unbuffered pipes may take less than all
                    rest = rest[self._process.stdin.write(rest) :]
        except BrokenPipeError:
            raise MeasureError(CLIENT_ENDED) from None


@contextmanager
def started(job: Mapping[str, Any], *blobs: bytes) -> Iterator[Worker]:
    """Yield a client, and end it after."""
    worker = Worker(job, blobs)
    try:
        yield worker
    finally:
        worker.end()


def run_together(
    jobs: Sequence[tuple[Mapping[str, Any], Sequence[bytes]]],
    stopped: Stop,
    *,
    margin_s: float = MARGIN_S,
) -> list[dict[str, Any]]:
    """Run clients side by side; return their results in order.

    All clients are ready before the first one begins. They may take `margin_s` beyond their time.
    Raises MeasureError when a client could not measure, Stopped.
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
        raise MeasureError(f"a client printed {line!r} instead of ready")


def _result(line: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(line)
    if error := result.get("error"):
        raise MeasureError(str(error))
    return result
