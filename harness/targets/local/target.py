"""The local target: every node a process in a network namespace of its own, on this machine.

No container engine, no daemon, no downloaded program: namespaces, veth pairs, a bridge, nftables
and loop devices, made through the kernel's own interfaces. Faults are made in the kernel too, so
that any broker can be put under them. Everything is named after the run and journalled before it
is made; `down`, or `highwater clean` after the harness was killed, leaves nothing.

Calls may come from several threads; those about one node's process wait for each other.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from harness.journal import Journal
from harness.targets.base import (
    CLIENTS,
    NodeState,
    TargetError,
    UnknownNode,
)
from harness.targets.linux import clocks as own_clocks
from harness.targets.linux import firewall, kernel, namespaces, network, processes, volumes
from harness.targets.linux.clients import LinuxClients
from harness.targets.linux.clocks import LinuxClocks
from harness.targets.linux.disks import LinuxDisks
from harness.targets.linux.links import LinuxLinks
from harness.targets.linux.processes import Adopted, Process
from harness.targets.linux.undo import process_of, undo_records
from harness.targets.linux.volumes import Volume


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What `start` runs on a node."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log_path: Path


class LocalTarget:
    """The machines of one run, made of namespaces. See `harness.targets.base.Target`."""

    def __init__(
        self,
        run_id: str,
        run_dir: Path,
        nodes: Sequence[int],
        journal: Journal,
        *,
        volume: Volume | None = None,
        uplink: bool = False,
        subnet: str | None = None,
        clocks: bool = False,
    ) -> None:
        """Plan a target; `up` makes it.

        Nodes are numbered from 1 to 200, 0 stands for the clients. `volume` is the best that this
        machine offers unless named. `uplink` connects this machine itself to the run's network, so
        that any program on it reaches the nodes. `subnet` is a /24, by default the run's own. With
        `clocks` every node has a wall clock of its own.
        """
        if uplink and subnet is None:
            subnet = network.free_subnet(run_id)
        self.network = network.plan(run_id, nodes, subnet)
        self.volume = volume or volumes.best_volume()
        self._run_dir = run_dir.resolve()
        self._journal = journal
        self.links = LinuxLinks(lambda: self.network, journal)
        self.disks = LinuxDisks(self.volume, self.data_dir, journal)
        self.clocks = LinuxClocks(self._run_dir / "clocks", journal, self.pid, own=clocks)
        self._uplink = uplink
        self._commands: dict[int, Command] = {}
        self._processes: dict[int, Process] = {}
        self._exit_codes: dict[int, int | None] = {}
        self.clients = LinuxClients()
        self._mutexes = {node: threading.RLock() for node in self.network.nodes}

    @classmethod
    def attach(cls, run_id: str, run_dir: Path, journal: Journal) -> Self:
        """The target that another process made and left running, by what its journal says.

        Commands are not known: `set_command` before `start`. Raises TargetError when the journal
        tells of no target that is up.
        """
        network_of: Mapping[str, Any] | None = None
        nodes: dict[int, Process | None] = {}
        for record in journal.records():
            match record["kind"]:
                case "local.network":
                    network_of = record
                case "local.node":
                    nodes[int(str(record["node"]))] = None
                case "local.node-removed":
                    nodes.pop(int(str(record["node"])), None)
                case "local.process" if record["machine"] in nodes:
                    nodes[int(str(record["machine"]))] = Adopted(process_of(record))
        if network_of is None or not nodes:
            raise TargetError(f"{journal.path} tells of no target that is up")
        target = cls(
            run_id,
            run_dir,
            sorted(nodes),
            journal,
            volume=Volume(network_of["volume"]),
            subnet=network_of["subnet"],
        )
        target._processes = {node: each for node, each in nodes.items() if each is not None}
        return target

    @property
    def abilities(self) -> frozenset[str]:
        """What can be broken here, by the names of `nemesis.fault.Ability`."""
        parts = (self.links, self.disks, self.clocks)
        return frozenset({"signals", "administration"}).union(*(part.abilities for part in parts))

    @property
    def python(self) -> str:
        """This process's own interpreter."""
        return sys.executable

    # -- the machines

    def up(self) -> None:
        """Make volumes, namespaces and links. On an error, call `down`."""
        # Volumes before namespaces: undone in reverse, a namespace takes its processes with it, and
        # then nobody keeps a volume busy.
        self._journal.record(
            "local.network", subnet=str(self.network.subnet), volume=self.volume.value
        )
        for node in self.network.nodes:
            self._make_volume(node)
        network.build(self.network, self._journal)
        for machine in (*self.network.nodes, CLIENTS):
            firewall.prepare(self.network.namespace(machine), self.network.name)
        if self._uplink:
            network.add_uplink(self.network, self._journal)

    def down(self, *, keep_data: bool = False) -> None:
        """End every process and remove every machine; safe to call twice and half-way.

        Disk images are deleted too unless `keep_data`. Raises TargetError with everything that
        could not be removed; the journal then must not be finished.
        """
        self.links.close()
        for node in self.network.nodes:
            with self._mutexes[node]:
                self._end(node)
                self.disks.forget(node)
        self.clients.end()
        _, problems = undo_records(self._journal.records())
        if problems:
            raise TargetError("; ".join(problems))
        if not keep_data:
            for node in self.network.nodes:
                self._image(node).unlink(missing_ok=True)

    def add_node(self, node: int) -> None:
        """Make one more machine, as `up` made the others; nothing runs on it yet.

        Raises NodeState when there is one of that number. On an error what was made of it is
        undone by `remove_node`, or with everything else.
        """
        if node in self.network.nodes:
            raise NodeState(f"there is a node {node} already")
        self.network = network.with_nodes(self.network, (*self.network.nodes, node))
        self._mutexes[node] = threading.RLock()
        self._make_volume(node)
        network.connect(self.network, (node,), self._journal)
        firewall.prepare(self.network.namespace(node), self.network.name)

    def remove_node(self, node: int, *, keep_data: bool = False) -> None:
        """End the node's processes and remove its machine; its disk image too unless `keep_data`.

        Raises TargetError with what could not be removed.
        """
        with self._mutex(node):
            self._end(node)
            self.disks.forget(node)
            namespace, data, image = self._namespace(node), self.data_dir(node), self._image(node)
            _, problems = undo_records(
                [
                    {"kind": "local.volume", "mountpoint": str(data), "image": str(image)},
                    {"kind": "local.netns", "path": str(namespace)},
                ]
            )
            if problems:
                raise TargetError("; ".join(problems))
            self._journal.record("local.node-removed", node=node)
            rest = [each for each in self.network.nodes if each != node]
            self.network = network.with_nodes(self.network, rest)
            self._commands.pop(node, None)
        del self._mutexes[node]
        if not keep_data:
            image.unlink(missing_ok=True)
            shutil.rmtree(data, ignore_errors=True)

    def node_ids(self) -> Sequence[int]:
        """All nodes, running or not, ascending."""
        return self.network.nodes

    def address(self, node: int) -> str:
        """The IPv4 address of a node, or of the clients (0)."""
        self._known(node)
        return self.network.address(node)

    def data_dir(self, node: int) -> Path:
        """The node's own volume, empty after `up`: RUN/nodes/<node>/data."""
        self._known(node)
        return self._run_dir / "nodes" / str(node) / "data"

    def home(self, node: int) -> Path:
        """RUN/nodes/<node> itself."""
        return self.data_dir(node).parent

    def environment(self) -> Mapping[str, str]:
        """This process's own."""
        return os.environ

    def publish(self, node: int) -> None:
        """Nothing to do: the machines share the harness's files."""

    def fetch(self, node: int, *names: str) -> None:
        """Nothing to do: the machines share the harness's files."""

    # -- processes

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
            self._processes[node] = self._spawn(
                node,
                command.argv,
                env=self.clocks.environment(node, command.env),
                log_path=command.log_path,
            )

    def stop(self, node: int, timeout_s: float = 10.0) -> bool:
        """SIGTERM and wait; SIGKILL at the bound. True when it ended by itself."""
        with self._mutex(node):
            process = self._processes.get(node)
            if process is None:
                return True
            processes.signal_process(process, signal.SIGTERM)
            processes.signal_process(process, signal.SIGCONT)  # a paused one must hear it
            by_itself = kernel.wait_until(lambda: not self.is_running(node), timeout_s)
            self._end(node)
            return by_itself

    def terminate(self, node: int) -> None:
        """SIGTERM the node's processes and return at once; nothing happens without any."""
        with self._mutex(node):
            process = self._processes.get(node)
            if process is not None:
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

    def spawn_client(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process on the clients' machine; the caller waits for it, `down` ends it."""
        client = self._spawn(CLIENTS, argv, env=env, log_path=log_path)
        self.clients.adopt(client)
        return client

    def enter(self, machine: int) -> str:
        """The shell command that takes a person onto a machine, as root."""
        return f"nsenter --net={self._namespace(machine)}"

    def in_client_netns(self) -> AbstractContextManager[None]:
        """Move the calling thread to the clients' network for the block; never across `await`."""
        return namespaces.entered(self.network.namespace(CLIENTS))

    # -- inside

    def _image(self, node: int) -> Path:
        return self.data_dir(node).with_name("data.img")

    def _known(self, machine: int) -> int:
        if machine != CLIENTS and machine not in self.network.nodes:
            raise UnknownNode(f"no node {machine}: there are {list(self.network.nodes)}")
        return machine

    def _mutex(self, node: int) -> threading.RLock:
        if node not in self._mutexes:
            raise UnknownNode(f"no node {node}: there are {list(self.network.nodes)}")
        return self._mutexes[node]

    def _namespace(self, machine: int) -> Path:
        return self.network.namespace(self._known(machine))

    def _make_volume(self, node: int) -> None:
        self._journal.record("local.node", node=node)
        volumes.make(self.volume, self.data_dir(node), self._image(node), self._journal)

    def _running(self, node: int) -> Process:
        if not self.is_running(node):
            raise NodeState(f"node {node} is not running")
        return self._processes[node]

    def _spawn(
        self,
        machine: int,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None,
        log_path: Path | None,
    ) -> subprocess.Popen[bytes]:
        # A crash before the record is no leak: whoever is in the run's namespace is ended with it.
        process = processes.spawn(argv, self._namespace(machine), env=env, log_path=log_path)
        try:
            if (identity := processes.identify(process.pid)) is not None:
                self._journal.record("local.process", machine=machine, **asdict(identity))
        except BaseException:
            processes.signal_group(process.pid, signal.SIGKILL)
            process.wait(processes.END_TIMEOUT_S)
            raise
        return process

    def _end(self, node: int) -> None:
        process = self._processes.get(node)
        if process is None:
            return
        processes.signal_process(process, signal.SIGKILL)
        with self.disks.let_go(node):
            group = process.pid
            self._exit_codes[node] = process.wait(processes.END_TIMEOUT_S)
            kernel.wait_until(lambda: processes.is_gone(group), processes.END_TIMEOUT_S)
        own_clocks.forget(process.pid)
        del self._processes[node]
