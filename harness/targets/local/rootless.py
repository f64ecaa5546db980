"""Run highwater without root, in a user namespace where the user may make networks.

The command line calls `ensure_privileges` first. It replaces the process by one that runs the same
command as root of new user, mount, network and pid namespaces. The pid namespace makes the cleanup
certain: when its first process, a few lines of this module, ends for whatever reason, the kernel
kills every process inside, and the network ends with them.

Disks are plain directories there, because the kernel mounts images only for the real root.
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
highwater: this user may make neither network namespaces nor user namespaces ({reason}).
Every node of a cluster needs its own network namespace, so no node can be started.
Run highwater as root (sudo), or allow user namespaces:
  sysctl -w user.max_user_namespaces=10000
  sysctl -w kernel.apparmor_restrict_unprivileged_userns=0    # Ubuntu 24.04 and later
In a container, start it with --privileged, or with --cap-add SYS_ADMIN --cap-add NET_ADMIN."""


def may_make_namespaces() -> bool:
    """Whether this process may make network namespaces; tried in a thread of its own."""
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
    """Whether this process runs in a user namespace that this module made."""
    return ROOTLESS_UID in os.environ


def ensure_privileges(argv: Sequence[str] | None = None) -> None:
    """Return if namespaces may be made; otherwise replace this process by one in a user namespace.

    `argv` is by default this process's own command line. The new process exits with 255 and a text
    on stderr where user namespaces are not allowed. Raises PrivilegeMissing when this process is in
    a user namespace already and still may not make network namespaces.
    """
    if may_make_namespaces():
        return
    if is_rootless():
        raise PrivilegeMissing(
            "no network namespace can be made inside this user namespace, so no node can be "
            "started: run highwater as root (sudo)"
        )
    os.execv(sys.executable, command(argv or [sys.executable, *sys.orig_argv[1:]]))


def command(argv: Sequence[str]) -> list[str]:
    """Return the command line that runs `argv` in new namespaces and exits with its status."""
    return [sys.executable, "-m", "harness.targets.local.rootless", *argv]


def enter_hint() -> str | None:
    """Return the command that enters the namespaces of this process; None if not rootless."""
    if not is_rootless():
        return None
    return "nsenter --preserve-credentials --user --mount --net --pid --target <pid of highwater>"


def main(argv: Sequence[str]) -> int:
    """Make the namespaces, run `argv` in them, and return its exit status (128 + n by signal)."""
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
    """As the first process of the pid namespace: run `argv`, reap orphans, and end with `argv`."""
    try:
        # Slave, not private: an unmount outside must take effect here too.
        kernel.mount("none", Path("/"), None, kernel.MS_REC | kernel.MS_SLAVE)
        kernel.mount("proc", Path("/proc"), "proc", 0)
        with IPRoute() as route:
            route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")
        child = os.posix_spawnp(argv[0], list(argv), env)
    except Exception as error:  # whatever failed, the user must see it
        print(_NO_PRIVILEGES.format(reason=error), file=sys.stderr)
        return _FAILED
    _pass_on_signals(child)
    return _reap_until(child)


def _pass_on_signals(child: int) -> None:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    def leave_to_child(_number: int, _frame: FrameType | None) -> None:
        """Do nothing: the terminal sends these signals to the child as well."""

    signal.signal(signal.SIGTERM, pass_on)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, leave_to_child)


def _reap_until(child: int) -> int:
    while True:
        pid, status = os.wait()  # this process reaps orphans of the namespace too
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
