"""Network namespaces with names, made and entered by the calling thread.

A name is a file that the namespace is bind-mounted on, as `ip netns` does it, so that
`ip netns exec NAME ...` works on a run's nodes. Entering is per thread: other threads of the
process stay where they are, and a process started meanwhile is born inside.
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
"""That of this process, as long as its main thread stays at home."""
_OWN = "/proc/thread-self/ns/net"


def netns_dir() -> Path:
    """Where names live: /run/netns, or a directory of our own inside a user namespace."""
    rootless = ROOTLESS_UID in os.environ
    path = registry_dir() / "netns" if rootless else Path("/run/netns")
    path.mkdir(mode=0o755, exist_ok=True)
    return path


def create(path: Path) -> None:
    """Make a namespace named by the new file `path`. Raises OSError."""
    path.touch(exist_ok=False)
    with _return_home():
        kernel.unshare(kernel.CLONE_NEWNET)
        kernel.mount(_OWN, path, None, kernel.MS_BIND)


def adopt(path: Path, pid: int) -> None:
    """Name the namespace of a process by the new file `path`. Raises OSError."""
    path.touch(exist_ok=False)
    kernel.mount(f"/proc/{pid}/ns/net", path, None, kernel.MS_BIND)


def delete(path: Path) -> bool:
    """Remove the name; the namespace goes with its last process. False when there was none."""
    with suppress(OSError):
        kernel.umount(path, kernel.MNT_DETACH)
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


@contextmanager
def entered(path: Path) -> Iterator[None]:
    """Move the calling thread into the namespace, and back at the end.

    Never across an `await`: other coroutines of the thread would find themselves inside.
    """
    with _return_home():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            kernel.setns(descriptor, kernel.CLONE_NEWNET)
        finally:
            os.close(descriptor)
        yield


@contextmanager
def _return_home() -> Iterator[None]:
    home = os.open(_OWN, os.O_RDONLY)
    try:
        yield
    finally:
        try:
            kernel.setns(home, kernel.CLONE_NEWNET)
        finally:
            os.close(home)


def works_in_throwaway(work: Callable[[], object]) -> bool:
    """Whether `work` raises no OSError in a network namespace that ends with its thread.

    False as well where no namespace can be made.
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
    """The processes, this one excepted, whose main thread is in the namespace."""
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
            continue  # gone, or not ours to look at
        if (theirs.st_dev, theirs.st_ino) == (wanted.st_dev, wanted.st_ino):
            found.append(int(entry.name))
    return sorted(found)
