"""The few system calls that Python 3.11 has no name for, as functions that raise OSError.

Namespaces, mounts, loop devices and the freezing of file systems; nothing here keeps state or
knows what a run is. Numbers are those of the kernel's user-space headers.
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
"""Everything is written first."""
SHUTDOWN_AT_ONCE = 2
"""Nothing is written any more, not even the file system's own journal."""

_LOOP_CONFIGURE = 0x4C0A
_LOOP_CLR_FD = 0x4C01
_LOOP_CTL_GET_FREE = 0x4C82
_LO_FLAGS_AUTOCLEAR = 4
# struct loop_config: fd, block_size, then loop_info64 with its flags at 56 bytes in, then padding.
_LOOP_CONFIG = struct.Struct("=II 52x I 176x 64x")

_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare(flags: int) -> None:
    """unshare(2): of the calling thread only, for the flags where the kernel allows that."""
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
    """Whether something is mounted exactly there, in this mount namespace."""
    wanted = os.fsencode(target.parent.resolve() / target.name)
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        if line.split(b" ")[4].decode("unicode_escape").encode("latin-1") == wanted:
            return True
    return False


def die_with_parent(signal: int) -> None:
    """Have the kernel send `signal` to this process when the thread that forked it ends."""
    _check(_LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal), 0, 0, 0), "prctl")


def freeze(mountpoint: Path) -> bool:
    """FIFREEZE: writes and fsyncs to the file system block from now on. False if it was frozen."""
    return _freeze_ioctl(mountpoint, _FIFREEZE, errno.EBUSY)


def thaw(mountpoint: Path) -> bool:
    """FITHAW: let blocked writes go on. False when it was not frozen."""
    return _freeze_ioctl(mountpoint, _FITHAW, errno.EINVAL)


def may_hurry() -> bool:
    """Whether `hurry` can do anything: it is off, and ours to set."""
    return os.access(_EXPEDITED, os.W_OK) and _EXPEDITED.read_text().strip() == "0"


def hurry(*, on: bool) -> None:
    """Let the whole kernel wait less, and work more, for its grace periods (RCU)."""
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
    """End the file system (ext4, XFS) of an open file: from now on everything on it fails.

    Only unmounting it everywhere and mounting it again brings it back.
    """
    fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("=I", how))


def sync(mountpoint: Path) -> None:
    """syncfs(2): write everything of one file system."""
    descriptor = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _check(_LIBC.syncfs(ctypes.c_int(descriptor)), str(mountpoint))
    finally:
        os.close(descriptor)


def checkpoint(mountpoint: Path) -> None:
    """EXT4_IOC_CHECKPOINT: write everything of ext4's journal to its place."""
    descriptor = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, _CHECKPOINT, struct.pack("=I", 0))
    finally:
        os.close(descriptor)


def attach_loop(image: Path, *, attempts: int = 32) -> tuple[Path, int]:
    """A loop device over `image`: its path, and a descriptor that keeps it.

    The kernel detaches the device itself when its last user goes, descriptor or mount, so that
    nothing stays behind a process killed in between.
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
                    if error.errno != errno.EBUSY:  # somebody else was given the same number
                        raise
                else:
                    return device, descriptor
        finally:
            os.close(control)
    finally:
        os.close(backing)
    raise OSError(errno.EBUSY, "no loop device could be had", str(image))


def loops_over(image: Path) -> list[Path]:
    """The loop devices whose backing file is `image`, deleted or not."""
    wanted = str(image.parent.resolve() / image.name)
    found = []
    for entry in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        try:
            backing = entry.read_text().rstrip("\n")
        except OSError:
            continue  # detached since
        if backing.removesuffix(" (deleted)") == wanted:
            found.append(Path("/dev") / entry.parent.parent.name)
    return found


def detach_loop(device: Path) -> None:
    """LOOP_CLR_FD: detach now, or as soon as its last user goes."""
    descriptor = os.open(device, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _LOOP_CLR_FD, 0)
    except OSError as error:
        if error.errno != errno.ENXIO:  # detached since
            raise
    finally:
        os.close(descriptor)


def wait_until(condition: Callable[[], bool], timeout_s: float, pause_s: float = 0.005) -> bool:
    """Poll `condition` until it holds; False at the bound."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True
