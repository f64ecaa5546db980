"""The SSH target: a node on each of an inventory's machines, clients where the harness runs.

The machines do everything that is done to them by agents of their own; what arrives at the clients
is treated here, in the harness's own network, which takes root. See `harness.targets.base.Target`.
"""

import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.recording.journal import Journal
from harness.targets.agent.machine import Machine, Place, Settings
from harness.targets.agent.power_loss import LastingAgent
from harness.targets.agent.server import Session
from harness.targets.base import CLIENTS, NoPower, TargetError, UnknownNode, Unsupported
from harness.targets.linux import processes
from harness.targets.linux.clients import LinuxClients
from harness.targets.linux.network import firewall, namespaces
from harness.targets.linux.network.links import LinuxLinks
from harness.targets.linux.undo import FAULTS, UNDO, undo_records
from harness.targets.ssh import parts
from harness.targets.ssh.connection import SSH_PORT
from harness.targets.ssh.install import Cargo
from harness.targets.ssh.inventory import Inventory
from harness.targets.ssh.machine import RemoteMachine
from harness.targets.ssh.power import MachinePower, Plug
from nemesis.faults.fault import Ability
from nemesis.hosts import Power

NETWORK: frozenset[str] = frozenset(
    {Ability.PACKET_DROPS, Ability.LINK_QUALITY, Ability.CONNECTION_RESETS}
)
"""What needs root here too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is run on the machines."""

    cargo: Cargo
    clocks: bool
    root: bool
    """The harness is root on its own machine."""


