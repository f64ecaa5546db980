"""The SSH target: a node on each machine of an inventory, and the clients beside the harness.

An agent on each machine makes the faults there. Network faults also change packets that arrive at
the clients; that happens in the harness's own network and takes root. See
`harness.targets.base.Target`.
"""

import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.recording.journal import Journal
from harness.targets.agent.machine import ExistingNetwork, Machine, Settings
from harness.targets.agent.power_loss import PowerAwareClient
from harness.targets.agent.server import Session
from harness.targets.base import CLIENTS, NoPower, TargetError, UnknownNode, Unsupported
from harness.targets.linux import processes
from harness.targets.linux.clients import LinuxClients
from harness.targets.linux.network import firewall, namespaces
from harness.targets.linux.network.links import LinuxLinks
from harness.targets.linux.undo import FAULTS, UNDO, undo_records
from harness.targets.parallel import in_parallel
from harness.targets.ssh import forwarding
from harness.targets.ssh.connection import SSH_PORT
from harness.targets.ssh.install import Software
from harness.targets.ssh.inventory import Inventory
from harness.targets.ssh.machine import RemoteMachine
from harness.targets.ssh.power import MachinePower, PowerSwitch
from nemesis.faults.fault import Ability
from nemesis.hosts import Power

NETWORK: frozenset[str] = frozenset(
    {Ability.PACKET_DROPS, Ability.LINK_QUALITY, Ability.CONNECTION_RESETS}
)
"""The abilities that need root on the harness's machine too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOptions:
    """The software on the machines, and the privileges of the harness."""

    software: Software
    clocks: bool
    root: bool
    """Whether the harness is root on its own machine."""


class SshTarget:
    """See `harness.targets.base.Target`. Calls may come from several threads."""

    def __init__(
        self,
        run_id: str,
        run_dir: Path,
        nodes: Sequence[int],
        journal: Journal,
        inventory: Inventory,
        options: SshOptions,
        switches: Mapping[int, PowerSwitch] | None = None,
    ) -> None:
        """Store the settings; `up` connects. `switches` are the machines' power switches."""
        self._run_id = run_id
        self._run_dir = run_dir.resolve()
        self._journal = journal
        self._inventory = inventory
        self._options = options
        self._all = {h.node: RemoteMachine(h, inventory, run_id) for h in inventory.hosts}
        self._nodes = sorted(nodes)
        self._addresses: dict[int, str] = {}
        self._spared = tuple({SSH_PORT, *(each.connection.ssh.port for each in self._all.values())})
        self._here = LinuxLinks(
            lambda: ExistingNetwork(run_id, self._addresses),
            journal,
            reach=(CLIENTS,),
            spared=self._spared,
        )
        self.links = forwarding.RemoteLinks(self._agent, lambda: self._nodes, self._here)
        self.disks = forwarding.disks(self._agent)
        self.clocks = forwarding.clocks(self._agent)
        self.clients = LinuxClients()
        self._machine_power = MachinePower(switches, self.machine, journal) if switches else None
        self.power: Power = self._machine_power or NoPower()

    @property
    def abilities(self) -> frozenset[str]:
        """The abilities of all machines; network abilities only if this machine has them too."""
        found = in_parallel(self._nodes, lambda node: self._agent(node).call(Session.abilities))
        common = frozenset.intersection(*found.values())
        local = {str(Ability.MACHINE_POWER)} if self._machine_power else set()
        local |= common & self._here.abilities if self._options.root else set()
        return (common - NETWORK) | local

    def python(self, node: int) -> str:
        """Return the interpreter of the inventory, or of the virtual environment made by pip."""
        return self.machine(node).python

    def environment(self, node: int) -> Mapping[str, str]:
        """Return the environment of our processes there; it has no variables of this machine."""
        return self.machine(node).environment

    def place(self, node: int, path: Path) -> Path:
        """Return the place of the copy."""
        return self.machine(node).place(path)

    # -- the machines

    def up(self) -> None:
        """Connect to all machines and start their agents. After an error, call `down`."""
        machines = self._all
        self._addresses = {node: each.connection.address() for node, each in machines.items()}
        clients = self._inventory.clients
        self._addresses[CLIENTS] = str(clients or _local_address(self._addresses[self._nodes[0]]))
        if self._options.root:
            table = ExistingNetwork(self._run_id, {}).name
            self._journal.record("local.rules", table=table)
            firewall.prepare(namespaces.OWN, table, self._spared)
        in_parallel(self._nodes, self._start)

    def _start(self, node: int) -> None:
        machine = self._all[node]
        machine.connect(self._options.software)
        self._journal.record("ssh.machine", node=node, **machine.record)
        if self._machine_power:
            self._machine_power.record(node)  # recorded later, so undone earlier
        machine.start(
            Settings(
                run_id=self._run_id,
                node=node,
                addresses=self._addresses,
                spared=self._spared,
                dead_man_s=self._inventory.dead_man_s,
                clocks=self._options.clocks,
                clock=machine.host.clock,
            )
        )

    def down(self, *, keep_data: bool = False) -> None:
        """See the protocol. The nodes' logs are fetched first."""
        problems = []
        if self._machine_power:
            try:
                self._machine_power.restore(self._machine_power.off())
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
        in_parallel(self._nodes, end)
        local = [r for r in self._journal.records() if r["kind"] in FAULTS | {"local.process"}]
        problems += undo_records(local, UNDO)[1]
        if problems:
            raise TargetError("; ".join(problems))

    def node_ids(self) -> Sequence[int]:
        """All nodes, running or not, ascending."""
        return tuple(self._nodes)

    def add_node(self, node: int) -> None:
        """Use one more machine of the inventory. Raises Unsupported without one."""
        if node not in self._all:
            raise Unsupported(f"the inventory has no host for the new node {node}: add one")
        self._nodes = sorted({*self._nodes, node})
        self._start(node)

    def remove_node(self, node: int, *, keep_data: bool = False) -> None:
        """End the node and its agent, and disconnect."""
        self.machine(node).end(keep_data=keep_data)
        self._nodes = [each for each in self._nodes if each != node]

    def address(self, node: int) -> str:
        """Return the IPv4 address in the data network."""
        if node != CLIENTS:
            self.machine(node)
        return self._addresses[node]

    # -- files

    def data_dir(self, node: int) -> Path:
        """Return the directory of the fetched data."""
        self.machine(node)
        return self._run_dir / "nodes" / str(node) / "data"

    def home(self, node: int) -> Path:
        """Return the path on the machine."""
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

    def take_unexpected_exits(self) -> Sequence[tuple[int, int | None]]:
        """See the protocol. A machine without an agent reports nothing."""
        machines = [self.machine(node) for node in self.node_ids()]
        return [
            death
            for machine in machines
            if machine.has_agent
            for death in machine.agent.call(Machine.take_unexpected_exits)
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
        """Start a process on this machine."""
        client = processes.spawn(argv, None, env=env, log_path=log_path)
        self.clients.adopt(client)
        return client

    def enter(self, machine: int) -> str:
        """Return an ssh command."""
        if machine == CLIENTS:
            return "sh"
        ssh = self.machine(machine).connection.ssh
        return f"ssh -p {ssh.port} {ssh.user}@{ssh.host}"

    def in_client_netns(self) -> AbstractContextManager[None]:
        """Do nothing: the clients use the harness's own network."""
        return nullcontext()

    # -- inside

    def machine(self, node: int) -> RemoteMachine:
        """Return a node's machine. Raises UnknownNode."""
        if node not in self._nodes:
            raise UnknownNode(f"there is no node {node}; the nodes are {self._nodes}")
        return self._all[node]

    def _agent(self, node: int) -> PowerAwareClient:
        return self.machine(node).agent


def _local_address(address: str) -> str:
    """Return the local address of the route to `address`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError as error:
            raise TargetError(
                f"this machine has no route to {address} ({error}), but its clients must reach the "
                "nodes there: correct `address` in the inventory"
            ) from error
        return str(probe.getsockname()[0])
