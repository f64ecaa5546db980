"""System calls that Python 3.11 lacks, as functions that raise OSError.

They concern namespaces, mounts, loop devices and frozen file systems. This module keeps no state
and knows nothing of runs. Numbers are those of the kernel's user-space headers.
"""

import ctypes
import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_REMOUNT = 1 << 5
MS_NOATIME = 1 << 10
MS_BIND = 1 << 12
MS_REC = 1 << 14
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20

MNT_DETACH = 2
PR_SET_PDEATHSIG = 1

_EXPEDITED = Path("/sys/kernel/rcu_expedited")

_FIFREEZE = 0xC004_5877
_FITHAW = 0xC004_5878

_CHECKPOINT = 0x4004_662B
# EXT4_IOC_SHUTDOWN; XFS_IOC_GOINGDOWN has the same number and the same flags.
_SHUTDOWN = 0x8004_587D
SHUTDOWN_SYNCED = 0
"""The kernel writes everything first."""
SHUTDOWN_AT_ONCE = 2
"""The kernel writes nothing more, not even the file system's own journal."""

_LOOP_CONFIGURE = 0x4C0A
_LOOP_CLR_FD = 0x4C01
_LOOP_CTL_GET_FREE = 0x4C82
_LO_FLAGS_AUTOCLEAR = 4
# struct loop_config: fd, block_size, then loop_info64 with its flags at byte 56, then padding.
_LOOP_CONFIG = struct.Struct("=II 52x I 176x 64x")

_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """unshare(2) of the calling thread."""
    _check(_LIBC.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """setns(2) of the calling thread."""
    _check(_LIBC.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def mount(
    source: str, target: Path, fs_type: str | None, flags: int, options: str | None = None
) -> None:
    """mount(2); `options` are the file system's own."""
    result = _LIBC.mount(
        source.encode(),
        os.fsencode(target),
        fs_type.encode() if fs_type else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
    _check(result, str(target))


def umount(target: Path, flags: int = 0) -> None:
    """umount2(2)."""
    _check(_LIBC.umount2(os.fsencode(target), ctypes.c_int(flags)), str(target))


def is_mounted(target: Path) -> bool:
    """Whether `target` is a mount point in this mount namespace."""
    wanted = os.fsencode(target.parent.resolve() / target.name)
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        if line.split(b" ")[4].decode("unicode_escape").encode("latin-1") == wanted:
            return True
    return False


def die_with_parent(signal: int) -> None:
    """Have the kernel send `signal` to this process when the thread that forked it ends."""
    _check(_LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal), 0, 0, 0), "prctl")


def freeze(mountpoint: Path) -> bool:
    """FIFREEZE: block all writes and fsyncs to the file system. Return False if it was frozen."""
    return _freeze_ioctl(mountpoint, _FIFREEZE, errno.EBUSY)


def thaw(mountpoint: Path) -> bool:
    """FITHAW: let blocked writes continue. Return False when it was not frozen."""
    return _freeze_ioctl(mountpoint, _FITHAW, errno.EINVAL)


def can_expedite_rcu() -> bool:
    """Whether `expedite_rcu` would change anything: it is off, and this process may set it."""
    return os.access(_EXPEDITED, os.W_OK) and _EXPEDITED.read_text().strip() == "0"


def expedite_rcu(*, on: bool) -> None:
    """Make the whole kernel wait less, and work more, for its RCU grace periods."""
    _EXPEDITED.write_text("1" if on else "0")


def _freeze_ioctl(mountpoint: Path, request: int, already: int) -> bool:
    descriptor = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, request, 0)
    except OSError as error:
        if error.errno != already:
            raise
        return False
    finally:
        os.close(descriptor)
    return True


def shut_down(descriptor: int, how: int) -> None:
    """Shut down the file system (ext4, XFS) of an open file: every later access fails.

    It works again only after all its mounts were unmounted and it is mounted anew.
    """
    fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("=I", how))


def sync(mountpoint: Path) -> None:
    """syncfs(2): write all dirty pages of one file system."""
    descriptor = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _check(_LIBC.syncfs(ctypes.c_int(descriptor)), str(mountpoint))
    finally:
        os.close(descriptor)


def checkpoint(mountpoint: Path) -> None:
    """EXT4_IOC_CHECKPOINT: write the blocks in ext4's journal to their final places."""
    descriptor = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, _CHECKPOINT, struct.pack("=I", 0))
    finally:
        os.close(descriptor)


def attach_loop(image: Path, *, attempts: int = 32) -> tuple[Path, int]:
    """Attach a loop device to `image`; return its path and a descriptor that keeps it attached.

    The kernel detaches the device with its last user, descriptor or mount, so that a process killed
    in between leaves nothing behind.
    """
    backing = os.open(image, os.O_RDWR)
    try:
        control = os.open("/dev/loop-control", os.O_RDWR)
        try:
            for _ in range(attempts):
                device = Path(f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}")
                descriptor = os.open(device, os.O_RDWR)
                try:
                    config = _LOOP_CONFIG.pack(backing, 0, _LO_FLAGS_AUTOCLEAR)
                    fcntl.ioctl(descriptor, _LOOP_CONFIGURE, config)
                except OSError as error:
                    os.close(descriptor)
                    if error.errno != errno.EBUSY:  # another process got the same number
                        raise
                else:
                    return device, descriptor
        finally:
            os.close(control)
    finally:
        os.close(backing)
    raise OSError(errno.EBUSY, "no loop device is free", str(image))


def loops_over(image: Path) -> list[Path]:
    """Return the loop devices whose backing file is `image`, deleted or not."""
    wanted = str(image.parent.resolve() / image.name)
    found = []
    for entry in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        try:
            backing = entry.read_text().rstrip("\n")
        except OSError:
            continue  # detached meanwhile
        if backing.removesuffix(" (deleted)") == wanted:
            found.append(Path("/dev") / entry.parent.parent.name)
    return found


def detach_loop(device: Path) -> None:
    """LOOP_CLR_FD: detach now, or as soon as the last user ends."""
    descriptor = os.open(device, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _LOOP_CLR_FD, 0)
    except OSError as error:
        if error.errno != errno.ENXIO:  # detached meanwhile
            raise
    finally:
        os.close(descriptor)


def wait_until(condition: Callable[[], bool], timeout_s: float, pause_s: float = 0.005) -> bool:
    """Poll `condition` until it holds; return False after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True
