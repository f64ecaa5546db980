"""Dropped packets: the base class of all such faults, and cuts that are not network partitions.

These are cuts from the clients, of one port, in turns, and of responses only.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import NotApplicable
from nemesis.faults.fault import Ability, Fault, FaultBase, Injection, Measurement, Option, Params
from nemesis.faults.network.options import DIRECTION, PORT, chosen_links, number, peers, read_port
from nemesis.hosts import ANY_PORT, CLIENTS, PROGRAM, Cut, Hosts

_NAMES: Final = {CLIENTS: "clients", PROGRAM: "program"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketDropFault(FaultBase):
    """The common parts of the faults that drop packets: those of the injection's `cuts`."""

    needs: frozenset[Ability] = frozenset({Ability.PACKET_DROPS})

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Block every cut. Raises NotApplicable without cuts."""
        if not injection.cuts:
            raise NotApplicable("no link would be cut")
        hosts.links.block(*injection.cuts)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the kernel's counters show dropped packets."""
        return _measure_drops({cut: hosts.links.dropped(cut) or 0 for cut in injection.cuts})

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Unblock every cut."""
        hosts.links.unblock(*injection.cuts)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the kernel has no such rule any more."""
        left = [cut for cut in injection.cuts if hosts.links.dropped(cut) is not None]
        if left:
            pairs = ", ".join(map(_describe, left))
            return Measurement(confirmed=False, evidence=f"still blocked: {pairs}")
        return Measurement(confirmed=True, evidence="no drop rule is left")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCut(PacketDropFault):
    """Cuts the links of the nodes that the parameters choose, or only one port of these links."""

    clients_only: bool = False

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """A cut for every chosen link."""
        values = {**params.values, **({"peers": "clients"} if self.clients_only else {})}
        port = read_port(params.text("port")) if "port" in params.values else ANY_PORT
        cuts = tuple(
            Cut(src, dst, port) for src, dst in chosen_links(selected, nodes, Params(values))
        )
        return Injection(
            nodes=tuple(selected), cuts=cuts, details=tuple(sorted(params.values.items()))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Flapping(LinkCut):
    """Cuts links and lets packets pass in turn, so that neither side can rely on the other."""

    tick_ms: int | None = 100

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """The cuts, in a layer of their own: other cuts of the same pair stay independent."""
        layer = f"{self.name}/{rng.getrandbits(32):08x}"
        cuts = (Cut(src, dst, layer=layer) for src, dst in chosen_links(selected, nodes, params))
        details = tuple(sorted(params.values.items()))
        return Injection(nodes=tuple(selected), cuts=tuple(cuts), details=details)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Block in the first part of each period, unblock in the rest."""
        period_ms = float(injection.detail("period_ms"))
        cut_ms = period_ms * float(injection.detail("duty_percent")) / 100
        if elapsed_ms % period_ms < cut_ms:
            hosts.links.block(*injection.cuts)
        else:
            hosts.links.unblock(*injection.cuts)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if packets were dropped in any turn so far."""
        return _measure_drops({cut: hosts.links.dropped_in_total(cut) for cut in injection.cuts})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseLost(PacketDropFault):
    """Drops packets with data from the nodes' port: requests are handled, responses are lost."""

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """A cut for the responses of every chosen link."""
        port = read_port(params.text("port"))
        directions = chosen_links(selected, nodes, Params({**params.values, "direction": "out"}))
        return Injection(
            nodes=tuple(selected),
            cuts=tuple(Cut(src, dst, port, answers=True) for src, dst in directions),
            details=tuple(sorted(params.values.items())),
        )

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the kernel's counters show dropped responses and arrived requests."""
        lost = sum(hosts.links.dropped(cut) or 0 for cut in injection.cuts)
        arrived = sum(hosts.links.requests_arrived(cut) or 0 for cut in injection.cuts)
        evidence = f"{lost} response packets dropped, {arrived} request packets arrived"
        return Measurement(confirmed=lost > 0 and arrived > 0, evidence=evidence)


def _measure_drops(counts: Mapping[Cut, int]) -> Measurement:
    pairs = ", ".join(f"{_describe(cut)} {count}" for cut, count in counts.items())
    total = sum(counts.values())
    return Measurement(confirmed=total > 0, evidence=f"{total} packets dropped ({pairs})")


def _describe(cut: Cut) -> str:
    src, dst = (_NAMES.get(machine, str(machine)) for machine in cut[:2])
    return f"{src}>{dst}" + (f" port {cut.port}" if cut.port else "")


FAULTS: tuple[Fault, ...] = (
    LinkCut(
        name="cut.clients",
        about="the nodes are cut off from the clients, but not from the other nodes",
        options=(DIRECTION,),
        clients_only=True,
    ),
    LinkCut(
        name="cut.port",
        about="one TCP port is cut between the nodes and the other nodes; other ports work",
        options=(PORT, DIRECTION, peers("nodes")),
        min_nodes=2,
    ),
    Flapping(
        name="cut.flapping",
        about="the nodes are cut off and reconnected in turn",
        options=(
            Option(
                name="period_ms",
                default="2000",
                about="the length of a cut and the pause after it together, ms",
                read=number(200, 600_000, "ms"),
            ),
            Option(
                name="duty_percent",
                default="50",
                about="the cut's share of each period, percent",
                read=number(1, 99, "percent"),
            ),
            DIRECTION,
            peers("nodes"),
        ),
    ),
    ResponseLost(
        name="response-lost",
        about="requests arrive and are handled, but no response of the nodes arrives",
        options=(peers("clients"), PORT),
    ),
)
