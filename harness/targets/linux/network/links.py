"""The run's links, to be broken: every call names machines, and reaches the right namespace.

Cuts, losses and doubled packets are packet rules of the machine where they arrive (`firewall`);
what takes time (delay, order, rate) is done by a process there (`holders`). All of it goes with
the namespaces, and healing what is gone is no error: machines come and go while links are broken.
"""

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from harness.targets.base import CLIENTS, UnknownNode
from harness.targets.linux.network import firewall, holders, namespaces
from harness.targets.linux.network.firewall import Rule
from harness.targets.linux.network.holders import Holders
from harness.targets.linux.network.network import Recorder
from harness.targets.linux.packets import diagnosis
from nemesis.hosts import Cut, Quality, Tampered

Link = tuple[int, int]
P = ParamSpec("P")
R = TypeVar("R")


def _alone(
    method: Callable[Concatenate["LinuxLinks", P], R],
) -> Callable[Concatenate["LinuxLinks", P], R]:
    """One caller at a time."""

    @functools.wraps(method)
    def waiting(links: "LinuxLinks", /, *args: P.args, **kwargs: P.kwargs) -> R:
        with links._mutex:
            return method(links, *args, **kwargs)

    return waiting


class Machines(Protocol):
    """Who is where in the run."""

    @property
    def name(self) -> str:
        """The name of every machine's table."""
        ...

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes there are at the moment."""
        ...

    def namespace(self, machine: int) -> Path:
        """The network namespace of a machine."""
        ...

    def address(self, machine: int) -> str:
        """The IPv4 address of a machine."""
        ...


class LinuxLinks:
    """See `nemesis.hosts.Links`. Safe to call from several threads, which wait for each other.

    A call concerns several machines; it does what is to be done on those that are in reach.
    """

    def __init__(
        self,
        network: Callable[[], Machines],
        journal: Recorder,
        *,
        reach: Collection[int] | None = None,
        spared: Collection[int] = (),
    ) -> None:
        """`network` gives the run's network as it is now: nodes come and go. Only machines of
        `reach` are worked on, all by default. No connection with a `spared` TCP port is reset.
        """
        self._mutex = threading.RLock()
        self._network = network
        self._reach = reach
        self._spared = spared
        self._holders = Holders(journal)
        self._dropped: defaultdict[Cut, int] = defaultdict(int)
        """By cuts with a layer that are not in force at the moment."""
        self._ended: defaultdict[str, int] = defaultdict(int)

    @functools.cached_property
    def abilities(self) -> frozenset[str]:
        """What can be broken, by the names of `nemesis.faults.fault.Ability`; tried, once."""
        tries = {"link-quality": holders.probe, "connection-resets": diagnosis.probe}
        works = {name for name, work in tries.items() if namespaces.works_in_throwaway(work)}
        return frozenset({"packet-drops", *works})

    # -- cuts

    @_alone
    def block(self, *cuts: Cut) -> None:
        """Drop what the cuts say. Raises UnknownNode, OSError."""
        network, rules = self._network(), defaultdict[int, list[Rule]](list)
        for cut in cuts:
            self._known(cut.src, cut.dst)
            rules[cut.dst] += firewall.cut(_name(cut), cut, network.address(cut.src))
            if cut.answers:
                asked = firewall.requests(_asked(cut), cut.port, network.address(cut.dst))
                rules[cut.src] += asked
        self._change(add=rules)

    @_alone
    def unblock(self, *cuts: Cut) -> None:
        """Undo `block`; nothing happens where nothing is blocked."""
        names = defaultdict[int, list[str]](list)
        for cut in cuts:
            if cut.layer and (dropped := self.dropped(cut)):
                self._dropped[cut] += dropped
            names[cut.dst].append(_name(cut))
            if cut.answers:
                names[cut.src].append(_asked(cut))
        self._change(remove=names)

    @_alone
    def dropped(self, cut: Cut) -> int | None:
        """Packets dropped since `block`; None where nothing is blocked."""
        return self._counted(cut.dst, _name(cut))

    def dropped_in_turns(self, cut: Cut) -> int:
        """Packets dropped since the first `block` of a cut with a layer, in force now or not."""
        return (self.dropped(cut) or 0) + self._dropped.get(cut, 0)

    @_alone
    def asked(self, cut: Cut) -> int | None:
        """Requests since `block` of a cut of answers; None where nothing is blocked."""
        return self._counted(cut.src, _asked(cut))

    # -- quality

    def prepare(self, links: Sequence[Link], quality: Quality) -> None:
        """Start the holders that are needed. Others need not wait meanwhile."""
        network = self._network()
        if any(_slow(quality).values()):
            machines = {dst for _, dst in links if self._here(dst)}
            _at_once(machines, lambda at: self._holders.start(at, network.namespace(at)))

    @_alone
    def degrade(self, links: Sequence[Link], quality: Quality, layer: str) -> None:
        """Put a layer on links. Raises UnknownNode, TargetError, OSError."""
        network, rules = self._network(), defaultdict[int, list[Rule]](list)
        slow = _slow(quality)
        for src, dst in links:
            self._known(src, dst)
            if not self._here(dst):
                continue
            source, what = network.address(src), f"{src}>{dst} {layer}"
            rules[dst].append(firewall.count(f"seen {what}", source))
            if quality.lost:
                rules[dst].append(firewall.lose(f"lost {what}", quality.lost, source))
            if quality.duplicated:
                twice = quality.duplicated, source, network.address(dst)
                rules[dst].append(firewall.double(f"doubled {what}", *twice))
            if any(slow.values()):
                rules[dst].append(firewall.hold(f"held {src}>{dst}", src, source))

        def hold(machine: int) -> None:
            for src, dst in links:
                if dst == machine:
                    self._order(src, dst, do="set", layer=layer, what=slow)

        if any(slow.values()):
            _at_once(rules, hold)
        self._change(add=rules)

    @_alone
    def restore(self, links: Sequence[Link], layer: str) -> None:
        """Take a layer away; what it holds goes on its way. Nothing happens where there is none."""
        names = defaultdict[int, list[str]](list)
        for src, dst in links:
            names[dst] += [f"{what} {src}>{dst} {layer}" for what in ("seen", "lost", "doubled")]
            runs = self._holders.runs(dst)
            if not runs or not self._order(src, dst, do="unset", layer=layer)["left"]:
                names[dst].append(f"held {src}>{dst}")
        self._change(remove=names)

    @_alone
    def tampered(self, link: Link, layer: str) -> Tampered | None:
        """What was done to the link since the layer was put on it; None where it is not."""
        src, dst = link
        if not self._here(dst):
            return None
        network = self._network()
        counts = firewall.counted(network.namespace(dst), network.name)
        what = f"{src}>{dst} {layer}"
        if f"seen {what}" not in counts:
            return None
        held = self._order(src, dst, do="show", layer=layer) if self._holders.runs(dst) else {}
        delayed = int(held.get("delayed", 0))
        return Tampered(
            packets=counts[f"seen {what}"],
            delayed=delayed,
            mean_delay_ms=1e3 * held["delayed_s"] / delayed if delayed else 0.0,
            lost=counts.get(f"lost {what}", 0) + int(held.get("lost", 0)),
            reordered=int(held.get("reordered", 0)),
            duplicated=counts.get(f"doubled {what}", 0),
        )

    # -- resets

    @_alone
    def reset(self, pairs: Sequence[Link], layer: str) -> int:
        """End the TCP connections of each pair. Raises UnknownNode, OSError."""
        for one, other in pairs:
            self._known(one, other)
            if not self._here(one):
                continue
            with namespaces.entered(self._network().namespace(one)):
                address = self._network().address(other)
                self._ended[layer] += diagnosis.reset(address, self._spared)
        return self._ended[layer]

    def ended(self, layer: str) -> int:
        """How many connections were ended for `layer` so far."""
        return self._ended.get(layer, 0)

    # -- machines

    @_alone
    def close(self) -> None:
        """End what works for the links; their rules go with the machines."""
        self._holders.end_all()

    def _order(self, src: int, dst: int, **fields: object) -> dict[str, float]:
        netns = self._network().namespace(dst)
        return dict(self._holders.order(dst, netns, queue=src, **fields))

    def _known(self, *machines: int) -> None:
        for machine in machines:
            if not self._exists(machine):
                nodes = list(self._network().nodes)
                raise UnknownNode(f"no node {machine}: there are {nodes}")

    def _exists(self, machine: int) -> bool:
        return machine == CLIENTS or machine in self._network().nodes

    def _here(self, machine: int) -> bool:
        return self._exists(machine) and (self._reach is None or machine in self._reach)

    def _counted(self, machine: int, name: str) -> int | None:
        network = self._network()
        if not self._here(machine):
            return None
        return firewall.counted(network.namespace(machine), network.name).get(name)

    def _change(
        self,
        *,
        add: dict[int, list[Rule]] | None = None,
        remove: dict[int, list[str]] | None = None,
    ) -> None:
        """Change the rules of several machines at the same time: the kernel takes its time to be
        sure that nobody uses a removed one any more.
        """
        network = self._network()

        def change(machine: int) -> None:
            place = network.namespace(machine), network.name
            firewall.change(*place, (add or {}).get(machine, ()), (remove or {}).get(machine, ()))

        _at_once({m for m in (*(add or {}), *(remove or {})) if self._here(m)}, change)


def _at_once(machines: Iterable[int], work: Callable[[int], None]) -> None:
    """Do it for all machines at the same time: the time goes by waiting."""
    todo = sorted(machines)
    if todo:
        with ThreadPoolExecutor(len(todo)) as pool:
            list(pool.map(work, todo))


def _slow(quality: Quality) -> dict[str, float]:
    """What a holder has to do of it: all that takes time."""
    return {
        "delay_ms": quality.delay_ms,
        "jitter_ms": quality.jitter_ms,
        "reordered": quality.reordered,
        "bytes_per_s": quality.bytes_per_s,
    }


def _name(cut: Cut) -> str:
    what = " answers" if cut.answers else ""
    return f"cut {cut.src}>{cut.dst} port {cut.port}{what} {cut.layer}".rstrip()


def _asked(cut: Cut) -> str:
    return f"asked {_name(cut)}"
