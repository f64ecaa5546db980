"""The processes of a tested program, as the supervisor reports them and faults change them.

Two files connect the supervisor and the harness, because they are two processes. The supervisor
writes `state.json`: the process of each instance, and which instances it keeps down. The harness
writes `keep-down.json`: the instances that faults keep down. Every instance leads a process group.
"""

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.recording.store import write_atomic
from harness.targets.linux import kernel, processes
from harness.targets.linux.clocks import LinuxClocks

FOLDER: Final = "program"
"""The folder of a run directory that has these files and the program's logs."""
STATE: Final = "state.json"
KEEP_DOWN: Final = "keep-down.json"
CLOCKS: Final = "clocks"
"""The folder with a file for the wall clock of each instance."""
RESULT: Final = "result.json"
"""What the supervisor says at its end: the `problem` that made the run useless, if any, and
`notes`."""
CHANGE_S: Final = 10.0
"""How long the supervisor may take to follow a change."""


def write_state(folder: Path, pids: Mapping[int, int | None], kept_down: Sequence[int]) -> None:
    """Write what the supervisor knows of the instances."""
    found = {"pids": {str(n): pid for n, pid in pids.items()}, "kept_down": sorted(kept_down)}
    write_atomic(folder / STATE, json.dumps(found))


def kept_down(folder: Path) -> frozenset[int]:
    """Return the instances that faults keep down."""
    found = _read(folder / KEEP_DOWN)
    return frozenset(found.get("instances", ()))


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class _NoJournal:
    """Keeps nothing: the clocks are files of the run, and end with the program."""

    def record(self, kind: str, /, **fields: object) -> None:
        """Do nothing."""


def clocks_of(folder: Path, pid: Callable[[int], int | None]) -> LinuxClocks:
    """Return the wall clocks of the instances. `pid` returns the process of an instance."""
    return LinuxClocks(folder / CLOCKS, _NoJournal(), pid, own=True, what="instance")


class ProgramProcesses:
    """The processes of a run's program. See `nemesis.programs.Programs`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.clocks = clocks_of(folder, self.pid)
        """The wall clocks of the instances, in the place of nodes."""
        self._down: dict[int, set[str]] = {}
        self._stopped: dict[int, set[str]] = {}

    def instances(self) -> Sequence[int]:
        """See the protocol."""
        return sorted(self._pids())

    def pid(self, instance: int) -> int | None:
        """See the protocol."""
        pid = self._pids().get(instance)
        return pid if pid is not None and not processes.is_gone(pid) else None

    def kill(self, instance: int, tag: str) -> None:
        """See the protocol."""
        self._down.setdefault(instance, set()).add(tag)
        self._write()
        kernel.wait_until(lambda: self._is_down(instance), CHANGE_S)

    def _is_down(self, instance: int) -> bool:
        """Kill what runs; return whether nothing runs and the supervisor will start nothing."""
        pid = self.pid(instance)
        if pid is not None:
            processes.signal_group(pid, signal.SIGKILL)
            return False
        return instance in _read(self._folder / STATE).get("kept_down", ())

    def release(self, instance: int, tag: str) -> None:
        """See the protocol."""
        self._down.get(instance, set()).discard(tag)
        self._write()
        if not self.is_kept_down(instance):
            kernel.wait_until(lambda: self.pid(instance) is not None, CHANGE_S)

    def is_kept_down(self, instance: int) -> bool:
        """See the protocol."""
        return bool(self._down.get(instance))

    def pause(self, instance: int, tag: str) -> None:
        """See the protocol."""
        self._stopped.setdefault(instance, set()).add(tag)
        if (pid := self.pid(instance)) is not None:
            processes.stop_groups(processes.groups_of(pid), f"instance {instance}")

    def resume(self, instance: int, tag: str) -> None:
        """See the protocol."""
        held = self._stopped.get(instance, set())
        held.discard(tag)
        pid = self.pid(instance)
        if not held and pid is not None:
            processes.continue_groups(processes.groups_of(pid), f"instance {instance}")

    def states(self, instance: int) -> Mapping[int, str]:
        """See the protocol."""
        pid = self._pids().get(instance)
        return {} if pid is None else processes.states_of(processes.groups_of(pid))

    def end(self) -> None:
        """SIGKILL everything that runs: the supervisor did not end it."""
        for pid in self._pids().values():
            if pid is not None:
                processes.signal_group(pid, signal.SIGKILL)

    def _pids(self) -> dict[int, int | None]:
        found = _read(self._folder / STATE).get("pids", {})
        return {int(number): pid for number, pid in found.items()}

    def _write(self) -> None:
        down = sorted(instance for instance, tags in self._down.items() if tags)
        write_atomic(self._folder / KEEP_DOWN, json.dumps({"instances": down}))
