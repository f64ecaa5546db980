"""The faults of a simulated network: `nemesis.hosts.Links`.

A cut drops packets where they arrive, and their sender sends them again; counts are of packets, the
repeated ones included. Cuts and layers stay with a link while its machines come and go.
"""

from collections.abc import Sequence
from typing import Final

from harness.simulation.world.network.link import Link, Watch
from harness.simulation.world.network.network import Network
from harness.targets.base import CLIENTS, UnknownNode
from nemesis.hosts import Cut, Quality, Tampered

ABILITIES: Final = frozenset({"packet-drops", "link-quality", "connection-resets"})


class SimLinks:
    """See the module."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._cuts: dict[Cut, Watch] = {}
        self._asked: dict[Cut, Watch] = {}
        self._dropped: dict[Cut, int] = {}
        """By cuts with a layer that are not in force at the moment."""
        self._ended: dict[str, int] = {}

    @property
    def abilities(self) -> frozenset[str]:
        """What can be broken, by the names of `nemesis.faults.fault.Ability`."""
        return ABILITIES

    # -- cuts

    def block(self, *cuts: Cut) -> None:
        """Drop what the cuts say. Raises UnknownNode."""
        for cut in cuts:
            self._known(cut.src, cut.dst)
            if cut in self._cuts:
                continue
            watch = self._cuts[cut] = Watch(cut, self._dropped.pop(cut, 0))
            self._link(cut.src, cut.dst).cuts.append(watch)
            if cut.answers:
                asked = self._asked[cut] = Watch(cut)
                self._link(cut.dst, cut.src).asked.append(asked)

    def unblock(self, *cuts: Cut) -> None:
        """Undo `block`; nothing happens where nothing is blocked."""
        for cut in cuts:
            watch = self._cuts.pop(cut, None)
            if watch is None:
                continue
            self._link(cut.src, cut.dst).cuts.remove(watch)
            if cut.layer:
                self._dropped[cut] = watch.count
            asked = self._asked.pop(cut, None)
            if asked is not None:
                self._link(cut.dst, cut.src).asked.remove(asked)

    def dropped(self, cut: Cut) -> int | None:
        """Packets dropped since `block`; None where nothing is blocked."""
        watch = self._cuts.get(cut)
        return None if watch is None else watch.count

    def dropped_in_turns(self, cut: Cut) -> int:
        """Packets dropped since the first `block` of a cut with a layer, in force now or not."""
        watch = self._cuts.get(cut)
        return self._dropped.get(cut, 0) if watch is None else watch.count

    def asked(self, cut: Cut) -> int | None:
        """Requests since `block` of a cut of answers; None where nothing is blocked."""
        watch = self._asked.get(cut)
        return None if watch is None else watch.count

    # -- quality

    def prepare(self, links: Sequence[tuple[int, int]], quality: Quality) -> None:
        """Nothing: a layer takes no time to put on."""

    def degrade(self, links: Sequence[tuple[int, int]], quality: Quality, layer: str) -> None:
        """Put a layer on links. Raises UnknownNode."""
        for src, dst in links:
            self._known(src, dst)
            self._link(src, dst).degrade(quality, layer)

    def restore(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Take a layer away; nothing happens where there is none."""
        for src, dst in links:
            self._link(src, dst).restore(layer)

    def tampered(self, link: tuple[int, int], layer: str) -> Tampered | None:
        """What was done to the link since the layer was put on it; None where it is not."""
        return self._link(*link).tampered(layer)

    # -- resets

    def reset(self, pairs: Sequence[tuple[int, int]], layer: str) -> int:
        """End the TCP connections of each pair. Raises UnknownNode."""
        for one, other in pairs:
            self._known(one, other)
            ended = self._network.reset(one, other)
            self._ended[layer] = self._ended.get(layer, 0) + ended
        return self.ended(layer)

    def ended(self, layer: str) -> int:
        """How many connections were ended for `layer` so far."""
        return self._ended.get(layer, 0)

    def _link(self, src: int, dst: int) -> Link:
        return self._network.link(src, dst)

    def _known(self, *machines: int) -> None:
        for machine in machines:
            if machine != CLIENTS and self._network.machine(machine) is None:
                raise UnknownNode(f"no node {machine} in this world")
