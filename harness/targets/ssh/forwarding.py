"""Links, disks and clocks of remote machines: every call is forwarded to the agents it concerns.

Calls for several machines are sent in parallel.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from harness.targets.agent.power_loss import PowerAwareClient
from harness.targets.parallel import in_parallel
from nemesis.hosts import CLIENTS, Clocks, Cut, Disks, LinkCounters, LinkQuality, Links, PowerCut
from nemesis.requests import RequestFilter, WatchedRequests

R = TypeVar("R")
Link = tuple[int, int]
Agents = Callable[[int], PowerAwareClient]
"""Returns the agent of a node's machine; raises TargetError without one."""


class _Forwarding:
    """Forwards every call of a protocol to the agent of the node in the first argument."""

    protocol: type

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.protocol, name)

        def forward(node: int, *args: Any, **kwargs: Any) -> Any:
            return self._agents(node).call(method, node, *args, **kwargs)

        return forward


class _Disks(_Forwarding):
    protocol = Disks

    def __init__(self, agents: Agents) -> None:
        super().__init__(agents)
        self._notes: dict[str, str] = {}

    def cut_power(self, nodes: Sequence[int]) -> Sequence[PowerCut]:
        """Cut the power of all disks in parallel; moments are converted to the harness's clock."""

        def cut(node: int) -> PowerCut:
            agent = self._agents(node)
            [lost] = agent.call(Disks.cut_power, [node])
            return lost._replace(at_ns=agent.to_local_ns(lost.at_ns))

        return list(in_parallel(nodes, cut).values())

    def keep_evidence(self, key: str, evidence: str) -> None:
        """Keep it here, since the machines do not need it."""
        self._notes[key] = evidence

    def kept_evidence(self, key: str) -> str | None:
        """Return what was kept under that key."""
        return self._notes.get(key)


class _Clocks(_Forwarding):
    protocol = Clocks


def disks(agents: Agents) -> Disks:
    """Return the nodes' disks."""
    return cast(Disks, _Disks(agents))


def clocks(agents: Agents) -> Clocks:
    """Return the nodes' wall clocks."""
    return cast(Clocks, _Clocks(agents))


