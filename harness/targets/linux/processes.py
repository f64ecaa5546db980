"""Processes as the kernel shows them in /proc: who is who, who stands still, who is gone.

A pid alone names nobody: the kernel gives it to a stranger soon after its owner's end. Here a
process is a pid together with its start time, the boot and the pid namespace they belong to.
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
"""How long a killed process may take to go: the kernel has to tear down what it held."""
STILL_TIMEOUT_S = 2.0
"""How long a stopped process may go on: until its current system call ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """The fields of /proc/<pid>/stat that matter here."""

    state: str
    group: int
    start_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """One process, told from every other that ever had or will have its pid."""

    pid: int
    start_ticks: int
    """Start time in clock ticks since boot: field 22 of /proc/<pid>/stat."""
    world: str
    """Boot and pid namespace: elsewhere the same numbers name someone else, and ours is gone."""


def stat(pid: int) -> Stat | None:
    """What /proc says of the process, or None when there is none (also when only just gone)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name, in parentheses, may hold anything: count from its end.
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(state=fields[0], group=int(fields[2]), start_ticks=int(fields[19]))


def world() -> str:
    """This boot and this pid namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


def identify(pid: int) -> ProcessId | None:
    """The identity of the process that has this pid now."""
    seen = stat(pid)
    if seen is None:
        return None
    return ProcessId(pid=pid, start_ticks=seen.start_ticks, world=world())


def is_alive(process: ProcessId) -> bool:
    """Whether this very process still runs; a zombie does not."""
    seen = stat(process.pid)
    return (
        seen is not None
        and seen.state not in "ZX"
        and seen.start_ticks == process.start_ticks
        and process.world == world()
    )


NOBODY = ProcessId(pid=(1 << 22) + 1, start_ticks=0, world="")
"""A process that was gone before it could be identified: the kernel's numbers end below this."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """A process that somebody else started, another harness or a daemon: known by its identity."""

    identity: ProcessId
    how_it_ended: Callable[[], int | None] = lambda: None
    """Its exit code, asked for when it is gone (negative: by that signal); None: nobody knows."""

    @property
    def pid(self) -> int:
        """The pid, which is its own for as long as it is alive."""
        return self.identity.pid

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end, and ask how it ended. Raises subprocess.TimeoutExpired."""
        if not kernel.wait_until(lambda: not is_alive(self.identity), timeout_s):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout_s)
        return self.how_it_ended()


Process = subprocess.Popen[bytes] | Adopted


def state_of(process: Process) -> str:
    """The process's state letter (Z: it ended); empty when it is gone."""
    if isinstance(process, Adopted) and not is_alive(process.identity):
        return ""
    # Nobody else waits for our child, so its pid is its own until we do.
    seen = stat(process.pid)
    return "" if seen is None else seen.state


def is_gone(group: int) -> bool:
    """Whether nothing is left of a process group but zombies; quick where not even those are."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return not group_states(group)


def group_states(group: int) -> dict[int, str]:
    """pid -> state letter of every process of the process group, zombies left out."""
    return states_of([group])


def states_of(groups: Collection[int]) -> dict[int, str]:
    """pid -> state letter of every process of these process groups, zombies left out."""
    states = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            seen = stat(int(entry.name))
            if seen is not None and seen.group in groups and seen.state not in "ZX":
                states[int(entry.name)] = seen.state
    return states


def stop_groups(groups: Collection[int], whose: str) -> None:
    """SIGSTOP process groups and return when they stand still. Raises NotInForce."""
    for group in groups:
        signal_group(group, signal.SIGSTOP)
    kernel.wait_until(lambda: set(states_of(groups).values()) <= {"T"}, STILL_TIMEOUT_S)
    # Who still waits for a disk, or for a stopped child to exec, runs no code of its own any more
    # either: the signal meets it on its way back.
    if not (states := set(states_of(groups).values())) <= {"T", "D"}:
        raise NotInForce(f"{whose} does not stand still: {states}")


def continue_groups(groups: Collection[int], whose: str) -> None:
    """SIGCONT process groups and return when none of them is stopped. Raises NotInForce."""
    for group in groups:
        signal_group(group, signal.SIGCONT)
    if not kernel.wait_until(lambda: "T" not in states_of(groups).values(), STILL_TIMEOUT_S):
        raise NotInForce(f"{whose} does not go on: {set(states_of(groups).values())}")


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group; nothing happens when it is gone."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def signal_process(process: Process, number: signal.Signals) -> None:
    """Send a signal to the process and its group; nothing happens when it is gone."""
    # An adopted one's number may be a stranger's by now; our child keeps its own until we wait.
    if not isinstance(process, Adopted) or is_alive(process.identity):
        signal_group(process.pid, number)


def end(processes: Sequence[ProcessId], timeout_s: float = END_TIMEOUT_S) -> list[ProcessId]:
    """SIGKILL those of the processes that are alive, and wait. Returns who is still there."""
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
    """Start a process in a network namespace, or here; leader of a session and group of its own.

    The calling thread enters the namespace and the child is born there: nothing runs between
    fork and exec, which would not be safe in a process with threads. Output is appended to
    `log_path`, or dropped. Raises OSError when the program cannot be started.
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
