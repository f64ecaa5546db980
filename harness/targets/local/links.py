"""The run's links, to be broken: every call names machines, and reaches the right namespace."""

from collections.abc import Callable
from pathlib import Path

from harness.targets.base import CLIENTS, UnknownNode
from harness.targets.local import firewall
from harness.targets.local.network import Network
from nemesis.hosts import Cut


class LocalLinks:
    """See `nemesis.hosts.Links`. What is done goes with the namespaces that it is done in."""

    def __init__(self, network: Callable[[], Network]) -> None:
        """`network` gives the run's network as it is now: nodes come and go."""
        self._network = network

    def block(self, cut: Cut) -> None:
        """Drop what arrives at `dst` from `src`; the other direction is left alone."""
        firewall.block(*self._place(cut))

    def unblock(self, cut: Cut) -> None:
        """Undo `block`; nothing happens where nothing is blocked."""
        firewall.unblock(*self._place(cut))

    def dropped(self, cut: Cut) -> int | None:
        """Packets dropped since `block`; None where nothing is blocked."""
        return firewall.dropped(*self._place(cut))

    def _place(self, cut: Cut) -> tuple[Path, str, str, int]:
        """(namespace, table, source address, port) of the cut's rule."""
        network = self._network()
        for machine in (cut.src, cut.dst):
            if machine != CLIENTS and machine not in network.nodes:
                raise UnknownNode(f"no node {machine}: there are {list(network.nodes)}")
        return network.namespace(cut.dst), network.name, network.address(cut.src), cut.port
