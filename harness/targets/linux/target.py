"""A target on this machine: every node is a process with its own network namespace and disk.

Namespaces, veth pairs, a bridge, nftables and loop devices are made through the kernel's own
interfaces. Faults are made in the kernel too, so that they work for any broker and for both kinds
of `machines`. Every object is named after the run and journalled before it is made. `down`, or
`highwater clean` after the harness was killed, removes all of them.

Calls may come from several threads; calls for the same node wait for each other.
"""

import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from harness.recording.journal import Journal
from harness.targets.base import (
    CLIENTS,
    NodeState,
    NoPower,
    TargetError,
)
from harness.targets.linux import processes
from harness.targets.linux.clients import LinuxClients
from harness.targets.linux.clocks import LinuxClocks
from harness.targets.linux.disks import volumes
from harness.targets.linux.disks.disks import LinuxDisks
from harness.targets.linux.disks.throttles import ControlGroup
from harness.targets.linux.disks.volumes import Volume
from harness.targets.linux.machines import MachineMaker, Machines, Namespaces
from harness.targets.linux.network import firewall, namespaces, network
from harness.targets.linux.network.links import LinuxLinks
from harness.targets.linux.nodes import LinuxNodes
from harness.targets.linux.processes import AdoptedProcess, Process
from harness.targets.linux.undo import process_of, undo_records
from nemesis.hosts import PROGRAM


