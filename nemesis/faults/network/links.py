"""Links that are slow, lossy, limited, or reorder or duplicate packets, but are not cut.

Every fault is a layer on its links: the effects of several faults on one link add up.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nemesis.base import NotApplicable
from nemesis.faults.fault import Ability, Fault, FaultBase, Injection, Measurement, Option, Params
from nemesis.faults.network.options import DIRECTION, chosen_links, number, peers
from nemesis.hosts import Hosts, LinkCounters, LinkQuality

_UNITS = {
    "ms": (0, 60_000, "ms"),
    "percent": (0, 100, "percent"),
    "kb_per_s": (1, 10_000_000, "kB/s"),
}
"""By the end of a parameter's name: least, most, and the unit for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLink(FaultBase):
    """Impairs the packets of the nodes' links."""

    quality: Callable[[Params], LinkQuality]
    confirming: tuple[str, ...]
    """Fields of `LinkCounters`; one that is not zero confirms the effect."""
    needs: frozenset[Ability] = frozenset({Ability.LINK_QUALITY})

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """The chosen links, and the name of the fault's layer on them."""
        layer = f"{self.name}/{rng.getrandbits(32):08x}"
        return Injection(
            nodes=tuple(selected),
            links=chosen_links(selected, nodes, params),
            details=(*sorted(params.values.items()), ("layer", layer)),
        )

    def prepare(self, hosts: Hosts, injection: Injection) -> None:
        """Start the process that delays packets."""
        hosts.links.prepare(injection.links, self.quality(Params(dict(injection.details))))

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Put the layer on every link. Raises NotApplicable if that changes nothing."""
        quality = self.quality(Params(dict(injection.details)))
        if not injection.links or quality == LinkQuality():
            raise NotApplicable("no packet would be impaired")
        hosts.links.degrade(injection.links, quality, injection.detail("layer"))

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the layer's counters show impaired packets."""
        found = [hosts.links.counters(link, injection.detail("layer")) for link in injection.links]
        total = _sum([each for each in found if each is not None])
        confirmed = any(getattr(total, name) > 0 for name in self.confirming)
        return Measurement(confirmed=confirmed, evidence=_describe(total))

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Remove the layer."""
        hosts.links.restore(injection.links, injection.detail("layer"))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if no link has the layer any more."""
        layer = injection.detail("layer")
        left = [link for link in injection.links if hosts.links.counters(link, layer) is not None]
        if left:
            pairs = ", ".join(f"{src}>{dst}" for src, dst in left)
            return Measurement(confirmed=False, evidence=f"still bad: {pairs}")
        return Measurement(confirmed=True, evidence=f"{len(injection.links)} links as they were")


def _sum(found: Sequence[LinkCounters]) -> LinkCounters:
    delayed = sum(each.delayed for each in found)
    delay_ms = sum(each.delayed * each.mean_delay_ms for each in found)
    return LinkCounters(
        packets=sum(each.packets for each in found),
        delayed=delayed,
        mean_delay_ms=delay_ms / delayed if delayed else 0.0,
        lost=sum(each.lost for each in found),
        reordered=sum(each.reordered for each in found),
        duplicated=sum(each.duplicated for each in found),
    )


def _describe(total: LinkCounters) -> str:
    parts = [f"{total.delayed} delayed by {total.mean_delay_ms:.1f} ms on average"]
    parts += [f"{getattr(total, name)} {name}" for name in ("lost", "reordered", "duplicated")]
    nonzero = [part for part in parts if not part.startswith("0 ")]
    return f"{total.packets} packets: {', '.join(nonzero) or 'none impaired'}"


def _quality(params: Params) -> LinkQuality:
    def of(name: str) -> float:
        return float(params.values.get(name, 0))

    return LinkQuality(
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


def _bad(name: str, about: str, confirming: tuple[str, ...], *options: Option) -> BadLink:
    return BadLink(
        name=name,
        about=about,
        quality=_quality,
        confirming=confirming,
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
        "packets are late, and a share of them overtakes others",
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
        "packets pass at a limited rate; packets that would wait for a second are lost",
        ("delayed", "lost"),
        _option("kb_per_s", 256, "the rate of each link and direction"),
    ),
    _bad(
        "link.bad",
        "packets are late by varying times, lost, reordered and duplicated at once",
        ("delayed", "lost", "reordered", "duplicated"),
        _option("delay_ms", 50, "how late"),
        _option("jitter_ms", 25, "by how much that varies up and down"),
        _option("lost_percent", 2, "the share that is lost"),
        _option("reordered_percent", 5, "the share that overtakes"),
        _option("duplicated_percent", 2, "the share that arrives twice"),
    ),
)
