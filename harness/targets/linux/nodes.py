"""The processes of the nodes on this machine: start, stop, signals and unexpected exits."""

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
    """The command that `start` runs on a node."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log_path: Path


class LinuxNodes:
    """The processes of a target's nodes; subclasses make the machines.

    Calls may come from several threads; calls for the same node wait for each other.
    """

    disks: LinuxDisks
    clocks: LinuxClocks | MachineClock

    def __init__(self, journal: Journal, nodes: Sequence[int]) -> None:
        self._journal = journal
        self._commands: dict[int, Command] = {}
        self._processes: dict[int, Process] = {}
        self._exit_codes: dict[int, int | None] = {}
        self._asked_to_end: set[int] = set()
        """The nodes whose running process was asked to end."""
        self._unexpected_exits: deque[tuple[int, int | None]] = deque()
        self._mutexes = {node: threading.RLock() for node in nodes}

    def node_ids(self) -> Sequence[int]:
        """All nodes, running or not, ascending."""
        return sorted(self._mutexes)

    def set_command(
        self, node: int, argv: Sequence[str], env: Mapping[str, str], log_path: Path
    ) -> None:
        """Register the command for `start`; `env` is its whole environment."""
        self._known(node)
        self._commands[node] = Command(argv=tuple(argv), env=dict(env), log_path=log_path)

    def start(self, node: int) -> None:
        """Start the registered command. Raises NodeState when it runs, or without a command."""
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
        """SIGTERM and wait; SIGKILL after `timeout_s`. Return True when it ended in time."""
        with self._mutex(node):
            process = self._processes.get(node)
            if process is None:
                return True
            self._record_end_request(node)
            processes.signal_process(process, signal.SIGTERM)
            processes.signal_process(process, signal.SIGCONT)  # a paused process must see SIGTERM
            ended = kernel.wait_until(lambda: not self.is_running(node), timeout_s)
            self._end(node)
            if ended and self._was_killed(node):
                self._unexpected_exits.append((node, self._exit_codes[node]))
            return ended

    def terminate(self, node: int) -> None:
        """SIGTERM the node's processes and return at once; a stopped node is no error."""
        with self._mutex(node):
            process = self._processes.get(node)
            if process is not None:
                self._record_end_request(node)
                processes.signal_process(process, signal.SIGTERM)

    def kill(self, node: int) -> None:
        """SIGKILL the node's process group and return when it has ended.

        A frozen disk is thawed after the signal, because the kernel cannot end a process that waits
        for a disk. The blocked writes then reach the disk, but the process never learns of it.
        """
        with self._mutex(node):
            self._end(node)

    def pause(self, node: int) -> None:
        """SIGSTOP the node's processes and return when all are stopped."""
        with self._mutex(node):
            processes.stop_groups([self._running(node).pid], f"node {node}")

    def resume(self, node: int) -> None:
        """SIGCONT the node's processes; a node without processes is no error."""
        with self._mutex(node):
            process = self._processes.get(node)
            if process is not None and self.is_running(node):
                processes.continue_groups([process.pid], f"node {node}")

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists; a paused process does."""
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
        """The exit code of the node's last process (negative: the signal); None while it runs."""
        with self._mutex(node):
            if self.is_running(node):
                return None
            self._end(node)
            return self._exit_codes.get(node)

    def take_unexpected_exits(self) -> Sequence[tuple[int, int | None]]:
        """See `harness.targets.base.Target`."""
        for node, mutex in list(self._mutexes.items()):
            # A thread that holds the mutex is starting or stopping the node, and sees its end.
            if mutex.acquire(blocking=False):
                try:
                    if not self.is_running(node):
                        self._end(node)
                finally:
                    mutex.release()
        exits = self._unexpected_exits
        return [exits.popleft() for _ in range(len(exits))]

    # -- inside

    def _record_end_request(self, node: int) -> None:
        """Record that the process is asked to end, unless it has ended already."""
        if self.is_running(node):
            self._asked_to_end.add(node)

    def _was_killed(self, node: int) -> bool:
        """Whether another signal than SIGTERM ended a process that was asked to end."""
        code = self._exit_codes.get(node)
        return code is not None and code < 0 and code != -signal.SIGTERM

    def _namespace(self, machine: int) -> Path:
        """Return the network namespace of a machine. Raises UnknownNode."""
        raise NotImplementedError

    def _known(self, machine: int) -> int:
        if machine != CLIENTS and machine not in self.node_ids():
            raise UnknownNode(f"there is no node {machine}; the nodes are {list(self.node_ids())}")
        return machine

    def _mutex(self, node: int) -> threading.RLock:
        if node not in self._mutexes:
            raise UnknownNode(f"there is no node {node}; the nodes are {list(self.node_ids())}")
        return self._mutexes[node]

    def _running(self, node: int) -> Process:
        if not self.is_running(node):
            raise NodeState(f"node {node} is not running")
        return self._processes[node]

    def _spawn(
        self, node: int, argv: Sequence[str], *, env: Mapping[str, str], log_path: Path
    ) -> Process:
        """Start a process on a node, as the leader of its own process group."""
        return processes.spawn(argv, self._namespace(node), env=env, log_path=log_path)

    def _recorded(self, machine: int, process: P) -> P:
        # A crash before the record leaks nothing: undoing the namespace ends all its processes.
        try:
            if (identity := processes.identify(process.pid)) is not None:
                self._journal.record("local.process", machine=machine, **asdict(identity))
        except BaseException:
            processes.signal_process(process, signal.SIGKILL)
            process.wait(processes.END_TIMEOUT_S)
            own_clocks.remove_shared_memory(process.pid)
            raise
        return process

    def _end(self, node: int) -> None:
        process = self._processes.get(node)
        if process is None:
            return
        unexpected = node not in self._asked_to_end and not self.is_running(node)
        processes.signal_process(process, signal.SIGKILL)
        with self.disks.released(node):
            group = process.pid
            self._exit_codes[node] = process.wait(processes.END_TIMEOUT_S)
            kernel.wait_until(lambda: processes.is_gone(group), processes.END_TIMEOUT_S)
        own_clocks.remove_shared_memory(process.pid)
        del self._processes[node]
        self._asked_to_end.discard(node)
        if unexpected:
            self._unexpected_exits.append((node, self._exit_codes[node]))
