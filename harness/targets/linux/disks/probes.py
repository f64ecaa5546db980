"""A write and fsync on somebody's disk, made by a process of its own.

Who touches a stalled disk blocks, and cannot even be killed before it goes on. So the harness never
does it itself: a child tries, says when it began and when it was done, and shows in between that
it is held up.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.targets.linux import kernel, processes
from nemesis.hosts import Probe

PATIENCE_S = 5.0
"""How long one may go on after it was told to end: it may have to wait for a disk."""

_CHILD = """
import errno, os, sys, time
place, name, size, devices = *sys.argv[1:3], int(sys.argv[3]), sys.argv[4:]
began_ns, said = time.monotonic_ns(), ""
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
    said = error.strerror
print((time.monotonic_ns() - began_ns) / 1e6, said)
"""


class Attempt:
    """One attempt, from its start; `record` is told its pid and puts it in the journal.

    It writes nowhere but on one of the `devices` (numbers as of st_dev): while the disk is not
    mounted at the path, that is on another one.
    """

    def __init__(
        self, path: Path, size_bytes: int, devices: Sequence[int], record: Callable[[int], None]
    ) -> None:
        self._size_bytes = size_bytes
        self._began_s = time.monotonic()
        self._said: Probe | None = None
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

    def look(self) -> Probe:
        """How far it is."""
        if self._said is None and self._child.poll() is not None:
            self._said = self._result()
        if self._said is not None:
            return self._said
        elapsed_ms = (time.monotonic() - self._began_s) * 1000
        return Probe(size_bytes=self._size_bytes, elapsed_ms=elapsed_ms, done=False)

    def end(self, patience_s: float = PATIENCE_S) -> Probe:
        """Wait for its end, kill it at the bound; its file is the caller's to remove."""
        kernel.wait_until(lambda: self.look().done, patience_s)
        seen = self.look()
        if not seen.done:
            self._child.kill()
            # One that waits for a disk dies when the disk goes on, and is reaped by then.
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
