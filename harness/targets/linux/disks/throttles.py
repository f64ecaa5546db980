"""How much a block device may read and write a second: the limits of the kernel's I/O controller.

The limits are those of the control group that the harness's processes live in, for one device and
nobody else's. With cgroup v1 (blkio) the kernel writes back what nobody waits for in the name of
the root group, so that one gets the same limits; with cgroup v2 (io) the group has to have the
controller. A limit outlives the loop device that it was meant for and meets the next one of its
number: who sets it has to take it back.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = ("read_bps", "write_bps", "read_iops", "write_iops")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One control group whose limits can be set."""

    directory: Path
    unified: bool
    """cgroup v2: one file for all limits."""

    def set(self, device: str, *, bytes_per_s: int, operations_per_s: int) -> None:
        """Limit the device, named by its numbers (such as 7:0), each way; 0 is no limit."""
        limits = (bytes_per_s, bytes_per_s, operations_per_s, operations_per_s)
        if self.unified:
            names = ("rbps", "wbps", "riops", "wiops")
            said = (f"{n}={v or 'max'}" for n, v in zip(names, limits, strict=True))
            (self.directory / "io.max").write_text(f"{device} {' '.join(said)}")
            return
        for kind, limit in zip(KINDS, limits, strict=True):
            self._file(kind).write_text(f"{device} {limit}")

    def limits(self, device: str) -> str:
        """What the kernel says of the device's limits; empty when it has none."""
        files = [self.directory / "io.max"] if self.unified else map(self._file, KINDS)
        lines = [line for file in files for line in file.read_text().splitlines()]
        return ", ".join(line for line in lines if line.split()[0] == device)

    def _file(self, kind: str) -> Path:
        return self.directory / f"blkio.throttle.{kind}_device"


def groups(pid: int | None = None) -> list[Group]:
    """The control groups whose limits hold for our processes, or for another process; empty where
    none can be set.
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
    """A block device's numbers as the controller takes them."""
    number = device.stat().st_rdev
    return f"{os.major(number)}:{os.minor(number)}"


def _limit_file(group: Group) -> str:
    return "io.max" if group.unified else "blkio.throttle.write_bps_device"


def candidates(cgroups: str, mountinfo: str) -> Iterator[Group]:
    """The groups that /proc/self/cgroup names, below the mounts of /proc/self/mountinfo."""
    for line in cgroups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "blkio" not in controllers.split(","):
            continue
        mountpoint = _mountpoint(mountinfo, "blkio" if controllers else None)
        if mountpoint is None:
            continue
        yield Group(directory=mountpoint / path.lstrip("/"), unified=not controllers)
        if controllers:
            yield Group(directory=mountpoint, unified=False)


def _mountpoint(mountinfo: str, controller: str | None) -> Path | None:
    """Where the cgroup hierarchy with that controller is mounted; None means version 2."""
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        fs_type, _, options = source.split(" ", 2)
        if controller is None and fs_type == "cgroup2":
            return Path(mount.split(" ")[4])
        if controller and fs_type == "cgroup" and controller in options.split(","):
            return Path(mount.split(" ")[4])
    return None
