"""Faults of clocks: a node's wall clock jumps, goes back and forth, or runs fast or slow.

Monotonic time is not changed, as on a machine whose clock is set. So only a node that measures
durations with the wall clock is affected. Each injection is a layer of its own on a node's clock.
Layers add up, and each is removed separately at its heal.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import NotApplicable
from nemesis.faults.fault import (
    Ability,
    Fault,
    FaultBase,
    Injection,
    Measurement,
    Option,
    Params,
    node_list,
)
from nemesis.hosts import ClockReading, Hosts

ANY: Final = "any"
JUMPS_MS: Final = (-3_600_000, -60_000, -500, 500, 60_000, 3_600_000)
RATES: Final = (0.95, 1.05)
STEP_MS: Final = 100
"""How often a strobing or drifting clock is set."""
MAX_OFFSET_MS: Final = 10 * 365 * 86_400_000
MAX_PERIOD_MS: Final = 600_000

_CLOCKS: Final = frozenset({Ability.CLOCKS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Skew(FaultBase, ABC):
    """The common parts of the clock faults: they set, measure and remove a layer."""

    needs: frozenset[Ability] = _CLOCKS

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """Every selected node, a layer of its own, and the parameters; `any` is drawn at random."""
        details = {
            "layer": f"{self.name}/{rng.getrandbits(32):08x}",
            "clocks": ",".join(map(str, selected)),
            **{name: self.draw(value, rng) for name, value in params.values.items()},
        }
        return Injection(nodes=tuple(selected), details=tuple(sorted(details.items())))

    def draw(self, value: str, rng: random.Random) -> str:
        """The value of a parameter; a random value for `any`."""
        return value

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Set every node's clock. Raises NotApplicable if none of them is running."""
        if not any(hosts.processes.is_running(node) for node in injection.nodes):
            raise NotApplicable(f"{node_list(injection.nodes)} was not running")
        self.tick(hosts, injection, 0)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Set every node's clock to its offset after `elapsed_ms`."""
        offset_ms = self.offset_ms(injection, elapsed_ms)
        for node in _skewed(hosts, injection):
            hosts.clocks.skew(node, injection.detail("layer"), offset_ms)

    @abstractmethod
    def offset_ms(self, injection: Injection, elapsed_ms: int) -> float:
        """How far ahead the clocks must be, `elapsed_ms` after the injection."""

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if every clock shows the requested time, and not the time without the fault."""
        layer, confirmed, found = injection.detail("layer"), True, []
        for node in injection.nodes:
            requested_offset_ms = hosts.clocks.requested_offset_ms(node)
            without_ms = requested_offset_ms - hosts.clocks.requested_offset_ms(node, layer)
            shown = hosts.clocks.read(node)
            confirmed &= (
                shown is not None
                and shown.allows(requested_offset_ms)
                and not shown.allows(without_ms)
            )
            found.append(_describe(node, shown))
        return Measurement(confirmed=confirmed, evidence="; ".join(found))

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Remove the layer from every clock, also if another such fault has a layer there."""
        for node in _skewed(hosts, injection):
            hosts.clocks.unskew(node, injection.detail("layer"))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the layer is gone and every clock shows the other layers' time."""
        confirmed, found = True, []
        for node in injection.nodes:
            shown = hosts.clocks.read(node)
            confirmed &= hosts.clocks.requested_offset_ms(node, injection.detail("layer")) == 0
            confirmed &= shown is None or shown.allows(hosts.clocks.requested_offset_ms(node))
            found.append(_describe(node, shown))
        return Measurement(
            confirmed=confirmed, evidence="; ".join(found) or "other faults hold all the clocks"
        )


def _skewed(hosts: Hosts, injection: Injection) -> list[int]:
    """The present nodes of the injection; a layer is healed even if another fault has the node."""
    nodes = hosts.processes.node_ids()
    skewed = [int(node) for node in injection.detail("clocks").split(",") if node]
    return [node for node in skewed if node in nodes]


def _describe(node: int, shown: ClockReading | None) -> str:
    if shown is None:
        return f"node {node} does not run"
    middle_s = (shown.least_ms + shown.most_ms) / 2000
    give_s = (shown.most_ms - shown.least_ms) / 2000
    looked = "has read it" if shown.looked else "has not read it yet"
    return f"node {node}'s clock shows {middle_s:+.3f} s (±{give_s:.3f} s), and the node {looked}"


def _offset(text: str) -> object:
    try:
        offset_ms = int(text)
    except ValueError:
        offset_ms = 0
    if not 0 < abs(offset_ms) <= MAX_OFFSET_MS:
        raise ValueError(f"it is a whole number of ms, not 0, up to {MAX_OFFSET_MS} either way")
    return offset_ms


def read_offset_or_any(text: str) -> object:
    """Return an offset in ms, or `any`. Raises ValueError."""
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
    raise ValueError("it is clock seconds per real second, from 0.1 to 10, not 1; or any")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump(_Skew):
    """The clock is set once, and set back at the heal."""

    name: str = "clock.jump"
    about: str = "the wall clock is set forward or back once, and set right at the heal"
    options: tuple[Option, ...] = (
        Option(
            name="offset_ms",
            default=ANY,
            about="ms ahead (negative: behind), or any: half a second, a minute or an hour",
            read=read_offset_or_any,
        ),
    )

    def draw(self, value: str, rng: random.Random) -> str:
        """For `any`, one of JUMPS_MS."""
        return str(rng.choice(JUMPS_MS)) if value == ANY else value

    def offset_ms(self, injection: Injection, elapsed_ms: int) -> float:
        """The offset is constant."""
        return float(injection.detail("offset_ms"))

    def label(self, injection: Injection) -> str:
        """For example `clock.jump node 2 by +3600 s`."""
        offset_s = self.offset_ms(injection, 0) / 1000
        return f"{self.name} {node_list(injection.nodes)} by {offset_s:+g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strobe(_Skew):
    """The clock is set forward and back repeatedly."""

    name: str = "clock.strobe"
    about: str = "the wall clock is set forward and back repeatedly"
    tick_ms: int | None = STEP_MS
    options: tuple[Option, ...] = (
        Option(
            name="offset_ms",
            default="200",
            about="ms ahead (negative: behind) in the first half of each period",
            read=_offset,
        ),
        Option(
            name="period_ms",
            default="400",
            about=f"ms from one setting forward to the next, exact to {STEP_MS} ms",
            read=_period,
        ),
    )

    def offset_ms(self, injection: Injection, elapsed_ms: int) -> float:
        """The offset in the first half of each period, otherwise 0."""
        period_ms = int(injection.detail("period_ms"))
        ahead = elapsed_ms % period_ms < period_ms / 2
        return float(injection.detail("offset_ms")) if ahead else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(_Skew):
    """The clock runs fast or slow, in small steps, and is set right at the heal."""

    name: str = "clock.drift"
    about: str = f"the wall clock runs fast or slow, in steps every {STEP_MS} ms"
    tick_ms: int | None = STEP_MS
    options: tuple[Option, ...] = (
        Option(
            name="rate",
            default=ANY,
            about="seconds that the clock shows per real second, or any: 0.95 or 1.05",
            read=_rate_or_any,
        ),
    )

    def draw(self, value: str, rng: random.Random) -> str:
        """For `any`, one of RATES."""
        return str(rng.choice(RATES)) if value == ANY else value

    def offset_ms(self, injection: Injection, elapsed_ms: int) -> float:
        """The accumulated drift."""
        return (float(injection.detail("rate")) - 1) * elapsed_ms


FAULTS: tuple[Fault, ...] = (Jump(), Strobe(), Drift())
