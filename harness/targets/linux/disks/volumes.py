"""The nodes' disks: a file system of each node's own, on a loop device over a sparse file.

A file system of its own is what makes disk faults possible: it can be frozen, filled or lose power
alone. Where loop devices are not to be had, a plain directory stands in, and disk faults are
unsupported. The image stays in the run directory until its owner deletes it.
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
from harness.targets.linux.network.network import Recorder

IMAGE_BYTES = 8 << 30
"""The size a node's disk seems to have; the image is sparse and takes what is written."""

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


# The image is new and sparse, so it reads as zeros: neither mkfs nor the kernel, lazily and in the
# middle of a run, has to zero inode tables or the journal. Few inodes: a log has few files.
_MKFS = {
    Volume.IMAGE_EXT4: (
        *("mkfs.ext4", "-q", "-F", "-m", "0", "-N", "16384", "-J", "size=64"),
        *("-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=1"),
    ),
    Volume.IMAGE_XFS: ("mkfs.xfs", "-q", "-f", "-K"),
}


def best_volume() -> Volume:
    """ext4 on an image where root, loop devices and mkfs.ext4 are to be had, else a directory."""
    # Inside a user namespace one looks like root, and may still not mount an image.
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
        (mountpoint / "lost+found").rmdir()  # to a broker it would look like a partition


def flush(volume: Volume, mountpoint: Path) -> None:
    """Write what waits, and empty the file system's own journal: a freeze begins with both."""
    kernel.sync(mountpoint)
    if volume is Volume.IMAGE_EXT4:
        with suppress(OSError):  # older kernels than Linux 5.14 do not have it
            kernel.checkpoint(mountpoint)


def freeze(mountpoint: Path, journal: Recorder) -> None:
    """Stall the disk: whoever writes or syncs blocks, unkillable, until `thaw`.

    A freeze is three grace periods of the kernel's, of some 15 ms each; in a hurry, of none.
    """
    hurried = kernel.may_hurry()
    journal.record("local.freeze", mountpoint=str(mountpoint), hurried=hurried)
    try:
        if hurried:
            kernel.hurry(on=True)
        kernel.freeze(mountpoint)
    finally:
        if hurried:
            kernel.hurry(on=False)


def thaw(mountpoint: Path) -> bool:
    """Let the disk go on. False when it was not frozen, is dead, or not there any more."""
    try:
        return kernel.is_mounted(mountpoint) and kernel.thaw(mountpoint)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return False


def devices(image: Path) -> list[int]:
    """The numbers, as of st_dev, by which the files of the image's file system are told."""
    return [device.stat().st_rdev for device in kernel.loops_over(image)]


@contextmanager
def opened(mountpoint: Path, image: Path) -> Iterator[int]:
    """A descriptor of the root of the image's file system, which stays mounted for the block.

    Raises NodeState when something else is there, such as the machine's own file system while the
    image is not mounted.
    """
    descriptor = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.fstat(descriptor).st_dev not in devices(image):
            raise NodeState(f"{image} is not mounted at {mountpoint} at the moment")
        yield descriptor
    finally:
        os.close(descriptor)


def restart(volume: Volume, mountpoint: Path, image: Path) -> None:
    """Unmount and mount again, as a boot would, replaying the journal. Nobody may be using it.

    Raises TargetError when somebody does, or when the old file system outlives its unmounting.
    """
    assert volume.fs_type is not None
    devices = kernel.loops_over(image)
    device, descriptor = (
        (devices[0], os.open(devices[0], os.O_RDWR)) if devices else kernel.attach_loop(image)
    )
    # The descriptor keeps the device while nothing is mounted.
    try:
        if not kernel.wait_until(lambda: _unmounted(mountpoint), _GONE_TIMEOUT_S):
            raise TargetError(f"{mountpoint} cannot be unmounted: who uses files on it?")
        _let_copies_go(mountpoint)
        mountpoint.mkdir()
        if not kernel.wait_until(lambda: _is_back(volume, mountpoint, device), _GONE_TIMEOUT_S):
            raise TargetError(f"{mountpoint} is not back: another mount of it is kept")
    finally:
        os.close(descriptor)


def remove(mountpoint: Path, image: Path) -> bool:
    """Unmount and detach what is there; the image stays. False when there was nothing."""
    found = False
    for _ in range(8):  # a bound on how often anybody can have mounted it
        if not kernel.is_mounted(mountpoint):
            break
        found = True
        thaw(mountpoint)
        if not kernel.wait_until(lambda: _unmounted(mountpoint), _GONE_TIMEOUT_S, 0.05):
            kernel.umount(mountpoint, kernel.MNT_DETACH)
    with suppress(OSError):
        _let_copies_go(mountpoint)
    for device in kernel.loops_over(image):
        found = True
        kernel.detach_loop(device)
    if not kernel.wait_until(lambda: not kernel.loops_over(image), _GONE_TIMEOUT_S):
        raise TargetError(f"{kernel.loops_over(image)} still uses {image}: who has it open?")
    return found


def _format(volume: Volume, image: Path) -> None:
    name, *options = _MKFS[volume]
    program = _program(name)
    if program is None:
        raise Unsupported(f"{volume} needs {name}, which is not installed")
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
    """Mount it. False when that is the dead file system again, as it is for as long as anybody
    keeps another mount of it; then it is unmounted."""
    assert volume.fs_type is not None
    kernel.mount(str(device), mountpoint, volume.fs_type, kernel.MS_NOATIME)
    try:
        # A dead one goes on listing and reading what is in memory, but it takes no new file.
        with tempfile.TemporaryFile(dir=mountpoint):
            return True
    except OSError as error:
        if error.errno == errno.ENOSPC:
            return True
        kernel.umount(mountpoint)
        return False


def _let_copies_go(mountpoint: Path) -> None:
    """Remove the emptied mount point: that also ends the copies of the mount which other mount
    namespaces (containers, sandboxes) took while it existed, and which would keep the device."""
    mountpoint.rmdir()


def _unmounted(mountpoint: Path) -> bool:
    try:
        kernel.umount(mountpoint)
    except OSError:
        return not kernel.is_mounted(mountpoint)
    return True


def _program(name: str) -> str | None:
    # A user's PATH may lack the administrator's folders.
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
