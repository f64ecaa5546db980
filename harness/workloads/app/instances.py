"""The instances of the tested program. An instance that ends is started again.

A command leads a session and a process group of its own, so that it ends together with its
children. A child that left the group becomes a child of this process (PR_SET_CHILD_SUBREAPER), and
ends with the last call of `stop`. So nothing of the program is left behind.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.targets.linux import kernel
from harness.workloads.app.logs import ProgramLog
from harness.workloads.app.processes import kept_down, write_state
from harness.workloads.app.restarts import Restarts
from harness.workloads.app.started import ProgramFailed, Started, Starter

PR_SET_CHILD_SUBREAPER: Final = 36
END_S: Final = 5.0
"""How long killed processes may take to end."""

OnChange = Callable[[int, str, int], None]
"""Told of a change: the instance, `start` or what its exit was, and the number of the start."""


@dataclass(slots=True)
class Instance:
    """One instance of the program, over all its starts."""

    number: int
    log: ProgramLog
    restarts: Restarts = field(default_factory=Restarts)
    process: Started | None = None
    started_s: float = 0.0
    starts: int = 0


class Instances:
    """All instances. Calls come from one thread."""

    def __init__(
        self,
        folder: Path,
        count: int,
        *,
        start: Starter,
        base_ns: int,
        on_change: OnChange,
    ) -> None:
        """`start` starts an instance; logs are made in `folder`."""
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._folder = folder
        self._begin = start
        self._on_change = on_change
        self._written: tuple[dict[int, int | None], frozenset[int]] | None = None
        self.all = [
            Instance(number=n, log=ProgramLog(folder / f"instance-{n}.log", base_ns))
            for n in range(1, count + 1)
        ]

    def tend(self, *, any_output: bool) -> None:
        """Start what does not run and is due. Raises ProgramFailed."""
        down, now_s = kept_down(self._folder), time.monotonic()
        for each in self.all:
            if each.process is not None and (code := each.process.poll()) is not None:
                self._ended(each, code, by_fault=each.number in down)
                if each.restarts.hopeless(any_output=any_output):
                    raise ProgramFailed(self._hopeless(each))
            if each.process is None and each.number not in down and now_s >= each.restarts.due_s:
                self._start(each)
        self._write_state(down)

    def _start(self, each: Instance) -> None:
        each.process = self._begin(each.number)
        each.starts += 1
        each.started_s = time.monotonic()
        each.log.note(f"highwater: start {each.starts}, process {each.process.pid}")
        each.log.follow(each.process.output)
        self._on_change(each.number, "start", each.starts)

    def _ended(self, each: Instance, code: int, *, by_fault: bool) -> None:
        assert each.process is not None
        each.process.clean_up()
        how = exit_text(code)
        each.log.note(f"highwater: ended, {how}" + (", by a fault" if by_fault else ""))
        each.restarts.ended(each.started_s, time.monotonic(), by_fault=by_fault)
        each.process = None
        self._on_change(each.number, how, each.starts)

    def _hopeless(self, each: Instance) -> str:
        last = "\n  ".join(each.log.last) or "(it printed nothing)"
        return (
            f"the program ended {each.restarts.failed} times in a row within seconds of its start, "
            f"without any output. Its last lines:\n  {last}"
        )

    def _write_state(self, down: frozenset[int]) -> None:
        pids = {e.number: None if e.process is None else e.process.pid for e in self.all}
        if (pids, down) != self._written:
            write_state(self._folder, pids, sorted(down))
            self._written = (pids, down)

    def stop(self, seconds: float) -> list[str]:
        """SIGTERM to all, then SIGKILL to those that run after `seconds`; return these in words."""
        running = [each for each in self.all if each.process is not None]
        for each in running:
            assert each.process is not None
            each.log.note("highwater: SIGTERM")
            each.process.signal(signal.SIGTERM)
            each.process.signal(signal.SIGCONT)
        deadline_s = time.monotonic() + seconds
        hung = []
        for each in running:
            assert each.process is not None
            try:
                code = each.process.wait(max(0.01, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                each.process.signal(signal.SIGKILL)
                code = each.process.wait(END_S)
                hung.append(
                    f"instance {each.number} of the program did not end within {seconds:g} s of "
                    "SIGTERM and was killed"
                )
            self._ended(each, code, by_fault=False)
        kernel.wait_until(_no_child_is_left, END_S)
        self._write_state(frozenset())
        for each in self.all:
            each.log.close()
        return hung


def _no_child_is_left() -> bool:
    """SIGKILL the children that this process has, and reap them; return whether none is left."""
    me = os.getpid()
    left = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _parent(entry) == me:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)
            left += 1
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return not left


def _parent(entry: Path) -> int | None:
    try:
        text = (entry / "stat").read_text()
    except OSError:
        return None
    return int(text[text.rindex(")") + 2 :].split()[1])


def exit_text(code: int) -> str:
    """Return an exit code in words: `exit code 1`, or `SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
