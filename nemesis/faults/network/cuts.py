"""Cuts that no partition of the nodes is: from clients, of one port, by turns, of answers only."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemesis.base import Futile
from nemesis.faults.fault import Ability, Effect, Fault, FaultBase, Option, Params, Strike
from nemesis.faults.network.options import DIRECTION, PORT, meant, number, peers, read_port
from nemesis.hosts import ANY_PORT, CLIENTS, Cut, Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting(FaultBase):
    """What all faults have in common that drop packets: the strike says which."""

    needs: frozenset[Ability] = frozenset({Ability.PACKET_DROPS})

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Block every pair. Raises Futile when there is none."""
        if not strike.cuts:
            raise Futile("nobody would be cut from anybody")
        hosts.links.block(*strike.cuts)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Packets were dropped, by the kernel's own counters."""
        return _effect({cut: hosts.links.dropped(cut) or 0 for cut in strike.cuts})

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Unblock every pair."""
        hosts.links.unblock(*strike.cuts)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The kernel has no such rule any more."""
        left = [cut for cut in strike.cuts if hosts.links.dropped(cut) is not None]
        if left:
            pairs = ", ".join(map(_said, left))
            return Effect(took=False, evidence=f"still blocked: {pairs}")
        return Effect(took=True, evidence="no drop rule is left")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCut(Cutting):
    """Cuts the links of the targets that the parameters mean, at one port if they say so."""

    clients_only: bool = False

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """Every link that is meant."""
        values = {**params.values, **({"peers": "clients"} if self.clients_only else {})}
        port = read_port(params.text("port")) if "port" in params.values else ANY_PORT
        cuts = tuple(Cut(src, dst, port) for src, dst in meant(targets, nodes, Params(values)))
        return Strike(nodes=tuple(targets), cuts=cuts, details=tuple(sorted(params.values.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flapping(LinkCut):
    """Cuts and lets pass in turn: long enough for neither side to be sure of the other."""

    pulse_ms: int | None = 100

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """The cuts, in a layer of their own: what else cuts the same pair stays whole."""
        layer = f"{self.name}/{rng.getrandbits(32):08x}"
        cuts = (Cut(src, dst, layer=layer) for src, dst in meant(targets, nodes, params))
        details = tuple(sorted(params.values.items()))
        return Strike(nodes=tuple(targets), cuts=tuple(cuts), details=details)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Block in the first part of each period, let pass in the rest."""
        period_ms = float(strike.detail("period_ms"))
        cut_ms = period_ms * float(strike.detail("duty_percent")) / 100
        if elapsed_ms % period_ms < cut_ms:
            hosts.links.block(*strike.cuts)
        else:
            hosts.links.unblock(*strike.cuts)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Packets were dropped, over all turns so far."""
        return _effect({cut: hosts.links.dropped_in_turns(cut) for cut in strike.cuts})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseLost(Cutting):
    """Drops what carries data from the targets' port: the work is done, nobody is told."""

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """The way of the answers."""
        port = read_port(params.text("port"))
        ways = meant(targets, nodes, Params({**params.values, "direction": "out"}))
        return Strike(
            nodes=tuple(targets),
            cuts=tuple(Cut(src, dst, port, answers=True) for src, dst in ways),
            details=tuple(sorted(params.values.items())),
        )

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Answers were dropped while requests arrived, by the kernel's own counters."""
        lost = sum(hosts.links.dropped(cut) or 0 for cut in strike.cuts)
        asked = sum(hosts.links.asked(cut) or 0 for cut in strike.cuts)
        evidence = f"{lost} packets with answers dropped, {asked} with requests arrived"
        return Effect(took=lost > 0 and asked > 0, evidence=evidence)


def _effect(counts: Mapping[Cut, int]) -> Effect:
    pairs = ", ".join(f"{_said(cut)} {count}" for cut, count in counts.items())
    total = sum(counts.values())
    return Effect(took=total > 0, evidence=f"{total} packets dropped ({pairs})")


def _said(cut: Cut) -> str:
    src, dst = (str(machine) if machine != CLIENTS else "clients" for machine in cut[:2])
    return f"{src}>{dst}" + (f" port {cut.port}" if cut.port else "")


FAULTS: tuple[Fault, ...] = (
    LinkCut(
        name="cut.clients",
        about="the targets and the clients cut off from each other, not from the other nodes",
        options=(DIRECTION,),
        clients_only=True,
    ),
    LinkCut(
        name="cut.port",
        about="one TCP port of the targets and the other nodes cut off, the others left alone",
        options=(PORT, DIRECTION, peers("nodes")),
        min_nodes=2,
    ),
    Flapping(
        name="cut.flapping",
        about="the targets cut off and let back in turn",
        options=(
            Option(
                name="period_ms",
                default="2000",
                about="how long a cut and the pause after it take together, ms",
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
        about="requests arrive and are handled, and none of the targets' answers arrives",
        options=(peers("clients"), PORT),
    ),
)
