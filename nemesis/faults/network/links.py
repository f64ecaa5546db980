"""Links that are slow, lossy, out of order, repetitive, narrow, or all of it, but not cut.

Every fault is a layer on the links that it is aimed at: what several do to one link adds up.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nemesis.base import Futile
from nemesis.faults.fault import Ability, Effect, Fault, FaultBase, Option, Params, Strike
from nemesis.faults.network.options import DIRECTION, meant, number, peers
from nemesis.hosts import Hosts, Quality, Tampered

_UNITS = {
    "ms": (0, 60_000, "ms"),
    "percent": (0, 100, "percent"),
    "kb_per_s": (1, 10_000_000, "kB/s"),
}
"""By what a parameter's name ends with: least, most, and the unit for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLink(FaultBase):
    """Treats the packets of the targets' links badly."""

    quality: Callable[[Params], Quality]
    shows: tuple[str, ...]
    """The fields of `Tampered` of which one proves the effect."""
    needs: frozenset[Ability] = frozenset({Ability.LINK_QUALITY})

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """The links that are meant, and the name of the fault's layer on them."""
        layer = f"{self.name}/{rng.getrandbits(32):08x}"
        return Strike(
            nodes=tuple(targets),
            links=meant(targets, nodes, params),
            details=(*sorted(params.values.items()), ("layer", layer)),
        )

    def prepare(self, hosts: Hosts, strike: Strike) -> None:
        """Have whoever is to hold packets back."""
        hosts.links.prepare(strike.links, self.quality(Params(dict(strike.details))))

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Put the layer on every link. Raises Futile where that changes nothing."""
        quality = self.quality(Params(dict(strike.details)))
        if not strike.links or quality == Quality():
            raise Futile("no packet would be treated any worse")
        hosts.links.degrade(strike.links, quality, strike.detail("layer"))

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Packets were treated so, by the counters of who did it."""
        found = [hosts.links.tampered(link, strike.detail("layer")) for link in strike.links]
        total = _sum([each for each in found if each is not None])
        took = any(getattr(total, name) > 0 for name in self.shows)
        return Effect(took=took, evidence=_said(total))

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Take the layer away."""
        hosts.links.restore(strike.links, strike.detail("layer"))

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """No link has the layer any more."""
        layer = strike.detail("layer")
        left = [link for link in strike.links if hosts.links.tampered(link, layer) is not None]
        if left:
            pairs = ", ".join(f"{src}>{dst}" for src, dst in left)
            return Effect(took=False, evidence=f"still bad: {pairs}")
        return Effect(took=True, evidence=f"{len(strike.links)} links as they were")


def _sum(found: Sequence[Tampered]) -> Tampered:
    delayed = sum(each.delayed for each in found)
    delay_ms = sum(each.delayed * each.mean_delay_ms for each in found)
    return Tampered(
        packets=sum(each.packets for each in found),
        delayed=delayed,
        mean_delay_ms=delay_ms / delayed if delayed else 0.0,
        lost=sum(each.lost for each in found),
        reordered=sum(each.reordered for each in found),
        duplicated=sum(each.duplicated for each in found),
    )


def _said(total: Tampered) -> str:
    parts = [f"{total.delayed} delayed by {total.mean_delay_ms:.1f} ms on average"]
    parts += [f"{getattr(total, name)} {name}" for name in ("lost", "reordered", "duplicated")]
    said = [part for part in parts if not part.startswith("0 ")]
    return f"{total.packets} packets: {', '.join(said) or 'nothing done to them'}"


def _quality(params: Params) -> Quality:
    def of(name: str) -> float:
        return float(params.values.get(name, 0))

    return Quality(
        delay_ms=of("delay_ms"),
        jitter_ms=of("jitter_ms"),
        lost=of("lost_percent") / 100,
        reordered=of("reordered_percent") / 100,
        duplicated=of("duplicated_percent") / 100,
        bytes_per_s=round(of("kb_per_s") * 1000),
    )


def _option(name: str, default: int, about: str) -> Option:
    low, high, unit = next(_UNITS[end] for end in _UNITS if name.endswith(end))
    read = number(low, high, unit)
    return Option(name=name, default=str(default), about=f"{about}, {unit}", read=read)


def _bad(name: str, about: str, shows: tuple[str, ...], *options: Option) -> BadLink:
    return BadLink(
        name=name,
        about=about,
        quality=_quality,
        shows=shows,
        options=(*options, DIRECTION, peers("all")),
    )


FAULTS: tuple[Fault, ...] = (
    _bad(
        "link.slow",
        "packets arrive late, in their order",
        ("delayed",),
        _option("delay_ms", 100, "how late"),
        _option("jitter_ms", 20, "by how much that varies up and down"),
    ),
    _bad(
        "link.lossy",
        "a share of the packets is lost",
        ("lost",),
        _option("lost_percent", 5, "the share"),
    ),
    _bad(
        "link.reordered",
        "packets are late, and a share of them overtakes",
        ("reordered",),
        _option("reordered_percent", 25, "the share that overtakes"),
        _option("delay_ms", 20, "how late the others are"),
    ),
    _bad(
        "link.duplicated",
        "a share of the packets arrives twice",
        ("duplicated",),
        _option("duplicated_percent", 10, "the share"),
    ),
    _bad(
        "link.limited",
        "packets pass at a bounded rate; what would wait a second is lost",
        ("delayed", "lost"),
        _option("kb_per_s", 256, "the rate of each link and direction"),
    ),
    _bad(
        "link.bad",
        "late, varying, lossy, out of order and repetitive at once",
        ("delayed", "lost", "reordered", "duplicated"),
        _option("delay_ms", 50, "how late"),
        _option("jitter_ms", 25, "by how much that varies up and down"),
        _option("lost_percent", 2, "the share that is lost"),
        _option("reordered_percent", 5, "the share that overtakes"),
        _option("duplicated_percent", 2, "the share that arrives twice"),
    ),
)
