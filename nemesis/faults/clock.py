"""Faults of clocks: a node's wall clock jumps, goes back and forth, or runs fast or slow.

Monotonic time stays what it is, as on a machine whose clock is set: a node that measures time spans
with the wall clock is found out, one that does not goes on undisturbed. Each strike is a layer of
its own on a node's clock; layers add up, and each goes alone at its heal.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import Futile
from nemesis.faults.fault import (
    Ability,
    Effect,
    Fault,
    FaultBase,
    Option,
    Params,
    Strike,
    node_list,
)
from nemesis.hosts import Hosts, Reading

ANY: Final = "any"
JUMPS_MS: Final = (-3_600_000, -60_000, -500, 500, 60_000, 3_600_000)
RATES: Final = (0.95, 1.05)
STEP_MS: Final = 100
"""How often a clock that strobes or drifts is set."""
MAX_OFFSET_MS: Final = 10 * 365 * 86_400_000
MAX_PERIOD_MS: Final = 600_000

_CLOCKS: Final = frozenset({Ability.CLOCKS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Skew(FaultBase, ABC):
    """What the clock faults have in common: how a strike finds, proves and loses its layer."""

    needs: frozenset[Ability] = _CLOCKS

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """Every target, a layer of its own, and the parameters, drawn where any will do."""
        details = {
            "layer": f"{self.name}/{rng.getrandbits(32):08x}",
            "clocks": ",".join(map(str, targets)),
            **{name: self.draw(value, rng) for name, value in params.values.items()},
        }
        return Strike(nodes=tuple(targets), details=tuple(sorted(details.items())))

    def draw(self, value: str, rng: random.Random) -> str:
        """A parameter's value; one of those there are for `any`."""
        return value

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Set every target's clock. Raises Futile when none of them is running."""
        if not any(hosts.processes.is_running(node) for node in strike.nodes):
            raise Futile(f"{node_list(strike.nodes)} was not running")
        self.pulse(hosts, strike, 0)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Set every target's clock to where it is by now."""
        offset_ms = self.offset_ms(strike, elapsed_ms)
        for node in _skewed(hosts, strike):
            hosts.clocks.skew(node, strike.detail("layer"), offset_ms)

    @abstractmethod
    def offset_ms(self, strike: Strike, elapsed_ms: int) -> float:
        """How far ahead the clocks are to be, so long after the injection."""

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Every target's clock shows what was asked, and not what it would without the fault."""
        layer, took, found = strike.detail("layer"), True, []
        for node in strike.nodes:
            asked_ms = hosts.clocks.asked_ms(node)
            without_ms = asked_ms - hosts.clocks.asked_ms(node, layer)
            shown = hosts.clocks.shown(node)
            took &= shown is not None and shown.allows(asked_ms) and not shown.allows(without_ms)
            found.append(_said(node, shown))
        return Effect(took=took, evidence="; ".join(found))

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Take the layer from every clock, also where a fault of the same kind has another."""
        for node in _skewed(hosts, strike):
            hosts.clocks.unskew(node, strike.detail("layer"))

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """Every clock shows the truth again, or what other faults ask for; no layer is left."""
        took, found = True, []
        for node in strike.nodes:
            shown = hosts.clocks.shown(node)
            took &= hosts.clocks.asked_ms(node, strike.detail("layer")) == 0
            took &= shown is None or shown.allows(hosts.clocks.asked_ms(node))
            found.append(_said(node, shown))
        return Effect(took=took, evidence="; ".join(found) or "other faults hold all the clocks")


def _skewed(hosts: Hosts, strike: Strike) -> list[int]:
    """All the strike's nodes that are there: a layer goes with its strike, whoever else holds the
    node."""
    nodes = hosts.processes.node_ids()
    meant = [int(node) for node in strike.detail("clocks").split(",") if node]
    return [node for node in meant if node in nodes]


def _said(node: int, shown: Reading | None) -> str:
    if shown is None:
        return f"node {node} does not run"
    middle_s = (shown.least_ms + shown.most_ms) / 2000
    give_s = (shown.most_ms - shown.least_ms) / 2000
    looked = "has looked" if shown.looked else "has not looked yet"
    return f"node {node}'s clock shows {middle_s:+.3f} s (within {give_s:.3f} s), and it {looked}"


def _offset(text: str) -> object:
    try:
        offset_ms = int(text)
    except ValueError:
        offset_ms = 0
    if not 0 < abs(offset_ms) <= MAX_OFFSET_MS:
        raise ValueError(f"it is a whole number of ms, not 0, up to {MAX_OFFSET_MS} either way")
    return offset_ms


def _offset_or_any(text: str) -> object:
    return text if text == ANY else _offset(text)


def _period(text: str) -> object:
    if not text.isdigit() or not 2 * STEP_MS <= int(text) <= MAX_PERIOD_MS:
        raise ValueError(f"it is a whole number of ms, from {2 * STEP_MS} to {MAX_PERIOD_MS}")
    return int(text)


def _rate_or_any(text: str) -> object:
    try:
        if text == ANY or (0.1 <= float(text) <= 10 and float(text) != 1):
            return text
    except ValueError:
        pass
    raise ValueError("it is seconds shown for each that passes, from 0.1 to 10, not 1; or any")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump(_Skew):
    """The clock is set once, and back at the heal."""

    name: str = "clock.jump"
    about: str = "the wall clock is set forward or back at once, and right again at the heal"
    options: tuple[Option, ...] = (
        Option(
            name="offset_ms",
            default=ANY,
            about="ms ahead (negative: behind), or any: half a second, a minute or an hour",
            read=_offset_or_any,
        ),
    )

    def draw(self, value: str, rng: random.Random) -> str:
        """Any jump is one of a few sizes."""
        return str(rng.choice(JUMPS_MS)) if value == ANY else value

    def offset_ms(self, strike: Strike, elapsed_ms: int) -> float:
        """The same all the time."""
        return float(strike.detail("offset_ms"))

    def label(self, strike: Strike) -> str:
        """Such as `clock.jump node 2 by +3600 s`."""
        return f"{self.name} {node_list(strike.nodes)} by {self.offset_ms(strike, 0) / 1000:+g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strobe(_Skew):
    """The clock is set forth and back again and again."""

    name: str = "clock.strobe"
    about: str = "the wall clock is set forward and back again, time after time"
    pulse_ms: int | None = STEP_MS
    options: tuple[Option, ...] = (
        Option(
            name="offset_ms",
            default="200",
            about="ms ahead (negative: behind) in every second half of a period",
            read=_offset,
        ),
        Option(
            name="period_ms",
            default="400",
            about=f"ms from one setting forth to the next, kept to within {STEP_MS} ms",
            read=_period,
        ),
    )

    def offset_ms(self, strike: Strike, elapsed_ms: int) -> float:
        """Ahead in the first half of each period."""
        period_ms = int(strike.detail("period_ms"))
        ahead = elapsed_ms % period_ms < period_ms / 2
        return float(strike.detail("offset_ms")) if ahead else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(_Skew):
    """The clock gains or loses, in small steps, and is right again at the heal."""

    name: str = "clock.drift"
    about: str = f"the wall clock runs fast or slow, in steps every {STEP_MS} ms"
    pulse_ms: int | None = STEP_MS
    options: tuple[Option, ...] = (
        Option(
            name="rate",
            default=ANY,
            about="seconds shown for each that passes, or any: 0.95 or 1.05",
            read=_rate_or_any,
        ),
    )

    def draw(self, value: str, rng: random.Random) -> str:
        """Any rate is five per cent fast or slow."""
        return str(rng.choice(RATES)) if value == ANY else value

    def offset_ms(self, strike: Strike, elapsed_ms: int) -> float:
        """What has come together so far."""
        return (float(strike.detail("rate")) - 1) * elapsed_ms


FAULTS: tuple[Fault, ...] = (Jump(), Strobe(), Drift())
