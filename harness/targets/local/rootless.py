"""A place where a user who is not root may make networks: a user namespace of the run's own.

`ensure_privileges`, called first thing by the command line, replaces the process by one that runs
the same command as root of new user, mount, network and pid namespaces. The pid namespace is
there for the end: its first process is a few lines of ours, and when that dies, however it dies,
the kernel kills every process inside and the network goes with them.

Disks stay plain directories there: the kernel mounts images for the real root only.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from pyroute2 import IPRoute

from harness.recording.journal import ROOTLESS_UID
from harness.targets.base import PrivilegeMissing
from harness.targets.linux import kernel

_FAILED = 255
_NO_PRIVILEGES = """\
highwater: this user may neither make network namespaces nor a user namespace to make them in
  ({reason}).
Every node of a cluster lives in a network namespace of its own, so nothing can be started.
Run it as root (sudo), or allow user namespaces:
  sysctl -w user.max_user_namespaces=10000
  sysctl -w kernel.apparmor_restrict_unprivileged_userns=0    # Ubuntu 24.04 and later
In a container, start it with --privileged, or with --cap-add SYS_ADMIN --cap-add NET_ADMIN."""


def may_make_namespaces() -> bool:
    """Whether this process may make network namespaces: tried, in a thread that ends with it."""
    worked = []

    def attempt() -> None:
        try:
            kernel.unshare(kernel.CLONE_NEWNET)
        except OSError:
            return
        worked.append(True)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return bool(worked)


def is_rootless() -> bool:
    """Whether this process runs in a user namespace of our making."""
    return ROOTLESS_UID in os.environ


def ensure_privileges(argv: Sequence[str] | None = None) -> None:
    """Return where namespaces may be made; otherwise run `argv` where they may, and never return.

    `argv` is this process's own command line unless given. The new process exits with 255 and a
    text on stderr where not even user namespaces are allowed. Raises PrivilegeMissing when we are
    inside one already and it does not help.
    """
    if may_make_namespaces():
        return
    if is_rootless():
        raise PrivilegeMissing("no network namespace can be made inside this user namespace")
    os.execv(sys.executable, command(argv or [sys.executable, *sys.orig_argv[1:]]))


def command(argv: Sequence[str]) -> list[str]:
    """The command line that runs `argv` inside the new namespaces and exits as it does."""
    return [sys.executable, "-m", "harness.targets.local.rootless", *argv]


def enter_hint() -> str | None:
    """How a user gets into the namespaces of this process from outside; None when not rootless."""
    if not is_rootless():
        return None
    return "nsenter --preserve-credentials --user --mount --net --pid --target <pid of highwater>"


def main(argv: Sequence[str]) -> int:
    """Make the namespaces, run `argv` in them, return its exit status (128 + n for a signal)."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        kernel.unshare(
            kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWPID
        )
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        print(_NO_PRIVILEGES.format(reason=error), file=sys.stderr)
        return _FAILED
    child = os.fork()
    if child == 0:
        status = _FAILED
        try:
            kernel.die_with_parent(signal.SIGKILL)
            status = _first_process(argv, {**os.environ, ROOTLESS_UID: str(uid)})
        finally:
            os._exit(status)
    _pass_on_signals(child)
    return _reap_until(child)


def _first_process(argv: Sequence[str], env: dict[str, str]) -> int:
    """Be the first process of the pid namespace: run `argv`, reap orphans, end with it."""
    try:
        # Slave, not private: what is unmounted outside must not be kept alive by us.
        kernel.mount("none", Path("/"), None, kernel.MS_REC | kernel.MS_SLAVE)
        kernel.mount("proc", Path("/proc"), "proc", 0)
        with IPRoute() as route:
            route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")
        child = os.posix_spawnp(argv[0], list(argv), env)
    except Exception as error:  # whatever it is, the user must be told
        print(_NO_PRIVILEGES.format(reason=error), file=sys.stderr)
        return _FAILED
    _pass_on_signals(child)
    return _reap_until(child)


def _pass_on_signals(child: int) -> None:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    def leave_to_child(_number: int, _frame: FrameType | None) -> None:
        """The terminal sends these to the child as well; once is enough."""

    signal.signal(signal.SIGTERM, pass_on)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, leave_to_child)


def _reap_until(child: int) -> int:
    while True:
        pid, status = os.wait()  # orphans of the namespace are ours too
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
