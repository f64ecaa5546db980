"""The agent's machine with its one node: processes, disk, network rules and clock.

All files are below the node's home directory. It has its own journal, so that the next agent undoes
what an agent left behind, however that agent ended.

    HOME/agent.json journal.jsonl agent.sock agent.log      the agent's
    HOME/server.properties node.log data/ data.img          the node's
"""

import contextlib
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.recording.journal import Journal
from harness.targets.base import CLIENTS, TargetError
from harness.targets.linux import kernel
from harness.targets.linux.clocks import LinuxClocks
from harness.targets.linux.disks import throttles, volumes
from harness.targets.linux.disks.disks import LinuxDisks
from harness.targets.linux.disks.volumes import Volume
from harness.targets.linux.network import firewall, namespaces, network
from harness.targets.linux.network.links import LinuxLinks
from harness.targets.linux.nodes import LinuxNodes
from harness.targets.linux.processes import Process
from harness.targets.linux.undo import FAULTS, UNDO, undo_records
from harness.targets.linux.wall_clock import MachineClock

SETTINGS: Final = "agent.json"
JOURNAL: Final = "journal.jsonl"
REGISTRY: Final = "unfinished"
"""The directory beside the homes that lists the journals of agents that have not finished."""

_SYSTEMD: Final = Path("/run/systemd/system")
_NETWORK_TIMEOUT_S: Final = 120.0


class Settings(BaseModel):
    """The settings of an agent, written to `SETTINGS` before its start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    node: int = Field(ge=1)
    addresses: Mapping[int, str]
    """The addresses of all machines that the run may use, and of the clients' (0)."""
    spared: tuple[int, ...] = ()
    """TCP ports that no network fault affects: the SSH ports of the machines."""
    dead_man_s: float = Field(gt=0)
    clocks: bool = False
    """Whether the run sets clocks."""
    clock: Literal["process", "machine"] = "process"
    """Which clock the run sets: the one of the node's process, or the machine's."""


class ExistingNetwork:
    """A run's network that exists already: the machines' own. See
    `harness.targets.linux.network.links.RunNetwork`.
    """

    def __init__(self, run_id: str, addresses: Mapping[int, str]) -> None:
        self.name = network.name_of(run_id)
        self.nodes = tuple(sorted(set(addresses) - {CLIENTS}))
        self._addresses = addresses

    def namespace(self, machine: int) -> Path:
        """Return this process's own namespace, the only one within reach, for any machine."""
        return namespaces.OWN

    def address(self, machine: int) -> str:
        """Return the address in the inventory."""
        return self._addresses[machine]

    def sources(self, machine: int) -> tuple[str, ...]:
        """Return the address in the inventory."""
        return (self.address(machine),)


class Machine(LinuxNodes):
    """See `harness.targets.base.Target`, for one node."""

    def __init__(self, home: Path, settings: Settings, journal: Journal) -> None:
        """Store the settings; `up` prepares the machine."""
        super().__init__(journal, (settings.node,))
        self.home = home
        self._settings = settings
        self._network = ExistingNetwork(settings.run_id, settings.addresses)
        self._volume = volumes.best_volume()
        self.links = LinuxLinks(
            lambda: self._network, journal, reach=(settings.node,), spared=settings.spared
        )
        self.disks = LinuxDisks(
            self._volume, self._data_dir, journal, groups=lambda node: throttles.groups()
        )
        self.clocks = (
            MachineClock(journal, self.pid)
            if settings.clock == "machine"
            else LinuxClocks(home / "clocks", journal, self.pid, own=settings.clocks)
        )

    def up(self) -> None:
        """Make the node's disk and the table of packet rules. After an error, call `down`."""
        volumes.make(self._volume, self.home / "data", self.home / "data.img", self._journal)
        self._prepare_rules()

    def up_after_boot(self) -> None:
        """Mount the node's existing disk after a boot and make the table of packet rules; return
        when the machine's address is up. Raises TargetError.
        """
        if self._volume is not Volume.DIRECTORY:
            volumes.restart(self._volume, self.home / "data", self.home / "data.img")
        self._prepare_rules()
        address = self._network.address(self._settings.node)
        if not kernel.wait_until(lambda: _has_address(address), _NETWORK_TIMEOUT_S, 0.1):
            raise TargetError(
                f"the machine has booted, but its address {address} is not up after "
                f"{_NETWORK_TIMEOUT_S:.0f} s"
            )

    def _prepare_rules(self) -> None:
        self._journal.record("local.rules", table=self._network.name)
        firewall.prepare(namespaces.OWN, self._network.name, self._settings.spared)

    def heal(self) -> list[str]:
        """Undo every fault and return the problems. The node keeps running, unless its disk was
        broken: then the node is killed and the disk repaired.
        """
        node = self._settings.node
        problems = []
        with contextlib.suppress(TargetError, OSError):
            self.resume(node)
        _, left = undo_records([r for r in self._journal.records() if r["kind"] in FAULTS], UNDO)
        problems += left
        if self.disks.disk_problem(node):
            try:
                self.kill(node)
                self.disks.repair(node)
            except (TargetError, OSError) as error:
                problems.append(str(error))
        return problems

    def down(self, *, keep_data: bool = False) -> None:
        """End the node and undo everything. Raises TargetError with all that is left."""
        self.links.close()
        self._end(self._settings.node)
        self.disks.forget(self._settings.node)
        _, problems = undo_records(self._journal.records(), UNDO)
        if problems:
            raise TargetError("; ".join(problems))
        self._journal.finish()
        if not keep_data:
            shutil.rmtree(self.home, ignore_errors=True)

    def _data_dir(self, node: int) -> Path:
        self._known(node)
        return self.home / "data"

    def _namespace(self, machine: int) -> Path:
        return self._network.namespace(self._known(machine))

    def _spawn(
        self, node: int, argv: Sequence[str], *, env: Mapping[str, str], log_path: Path
    ) -> Process:
        if _SYSTEMD.exists():
            # A transient unit for the node; its process is still a child of this one.
            unit = f"{self._network.name}-n{node}"
            scope = ("systemd-run", "--scope", "--quiet", "--collect", f"--unit={unit}", "--")
            argv = (*scope, *argv)
        return super()._spawn(node, argv, env=env, log_path=log_path)


def _has_address(address: str) -> bool:
    """Whether an interface of this machine has the address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True
