"""The processes of nodes on this machine: each node's command, started, stopped, and watched."""

import signal
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from harness.recording.journal import Journal
from harness.targets.base import CLIENTS, NodeState, UnknownNode
from harness.targets.linux import clocks as own_clocks
from harness.targets.linux import kernel, processes
from harness.targets.linux.clocks import LinuxClocks
from harness.targets.linux.disks.disks import LinuxDisks
from harness.targets.linux.processes import Process
from harness.targets.linux.wall_clock import MachineClock

P = TypeVar("P", bound=Process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What `start` runs on a node."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log_path: Path


class LinuxNodes:
    """The processes of a target's nodes; who derives from it makes their machines.

    Calls may come from several threads; those about one node's process wait for each other.
    """

    disks: LinuxDisks
    clocks: LinuxClocks | MachineClock

    def __init__(self, journal: Journal, nodes: Sequence[int]) -> None:
        self._journal = journal
        self._commands: dict[int, Command] = {}
        self._processes: dict[int, Process] = {}
        self._exit_codes: dict[int, int | None] = {}
        self._asked: set[int] = set()
        """Whose running process was asked to end."""
        self._deaths: deque[tuple[int, int | None]] = deque()
        self._mutexes = {node: threading.RLock() for node in nodes}

    def node_ids(self) -> Sequence[int]:
        """All nodes, running or not, ascending."""
        return sorted(self._mutexes)

    def set_command(
        self, node: int, argv: Sequence[str], env: Mapping[str, str], log_path: Path
    ) -> None:
        """Register what `start` runs: `env` is its whole environment."""
        self._known(node)
        self._commands[node] = Command(argv=tuple(argv), env=dict(env), log_path=log_path)

    def start(self, node: int) -> None:
        """Start the registered command. Raises NodeState when it runs or none is registered."""
        with self._mutex(node):
            if self.is_running(node):
                raise NodeState(f"node {node} is running already")
            self._end(node)
            command = self._commands.get(node)
            if command is None:
                raise NodeState(f"node {node} has no command: call set_command first")
            env = self.clocks.environment(node, command.env)
            process = self._spawn(node, command.argv, env=env, log_path=command.log_path)
            self._processes[node] = self._recorded(node, process)

    def stop(self, node: int, timeout_s: float = 10.0) -> bool:
        """SIGTERM and wait; SIGKILL at the bound. True when it ended by itself."""
        with self._mutex(node):
            process = self._processes.get(node)
            if process is None:
                return True
            self._ask(node)
            processes.signal_process(process, signal.SIGTERM)
            processes.signal_process(process, signal.SIGCONT)  # a paused one must hear it
            by_itself = kernel.wait_until(lambda: not self.is_running(node), timeout_s)
            self._end(node)
            if by_itself and self._was_killed(node):
                self._deaths.append((node, self._exit_codes[node]))
            return by_itself

    def terminate(self, node: int) -> None:
        """SIGTERM the node's processes and return at once; nothing happens without any."""
        with self._mutex(node):
            process = self._processes.get(node)
            if process is not None:
                self._ask(node)
                processes.signal_process(process, signal.SIGTERM)

    def kill(self, node: int) -> None:
        """SIGKILL the node's process group and return when it is gone.

        A frozen disk is thawed, after the signal: the kernel ends nobody who waits for one. What
        was blocked gets to the disk, but the process never learns of it.
        """
        with self._mutex(node):
            self._end(node)

    def pause(self, node: int) -> None:
        """SIGSTOP the node's processes and return when all of them stand still."""
        with self._mutex(node):
            processes.stop_groups([self._running(node).pid], f"node {node}")

    def resume(self, node: int) -> None:
        """SIGCONT the node's processes; nothing happens where there are none."""
        with self._mutex(node):
            process = self._processes.get(node)
            if process is not None and self.is_running(node):
                processes.continue_groups([process.pid], f"node {node}")

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists; a paused one does."""
        return self.state(node) not in ("", "Z", "X")

    def state(self, node: int) -> str:
        """The process state letter of /proc/<pid>/stat (Z: it ended); empty without a process."""
        process = self._processes.get(self._known(node))
        return "" if process is None else processes.state_of(process)

    def pid(self, node: int) -> int | None:
        """The pid of the node's process, or None."""
        process = self._processes.get(self._known(node))
        return process.pid if process is not None else None

    def exit_code(self, node: int) -> int | None:
        """How the node's last process ended (negative: by that signal); None while it runs."""
        with self._mutex(node):
            if self.is_running(node):
                return None
            self._end(node)
            return self._exit_codes.get(node)

    def take_deaths(self) -> Sequence[tuple[int, int | None]]:
        """See `harness.targets.base.Target`."""
        for node, mutex in list(self._mutexes.items()):
            # Somebody starts or stops it just now, and sees what has become of it.
            if mutex.acquire(blocking=False):
                try:
                    if not self.is_running(node):
                        self._end(node)
                finally:
                    mutex.release()
        return [self._deaths.popleft() for _ in range(len(self._deaths))]

    # -- inside

    def _ask(self, node: int) -> None:
        """Note that its process is told to end, if it does not do so by itself before."""
        if self.is_running(node):
            self._asked.add(node)

    def _was_killed(self, node: int) -> bool:
        """Whether a signal of somebody else ended a process that was told to end in order."""
        code = self._exit_codes.get(node)
        return code is not None and code < 0 and code != -signal.SIGTERM

    def _namespace(self, machine: int) -> Path:
        """The network namespace of a machine. Raises UnknownNode."""
        raise NotImplementedError

    def _known(self, machine: int) -> int:
        if machine != CLIENTS and machine not in self.node_ids():
            raise UnknownNode(f"no node {machine}: there are {list(self.node_ids())}")
        return machine

    def _mutex(self, node: int) -> threading.RLock:
        if node not in self._mutexes:
            raise UnknownNode(f"no node {node}: there are {list(self.node_ids())}")
        return self._mutexes[node]

    def _running(self, node: int) -> Process:
        if not self.is_running(node):
            raise NodeState(f"node {node} is not running")
        return self._processes[node]

    def _spawn(
        self, node: int, argv: Sequence[str], *, env: Mapping[str, str], log_path: Path
    ) -> Process:
        """Start a process on a node, leader of a group of its own."""
        return processes.spawn(argv, self._namespace(node), env=env, log_path=log_path)

    def _recorded(self, machine: int, process: P) -> P:
        # A crash before the record is no leak: whoever is in the run's namespace is ended with it.
        try:
            if (identity := processes.identify(process.pid)) is not None:
                self._journal.record("local.process", machine=machine, **asdict(identity))
        except BaseException:
            processes.signal_process(process, signal.SIGKILL)
            process.wait(processes.END_TIMEOUT_S)
            own_clocks.forget(process.pid)
            raise
        return process

    def _end(self, node: int) -> None:
        process = self._processes.get(node)
        if process is None:
            return
        died = node not in self._asked and not self.is_running(node)
        processes.signal_process(process, signal.SIGKILL)
        with self.disks.let_go(node):
            group = process.pid
            self._exit_codes[node] = process.wait(processes.END_TIMEOUT_S)
            kernel.wait_until(lambda: processes.is_gone(group), processes.END_TIMEOUT_S)
        own_clocks.forget(process.pid)
        del self._processes[node]
        self._asked.discard(node)
        if died:
            self._deaths.append((node, self._exit_codes[node]))