class LinuxTarget(LinuxNodes):
    """The machines of one run. See `harness.targets.base.Target`."""

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
        machines: Machines | None = None,
        program: bool = False,
        program_machine: MachineMaker | None = None,
    ) -> None:
        """Plan a target; `up` makes it.

        Nodes are numbered from 1 to 200; 0 stands for the clients. `volume` is by default the best
        that this machine supports. `uplink` connects this machine itself to the run's network, so
        that any program on it reaches the nodes. `subnet` is a /24, by default the run's own. With
        `clocks` every node has its own wall clock. `machines` are namespaces by default.
        With `program` the tested program gets a network namespace of its own, which
        `program_machine` makes, if it is given.
        """
        if uplink and subnet is None:
            subnet = network.free_subnet(run_id)
        self.network = network.plan(run_id, nodes, subnet)
        self.volume = volume or volumes.best_volume()
        self._run_dir = run_dir.resolve()
        super().__init__(journal, self.network.nodes)
        self._clients_machine = Namespaces(journal)
        self._machines = machines or self._clients_machine
        self.links = LinuxLinks(lambda: self.network, journal)
        self.disks = LinuxDisks(self.volume, self.data_dir, journal, groups=self._groups)
        self.power = NoPower()
        self.clocks = LinuxClocks(self._run_dir / "clocks", journal, self.pid, own=clocks)
        self._uplink = uplink
        self._program = program
        self._program_machine = program_machine or self._clients_machine
        self.clients = LinuxClients()

    @classmethod
    def attach(
        cls, run_id: str, run_dir: Path, journal: Journal, *, machines: Machines | None = None
    ) -> Self:
        """Return the target that another process made and left running, as its journal says.

        Commands are not known: call `set_command` before `start`. Raises TargetError when the
        journal records no running target.
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
                    nodes[int(str(record["machine"]))] = AdoptedProcess(process_of(record))
        if network_of is None or not nodes:
            raise TargetError(f"{journal.path} records no running cluster: start one first")
        target = cls(
            run_id,
            run_dir,
            sorted(nodes),
            journal,
            volume=Volume(network_of["volume"]),
            subnet=network_of["subnet"],
            machines=machines,
        )
        target._processes = {node: each for node, each in nodes.items() if each is not None}
        return target

    @property
    def _nodes_dir(self) -> Path:
        return self._run_dir / "nodes"

    @property
    def abilities(self) -> frozenset[str]:
        """The supported abilities, named as in `nemesis.faults.fault.Ability`."""
        parts = (self.links, self.disks, self.clocks)
        own = {"signals", "client-signals", "administration"}
        return frozenset(own).union(*(part.abilities for part in parts))

    def python(self, node: int) -> str:
        """The interpreter of the nodes' machines."""
        return self._machines.python

    # -- the machines

    def up(self) -> None:
        """Make volumes, namespaces and links. On an error, call `down`."""
        # Volumes come before namespaces. They are undone in reverse order: a namespace ends with
        # its processes, and then no process keeps a volume busy.
        self._journal.record(
            "local.network", subnet=str(self.network.subnet), volume=self.volume.value
        )
        self._machines.prepare(self._nodes_dir)
        for node in self.network.nodes:
            self._make_volume(node)
        network.build(self.network, self._journal)
        self._connect((*self.network.nodes, CLIENTS, *((PROGRAM,) if self._program else ())))
        if self._program:
            self.clients.program_namespace = self.network.namespace(PROGRAM)
        if self._uplink:
            network.add_uplink(self.network, self._journal)

    def down(self, *, keep_data: bool = False) -> None:
        """End every process and remove every machine; safe to call twice, or after a failed `up`.

        Disk images are deleted too unless `keep_data`. Raises TargetError with everything that
        could not be removed; the journal must not be finished then.
        """
        self.links.close()
        for node in self.network.nodes:
            with self._mutexes[node]:
                self._end(node)
                self.disks.forget(node)
        self.clients.end()
        _, problems = undo_records(
            self._journal.records(), {**self._program_machine.undo, **self._machines.undo}
        )
        if problems:
            raise TargetError("; ".join(problems))
        if not keep_data:
            for node in self.network.nodes:
                self._image(node).unlink(missing_ok=True)

    def add_node(self, node: int) -> None:
        """Make one more machine like those of `up`; no process runs on it yet.

        Raises NodeState when the node exists. After an error, `remove_node` or `down` undoes the
        parts that were made.
        """
        if node in self.network.nodes:
            raise NodeState(f"node {node} exists already")
        self.network = network.with_nodes(self.network, (*self.network.nodes, node))
        self._mutexes[node] = threading.RLock()
        self._machines.prepare(self._nodes_dir)
        self._make_volume(node)
        self._connect((node,))

    def remove_node(self, node: int, *, keep_data: bool = False) -> None:
        """End the node's processes and remove its machine; its disk image too unless `keep_data`.

        Raises TargetError with what could not be removed.
        """
        with self._mutex(node):
            self._end(node)
            self.disks.forget(node)
            namespace, data, image = self._namespace(node), self.data_dir(node), self._image(node)
            self._machines.remove(node, namespace)
            volumes.remove(data, image)
            self._journal.record("local.node-removed", node=node)
            rest = [each for each in self.network.nodes if each != node]
            self.network = network.with_nodes(self.network, rest)
            self._commands.pop(node, None)
        del self._mutexes[node]
        if not keep_data:
            image.unlink(missing_ok=True)
            shutil.rmtree(data, ignore_errors=True)

    def address(self, node: int) -> str:
        """Return the IPv4 address of a node, or of the clients (0)."""
        self._known(node)
        return self.network.address(node)

    def data_dir(self, node: int) -> Path:
        """Return the mount point of the node's volume, RUN/nodes/<node>/data; empty after `up`."""
        self._known(node)
        return self._nodes_dir / str(node) / "data"

    def home(self, node: int) -> Path:
        """Return RUN/nodes/<node>."""
        return self.data_dir(node).parent

    def environment(self, node: int) -> Mapping[str, str]:
        """Return the environment variables of every process on a node's machine."""
        return self._machines.environment

    def place(self, node: int, path: Path) -> Path:
        """Return the same path: the machines share the harness's files."""
        return path

    def publish(self, node: int) -> None:
        """Do nothing: the machines share the harness's files."""

    def fetch(self, node: int, *names: str) -> None:
        """Do nothing: the machines share the harness's files."""

    def spawn_client(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process on the clients' machine; the caller waits for it, `down` ends it."""
        client = processes.spawn(argv, self._namespace(CLIENTS), env=env, log_path=log_path)
        self._recorded(CLIENTS, client)
        self.clients.adopt(client)
        return client

    def enter(self, machine: int) -> str:
        """Return the command that opens a shell on a machine, as root."""
        inside = self._clients_machine if machine == CLIENTS else self._machines
        return inside.enter(machine, self._namespace(machine))

    def in_client_netns(self) -> AbstractContextManager[None]:
        """Move the calling thread to the clients' network for the block; do not `await` in it."""
        return namespaces.entered(self.network.namespace(CLIENTS))

    # -- inside

    def _image(self, node: int) -> Path:
        return self.data_dir(node).with_name("data.img")

    def _namespace(self, machine: int) -> Path:
        return self.network.namespace(self._known(machine))

    def _make_volume(self, node: int) -> None:
        self._journal.record("local.node", node=node)
        volumes.make(self.volume, self.data_dir(node), self._image(node), self._journal)

    def _connect(self, machines: Sequence[int]) -> None:
        """Make these machines and their links; other machines stay as they are."""
        for machine in machines:
            maker: MachineMaker = self._machines
            if machine in (CLIENTS, PROGRAM):
                maker = self._clients_machine if machine == CLIENTS else self._program_machine
            maker.make(machine, self.network.namespace(machine), self._nodes_dir / str(machine))
        network.connect(self.network, machines)
        for machine in machines:
            firewall.prepare(self.network.namespace(machine), self.network.name)

    def _groups(self, node: int) -> Sequence[ControlGroup]:
        return self._machines.groups(node, self._namespace(node))

    def _spawn(
        self, node: int, argv: Sequence[str], *, env: Mapping[str, str], log_path: Path
    ) -> Process:
        return self._machines.spawn(node, self._namespace(node), argv, env, log_path)
