"""The processes of clients, which faults stop and continue as one."""

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness.targets.linux import processes


class LinuxClients:
    """All client processes started by this harness. See `nemesis.hosts.Clients`.

    When the harness dies, stopped clients stay stopped; they end with their namespace.
    """

    def __init__(self) -> None:
        self.program_namespace: Path | None = None
        """The network namespace of the tested program, if it has one of its own."""
        self._all: list[subprocess.Popen[bytes]] = []

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Add a process, the leader of its own process group, to the clients."""
        self._all.append(process)

    def pause(self) -> None:
        """SIGSTOP all clients and return when they are stopped. Raises NotInForce."""
        processes.stop_groups(self._groups(), "the clients")

    def resume(self) -> None:
        """SIGCONT all clients. Raises NotInForce."""
        processes.continue_groups(self._groups(), "the clients")

    def states(self) -> Mapping[int, str]:
        """Return pid -> state letter of every client process."""
        return processes.states_of(self._groups())

    def end(self) -> None:
        """SIGKILL the remaining clients, and wait for them."""
        for client in self._all:
            if client.poll() is None:
                processes.signal_group(client.pid, signal.SIGKILL)
                client.wait(processes.END_TIMEOUT_S)

    def _groups(self) -> list[int]:
        return [client.pid for client in self._all if client.poll() is None]
