"""Tells a process that never ends from one that a busy machine gives no time.

The clock on the wall says nothing: on a starved machine a second of work may take minutes. So what
counts is how much processor time a process and its children have used, and for how long none of
them could have used any, because all of them slept.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_COULD_RUN: Final = "RD"
"""States of a thread that runs, waits for a processor, or waits for a disk."""


class Patience:
    """The end of the patience with a process: cpu_s of processor time, or asleep_s of sleep.

    `begin` counts anew from now on.
    """

    def __init__(self, pid: int, *, cpu_s: float, asleep_s: float) -> None:
        self._pid = pid
        self._cpu_s = cpu_s
        self._asleep_s = asleep_s
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._used_before_s = cpu_used_s(self._pid)
        self._slept_s = 0.0
        self._looked_s = time.monotonic()

    def ended(self) -> bool:
        """Whether the process used too much, or slept too long. Ask this about once a second: a
        sample says whether the process slept since the sample before."""
        now_s = time.monotonic()
        if sleeps(self._pid):
            self._slept_s += now_s - self._looked_s
        self._looked_s = now_s
        used_s = cpu_used_s(self._pid) - self._used_before_s
        return used_s > self._cpu_s or self._slept_s > self._asleep_s


def cpu_used_s(pid: int) -> float:
    """Return the processor time of a process, of its children, and of those that ended, in s."""
    used = 0
    for process in _family(pid):
        fields = _fields(PROC / str(process) / "stat")
        used += sum(map(int, fields[11:15]))
    return used / _TICKS_PER_S


def sleeps(pid: int) -> bool:
    """Whether no thread of a process and its children could run now. One that ended sleeps."""
    stats = (each for one in _family(pid) for each in (PROC / str(one) / "task").glob("*/stat"))
    return not any(fields and fields[0] in _COULD_RUN for fields in map(_fields, stats))


def _family(pid: int) -> Iterator[int]:
    """Yield a process and its children, and theirs."""
    yield pid
    for listed in (PROC / str(pid) / "task").glob("*/children"):
        try:
            children = listed.read_text().split()
        except OSError:  # it ended
            continue
        for child in children:
            yield from _family(int(child))


def _fields(stat: Path) -> list[str]:
    """Return the fields of a stat file behind the command: state, parent, ...; none if it ended."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []
