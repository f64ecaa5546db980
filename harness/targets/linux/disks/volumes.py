"""The nodes' disks: one file system per node, on a loop device over a sparse file.

Disk faults need a file system per node, which can be frozen, filled or lose power alone. On a
machine without loop devices a plain directory replaces it, and disk faults are unsupported. The
image stays in the run directory until its owner deletes it.
"""

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from harness.recording.journal import ROOTLESS_UID
from harness.targets.base import NodeState, TargetError, Unsupported
from harness.targets.linux import kernel
from harness.targets.linux.recorder import Recorder

IMAGE_BYTES = 8 << 30
"""The apparent size of a node's disk; the image is sparse and takes only written blocks."""

_MKFS_TIMEOUT_S = 60
_GONE_TIMEOUT_S = 5.0


class Volume(StrEnum):
    """What a node's data directory is made of."""

    IMAGE_EXT4 = "image-ext4"
    IMAGE_XFS = "image-xfs"
    DIRECTORY = "directory"

    @property
    def fs_type(self) -> str | None:
        """The kernel's name of the file system, or None for a plain directory."""
        return self.value.partition("-")[2] or None


# The new image is sparse and reads as zeros, so neither mkfs nor the kernel (later, in the middle
# of a run) needs to zero inode tables or the journal. Few inodes suffice: a log has few files.
_MKFS = {
    Volume.IMAGE_EXT4: (
        *("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "16384", "-J", "size=64"),
        *("-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=1"),
    ),
    Volume.IMAGE_XFS: ("mkfs.xfs", "-q", "-f", "-K"),
}


_PACKAGES = {"mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs"}


def best_volume() -> Volume:
    """Return ext4 on an image if root, loop devices and mkfs.ext4 are there, else a directory."""
    # Inside a user namespace the user id is 0 too, but images cannot be mounted.
    real_root = os.geteuid() == 0 and ROOTLESS_UID not in os.environ
    loops = real_root and os.access("/dev/loop-control", os.R_OK | os.W_OK)
    return Volume.IMAGE_EXT4 if loops and _program("mkfs.ext4") else Volume.DIRECTORY


def make(volume: Volume, mountpoint: Path, image: Path, journal: Recorder) -> None:
    """Make a node's empty data directory at `mountpoint`. Raises OSError, Unsupported."""
    mountpoint.mkdir(parents=True)
    if volume is Volume.DIRECTORY:
        return
    with image.open("xb") as file:
        file.truncate(IMAGE_BYTES)
    _format(volume, image)
    journal.record("local.volume", image=str(image), mountpoint=str(mountpoint))
    _mount(volume, mountpoint, image)
    with suppress(FileNotFoundError):
        (mountpoint / "lost+found").rmdir()  # a broker would take it for a partition


def flush(volume: Volume, mountpoint: Path) -> None:
    """Write all dirty pages and empty the file system's journal, as a freeze does first."""
    kernel.sync(mountpoint)
    if volume is Volume.IMAGE_EXT4:
        with suppress(OSError):  # kernels before Linux 5.14 lack it
            kernel.checkpoint(mountpoint)


def freeze(mountpoint: Path, journal: Recorder) -> None:
    """Stall the disk: every write and sync blocks, unkillable, until `thaw`.

    A freeze waits for three RCU grace periods of the kernel, of some 15 ms each; expedited, for
    none.
    """
    expedited = kernel.can_expedite_rcu()
    journal.record("local.freeze", mountpoint=str(mountpoint), hurried=expedited)
    try:
        if expedited:
            kernel.expedite_rcu(on=True)
        kernel.freeze(mountpoint)
    finally:
        if expedited:
            kernel.expedite_rcu(on=False)


def thaw(mountpoint: Path) -> bool:
    """Undo `freeze`. Return False when the disk was not frozen, is shut down, or not mounted."""
    try:
        return kernel.is_mounted(mountpoint) and kernel.thaw(mountpoint)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return False


def devices(image: Path) -> list[int]:
    """Return the device numbers (st_dev) of files on the image's file system."""
    return [device.stat().st_rdev for device in kernel.loops_over(image)]


@contextmanager
def opened(mountpoint: Path, image: Path) -> Iterator[int]:
    """Open the root of the image's file system, which stays mounted for the block.

    Raises NodeState while the image is not mounted at `mountpoint`.
    """
    descriptor = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.fstat(descriptor).st_dev not in devices(image):
            raise NodeState(f"{image} is not mounted at {mountpoint} at the moment")
        yield descriptor
    finally:
        os.close(descriptor)


def restart(volume: Volume, mountpoint: Path, image: Path) -> None:
    """Unmount and mount again, as a boot would, replaying the journal. No process may use it.

    Raises TargetError when a process uses it, or when another mount keeps the old file system.
    """
    assert volume.fs_type is not None
    devices = kernel.loops_over(image)
    device, descriptor = (
        (devices[0], os.open(devices[0], os.O_RDWR)) if devices else kernel.attach_loop(image)
    )
    # The descriptor keeps the device while nothing is mounted.
    try:
        if not kernel.wait_until(lambda: _unmounted(mountpoint), _GONE_TIMEOUT_S):
            raise TargetError(
                f"{mountpoint} cannot be unmounted, because a process uses files on it: "
                f"`fuser -vm {mountpoint}` names it"
            )
        _remove_mount_point(mountpoint)
        mountpoint.mkdir()
        if not kernel.wait_until(lambda: _is_back(volume, mountpoint, device), _GONE_TIMEOUT_S):
            raise TargetError(
                f"{mountpoint} cannot be mounted again, because another mount namespace keeps the "
                f"old mount: `grep -l {mountpoint} /proc/*/mountinfo` names its processes"
            )
    finally:
        os.close(descriptor)


def remove(mountpoint: Path, image: Path) -> bool:
    """Unmount and detach the volume; the image stays. Return False when nothing was mounted."""
    found = False
    for _ in range(8):  # a bound on stacked mounts
        if not kernel.is_mounted(mountpoint):
            break
        found = True
        thaw(mountpoint)
        if not kernel.wait_until(lambda: _unmounted(mountpoint), _GONE_TIMEOUT_S, 0.05):
            kernel.umount(mountpoint, kernel.MNT_DETACH)
    with suppress(OSError):
        _remove_mount_point(mountpoint)
    for device in kernel.loops_over(image):
        found = True
        kernel.detach_loop(device)
    if not kernel.wait_until(lambda: not kernel.loops_over(image), _GONE_TIMEOUT_S):
        devices = ", ".join(map(str, kernel.loops_over(image)))
        raise TargetError(
            f"{devices} cannot be detached from {image}, because a process has it open: "
            f"`fuser -v {devices}` names it"
        )
    return found


def _format(volume: Volume, image: Path) -> None:
    name, *options = _MKFS[volume]
    program = _program(name)
    if program is None:
        raise Unsupported(
            f"disks of kind {volume} need {name}, which is not installed: "
            f"apt-get install {_PACKAGES[name]}"
        )
    done = subprocess.run(
        [program, *options, str(image)], capture_output=True, timeout=_MKFS_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise TargetError(f"{name} failed on {image}: {done.stderr.decode(errors='replace')}")


def _mount(volume: Volume, mountpoint: Path, image: Path) -> None:
    assert volume.fs_type is not None
    device, descriptor = kernel.attach_loop(image)
    try:
        kernel.mount(str(device), mountpoint, volume.fs_type, kernel.MS_NOATIME)
    finally:
        os.close(descriptor)


def _is_back(volume: Volume, mountpoint: Path, device: Path) -> bool:
    """Mount the volume; whether it works. While another mount keeps the old file system, the kernel
    mounts that one again, which is shut down; then it is unmounted."""
    assert volume.fs_type is not None
    kernel.mount(str(device), mountpoint, volume.fs_type, kernel.MS_NOATIME)
    try:
        # A file system that is shut down still lists and reads cached files, but takes no new one.
        with tempfile.TemporaryFile(dir=mountpoint):
            return True
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return True
        kernel.umount(mountpoint)
        return False


def _remove_mount_point(mountpoint: Path) -> None:
    """Remove the unmounted directory. This also ends the copies of the mount in other mount
    namespaces (containers, sandboxes), which would keep the device."""
    mountpoint.rmdir()


def _unmounted(mountpoint: Path) -> bool:
    try:
        kernel.umount(mountpoint)
    except OSError:
        return not kernel.is_mounted(mountpoint)
    return True


def _program(name: str) -> str | None:
    # A user's PATH may lack /usr/sbin and /sbin.
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
