"""One machine and the one node on it, as the agent works on them: all that Linux lets one break.

Everything is below the node's home, with a journal of its own, so that whatever an agent leaves
behind, however it ends, the next one undoes.

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
"""Beside the homes: the journals of agents that have not ended in order."""

_SYSTEMD: Final = Path("/run/systemd/system")
_NETWORK_TIMEOUT_S: Final = 120.0


class Settings(BaseModel):
    """What an agent is told at its start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    node: int = Field(ge=1)
    addresses: Mapping[int, str]
    """Of every machine that the run may have, the clients' (0) too."""
    spared: tuple[int, ...] = ()
    """TCP ports that no fault of the network touches: those by which machines are reached."""
    dead_man_s: float = Field(gt=0)
    clocks: bool = False
    """The run sets clocks."""
    clock: Literal["process", "machine"] = "process"
    """Which: one of the node's process, or the machine's."""


class Place:
    """Who is where in the run, which uses the machine's own network. See
    `harness.targets.linux.network.links.Machines`.
    """

    def __init__(self, run_id: str, addresses: Mapping[int, str]) -> None:
        self.name = network.name_of(run_id)
        self.nodes = tuple(sorted(set(addresses) - {CLIENTS}))
        self._addresses = addresses

    def namespace(self, machine: int) -> Path:
        """This process's own, whichever machine is meant: no other is in reach."""
        return namespaces.OWN

    def address(self, machine: int) -> str:
        """As the inventory says."""
        return self._addresses[machine]


class Machine(LinuxNodes):
    """See `harness.targets.base.Target`, for one node."""

    def __init__(self, home: Path, settings: Settings, journal: Journal) -> None:
        """Plan it; `up` makes it."""
        super().__init__(journal, (settings.node,))
        self.home = home
        self._settings = settings
        self._place = Place(settings.run_id, settings.addresses)
        self._volume = volumes.best_volume()
        self.links = LinuxLinks(
            lambda: self._place, journal, reach=(settings.node,), spared=settings.spared
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
        """Make the node's disk, and be ready to break the network. On an error, call `down`."""
        volumes.make(self._volume, self.home / "data", self.home / "data.img", self._journal)
        self._prepare_rules()

    def up_again(self) -> None:
        """The same after a boot of the machine, with the disk as it was left; returns when the
        machine's networks are up, too. Raises TargetError.
        """
        if self._volume is not Volume.DIRECTORY:
            volumes.restart(self._volume, self.home / "data", self.home / "data.img")
        self._prepare_rules()
        address = self._place.address(self._settings.node)
        if not kernel.wait_until(lambda: _is_ours(address), _NETWORK_TIMEOUT_S, 0.1):
            raise TargetError(f"the machine has booted, and its address {address} is not up")

    def _prepare_rules(self) -> None:
        self._journal.record("local.rules", table=self._place.name)
        firewall.prepare(namespaces.OWN, self._place.name, self._settings.spared)

    def heal(self) -> list[str]:
        """Undo every fault, whoever made it; what went wrong with that. The node goes on, unless
        its disk was broken: then it is stopped, and its disk repaired.
        """
        node = self._settings.node
        problems = []
        with contextlib.suppress(TargetError, OSError):
            self.resume(node)
        _, left = undo_records([r for r in self._journal.records() if r["kind"] in FAULTS], UNDO)
        problems += left
        if self.disks.ailment(node):
            try:
                self.kill(node)
                self.disks.repair(node)
            except (TargetError, OSError) as error:
                problems.append(str(error))
        return problems

    def down(self, *, keep_data: bool = False) -> None:
        """End the node and undo everything. Raises TargetError with what is left."""
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
        return self._place.namespace(self._known(machine))

    def _spawn(
        self, node: int, argv: Sequence[str], *, env: Mapping[str, str], log_path: Path
    ) -> Process:
        if _SYSTEMD.exists():
            # A transient unit of its own, whose process is still our child.
            unit = f"{self._place.name}-n{node}"
            scope = ("systemd-run", "--scope", "--quiet", "--collect", f"--unit={unit}", "--")
            argv = (*scope, *argv)
        return super()._spawn(node, argv, env=env, log_path=log_path)


def _is_ours(address: str) -> bool:
    """Whether an interface has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((address, 0))
        except OSError:
            return False
        return True
