"""The ZooKeeper nodes of one cluster: configured, started, waited for and stopped."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from harness.brokers.errors import DeployError
from harness.brokers.program import NodeFiles
from harness.brokers.zookeeper.server import CLIENT_PORT, DATA, ZooKeeper
from harness.recording.exit_reason import read_exit_reason
from harness.systems.ensemble import probe
from harness.systems.ensemble.probe import Address, ServerState
from harness.targets.base import Target
from nemesis.hosts import FIRST_ZOOKEEPER

STOP_TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.1


def server_number(node: int) -> int:
    """Return the number of a node's server in its ensemble, from 1."""
    return node - FIRST_ZOOKEEPER + 1


class Ensemble:
    """The servers on the nodes `nodes` of `target`.

    `files` and `output` return a node's files and the file with its output so far.
    """

    def __init__(
        self,
        target: Target,
        nodes: Sequence[int],
        *,
        files: Callable[[int], NodeFiles],
        output: Callable[[int], Path],
        log_name: str,
    ) -> None:
        self.nodes = tuple(nodes)
        self._target = target
        self._files = files
        self._output = output
        self._log_name = log_name

    @property
    def addresses(self) -> Mapping[int, Address]:
        """The address of each server for clients, by node."""
        return {node: (self._target.address(node), CLIENT_PORT) for node in self.nodes}

    @property
    def connect(self) -> str:
        """The addresses in the form of `zookeeper.connect`."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses.values())

    def configure(self) -> None:
        """Write every server's files and register its command. Raises PlanError, DeployError."""
        for node in self.nodes:
            files = self._files(node)
            by_number = {server_number(n): self._target.address(n) for n in self.nodes}
            ZooKeeper.find().configure(files, server_number(node), by_number)
            self._target.publish(node)
            self.register(node)

    def register(self, node: int) -> None:
        """Tell the target a server's command."""
        command = ZooKeeper.find().command(self._files(node))
        log_path = self._target.home(node) / self._log_name
        self._target.set_command(node, command.argv, command.env, log_path)

    def start(self, timeout_s: float) -> None:
        """Start all servers; return when each of them serves clients. Raises DeployError."""
        for node in self.nodes:
            self._target.start(node)
        deadline_s = time.monotonic() + timeout_s
        while silent := [node for node, state in self.states().items() if state is None]:
            self._check_running()
            if time.monotonic() > deadline_s:
                raise DeployError(
                    f"the ZooKeeper ensemble is not complete: nodes {silent} serve nobody after "
                    f"{timeout_s:.0f} s; see {self._output(silent[0])}"
                )
            time.sleep(POLL_S)

    def states(self) -> dict[int, ServerState | None]:
        """Ask every server; return its state by node, None for a server that serves nobody."""

        def ask(address: Address) -> ServerState | None:
            with self._target.in_client_netns():
                return probe.ask(address)

        addresses = self.addresses
        with ThreadPoolExecutor(max_workers=len(addresses)) as pool:
            return dict(zip(addresses, pool.map(ask, addresses.values()), strict=True))

    def stop(self) -> list[int]:
        """End all servers at once; return the nodes that had to be killed."""
        with ThreadPoolExecutor(max_workers=len(self.nodes)) as pool:
            ended = pool.map(lambda node: self._target.stop(node, STOP_TIMEOUT_S), self.nodes)
            return [node for node, clean in zip(self.nodes, ended, strict=True) if not clean]

    def log_directories(self) -> Mapping[int, Path]:
        """Return where each stopped server's transaction logs are, by node."""
        return {node: self._files(node).local_dir / DATA / "version-2" for node in self.nodes}

    def _check_running(self) -> None:
        for node in self.nodes:
            if not self._target.is_running(node):
                log_path = self._output(node)
                raise DeployError(
                    f"ZooKeeper node {node} ended by itself, exit code "
                    f"{self._target.exit_code(node)}: "
                    f"{read_exit_reason(log_path) or 'it did not say why'}; see {log_path}"
                )
