"""A write and fsync on a node's disk, in a process of its own.

A process that touches a stalled disk blocks, and cannot even be killed before the disk goes on. So
the harness leaves the write to a child process, which measures how long it took.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.targets.linux import kernel, processes
from nemesis.hosts import Probe

PATIENCE_S = 5.0
"""How long the child may go on after `end`: it may have to wait for the disk."""

_CHILD = """
import errno, os, sys, time
place, name, size, devices = *sys.argv[1:3], int(sys.argv[3]), sys.argv[4:]
began_ns, problem = time.monotonic_ns(), ""
try:
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    if str(os.fstat(directory).st_dev) not in devices:
        raise OSError(errno.ENODEV, "it is not mounted")
    file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=directory)
    left = size
    while left:
        left -= os.write(file, bytes(min(left, 65536)))
    os.fsync(file)
except OSError as error:
    problem = error.strerror
print((time.monotonic_ns() - began_ns) / 1e6, problem)
"""


class DiskProbe:
    """One write and fsync, started on construction; `record` puts the child's pid in the journal.

    The child writes only to one of the `devices` (numbers as in st_dev), since the path leads to
    another file system while the disk is not mounted.
    """

    def __init__(
        self, path: Path, size_bytes: int, devices: Sequence[int], record: Callable[[int], None]
    ) -> None:
        self._size_bytes = size_bytes
        self._began_s = time.monotonic()
        self._finished: Probe | None = None
        where = [str(path.parent), path.name, str(size_bytes), *map(str, devices)]
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CHILD, *where],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            record(self._child.pid)
        except BaseException:
            self._child.kill()
            raise

    def poll(self) -> Probe:
        """Return the result, or the time that the child has taken so far."""
        if self._finished is None and self._child.poll() is not None:
            self._finished = self._result()
        if self._finished is not None:
            return self._finished
        elapsed_ms = (time.monotonic() - self._began_s) * 1000
        return Probe(size_bytes=self._size_bytes, elapsed_ms=elapsed_ms, done=False)

    def end(self, patience_s: float = PATIENCE_S) -> Probe:
        """Wait for the child, and kill it after `patience_s`. The caller removes its file."""
        kernel.wait_until(lambda: self.poll().done, patience_s)
        seen = self.poll()
        if not seen.done:
            self._child.kill()
            # A child that waits for the disk dies when the disk goes on, and is reaped then.
            kernel.wait_until(lambda: self._child.poll() is not None, processes.END_TIMEOUT_S)
        return seen

    def _result(self) -> Probe:
        assert self._child.stdout is not None
        with self._child.stdout as output:
            text = output.read().decode(errors="replace").strip()
        elapsed, _, error = text.partition(" ")
        try:
            elapsed_ms = float(elapsed)
        except ValueError:
            elapsed_ms, error = 0.0, text or f"ended with {self._child.returncode}"
        return Probe(size_bytes=self._size_bytes, elapsed_ms=elapsed_ms, done=True, error=error)
