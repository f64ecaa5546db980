"""Limits of a block device's reads and writes per second, by the kernel's I/O controller.

A limit belongs to one device and to the control group of the harness's processes. With cgroup v1
(blkio) the kernel accounts asynchronous writeback to the root group, so the root group gets the
same limit. With cgroup v2 (io) the group needs the controller. A limit outlives its loop device and
would hold for the next device with the same number, so whoever sets a limit must remove it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = ("read_bps", "write_bps", "read_iops", "write_iops")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """One control group whose limits can be set."""

    directory: Path
    unified: bool
    """cgroup v2: one file for all limits."""

    def set(self, device: str, *, bytes_per_s: int, operations_per_s: int) -> None:
        """Limit the device (such as 7:0), each direction on its own; 0 is no limit."""
        limits = (bytes_per_s, bytes_per_s, operations_per_s, operations_per_s)
        if self.unified:
            names = ("rbps", "wbps", "riops", "wiops")
            pairs = (f"{n}={v or 'max'}" for n, v in zip(names, limits, strict=True))
            (self.directory / "io.max").write_text(f"{device} {' '.join(pairs)}")
            return
        for kind, limit in zip(KINDS, limits, strict=True):
            self._file(kind).write_text(f"{device} {limit}")

    def limits(self, device: str) -> str:
        """Return the kernel's text on the device's limits; empty without limits."""
        files = [self.directory / "io.max"] if self.unified else map(self._file, KINDS)
        lines = [line for file in files for line in file.read_text().splitlines()]
        return ", ".join(line for line in lines if line.split()[0] == device)

    def _file(self, kind: str) -> Path:
        return self.directory / f"blkio.throttle.{kind}_device"


def groups(pid: int | None = None) -> list[ControlGroup]:
    """Return the control groups whose limits hold for this process, or for process `pid`; empty
    where no limit can be set.
    """
    return list(
        dict.fromkeys(
            group
            for group in candidates(
                Path("/proc", str(pid or "self"), "cgroup").read_text(),
                Path("/proc/self/mountinfo").read_text(),
            )
            if os.access(group.directory / _limit_file(group), os.W_OK)
        )
    )


def device_numbers(device: Path) -> str:
    """Return a block device's numbers as the controller reads them: "7:0"."""
    number = device.stat().st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def _limit_file(group: ControlGroup) -> str:
    return "io.max" if group.unified else "blkio.throttle.write_bps_device"


def candidates(cgroups: str, mountinfo: str) -> Iterator[ControlGroup]:
    """Yield the groups named in /proc/PID/cgroup, at the mounts in /proc/self/mountinfo."""
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "blkio" not in controllers.split(","):
            continue
        mountpoint = _mountpoint(mountinfo, "blkio" if controllers else None)
        if mountpoint is None:
            continue
        yield ControlGroup(directory=mountpoint / path.lstrip("/"), unified=not controllers)
        if controllers:
            yield ControlGroup(directory=mountpoint, unified=False)


def _mountpoint(mountinfo: str, controller: str | None) -> Path | None:
    """Return the mount point of a controller's hierarchy; `None` asks for cgroup v2."""
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        fs_type, _, options = source.split(" ", 2)
        if controller is None and fs_type == "cgroup2":
            return Path(mount.split(" ")[4])
        if controller and fs_type == "cgroup" and controller in options.split(","):
            return Path(mount.split(" ")[4])
    return None
