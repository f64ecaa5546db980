"""Faults of the run's links. Every call names machines and works in their network namespaces.

Cuts, losses and duplicates are packet rules of the machine where the packets arrive (`firewall`).
Delays, reordering, rate limits and held requests are made by a process there (`holders`). Rules and
processes end with their namespace. Healing a link of a removed machine is no error, because
machines are added and removed while links are broken.
"""

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from harness.targets.base import CLIENTS, UnknownNode
from harness.targets.linux.network import firewall, holders, namespaces
from harness.targets.linux.network.firewall import Rule
from harness.targets.linux.network.holders import Holders
from harness.targets.linux.packets import diagnosis
from harness.targets.linux.recorder import Recorder
from harness.targets.parallel import in_parallel
from nemesis.hosts import PROGRAM, Cut, LinkCounters, LinkQuality
from nemesis.requests import RequestFilter, SeenRequest, WatchedRequests

Link = tuple[int, int]
P = ParamSpec("P")
R = TypeVar("R")


def _one_at_a_time(
    method: Callable[Concatenate["LinuxLinks", P], R],
) -> Callable[Concatenate["LinuxLinks", P], R]:
    """Let one caller at a time into the method."""

    @functools.wraps(method)
    def waiting(links: "LinuxLinks", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with links._mutex:
            return method(links, *args, **kwargs)

    return waiting


class RunNetwork(Protocol):
    """The namespaces and addresses of the run's machines."""

    @property
    def name(self) -> str:
        """The name of every machine's table."""
        ...

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that exist at the moment."""
        ...

    def namespace(self, machine: int) -> Path:
        """The network namespace of a machine."""
        ...

    def address(self, machine: int) -> str:
        """The IPv4 address of a machine."""
        ...

    def sources(self, machine: int) -> Sequence[str]:
        """The addresses from which a machine's packets come: more than one for the clients, if
        programs outside of their machine reach the nodes too.
        """
        ...


class LinuxLinks:
    """See `nemesis.hosts.Links`. Safe to call from several threads, which wait for each other.

    A call may name several machines; it changes only those within `reach`.
    """

    def __init__(
        self,
        network: Callable[[], RunNetwork],
        journal: Recorder,
        *,
        reach: Collection[int] | None = None,
        spared: Collection[int] = (),
    ) -> None:
        """`network` returns the run's network as it is now, since nodes are added and removed.
        `reach` limits the calls to these machines; by default all are changed. No connection with
        a `spared` TCP port is reset.
        """
        self._mutex = threading.RLock()
        self._network = network
        self._reach = reach
        self._spared = spared
        self._holders = Holders(journal)
        self._dropped: defaultdict[Cut, int] = defaultdict(int)
        """Packets dropped by cuts with a layer that are not in force at the moment."""
        self._ended: defaultdict[str, int] = defaultdict(int)

    @functools.cached_property
    def abilities(self) -> frozenset[str]:
        """The supported abilities, named as in `nemesis.faults.fault.Ability`; probed once."""
        tries = {"link-quality": holders.probe, "connection-resets": diagnosis.probe}
        works = {name for name, work in tries.items() if namespaces.works_in_throwaway(work)}
        return frozenset({"packet-drops", *works})

    # -- cuts

    @_one_at_a_time
    def block(self, *cuts: Cut) -> None:
        """Drop the packets that the cuts describe. Raises UnknownNode, OSError."""
        network, rules = self._network(), defaultdict[int, list[Rule]](list)
        for cut in cuts:
            self._known(cut.src, cut.dst)
            for source in network.sources(cut.src):
                rules[cut.dst] += firewall.cut(_cut_rule(cut), cut, source)
            if cut.answers:
                for source in network.sources(cut.dst):
                    rules[cut.src] += firewall.requests(_request_rule(cut), cut.port, source)
        self._change(add=rules)

    @_one_at_a_time
    def unblock(self, *cuts: Cut) -> None:
        """Undo `block`; a cut that is not in force is no error."""
        names = defaultdict[int, list[str]](list)
        for cut in cuts:
            if cut.layer and (dropped := self.dropped(cut)):
                self._dropped[cut] += dropped
            names[cut.dst].append(_cut_rule(cut))
            if cut.answers:
                names[cut.src].append(_request_rule(cut))
        self._change(remove=names)

    @_one_at_a_time
    def dropped(self, cut: Cut) -> int | None:
        """Packets dropped since `block`; None without such a cut."""
        return self._counted(cut.dst, _cut_rule(cut))

    def dropped_in_total(self, cut: Cut) -> int:
        """Packets dropped since the first `block` of a cut with a layer, in force now or not."""
        return (self.dropped(cut) or 0) + self._dropped.get(cut, 0)

    @_one_at_a_time
    def requests_arrived(self, cut: Cut) -> int | None:
        """Requests that arrived since `block` of a cut of answers; None without such a cut."""
        return self._counted(cut.src, _request_rule(cut))

    # -- quality

    def prepare(self, links: Sequence[Link], quality: LinkQuality) -> None:
        """Start the packet holders that are needed. Other callers do not wait meanwhile."""
        network = self._network()
        if any(_holder_layer(quality).values()):
            machines = {dst for _, dst in links if self._in_reach(dst)}
            in_parallel(machines, lambda at: self._holders.start(at, network.namespace(at)))

    @_one_at_a_time
    def degrade(self, links: Sequence[Link], quality: LinkQuality, layer: str) -> None:
        """Add a layer to links. Raises UnknownNode, TargetError, OSError."""
        network, rules = self._network(), defaultdict[int, list[Rule]](list)
        holder_layer = _holder_layer(quality)
        for src, dst in links:
            self._known(src, dst)
            if not self._in_reach(dst):
                continue
            what = f"{src}>{dst} {layer}"
            for source in network.sources(src):
                rules[dst].append(firewall.count(f"seen {what}", source))
                if quality.lost:
                    rules[dst].append(firewall.lose(f"lost {what}", quality.lost, source))
                if quality.duplicated:
                    twice = quality.duplicated, source, network.address(dst)
                    rules[dst].append(firewall.double(f"doubled {what}", *twice))
                if any(holder_layer.values()):
                    rules[dst].append(firewall.hold(_hold_rule(src, dst), src, source))

        def hold(machine: int) -> None:
            for src, dst in links:
                if dst == machine:
                    self._command(src, dst, do="set", layer=layer, what=holder_layer)

        if any(holder_layer.values()):
            in_parallel(rules, hold)
        self._change(add=rules)

    @_one_at_a_time
    def restore(self, links: Sequence[Link], layer: str) -> None:
        """Remove a layer and pass on the packets that it holds; a missing layer is no error."""
        names = defaultdict[int, list[str]](list)
        for src, dst in links:
            names[dst] += [f"{what} {src}>{dst} {layer}" for what in ("seen", "lost", "doubled")]
            runs = self._holders.runs(dst)
            if not runs or not self._command(src, dst, do="unset", layer=layer)["left"]:
                names[dst].append(_hold_rule(src, dst))
        self._change(remove=names)

    @_one_at_a_time
    def counters(self, link: Link, layer: str) -> LinkCounters | None:
        """Return the counters of a link since the layer was added; None without the layer."""
        src, dst = link
        if not self._in_reach(dst):
            return None
        network = self._network()
        counts = firewall.counted(network.namespace(dst), network.name)
        what = f"{src}>{dst} {layer}"
        if f"seen {what}" not in counts:
            return None
        runs = self._holders.runs(dst)
        held = self._command(src, dst, do="show", layer=layer) if runs else {}
        delayed = int(held.get("delayed", 0))
        return LinkCounters(
            packets=counts[f"seen {what}"],
            delayed=delayed,
            mean_delay_ms=1e3 * held["delayed_s"] / delayed if delayed else 0.0,
            lost=counts.get(f"lost {what}", 0) + int(held.get("lost", 0)),
            reordered=int(held.get("reordered", 0)),
            duplicated=counts.get(f"doubled {what}", 0),
        )

    # -- requests

    @_one_at_a_time
    def watch_requests(
        self,
        links: Sequence[Link],
        layer: str,
        port: int,
        hold: RequestFilter | None,
        note: RequestFilter | None,
    ) -> None:
        """Watch the requests that arrive on links. Raises UnknownNode, TargetError, OSError."""
        network, rules = self._network(), defaultdict[int, list[Rule]](list)
        for src, dst in links:
            self._known(src, dst)
            if self._in_reach(dst):
                for source in network.sources(src):
                    rules[dst].append(firewall.hold(_hold_rule(src, dst), src, source))

        def watch(machine: int) -> None:
            for src, dst in links:
                if dst == machine:
                    what = {"port": port, "hold": hold, "note": note}
                    self._command(src, dst, do="watch", layer=layer, **what)

        in_parallel(rules, watch)
        self._change(add=rules)

    @_one_at_a_time
    def let_requests_go(self, links: Sequence[Link], layer: str) -> None:
        """Let the held requests of a layer pass; a missing layer is no error."""
        for src, dst in links:
            if self._in_reach(dst) and self._holders.runs(dst):
                self._command(src, dst, do="let-go", layer=layer)

    @_one_at_a_time
    def unwatch_requests(self, links: Sequence[Link], layer: str) -> None:
        """Let the held requests pass and remove the layer; a missing layer is no error."""
        names = defaultdict[int, list[str]](list)
        for src, dst in links:
            if not self._in_reach(dst) or not self._holders.runs(dst):
                continue
            if not self._command(src, dst, do="unwatch", layer=layer)["left"]:
                names[dst].append(_hold_rule(src, dst))
        self._change(remove=names)

    @_one_at_a_time
    def watched_requests(self, link: Link, layer: str) -> WatchedRequests | None:
        """Return what a layer has seen on a link; None without the layer."""
        src, dst = link
        if not self._in_reach(dst) or not self._holders.runs(dst):
            return None
        seen = self._command(src, dst, do="seen", layer=layer)
        if "noted" not in seen:
            return None
        return WatchedRequests(
            held=SeenRequest(*seen["held"]) if seen["held"] else None,
            held_ms=seen["held_ms"],
            noted=[SeenRequest(*each) for each in seen["noted"]],
        )

    # -- resets

    @_one_at_a_time
    def reset(self, pairs: Sequence[Link], layer: str) -> int:
        """Reset the TCP connections of each pair. Raises UnknownNode, OSError."""
        for one, other in pairs:
            self._known(one, other)
            if not self._in_reach(one):
                continue
            with namespaces.entered(self._network().namespace(one)):
                address = self._network().address(other)
                self._ended[layer] += diagnosis.reset(address, self._spared)
        return self._ended[layer]

    def connections_reset(self, layer: str) -> int:
        """How many connections were reset for `layer` so far."""
        return self._ended.get(layer, 0)

    # -- machines

    @_one_at_a_time
    def close(self) -> None:
        """End the packet holders. The rules end with the machines' namespaces."""
        self._holders.end_all()

    def _command(self, src: int, dst: int, **fields: object) -> dict[str, Any]:
        netns = self._network().namespace(dst)
        return dict(self._holders.command(dst, netns, queue=src, **fields))

    def _known(self, *machines: int) -> None:
        for machine in machines:
            if not self._exists(machine):
                nodes = list(self._network().nodes)
                raise UnknownNode(f"there is no node {machine}; the nodes are {nodes}")

    def _exists(self, machine: int) -> bool:
        return machine in (CLIENTS, PROGRAM) or machine in self._network().nodes

    def _in_reach(self, machine: int) -> bool:
        return self._exists(machine) and (self._reach is None or machine in self._reach)

    def _counted(self, machine: int, name: str) -> int | None:
        network = self._network()
        if not self._in_reach(machine):
            return None
        return firewall.counted(network.namespace(machine), network.name).get(name)

    def _change(
        self,
        *,
        add: dict[int, list[Rule]] | None = None,
        remove: dict[int, list[str]] | None = None,
    ) -> None:
        """Change the rules of several machines in parallel: after a removal the kernel waits until
        no packet uses the rule any more.
        """
        network = self._network()

        def change(machine: int) -> None:
            place = network.namespace(machine), network.name
            firewall.change(*place, (add or {}).get(machine, ()), (remove or {}).get(machine, ()))

        in_parallel({m for m in (*(add or {}), *(remove or {})) if self._in_reach(m)}, change)


def _holder_layer(quality: LinkQuality) -> dict[str, float]:
    """Return the part of a link's quality that a packet holder makes: all that takes time."""
    return {
        "delay_ms": quality.delay_ms,
        "jitter_ms": quality.jitter_ms,
        "reordered": quality.reordered,
        "bytes_per_s": quality.bytes_per_s,
    }


def _hold_rule(src: int, dst: int) -> str:
    """Return the name of the rule that hands a link's packets to the packet holder."""
    return f"held {src}>{dst}"


def _cut_rule(cut: Cut) -> str:
    """Return the name of the rule that drops the cut's packets."""
    what = " answers" if cut.answers else ""
    return f"cut {cut.src}>{cut.dst} port {cut.port}{what} {cut.layer}".rstrip()


def _request_rule(cut: Cut) -> str:
    """Return the name of the rule that counts the requests of a cut of answers."""
    return f"asked {_cut_rule(cut)}"
