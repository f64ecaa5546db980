"""A target's links, disks and clocks, as they are on machines that agents work on.

Every call goes to the machines that it concerns, to several of them at the same time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

from harness.targets.agent.power_loss import LastingAgent
from nemesis.hosts import CLIENTS, Clocks, Cut, Disks, Links, PowerCut, Quality, Tampered

R = TypeVar("R")
Link = tuple[int, int]
Agents = Callable[[int], LastingAgent]
"""The agent of a node's machine; raises TargetError without one."""


def together(machines: Iterable[int], work: Callable[[int], R]) -> dict[int, R]:
    """Do it for all machines at the same time. Raises what the first of them raises."""
    todo = sorted(set(machines))
    if not todo:
        return {}
    with ThreadPoolExecutor(len(todo)) as pool:
        return dict(zip(todo, pool.map(work, todo), strict=True))


class _Forwarding:
    """Sends every call of a protocol whose first argument is a node to that node's agent."""

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
        """All at the same time, as well as machines can; moments are of the harness's clock."""

        def cut(node: int) -> PowerCut:
            agent = self._agents(node)
            [lost] = agent.call(Disks.cut_power, [node])
            return lost._replace(at_ns=agent.here_ns(lost.at_ns))

        return list(together(nodes, cut).values())

    def note(self, key: str, evidence: str) -> None:
        """Kept here: it is of no use to the machines."""
        self._notes[key] = evidence

    def noted(self, key: str) -> str | None:
        """What was kept under that key."""
        return self._notes.get(key)


class _Clocks(_Forwarding):
    protocol = Clocks


def disks(agents: Agents) -> Disks:
    """The nodes' disks."""
    return cast(Disks, _Disks(agents))


def clocks(agents: Agents) -> Clocks:
    """The nodes' wall clocks."""
    return cast(Clocks, _Clocks(agents))


class RemoteLinks:
    """See `nemesis.hosts.Links`. Each machine works on what arrives there; `here` on what arrives
    at the clients' machine, which is the harness's own.
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

    def dropped_in_turns(self, cut: Cut) -> int:
        """See the protocol."""
        if cut.dst == CLIENTS:
            return self._here.dropped_in_turns(cut)
        return self._agents(cut.dst).call(Links.dropped_in_turns, cut)

    def asked(self, cut: Cut) -> int | None:
        """See the protocol."""
        if cut.src == CLIENTS:
            return self._here.asked(cut)
        return self._agents(cut.src).call(Links.asked, cut)

    def prepare(self, links: Sequence[Link], quality: Quality) -> None:
        """See the protocol."""

        def work(machine: int, own: list[Link]) -> None:
            if machine == CLIENTS:
                self._here.prepare(own, quality)
            else:
                self._agents(machine).call(Links.prepare, own, quality)

        _each(_arriving(links), work)

    def degrade(self, links: Sequence[Link], quality: Quality, layer: str) -> None:
        """See the protocol."""

        def work(machine: int, own: list[Link]) -> None:
            if machine == CLIENTS:
                self._here.degrade(own, quality, layer)
            else:
                self._agents(machine).call(Links.degrade, own, quality, layer)

        _each(_arriving(links), work)

    def restore(self, links: Sequence[Link], layer: str) -> None:
        """See the protocol."""

        def work(machine: int, own: list[Link]) -> None:
            if machine == CLIENTS:
                self._here.restore(own, layer)
            elif machine in self._nodes():
                self._agents(machine).call(Links.restore, own, layer)

        _each(_arriving(links), work)

    def tampered(self, link: Link, layer: str) -> Tampered | None:
        """See the protocol."""
        if link[1] == CLIENTS:
            return self._here.tampered(link, layer)
        if link[1] not in self._nodes():
            return None
        return self._agents(link[1]).call(Links.tampered, link, layer)

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

        _each(by_machine, work)
        return self.ended(layer)

    def ended(self, layer: str) -> int:
        """See the protocol."""
        nodes = together(self._nodes(), lambda node: self._agents(node).call(Links.ended, layer))
        return self._here.ended(layer) + sum(nodes.values())

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

        _each(by_machine, work)


def _arriving(links: Sequence[Link]) -> Mapping[int, list[Link]]:
    by_machine = defaultdict[int, list[Link]](list)
    for link in links:
        by_machine[link[1]].append(link)
    return by_machine


def _each(by_machine: Mapping[int, list[R]], work: Callable[[int, list[R]], None]) -> None:
    together(by_machine, lambda machine: work(machine, by_machine[machine]))
