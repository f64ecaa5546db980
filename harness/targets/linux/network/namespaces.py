"""Named network namespaces, which the calling thread makes and enters.

A name is a file that the namespace is bind-mounted on, as with `ip netns`, so that
`ip netns exec NAME ...` works on a run's nodes. Only the calling thread enters a namespace; other
threads of the process stay outside. A process that the thread starts there begins inside.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from harness.recording.journal import ROOTLESS_UID, registry_dir
from harness.targets.linux import kernel

OWN: Final = Path("/proc/self/ns/net")
"""The namespace of this process, as long as its main thread enters no other."""
_OWN = "/proc/thread-self/ns/net"


def netns_dir() -> Path:
    """Return the directory of the names: /run/netns, or our own one inside a user namespace."""
    rootless = ROOTLESS_UID in os.environ
    path = registry_dir() / "netns" if rootless else Path("/run/netns")
    path.mkdir(mode=0o755, exist_ok=True)
    return path


def create(path: Path) -> None:
    """Make a namespace named by the new file `path`. Raises OSError."""
    path.touch(exist_ok=False)
    with _return_at_end():
        kernel.unshare(kernel.CLONE_NEWNET)
        kernel.mount(_OWN, path, None, kernel.MS_BIND)


def adopt(path: Path, pid: int) -> None:
    """Name the namespace of a process by the new file `path`. Raises OSError."""
    path.touch(exist_ok=False)
    kernel.mount(f"/proc/{pid}/ns/net", path, None, kernel.MS_BIND)


def delete(path: Path) -> bool:
    """Remove the name; the namespace ends with its last process. Return False without a name."""
    with suppress(OSError):
        kernel.umount(path, kernel.MNT_DETACH)
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


@contextmanager
def entered(path: Path) -> Iterator[None]:
    """Move the calling thread into the namespace for the block.

    Do not `await` in the block: other coroutines of the thread would run inside.
    """
    with _return_at_end():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            kernel.setns(descriptor, kernel.CLONE_NEWNET)
        finally:
            os.close(descriptor)
        yield


@contextmanager
def _return_at_end() -> Iterator[None]:
    home = os.open(_OWN, os.O_RDONLY)
    try:
        yield
    finally:
        try:
            kernel.setns(home, kernel.CLONE_NEWNET)
        finally:
            os.close(home)


def works_in_throwaway(work: Callable[[], object]) -> bool:
    """Whether `work` succeeds in a network namespace that is removed afterwards.

    False when `work` raises OSError, or when no namespace can be made.
    """
    outcome: list[bool] = []

    def attempt() -> None:
        with suppress(OSError):
            kernel.unshare(kernel.CLONE_NEWNET)
            work()
            outcome.append(True)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return bool(outcome)


def processes_in(path: Path) -> list[int]:
    """Return the processes, except this one, whose main thread is in the namespace."""
    try:
        wanted = path.stat()
    except OSError:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            theirs = (entry / "ns/net").stat()
        except OSError:
            continue  # ended, or another user's
        if (theirs.st_dev, theirs.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(int(entry.name))
    return sorted(found)
