"""The faults of a simulated network: `nemesis.hosts.Links`.

A cut drops packets where they arrive, and the sender retransmits them; counts are of packets, with
the retransmitted ones. Cuts and layers stay on a link while its machines come and go.
"""

from collections.abc import Sequence
from typing import Final

from harness.simulation.world.network.link import CutCounter, Link
from harness.simulation.world.network.network import Network
from harness.simulation.world.world import NS
from harness.targets.base import CLIENTS, UnknownNode
from harness.targets.request_stream import RequestWatch
from nemesis.hosts import Cut, LinkCounters, LinkQuality
from nemesis.requests import RequestFilter, WatchedRequests

ABILITIES: Final = frozenset({"packet-drops", "link-quality", "connection-resets"})


class SimLinks:
    """See the module."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._cuts: dict[Cut, CutCounter] = {}
        self._request_counters: dict[Cut, CutCounter] = {}
        self._dropped: dict[Cut, int] = {}
        """The counts of cuts with a layer that are not in force at the moment."""
        self._resets: dict[str, int] = {}

    @property
    def abilities(self) -> frozenset[str]:
        """What the target can break, by the names of `nemesis.faults.fault.Ability`."""
        return ABILITIES

    # -- cuts

    def block(self, *cuts: Cut) -> None:
        """Drop the packets of these cuts. Raises UnknownNode."""
        for cut in cuts:
            self._check_known(cut.src, cut.dst)
            if cut in self._cuts:
                continue
            watch = self._cuts[cut] = CutCounter(cut, self._dropped.pop(cut, 0))
            self._link(cut.src, cut.dst).cuts.append(watch)
            if cut.answers:
                request_counters = self._request_counters[cut] = CutCounter(cut)
                self._link(cut.dst, cut.src).request_counters.append(request_counters)

    def unblock(self, *cuts: Cut) -> None:
        """Undo `block`; a cut that is not in force is ignored."""
        for cut in cuts:
            watch = self._cuts.pop(cut, None)
            if watch is None:
                continue
            self._link(cut.src, cut.dst).cuts.remove(watch)
            if cut.layer:
                self._dropped[cut] = watch.count
            request_counters = self._request_counters.pop(cut, None)
            if request_counters is not None:
                self._link(cut.dst, cut.src).request_counters.remove(request_counters)

    def dropped(self, cut: Cut) -> int | None:
        """Return the packets dropped since `block`; None for a cut that is not in force."""
        watch = self._cuts.get(cut)
        return None if watch is None else watch.count

    def dropped_in_total(self, cut: Cut) -> int:
        """Return the packets dropped since the first `block` of a cut with a layer, in force now or
        not.
        """
        watch = self._cuts.get(cut)
        return self._dropped.get(cut, 0) if watch is None else watch.count

    def requests_arrived(self, cut: Cut) -> int | None:
        """Return the requests since `block` of a cut of answers; None for a cut that is not in
        force.
        """
        watch = self._request_counters.get(cut)
        return None if watch is None else watch.count

    # -- quality

    def prepare(self, links: Sequence[tuple[int, int]], quality: LinkQuality) -> None:
        """Do nothing: a layer takes no time to add."""

    def degrade(self, links: Sequence[tuple[int, int]], quality: LinkQuality, layer: str) -> None:
        """Add a layer to links. Raises UnknownNode."""
        for src, dst in links:
            self._check_known(src, dst)
            self._link(src, dst).degrade(quality, layer)

    def restore(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Remove a layer from links; a link without it is ignored."""
        for src, dst in links:
            self._link(src, dst).restore(layer)

    def counters(self, link: tuple[int, int], layer: str) -> LinkCounters | None:
        """Return the counts of a link's layer since it was added; None without that layer."""
        return self._link(*link).counters(layer)

    # -- requests

    def watch_requests(
        self,
        links: Sequence[tuple[int, int]],
        layer: str,
        port: int,
        hold: RequestFilter | None,
        note: RequestFilter | None,
    ) -> None:
        """Watch the requests that are sent on links. Raises UnknownNode."""
        for src, dst in links:
            self._check_known(src, dst)
            watch = self._link(src, dst).watches.setdefault(layer, RequestWatch(port))
            watch.hold, watch.note = hold, note

    def let_requests_go(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Let the held requests of a layer pass; a link without it is ignored."""
        for src, dst in links:
            watches = self._link(src, dst).watches
            connection = watches[layer].connection if layer in watches else None
            if connection is None:
                continue
            watches[layer].let_go(self._now_s())
            if any(each.connection == connection for each in watches.values()):
                continue
            for socket in self._network.sockets_on(src, dst):
                if socket.own_name == connection:
                    socket.let_go()

    def unwatch_requests(self, links: Sequence[tuple[int, int]], layer: str) -> None:
        """Let the held requests pass and remove the layer; a link without it is ignored."""
        self.let_requests_go(links, layer)
        for src, dst in links:
            watches = self._link(src, dst).watches
            if watches.pop(layer, None) is not None and not watches:
                for socket in self._network.sockets_on(src, dst):
                    socket.unwatched()

    def watched_requests(self, link: tuple[int, int], layer: str) -> WatchedRequests | None:
        """Return what a layer has seen on a link; None without the layer."""
        watch = self._link(*link).watches.get(layer)
        return None if watch is None else watch.report(self._now_s())

    def _now_s(self) -> float:
        return self._network.world.now_ns / NS

    # -- resets

    def reset(self, pairs: Sequence[tuple[int, int]], layer: str) -> int:
        """Reset the TCP connections of each pair. Raises UnknownNode."""
        for one, other in pairs:
            self._check_known(one, other)
            ended = self._network.reset(one, other)
            self._resets[layer] = self._resets.get(layer, 0) + ended
        return self.connections_reset(layer)

    def connections_reset(self, layer: str) -> int:
        """Return how many connections were reset for `layer` so far."""
        return self._resets.get(layer, 0)

    def _link(self, src: int, dst: int) -> Link:
        return self._network.link(src, dst)

    def _check_known(self, *machines: int) -> None:
        for machine in machines:
            if machine != CLIENTS and self._network.machine(machine) is None:
                raise UnknownNode(f"no node {machine} in this world")
