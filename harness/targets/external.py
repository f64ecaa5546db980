"""The target of an external cluster: clients run on this machine, the cluster on unknown machines.

Only faults of the clients' own processes are possible; all others raise Unsupported.
"""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, NoReturn

from harness.recording.journal import Journal
from harness.targets import abilities
from harness.targets.base import UnknownNode, Unsupported
from harness.targets.docker import daemon
from harness.targets.docker import undo as docker
from harness.targets.linux.clients import LinuxClients
from harness.targets.linux.recorder import Recorder
from harness.targets.linux.undo import Fields
from harness.targets.request import TargetRequest
from nemesis.faults.fault import Ability

EXTERNAL: Final = "the cluster is external, and highwater does not control its machines"
ABILITIES: Final = frozenset(
    {Ability.CLIENT_SIGNALS, Ability.PROGRAM_SIGNALS, Ability.PROGRAM_CLOCKS}
)


class _ExternalMachines:
    """Links, disks and clocks that raise Unsupported."""

    abilities: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        raise Unsupported(f"{name}: {EXTERNAL}")


class ExternalTarget:
    """See `harness.targets.base.Target`; it has no nodes."""

    abilities: frozenset[str] = ABILITIES

    def __init__(self, program: Fields | None = None, journal: Recorder | None = None) -> None:
        """`program` says which containers the tested program will have, if it has any: the fields
        of the record `docker.program`, which `up` writes into the journal."""
        self._program = program
        self._journal = journal
        self.clients = LinuxClients()
        self.links: Any = _ExternalMachines()
        self.disks: Any = _ExternalMachines()
        self.clocks: Any = _ExternalMachines()
        self.power: Any = _ExternalMachines()

    def up(self) -> None:
        """Note what `down` will remove."""
        if self._program is not None and self._journal is not None:
            self._journal.record(docker.PROGRAM, **self._program)

    def down(self, *, keep_data: bool = False) -> None:
        """End the remaining clients, and the containers of the program."""
        self.clients.end()
        if self._program is not None:
            docker.UNDO[docker.PROGRAM](self._program)

    def node_ids(self) -> Sequence[int]:
        """Return no nodes."""
        return ()

    def spawn_client(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process on this machine."""
        with (log_path or Path("/dev/null")).open("ab") as log:
            client = subprocess.Popen(
                argv,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.clients.adopt(client)
        return client

    def in_client_netns(self) -> AbstractContextManager[None]:
        """Do nothing: clients use the harness's own network."""
        return nullcontext()

    def is_running(self, node: int) -> bool:
        """Return False: no process is controlled."""
        return False

    def take_unexpected_exits(self) -> tuple[()]:
        """Return nothing: no process is observed."""
        return ()

    def _unknown(self, *_: Any, **__: Any) -> NoReturn:
        raise UnknownNode(EXTERNAL)

    add_node = remove_node = address = data_dir = home = publish = fetch = set_command = _unknown
    start = stop = terminate = kill = pause = resume = exit_code = state = enter = _unknown
    python = environment = place = _unknown


class ExternalKind:
    """An external cluster. See `harness.targets.kinds.TargetKind`."""

    def ensure_privileges(self) -> None:
        """Do nothing: no privileges are needed."""

    def missing_abilities(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """Return all abilities but those that concern only the clients."""
        wanted = frozenset(wanted)
        here = abilities.missing_abilities(wanted & {Ability.PROGRAM_CLOCKS})
        return dict.fromkeys(sorted(wanted - ABILITIES), EXTERNAL) | here

    def make(self, request: TargetRequest) -> ExternalTarget:
        """Return a target for the clients. Raises Unsupported for a Docker daemon elsewhere."""
        if request.program_image is None:
            return ExternalTarget()
        program = {"daemon": daemon.chosen(), "run_id": request.run_id}
        return ExternalTarget(program, request.journal)

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> NoReturn:
        """Raise Unsupported."""
        raise Unsupported(f"run {run_id} had an external cluster: it has no machines to attach to")
