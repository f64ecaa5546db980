"""No machines of ours: clients run on this one, next to a cluster that somebody else runs.

Nothing can be broken but the clients' own processes; who asks for more gets Unsupported.
"""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, NoReturn

from harness.recording.journal import Journal
from harness.targets.base import UnknownNode, Unsupported
from harness.targets.linux.clients import LinuxClients
from nemesis.faults.fault import Ability

OURS: Final = "its machines are not ours"
ABILITIES: Final = frozenset({Ability.CLIENT_SIGNALS})


class _NotOurs:
    """Links, disks and clocks of others."""

    abilities: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        raise Unsupported(f"{name}: the cluster is external, {OURS}")


class ExternalTarget:
    """See `harness.targets.base.Target`: one without nodes."""

    abilities: frozenset[str] = ABILITIES

    def __init__(self) -> None:
        self.clients = LinuxClients()
        self.links: Any = _NotOurs()
        self.disks: Any = _NotOurs()
        self.clocks: Any = _NotOurs()
        self.power: Any = _NotOurs()

    def up(self) -> None:
        """Nothing is made."""

    def down(self, *, keep_data: bool = False) -> None:
        """End the clients that are left."""
        self.clients.end()

    def node_ids(self) -> Sequence[int]:
        """None."""
        return ()

    def spawn_client(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process here."""
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
        """Clients live where the harness does."""
        return nullcontext()

    def is_running(self, node: int) -> bool:
        """Not ours."""
        return False

    def take_deaths(self) -> tuple[()]:
        """Nobody here sees the processes."""
        return ()

    def _unknown(self, *_: Any, **__: Any) -> NoReturn:
        raise UnknownNode(f"the cluster is external: {OURS}")

    add_node = remove_node = address = data_dir = home = publish = fetch = set_command = _unknown
    start = stop = terminate = kill = pause = resume = exit_code = state = enter = _unknown
    python = environment = place = _unknown


class External:
    """The kind; see `harness.targets.kinds.Kind`."""

    def ensure_privileges(self) -> None:
        """None are needed."""

    def lacking(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """Everything but what only the clients feel."""
        reason = f"the cluster is external, {OURS}"
        return {each: reason for each in wanted if each not in ABILITIES}

    def make(self, wish: Any) -> ExternalTarget:
        """Where the clients run."""
        return ExternalTarget()

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> NoReturn:
        """There is nothing to come back to."""
        raise Unsupported(f"the cluster of run {run_id} was external")