class RemoteLinks:
    """See `nemesis.hosts.Links`. Each agent changes the packets that arrive at its machine; `here`
    changes those that arrive at the clients' machine, which is the harness's own.
    """

    def __init__(self, agents: Agents, nodes: Callable[[], Sequence[int]], here: Links) -> None:
        self._agents = agents
        self._nodes = nodes
        self._here: Final = here

    def block(self, *cuts: Cut) -> None:
        """See the protocol."""
        self._changing(Links.block, self._here.block, cuts)

    def unblock(self, *cuts: Cut) -> None:
        """See the protocol."""
        self._changing(Links.unblock, self._here.unblock, cuts)

    def dropped(self, cut: Cut) -> int | None:
        """See the protocol."""
        if cut.dst == CLIENTS:
            return self._here.dropped(cut)
        return self._agents(cut.dst).call(Links.dropped, cut)

    def dropped_in_total(self, cut: Cut) -> int:
        """See the protocol."""
        if cut.dst == CLIENTS:
            return self._here.dropped_in_total(cut)
        return self._agents(cut.dst).call(Links.dropped_in_total, cut)

    def requests_arrived(self, cut: Cut) -> int | None:
        """See the protocol."""
        if cut.src == CLIENTS:
            return self._here.requests_arrived(cut)
        return self._agents(cut.src).call(Links.requests_arrived, cut)

    def prepare(self, links: Sequence[Link], quality: LinkQuality) -> None:
        """See the protocol."""

        def work(machine: int, own: list[Link]) -> None:
            if machine == CLIENTS:
                self._here.prepare(own, quality)
            else:
                self._agents(machine).call(Links.prepare, own, quality)

        _on_each_machine(_by_destination(links), work)

    def degrade(self, links: Sequence[Link], quality: LinkQuality, layer: str) -> None:
        """See the protocol."""

        def work(machine: int, own: list[Link]) -> None:
            if machine == CLIENTS:
                self._here.degrade(own, quality, layer)
            else:
                self._agents(machine).call(Links.degrade, own, quality, layer)

        _on_each_machine(_by_destination(links), work)

    def restore(self, links: Sequence[Link], layer: str) -> None:
        """See the protocol."""
        self._ending(Links.restore, self._here.restore, links, layer)

    def counters(self, link: Link, layer: str) -> LinkCounters | None:
        """See the protocol."""
        if link[1] == CLIENTS:
            return self._here.counters(link, layer)
        if link[1] not in self._nodes():
            return None
        return self._agents(link[1]).call(Links.counters, link, layer)

    def watch_requests(
        self,
        links: Sequence[Link],
        layer: str,
        port: int,
        hold: RequestFilter | None,
        note: RequestFilter | None,
    ) -> None:
        """See the protocol."""

        def work(machine: int, own: list[Link]) -> None:
            if machine == CLIENTS:
                self._here.watch_requests(own, layer, port, hold, note)
            else:
                self._agents(machine).call(Links.watch_requests, own, layer, port, hold, note)

        _on_each_machine(_by_destination(links), work)

    def let_requests_go(self, links: Sequence[Link], layer: str) -> None:
        """See the protocol."""
        self._ending(Links.let_requests_go, self._here.let_requests_go, links, layer)

    def unwatch_requests(self, links: Sequence[Link], layer: str) -> None:
        """See the protocol."""
        self._ending(Links.unwatch_requests, self._here.unwatch_requests, links, layer)

    def watched_requests(self, link: Link, layer: str) -> WatchedRequests | None:
        """See the protocol."""
        if link[1] == CLIENTS:
            return self._here.watched_requests(link, layer)
        if link[1] not in self._nodes():
            return None
        return self._agents(link[1]).call(Links.watched_requests, link, layer)

    def reset(self, pairs: Sequence[Link], layer: str) -> int:
        """See the protocol."""
        by_machine = defaultdict[int, list[Link]](list)
        for pair in pairs:
            by_machine[pair[0]].append(pair)

        def work(machine: int, own: list[Link]) -> None:
            if machine == CLIENTS:
                self._here.reset(own, layer)
            else:
                self._agents(machine).call(Links.reset, own, layer)

        _on_each_machine(by_machine, work)
        return self.connections_reset(layer)

    def connections_reset(self, layer: str) -> int:
        """See the protocol."""
        nodes = in_parallel(
            self._nodes(), lambda node: self._agents(node).call(Links.connections_reset, layer)
        )
        return self._here.connections_reset(layer) + sum(nodes.values())

    def _ending(
        self,
        method: Callable[..., None],
        here: Callable[..., None],
        links: Sequence[Link],
        layer: str,
    ) -> None:
        """End what a layer does to links; a machine that is gone has ended it."""

        def work(machine: int, own: list[Link]) -> None:
            if machine == CLIENTS:
                here(own, layer)
            elif machine in self._nodes():
                self._agents(machine).call(method, own, layer)

        _on_each_machine(_by_destination(links), work)

    def _changing(
        self, method: Callable[..., None], here: Callable[..., None], cuts: Sequence[Cut]
    ) -> None:
        by_machine = defaultdict[int, list[Cut]](list)
        for cut in cuts:
            for machine in {cut.dst, cut.src} if cut.answers else {cut.dst}:
                by_machine[machine].append(cut)

        def work(machine: int, own: list[Cut]) -> None:
            if machine == CLIENTS:
                here(*own)
            elif machine in self._nodes() or method is Links.block:
                self._agents(machine).call(method, *own)

        _on_each_machine(by_machine, work)


def _by_destination(links: Sequence[Link]) -> Mapping[int, list[Link]]:
    by_machine = defaultdict[int, list[Link]](list)
    for link in links:
        by_machine[link[1]].append(link)
    return by_machine


def _on_each_machine(
    by_machine: Mapping[int, list[R]], work: Callable[[int, list[R]], None]
) -> None:
    in_parallel(by_machine, lambda machine: work(machine, by_machine[machine]))
