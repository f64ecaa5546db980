"""The nodes' wall clocks, to be set apart: libfaketime in every node's process, a file for each.

A kernel has one wall clock for all that runs on it (time namespaces set only the monotonic ones
apart), so a node's own is made where its process asks for the time: the library, loaded before
libc, adds what the node's file says to every reading of the wall clock, and leaves monotonic time
alone. It is loaded only where the run's schedule sets clocks: each reading of the wall clock then
opens the file (some 10 us), so that a change holds from the next reading on.

Two traps of libfaketime 0.9.10 with monotonic time left alone: a timed wait on a condition variable
of that clock returns at once, which has CPython's threads spin for the interpreter's lock, so every
such wait is given CPython's own 5 ms; and a sleep until a moment of that clock, which is
`time.sleep`, fails, so only processes that never call it can be given such a clock.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.recording.journal import Journal
from harness.targets.base import NotInForce, Unsupported
from nemesis.hosts import Reading

LIBRARIES: Final = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)
"""Where distributions have it; MT is the one for processes with threads."""

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
    """libfaketime for processes with threads, where it is installed."""
    found = (path for pattern in LIBRARIES for path in sorted(Path("/").glob(pattern[1:])))
    return next(found, None)


def environment(env: Mapping[str, str], preload: Path, file: Path) -> dict[str, str]:
    """`env` for a process whose wall clock `file` sets."""
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
    """Set the clock that `file` is: whoever reads it finds the old or the new offset, whole."""
    new = _new(file)
    new.write_text(f"{offset_ms / 1000:+.6f}\n")
    os.utime(new, ns=(_NEVER_READ_NS, time.time_ns()))
    new.replace(file)


def remove(file: Path) -> None:
    """End the clock that `file` is, half made or not; nobody may go by it any more."""
    file.unlink(missing_ok=True)
    _new(file).unlink(missing_ok=True)


def is_skewed(file: Path) -> bool:
    """Whether the file sets a clock apart from the truth; one that is not there does not."""
    try:
        return float(file.read_text()) != 0
    except (OSError, ValueError):
        return False


def left_by(pid: int) -> list[Path]:
    """What the library made by a process's number, and nobody who has the number now goes by."""
    found = [_SHARED_MEMORY / name.format(pid=pid) for name in _SHARED]
    try:
        if f"{found[-1]}\n" in Path(f"/proc/{pid}/maps").read_text(errors="replace"):
            return []
    except OSError:  # nobody has the number; a zombie has it, and no memory
        pass
    return [path for path in found if path.exists()]


def forget(pid: int) -> None:
    """Remove what the library left of a process that has ended, waited for or not."""
    for path in left_by(pid):
        path.unlink(missing_ok=True)


def measure(env: Mapping[str, str]) -> tuple[float, float]:
    """How far ahead of ours the wall clock of a process of that environment is, in ms: between.

    Raises NotInForce when it cannot be asked.
    """
    before_ns = time.time_ns()
    try:
        shown_ns = int(_date(env))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotInForce(f"no process can be asked for its wall clock: {error}") from error
    after_ns = time.time_ns()
    return (shown_ns - after_ns) / 1e6, (shown_ns - before_ns) / 1e6


def _date(env: Mapping[str, str]) -> bytes:
    """What `date` prints; one that is too slow is killed, and leaves nothing either."""
    with subprocess.Popen(
        _DATE, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as asked:
        try:
            return asked.communicate(timeout=_DATE_TIMEOUT_S)[0]
        except subprocess.TimeoutExpired:
            asked.kill()
            asked.wait()
            forget(asked.pid)
            raise


class LinuxClocks:
    """See `nemesis.hosts.Clocks`. Every change is in the journal before it is made."""

    def __init__(
        self,
        directory: Path,
        journal: Journal,
        pid: Callable[[int], int | None],
        *,
        own: bool,
    ) -> None:
        """Files go below `directory`; `pid` gives a node's process and raises for who is no node.

        With `own`, nodes get clocks of their own; without, nothing of this is in their processes.
        """
        self._directory = directory
        self._journal = journal
        self._pid = pid
        self._own = own
        self._layers: dict[int, dict[str, float]] = {}
        self._mutex = threading.RLock()

    @property
    def abilities(self) -> frozenset[str]:
        """Whether clocks can be set here, for runs that ask for clocks of the nodes' own."""
        return frozenset({"clocks"}) if library() is not None else frozenset()

    def environment(self, node: int, env: Mapping[str, str]) -> dict[str, str]:
        """The environment that the node's process starts with. Raises Unsupported."""
        if not self._own:
            return dict(env)
        preload = library()
        if preload is None:
            raise Unsupported("wall clocks cannot be set apart here: apt install libfaketime")
        with self._mutex:
            self._make(node)
        return environment(env, preload, self._file(node))

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """See the protocol. Raises Unsupported where the nodes have no clocks of their own."""
        self._pid(node)  # a node that is down has a clock all the same, one that is not there none
        if not self._own:
            raise Unsupported(f"node {node} is run without a wall clock of its own")
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

    def asked_ms(self, node: int, layer: str = "") -> float:
        """See the protocol."""
        with self._mutex:
            layers = self._layers.get(node, {})
            return layers.get(layer, 0.0) if layer else sum(layers.values())

    def shown(self, node: int) -> Reading | None:
        """The clock of a process in the very environment that the kernel says the node has.

        Raises NotInForce where the node's process does not go by a clock of its own.
        """
        pid = self._pid(node)
        env = None if pid is None else _environment_of(pid)
        if env is None:
            return None
        file = self._file(node)
        if env.get(_FILE) != str(file) or not _has_loaded(pid, env["LD_PRELOAD"]):
            raise NotInForce(f"node {node} was started without a wall clock of its own")
        with self._mutex:
            # The kernel notes when a file was read first after it was written: by the node, as
            # long as our own reading is taken back.
            read_ns = file.stat().st_atime_ns
            least_ms, most_ms = measure(env)
            if read_ns == _NEVER_READ_NS:
                os.utime(file, ns=(_NEVER_READ_NS, file.stat().st_mtime_ns))
        return Reading(least_ms, most_ms, read_ns != _NEVER_READ_NS)

    def _make(self, node: int) -> None:
        """Give the node a clock, which is right, unless it has one."""
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
    """What of a process's environment bears on its clock; None when it is gone."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return None
    pairs = (entry.partition("=") for entry in entries if entry.startswith(_OURS))
    found = {name: value for name, _, value in pairs}
    return {**found, "PATH": os.environ.get("PATH", os.defpath)} if entries != [""] else None


def _has_loaded(pid: int | None, preload: str) -> bool:
    """Whether the process really has the library in its memory."""
    try:
        return preload.partition(":")[0] in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False
