"""Clock faults on a machine that only one node uses, such as a VM: set the machine's wall clock.

Unlike with `clocks`, every process on the machine sees the fault. The true time follows from the
time since boot, which cannot be set. Time synchronization (NTP) is stopped meanwhile.
"""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harness.recording.journal import Journal
from nemesis.hosts import ClockReading

KIND: Final = "machine.clock"
_TIMEDATECTL_S: Final = 60.0
_ATTEMPTS: Final = 20
_CLOSE_NS: Final = 300_000


class WallClock:
    """The kernel's clocks, and the service that synchronizes the wall clock."""

    def boot(self) -> str:
        """The kernel's boot id."""
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def ahead_ns(self) -> int:
        """The wall clock's time minus the time since boot, in ns."""
        return time.clock_gettime_ns(time.CLOCK_REALTIME) - time.clock_gettime_ns(
            time.CLOCK_BOOTTIME
        )

    def set_ahead(self, ahead_ns: int) -> None:
        """Set the wall clock that far ahead of the time since boot, in a few attempts: a busy
        machine may pause between reading one clock and setting the other. Raises OSError.
        """
        for _ in range(_ATTEMPTS):
            now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + ahead_ns
            time.clock_settime_ns(time.CLOCK_REALTIME, now_ns)
            if abs(self.ahead_ns() - ahead_ns) < _CLOSE_NS:
                return

    def is_synchronized(self) -> bool:
        """Whether systemd runs a time service (timesyncd, chrony); False without systemd."""
        if shutil.which("timedatectl") is None:
            return False
        command = ("timedatectl", "show", "--property=NTP", "--value")
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEDATECTL_S, check=False
        )
        return done.stdout.strip() == "yes"

    def synchronize(self, on: bool) -> None:
        """Start or stop the time service. Raises subprocess.CalledProcessError."""
        command = ("timedatectl", "set-ntp", str(on).lower())
        subprocess.run(command, capture_output=True, timeout=_TIMEDATECTL_S, check=True)


class MachineClock:
    """See `nemesis.hosts.Clocks`, for one node. The journal records the true time and the time
    service's state before the first change.
    """

    abilities = frozenset({"clocks"})

    def __init__(
        self,
        journal: Journal,
        pid: Callable[[int], int | None],
        clock: WallClock | None = None,
    ) -> None:
        """`pid` returns the node's process and raises UnknownNode."""
        self._journal = journal
        self._pid = pid
        self._clock = clock or WallClock()
        self._layers: dict[str, float] = {}
        self._true_ahead_ns: int | None = None
        self._was_synchronized = False
        self._mutex = threading.RLock()

    def environment(self, node: int, env: Mapping[str, str]) -> dict[str, str]:
        """The environment stays as it is."""
        return dict(env)

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """See the protocol. Raises OSError when this process may not set clocks."""
        self._pid(node)
        with self._mutex:
            if self._true_ahead_ns is None:
                self._take_over()
            self._layers[layer] = offset_ms
            self._set()

    def unskew(self, node: int, layer: str) -> None:
        """See the protocol."""
        with self._mutex:
            if self._layers.pop(layer, None) is None:
                return
            self._set()
            if not self._layers and self._was_synchronized:
                self._clock.synchronize(True)
                self._true_ahead_ns = None

    def requested_offset_ms(self, node: int, layer: str = "") -> float:
        """See the protocol."""
        with self._mutex:
            return self._layers.get(layer, 0.0) if layer else sum(self._layers.values())

    def read(self, node: int) -> ClockReading | None:
        """Read the machine's clock, which is also the node's."""
        if self._pid(node) is None:
            return None
        with self._mutex:
            true_ns = self._true_ahead_ns
        ahead_ms = 0.0 if true_ns is None else (self._clock.ahead_ns() - true_ns) / 1e6
        return ClockReading(ahead_ms - 1, ahead_ms + 1, True)

    def _take_over(self) -> None:
        """Record the true time, and stop the time service."""
        self._true_ahead_ns = self._clock.ahead_ns()
        self._was_synchronized = self._clock.is_synchronized()
        self._journal.record(
            KIND,
            boot=self._clock.boot(),
            ahead_ns=self._true_ahead_ns,
            kept_right=self._was_synchronized,
        )
        if self._was_synchronized:
            self._clock.synchronize(False)

    def _set(self) -> None:
        if self._true_ahead_ns is not None:
            offset_ns = round(sum(self._layers.values()) * 1e6)
            self._clock.set_ahead(self._true_ahead_ns + offset_ns)


def undo(fields: Mapping[str, object], clock: WallClock | None = None) -> str | None:
    """Correct the clock that a record names. After a boot the clock is right already, but the time
    service is still off.
    """
    clock = clock or WallClock()
    stopped = fields["kept_right"] and not clock.is_synchronized()
    if fields["kept_right"] and not stopped:
        return None  # the time service runs again
    true_ns, booted = int(str(fields["ahead_ns"])), fields["boot"] != clock.boot()
    off_ms = 0.0 if booted else (clock.ahead_ns() - true_ns) / 1e6
    if abs(off_ms) >= 1:
        clock.set_ahead(true_ns)
    if stopped:
        clock.synchronize(True)
    return f"clock of the machine, {off_ms:+.0f} ms off" if abs(off_ms) >= 1 else None
