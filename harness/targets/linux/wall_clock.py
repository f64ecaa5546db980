"""A machine's own wall clock, to be set where the machine is the node's alone, such as in a VM.

Everything on the machine sees it, other than with `clocks`. What the true time is follows from
the time since boot, which nobody can set; what keeps the clock right is stopped meanwhile.
"""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.recording.journal import Journal
from nemesis.hosts import Reading

KIND: Final = "machine.clock"
_TIMEDATECTL_S: Final = 60.0
_ATTEMPTS: Final = 20
_CLOSE_NS: Final = 300_000


class WallClock:
    """The kernel's clocks, and the service that sets the wall clock right."""

    def boot(self) -> str:
        """Which boot this is."""
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def ahead_ns(self) -> int:
        """The wall clock's time less the time since boot."""
        return time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(
            time.CLOCK_BOOTTIME
        )

    def set_ahead(self, ahead_ns: int) -> None:
        """Set the wall clock so, as well as a few attempts can: a busy machine may pause between
        looking at one clock and setting the other. Raises OSError for who may not.
        """
        for _ in range(_ATTEMPTS):
            now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + ahead_ns
            time.clock_settime_ns(time.CLOCK_REALTIME, now_ns)
            if abs(self.ahead_ns() - ahead_ns) < _CLOSE_NS:
                return

    def is_kept_right(self) -> bool:
        """Whether systemd has a service that does so (timesyncd, chrony); without systemd, no."""
        if shutil.which("timedatectl") is None:
            return False
        command = ("timedatectl", "show", "--property=NTP", "--value")
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEDATECTL_S, check=False
        )
        return done.stdout.strip() == "yes"

    def keep_right(self, on: bool) -> None:
        """Start or stop that service. Raises subprocess.CalledProcessError."""
        command = ("timedatectl", "set-ntp", str(on).lower())
        subprocess.run(command, capture_output=True, timeout=_TIMEDATECTL_S, check=True)


class MachineClock:
    """See `nemesis.hosts.Clocks`; there is one node. The first change is in the journal before it
    is made, with the way back.
    """

    abilities = frozenset({"clocks"})

    def __init__(
        self,
        journal: Journal,
        pid: Callable[[int], int | None],
        clock: WallClock | None = None,
    ) -> None:
        """`pid` gives the node's process, and raises for who is no node."""
        self._journal = journal
        self._pid = pid
        self._clock = clock or WallClock()
        self._layers: dict[str, float] = {}
        self._true_ahead_ns: int | None = None
        self._kept_right = False
        self._mutex = threading.RLock()

    def environment(self, node: int, env: Mapping[str, str]) -> dict[str, str]:
        """The node's process needs nothing for it."""
        return dict(env)

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """See the protocol. Raises OSError for who may not set clocks."""
        self._pid(node)
        with self._mutex:
            if self._true_ahead_ns is None:
                self._take()
            self._layers[layer] = offset_ms
            self._set()

    def unskew(self, node: int, layer: str) -> None:
        """See the protocol."""
        with self._mutex:
            if self._layers.pop(layer, None) is None:
                return
            self._set()
            if not self._layers and self._kept_right:
                self._clock.keep_right(True)
                self._true_ahead_ns = None

    def asked_ms(self, node: int, layer: str = "") -> float:
        """See the protocol."""
        with self._mutex:
            return self._layers.get(layer, 0.0) if layer else sum(self._layers.values())

    def shown(self, node: int) -> Reading | None:
        """What the clock shows to everybody, the node among them."""
        if self._pid(node) is None:
            return None
        with self._mutex:
            true_ns = self._true_ahead_ns
        ahead_ms = 0.0 if true_ns is None else (self._clock.ahead_ns() - true_ns) / 1e6
        return Reading(ahead_ms - 1, ahead_ms + 1, True)

    def _take(self) -> None:
        """Remember what is true, and let nobody else set the clock."""
        self._true_ahead_ns = self._clock.ahead_ns()
        self._kept_right = self._clock.is_kept_right()
        self._journal.record(
            KIND,
            boot=self._clock.boot(),
            ahead_ns=self._true_ahead_ns,
            kept_right=self._kept_right,
        )
        if self._kept_right:
            self._clock.keep_right(False)

    def _set(self) -> None:
        if self._true_ahead_ns is not None:
            offset_ns = round(sum(self._layers.values()) * 1e6)
            self._clock.set_ahead(self._true_ahead_ns + offset_ns)


def undo(fields: Mapping[str, object], clock: WallClock | None = None) -> str | None:
    """Set the clock right that a record is of. A boot has done that, and no more: what was to keep
    the clock right is still off.
    """
    clock = clock or WallClock()
    stopped = fields["kept_right"] and not clock.is_kept_right()
    if fields["kept_right"] and not stopped:
        return None  # who keeps it right is at work again
    true_ns, booted = int(str(fields["ahead_ns"])), fields["boot"] != clock.boot()
    off_ms = 0.0 if booted else (clock.ahead_ns() - true_ns) / 1e6
    if abs(off_ms) >= 1:
        clock.set_ahead(true_ns)
    if stopped:
        clock.keep_right(True)
    return f"clock of the machine, {off_ms:+.0f} ms off" if abs(off_ms) >= 1 else None
