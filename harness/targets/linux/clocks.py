"""A wall clock for each node, by libfaketime in the node's process and one file per node.

A kernel has one wall clock for all processes (time namespaces separate only the monotonic clocks).
So a node gets its own clock where its process reads the time. The library is loaded before libc. It
adds the offset in the node's file to every reading of the wall clock, and leaves monotonic time
alone. It is loaded only if the run's schedule sets clocks, because each reading of the wall clock
then opens the file (some 10 us). A change takes effect at the next reading.

libfaketime 0.9.10 has two defects when it leaves monotonic time alone. A timed wait on a condition
variable of that clock returns at once, and CPython's threads then spin for the interpreter's lock;
so every such wait is set to CPython's own 5 ms. A sleep until a moment of that clock, as in
`time.sleep`, fails; so only processes that never call it can have such a clock.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.targets.base import NotInForce, Unsupported
from harness.targets.linux.recorder import Recorder
from nemesis.hosts import ClockReading

LIBRARIES: Final = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)
"""Where distributions install the library; MT is the version for processes with threads."""

GIL_WAIT_MS: Final = 5
"""sys.getswitchinterval: the only timed wait on a condition variable in a node's process."""

_FILE: Final = "FAKETIME_TIMESTAMP_FILE"
_OURS: Final = ("LD_PRELOAD", "FAKETIME", "NO_FAKE_STAT")
_DATE: Final = ("date", "+%s%N")
_DATE_TIMEOUT_S: Final = 5.0
_NEVER_READ_NS: Final = 0
_SHARED_MEMORY: Final = Path("/dev/shm")
_SHARED: Final = ("sem.faketime_sem_{pid}", "faketime_shm_{pid}")


def library() -> Path | None:
    """Return the path of libfaketime for processes with threads; None if it is not installed."""
    found = (path for pattern in LIBRARIES for path in sorted(Path("/").glob(pattern[1:])))
    return next(found, None)


def environment(env: Mapping[str, str], preload: Path, file: Path) -> dict[str, str]:
    """Return `env` for a process whose wall clock `file` sets."""
    plain = {name: value for name, value in env.items() if not name.startswith("FAKETIME")}
    others = plain.get("LD_PRELOAD")
    return {
        **plain,
        "LD_PRELOAD": f"{preload}:{others}" if others else str(preload),
        _FILE: str(file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_WAIT_MS": str(GIL_WAIT_MS),
        "NO_FAKE_STAT": "1",
    }


def write(file: Path, offset_ms: float) -> None:
    """Set the clock of `file` atomically: a reader finds either the old or the new offset."""
    new = _new(file)
    new.write_text(f"{offset_ms / 1000:+.6f}\n")
    os.utime(new, ns=(_NEVER_READ_NS, time.time_ns()))
    new.replace(file)


def remove(file: Path) -> None:
    """Remove the clock of `file`, half-made or not; no process may use it any more."""
    file.unlink(missing_ok=True)
    _new(file).unlink(missing_ok=True)


def is_skewed(file: Path) -> bool:
    """Whether the file sets a clock wrong; a missing file does not."""
    try:
        return float(file.read_text()) != 0
    except (OSError, ValueError):
        return False


def shared_memory_of(pid: int) -> list[Path]:
    """Return the shared memory files that the library made for a pid, unless they are in use."""
    found = [_SHARED_MEMORY / name.format(pid=pid) for name in _SHARED]
    try:
        if f"{found[-1]}\n" in Path(f"/proc/{pid}/maps").read_text(errors="replace"):
            return []
    except OSError:  # no process has the pid, or a zombie, which has no memory
        pass
    return [path for path in found if path.exists()]


def remove_shared_memory(pid: int) -> None:
    """Remove the library's shared memory files of a process that has ended, reaped or not."""
    for path in shared_memory_of(pid):
        path.unlink(missing_ok=True)


def measure(env: Mapping[str, str]) -> tuple[float, float]:
    """Measure how far the wall clock of a process with this environment is ahead of the true time.

    Returns a lower and an upper bound in ms. Raises NotInForce when no process can be started.
    """
    before_ns = time.time_ns()
    try:
        shown_ns = int(_date(env))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotInForce(f"the wall clock cannot be read by `date`: {error}") from error
    after_ns = time.time_ns()
    return (shown_ns - after_ns) / 1e6, (shown_ns - before_ns) / 1e6


def _date(env: Mapping[str, str]) -> bytes:
    """Return the output of `date`; a slow one is killed, and its shared memory removed."""
    with subprocess.Popen(
        _DATE, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as date:
        try:
            return date.communicate(timeout=_DATE_TIMEOUT_S)[0]
        except subprocess.TimeoutExpired:
            date.kill()
            date.wait()
            remove_shared_memory(date.pid)
            raise


class LinuxClocks:
    """See `nemesis.hosts.Clocks`. Every change is in the journal before it is made."""

    def __init__(
        self,
        directory: Path,
        journal: Recorder,
        pid: Callable[[int], int | None],
        *,
        own: bool,
        what: str = "node",
    ) -> None:
        """Files are below `directory`; `pid` returns a node's process and raises UnknownNode.

        With `own` every node gets its own clock; without, the library is not loaded. `what` is what
        the messages call a node.
        """
        self._what = what
        self._directory = directory
        self._journal = journal
        self._pid = pid
        self._own = own
        self._layers: dict[int, dict[str, float]] = {}
        self._mutex = threading.RLock()

    @property
    def abilities(self) -> frozenset[str]:
        """The ability to set clocks, if libfaketime is installed."""
        return frozenset({"clocks"}) if library() is not None else frozenset()

    def environment(self, node: int, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment for the node's process. Raises Unsupported."""
        if not self._own:
            return dict(env)
        preload = library()
        if preload is None:
            raise Unsupported(
                f"{self._what} {node} cannot have its own wall clock, because libfaketime is not "
                "installed: apt-get install libfaketime"
            )
        with self._mutex:
            self._make(node)
        return environment(env, preload, self._file(node))

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """See the protocol. Raises Unsupported if the nodes have no clocks of their own."""
        self._pid(node)  # raises UnknownNode; a node that is down still has a clock
        if not self._own:
            raise Unsupported(f"{self._what} {node} runs without a wall clock of its own")
        with self._mutex:
            layers = self._layers.setdefault(node, {})
            if layers.get(layer) == offset_ms:
                return
            self._make(node)
            layers[layer] = offset_ms
            write(self._file(node), sum(layers.values()))

    def unskew(self, node: int, layer: str) -> None:
        """See the protocol."""
        with self._mutex:
            layers = self._layers.get(node, {})
            if layers.pop(layer, None) is not None:
                write(self._file(node), sum(layers.values()))

    def requested_offset_ms(self, node: int, layer: str = "") -> float:
        """See the protocol."""
        with self._mutex:
            layers = self._layers.get(node, {})
            return layers.get(layer, 0.0) if layer else sum(layers.values())

    def read(self, node: int) -> ClockReading | None:
        """Read the clock in a process with the node's environment, as /proc shows it.

        Raises NotInForce if the node's process does not use its own clock.
        """
        pid = self._pid(node)
        env = None if pid is None else _environment_of(pid)
        if env is None:
            return None
        file = self._file(node)
        if env.get(_FILE) != str(file) or not _has_loaded(pid, env["LD_PRELOAD"]):
            raise NotInForce(
                f"{self._what} {node} was started without a wall clock of its own; a program that "
                "is not linked to the C library has none"
            )
        with self._mutex:
            # The kernel records the first read of a file after a write. To see whether the node
            # has read it, our own read is taken back.
            read_ns = file.stat().st_atime_ns
            least_ms, most_ms = measure(env)
            if read_ns == _NEVER_READ_NS:
                os.utime(file, ns=(_NEVER_READ_NS, file.stat().st_mtime_ns))
        return ClockReading(least_ms, most_ms, read_ns != _NEVER_READ_NS)

    def _make(self, node: int) -> None:
        """Give the node a correct clock, unless it has one."""
        file = self._file(node)
        if not file.exists():
            self._journal.record("local.clock", file=str(file))
            self._directory.mkdir(exist_ok=True)
            write(file, 0)

    def _file(self, node: int) -> Path:
        return self._directory / str(node)


def _new(file: Path) -> Path:
    return file.with_suffix(".new")


def _environment_of(pid: int) -> dict[str, str] | None:
    """Return the variables of a process that affect its clock; None when it has ended."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return None
    pairs = (entry.partition("=") for entry in entries if entry.startswith(_OURS))
    found = {name: value for name, _, value in pairs}
    return {**found, "PATH": os.environ.get("PATH", os.defpath)} if entries != [""] else None


def _has_loaded(pid: int | None, preload: str) -> bool:
    """Whether the process has loaded the library."""
    try:
        return preload.partition(":")[0] in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False
