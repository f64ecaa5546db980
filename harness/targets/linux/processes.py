"""Processes as /proc shows them: their identity, their state, and signals to them.

A pid alone does not identify a process, since the kernel reuses pids. Here the identity of a
process is its pid with its start time, its boot and its pid namespace.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from harness.targets.base import NotInForce
from harness.targets.linux import kernel
from harness.targets.linux.network import namespaces

END_TIMEOUT_S = 10.0
"""How long a killed process may take to end: the kernel must release its resources."""
STILL_TIMEOUT_S = 10.0
"""How long a stopped process may keep running: until the machine gives it a processor once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """Some fields of /proc/<pid>/stat."""

    state: str
    group: int
    start_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """The identity of one process, different from all others that ever have its pid."""

    pid: int
    start_ticks: int
    """Start time in clock ticks since boot: field 22 of /proc/<pid>/stat."""
    world: str
    """Boot and pid namespace, as `world` returns them: under others the pid means nothing."""


def stat(pid: int) -> Stat | None:
    """Read /proc/<pid>/stat; None when the process does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name, in parentheses, may contain anything, so count from its end.
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(state=fields[0], group=int(fields[2]), start_ticks=int(fields[19]))


def world() -> str:
    """Return the boot and the pid namespace of this process."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


def identify(pid: int) -> ProcessId | None:
    """Return the identity of the process that has this pid now; None without one."""
    seen = stat(pid)
    if seen is None:
        return None
    return ProcessId(pid=pid, start_ticks=seen.start_ticks, world=world())


def is_alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs; a zombie does not."""
    seen = stat(process.pid)
    return (
        seen is not None
        and seen.state not in "ZX"
        and seen.start_ticks == process.start_ticks
        and process.world == world()
    )


UNKNOWN_PROCESS = ProcessId(pid=(1 << 22) + 1, start_ticks=0, world="")
"""A process that ended before it could be identified; its pid is beyond the kernel's largest."""


@dataclass(frozen=True, slots=True)
class AdoptedProcess:
    """A process that another harness or a daemon started, known by its identity."""

    identity: ProcessId
    read_exit_code: Callable[[], int | None] = lambda: None
    """Called after its end: the exit code (negative: the signal), or None when it is unknown."""

    @property
    def pid(self) -> int:
        """The pid; another process may have it after the end of this one."""
        return self.identity.pid

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end and return the exit code. Raises subprocess.TimeoutExpired."""
        if not kernel.wait_until(lambda: not is_alive(self.identity), timeout_s):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout_s)
        return self.read_exit_code()


Process = subprocess.Popen[bytes] | AdoptedProcess


def state_of(process: Process) -> str:
    """Return the process's state letter (Z: it ended); empty when it does not exist."""
    if isinstance(process, AdoptedProcess) and not is_alive(process.identity):
        return ""
    # Only this process reaps its child, so the kernel does not reuse the child's pid before.
    seen = stat(process.pid)
    return "" if seen is None else seen.state


def is_gone(group: int) -> bool:
    """Whether a process group has only zombies or no process; quick when it has no process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return not group_states(group)


def group_states(group: int) -> dict[int, str]:
    """Return pid -> state letter of every process of the process group, zombies left out."""
    return states_of([group])


def states_of(groups: Collection[int]) -> dict[int, str]:
    """Return pid -> state letter of every process of these process groups, zombies left out."""
    states = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            seen = stat(int(entry.name))
            if seen is not None and seen.group in groups and seen.state not in "ZX":
                states[int(entry.name)] = seen.state
    return states


def groups_of(pid: int) -> list[int]:
    """Return the process groups of an instance, of which this is the first process: its own, or all
    groups of its pid namespace if it began one, as the first process of a container does."""
    inside = _pid_namespace(pid)
    if inside in (None, _pid_namespace(os.getpid())):
        return [pid]
    found = [pid]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _pid_namespace(int(entry.name)) == inside:
            seen = stat(int(entry.name))
            found += [] if seen is None else [seen.group]
    return list(dict.fromkeys(found))


def _pid_namespace(pid: int) -> str | None:
    """Return the pid namespace of a process; None if it has ended, or is another user's."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None


def stop_groups(groups: Collection[int], whose: str) -> None:
    """SIGSTOP process groups and return when they are stopped. Raises NotInForce."""
    for group in groups:
        signal_group(group, signal.SIGSTOP)
    kernel.wait_until(lambda: set(states_of(groups).values()) <= {"T"}, STILL_TIMEOUT_S)
    # A process in state D, waiting for a disk or for a stopped child to exec, runs no code of its
    # own either: the signal takes effect when its system call returns.
    if not (states := set(states_of(groups).values())) <= {"T", "D"}:
        raise NotInForce(f"the processes of {whose} are not stopped; their states: {states}")


def continue_groups(groups: Collection[int], whose: str) -> None:
    """SIGCONT process groups and return when none of them is stopped. Raises NotInForce."""
    for group in groups:
        signal_group(group, signal.SIGCONT)
    if not kernel.wait_until(lambda: "T" not in states_of(groups).values(), STILL_TIMEOUT_S):
        states = set(states_of(groups).values())
        raise NotInForce(f"the processes of {whose} are still stopped; their states: {states}")


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group; a missing group is no error."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def signal_process(process: Process, number: signal.Signals) -> None:
    """Send a signal to the process and its group; a process that has ended is no error."""
    # Another process may have the pid of an adopted one by now; our child's pid is not reused
    # before we reap it.
    if not isinstance(process, AdoptedProcess) or is_alive(process.identity):
        signal_group(process.pid, number)


def end(processes: Sequence[ProcessId], timeout_s: float = END_TIMEOUT_S) -> list[ProcessId]:
    """SIGKILL the processes that are alive, and wait. Return those that still exist."""
    for process in processes:
        if is_alive(process):
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    kernel.wait_until(lambda: not any(is_alive(process) for process in processes), timeout_s)
    return [process for process in processes if is_alive(process)]


def spawn(
    argv: Sequence[str], netns: Path | None, *, env: Mapping[str, str] | None, log_path: Path | None
) -> subprocess.Popen[bytes]:
    """Start a process in a network namespace, or here, as the leader of its own session and group.

    The calling thread enters the namespace and the child begins there. No code runs between fork
    and exec, which would be unsafe in a process with threads. Output is appended to `log_path`, or
    dropped. Raises OSError when the program cannot be started.
    """
    output = os.open(
        log_path or os.devnull, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if log_path else 0), 0o644
    )
    try:
        with nullcontext() if netns is None else namespaces.entered(netns):
            return subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    finally:
        os.close(output)