class SshTarget:
    """See `harness.targets.base.Target`. Calls may come from several threads."""

    def __init__(
        self,
        run_id: str,
        run_dir: Path,
        nodes: Sequence[int],
        journal: Journal,
        inventory: Inventory,
        wanted: Wanted,
        plugs: Mapping[int, Plug] | None = None,
    ) -> None:
        """Plan it; `up` connects. `plugs` are those of machines whose power can be cut."""
        self._run_id = run_id
        self._run_dir = run_dir.resolve()
        self._journal = journal
        self._inventory = inventory
        self._wanted = wanted
        self._all = {h.node: RemoteMachine(h, inventory, run_id) for h in inventory.hosts}
        self._nodes = sorted(nodes)
        self._addresses: dict[int, str] = {}
        self._spared = tuple({SSH_PORT, *(each.connection.port for each in self._all.values())})
        self._here = LinuxLinks(
            lambda: Place(run_id, self._addresses), journal, reach=(CLIENTS,), spared=self._spared
        )
        self.links = parts.RemoteLinks(self._agent, lambda: self._nodes, self._here)
        self.disks = parts.disks(self._agent)
        self.clocks = parts.clocks(self._agent)
        self.clients = LinuxClients()
        self._plugged = MachinePower(plugs, self.machine, journal) if plugs else None
        self.power: Power = self._plugged or NoPower()

    @property
    def abilities(self) -> frozenset[str]:
        """What every machine can do, and this one where it has a part in that."""
        found = parts.together(self._nodes, lambda node: self._agent(node).call(Session.abilities))
        common = frozenset.intersection(*found.values())
        ours = {str(Ability.MACHINE_POWER)} if self._plugged else set()
        ours |= common & self._here.abilities if self._wanted.root else set()
        return (common - NETWORK) | ours

    def python(self, node: int) -> str:
        """The interpreter that the inventory names, or one that pip filled."""
        return self.machine(node).python

    def environment(self, node: int) -> Mapping[str, str]:
        """Nothing of this machine's own."""
        return self.machine(node).environment

    def place(self, node: int, path: Path) -> Path:
        """Where it was brought to."""
        return self.machine(node).place(path)

    # -- the machines

    def up(self) -> None:
        """Connect to all machines and start their agents. On an error, call `down`."""
        machines = self._all
        self._addresses = {node: each.connection.address() for node, each in machines.items()}
        clients = self._inventory.clients
        self._addresses[CLIENTS] = str(clients or _towards(self._addresses[self._nodes[0]]))
        if self._wanted.root:
            table = Place(self._run_id, {}).name
            self._journal.record("local.rules", table=table)
            firewall.prepare(namespaces.OWN, table, self._spared)
        parts.together(self._nodes, self._start)

    def _start(self, node: int) -> None:
        machine = self._all[node]
        machine.connect(self._wanted.cargo)
        self._journal.record("ssh.machine", node=node, **machine.record)
        if self._plugged:
            self._plugged.record(node)  # after it: undone before it
        machine.start(
            Settings(
                run_id=self._run_id,
                node=node,
                addresses=self._addresses,
                spared=self._spared,
                dead_man_s=self._inventory.dead_man_s,
                clocks=self._wanted.clocks,
                clock=machine.host.clock,
            )
        )

    def down(self, *, keep_data: bool = False) -> None:
        """See the protocol. What a node has said is brought here first."""
        problems = []
        if self._plugged:
            try:
                self._plugged.restore(self._plugged.off())
            except (TargetError, OSError) as error:
                problems.append(str(error))

        def end(node: int) -> None:
            try:
                with suppress(TargetError, OSError):
                    self.fetch(node, "node.log")
                self._all[node].end(keep_data=keep_data)
            except (TargetError, OSError) as error:
                problems.append(str(error))

        self.clients.end()
        self._here.close()
        parts.together(self._nodes, end)
        ours = [r for r in self._journal.records() if r["kind"] in FAULTS | {"local.process"}]
        problems += undo_records(ours, UNDO)[1]
        if problems:
            raise TargetError("; ".join(problems))

    def node_ids(self) -> Sequence[int]:
        """All nodes, running or not, ascending."""
        return tuple(self._nodes)

    def add_node(self, node: int) -> None:
        """Use one more machine of the inventory. Raises Unsupported without one."""
        if node not in self._all:
            raise Unsupported(f"the inventory has no host for node {node}, to be added")
        self._nodes = sorted({*self._nodes, node})
        self._start(node)

    def remove_node(self, node: int, *, keep_data: bool = False) -> None:
        """Let a machine go."""
        self.machine(node).end(keep_data=keep_data)
        self._nodes = [each for each in self._nodes if each != node]

    def address(self, node: int) -> str:
        """The IPv4 address in the data network."""
        if node != CLIENTS:
            self.machine(node)
        return self._addresses[node]

    # -- files

    def data_dir(self, node: int) -> Path:
        """What was fetched of it."""
        self.machine(node)
        return self._run_dir / "nodes" / str(node) / "data"

    def home(self, node: int) -> Path:
        """On the machine."""
        return Path(self.machine(node).home)

    def publish(self, node: int) -> None:
        """See the protocol."""
        self.machine(node).publish(self.data_dir(node).parent)

    def fetch(self, node: int, *names: str) -> None:
        """See the protocol."""
        self.machine(node).fetch(self.data_dir(node).parent, *names)

    # -- processes

    def set_command(
        self, node: int, argv: Sequence[str], env: Mapping[str, str], log_path: Path
    ) -> None:
        """See the protocol."""
        self._agent(node).call(Machine.set_command, node, argv, env, log_path)

    def start(self, node: int) -> None:
        """See the protocol."""
        self._agent(node).call(Machine.start, node)

    def stop(self, node: int, timeout_s: float = 10.0) -> bool:
        """See the protocol."""
        return self._agent(node).call(Machine.stop, node, timeout_s)

    def terminate(self, node: int) -> None:
        """See the protocol."""
        self._agent(node).call(Machine.terminate, node)

    def kill(self, node: int) -> None:
        """See the protocol."""
        self._agent(node).call(Machine.kill, node)

    def pause(self, node: int) -> None:
        """See the protocol."""
        self._agent(node).call(Machine.pause, node)

    def resume(self, node: int) -> None:
        """See the protocol."""
        self._agent(node).call(Machine.resume, node)

    def is_running(self, node: int) -> bool:
        """See the protocol. A node whose machine has no agent does not run."""
        machine = self.machine(node)
        return machine.has_agent and machine.agent.call(Machine.is_running, node)

    def exit_code(self, node: int) -> int | None:
        """See the protocol."""
        return self._agent(node).call(Machine.exit_code, node)

    def take_deaths(self) -> Sequence[tuple[int, int | None]]:
        """See the protocol. What the agents tell; a machine without one tells nothing."""
        machines = [self.machine(node) for node in self.node_ids()]
        return [
            death
            for machine in machines
            if machine.has_agent
            for death in machine.agent.call(Machine.take_deaths)
        ]

    def state(self, node: int) -> str:
        """See the protocol."""
        return self._agent(node).call(Machine.state, node)

    def spawn_client(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process here."""
        client = processes.spawn(argv, None, env=env, log_path=log_path)
        self.clients.adopt(client)
        return client

    def enter(self, machine: int) -> str:
        """By ssh."""
        if machine == CLIENTS:
            return "sh"
        way = self.machine(machine).connection.way
        return f"ssh -p {way.port} {way.user}@{way.host}"

    def in_client_netns(self) -> AbstractContextManager[None]:
        """The clients' network is the harness's own."""
        return nullcontext()

    # -- inside

    def machine(self, node: int) -> RemoteMachine:
        """Its connection, agent and files. Raises UnknownNode."""
        if node not in self._nodes:
            raise UnknownNode(f"no node {node}: there are {self._nodes}")
        return self._all[node]

    def _agent(self, node: int) -> LastingAgent:
        return self.machine(node).agent


def _towards(address: str) -> str:
    """Our address on the way there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect((address, 9))
        except OSError as error:
            raise TargetError(
                f"no way leads from here to {address} ({error}): the clients are to use the data "
                "network too; correct `address` in the inventory"
            ) from error
        return str(asked.getsockname()[0])
