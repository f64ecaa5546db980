"""The processes on the clients' machine, to be stopped and continued together."""

import signal
import subprocess
from collections.abc import Mapping

from harness.targets.linux import processes


class LinuxClients:
    """Every process of clients that was started here. See `nemesis.hosts.Clients`.

    A harness that dies leaves stopped ones stopped; they end with the namespace that they live in.
    """

    def __init__(self) -> None:
        self._all: list[subprocess.Popen[bytes]] = []

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Count the process, leader of a group of its own, among the clients."""
        self._all.append(process)

    def pause(self) -> None:
        """SIGSTOP all of them and return when they stand still. Raises NotInForce."""
        processes.stop_groups(self._groups(), "the clients")

    def resume(self) -> None:
        """SIGCONT all of them. Raises NotInForce."""
        processes.continue_groups(self._groups(), "the clients")

    def states(self) -> Mapping[int, str]:
        """pid -> state letter of every process that is there."""
        return processes.states_of(self._groups())

    def end(self) -> None:
        """SIGKILL those that are left, and wait for them."""
        for client in self._all:
            if client.poll() is None:
                processes.signal_group(client.pid, signal.SIGKILL)
                client.wait(processes.END_TIMEOUT_S)

    def _groups(self) -> list[int]:
        return [client.pid for client in self._all if client.poll() is None]
