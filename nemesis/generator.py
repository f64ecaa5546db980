"""Random schedules: a pure function of a mix, a seed and a length.

Faults come one after the other, or up to `overlap` at once, with quiet time between them. Faults
that overlap never take down a majority of the nodes together, unless the mix asks for it: a random
schedule should test recovery, not only a cluster that is down. How many nodes one fault nodes_down
down is the mix's own choice of faults and selectors. Some faults remove a vote for longer than they
are in force; such a fault waits until all controllers have their votes, because a quorum that loses
two disks at once loses its metadata for good.
"""

import fnmatch
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nemesis.base import UnknownFault
from nemesis.faults.catalogue import FAULTS, find
from nemesis.faults.fault import Ability, Fault
from nemesis.schedule import MAX_EVENTS, UNTIL_TIMEOUT_MS, Event, Schedule, checked

Range = tuple[int, int]
"""Least and greatest."""
Choice = str | tuple[int, int] | tuple[float, float] | tuple[str, ...]
"""A parameter: a fixed text, a range of numbers, or one of several texts."""

DEGRADING: Final = frozenset(
    {
        Ability.CLOCKS,
        Ability.LINK_QUALITY,
        Ability.CONNECTION_RESETS,
        Ability.DISK_SPEED,
    }
)
"""A fault that needs only these abilities leaves its nodes in service; any other fault may take
its nodes down."""
VOTE_TAKING_FAULTS: Final = frozenset({"disk.lost", "broker.remove", "quorum.remove-voter"})
"""The faults that remove a controller's vote. The controller gets it back some time after the heal,
when its log has caught up (KIP-853)."""
VOTE_RECOVERY_MS: Final = 5_000
"""The least time from the heal of one of these to the next: about how long a vote takes to
return.
"""
QUORUM_WHOLE: Final = "quorum whole"
"""The condition that each of these waits for, in case a vote takes longer to return."""
QUORUM_WHOLE_TIMEOUT_MS: Final = 20_000
_ONE: Final = (
    *("one", "node", "broker", "controller", "quorum-leader", "quorum-follower"),
    *("leader", "isr-one", "last-isr", "group-coordinator", "transaction-coordinator"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """A mix's settings for one fault; an unset field has the mix's own value."""

    weight: int = 1
    """How often the fault comes for each time that a fault of weight 1 comes."""
    targets: Sequence[str] = ()
    duration_ms: Range | None = None
    params: Mapping[str, Choice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """The settings of a generated schedule."""

    faults: Sequence[str]
    targets: Sequence[str]
    """Selectors for the faults that accept any; the other faults have their default selector."""
    interval_ms: Range
    """The time from the moment when a fault may come until it comes."""
    duration_ms: Range
    """How long a fault is in force."""
    rate_per_min: float | None = None
    """In place of the interval: how often faults or bursts begin, at independent random moments.
    While `overlap` is reached they come later, and so fewer."""
    overlap: int = 1
    """How many faults may be in force at once."""
    burst: Range = (1, 1)
    """How many faults come together, each as soon as `overlap` allows."""
    quiet_every_ms: int | None = None
    """After each such period nothing happens for `quiet_ms`, so that recovery is tested."""
    quiet_ms: int = 0
    majority: bool = False
    """Whether faults that overlap may take down a majority of the nodes together."""
    nodes: int = 3
    tunings: Mapping[str, Tuning] = field(default_factory=dict)

    def of(self, fault: str) -> Tuning:
        """The settings of one fault."""
        return self.tunings.get(fault, Tuning())


def expand(patterns: Iterable[str]) -> list[str]:
    """The faults that names and patterns (`partition.*`, `*`) match, each once, in the given order.

    Raises UnknownFault.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not any(letter in pattern for letter in "*?["):
            found[find(pattern).name] = None
            continue
        matches = fnmatch.filter(FAULTS, pattern)
        if not matches:
            raise UnknownFault(f"no fault matches {pattern!r}; faults are {', '.join(FAULTS)}")
        found.update(dict.fromkeys(matches))
    return list(found)


def generate(mix: Mix, *, seed: int, end_ms: int) -> Schedule:
    """A random schedule that fills `end_ms`. Every fault of the mix comes once (or as often as its
    weight) before any fault comes again.

    Raises UnknownFault, BadSelector.
    """
    generator = _Generator(mix, seed, end_ms)
    generator.fill()
    return checked(Schedule(seed=seed, end_ms=end_ms, events=tuple(generator.events)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _InForce:
    """A fault in force until `end_ms`, and how many nodes it may take down."""

    end_ms: int
    nodes_down: int


class _Generator:
    """Draws one schedule, event by event, in the order of their times."""

    def __init__(self, mix: Mix, seed: int, end_ms: int) -> None:
        self.events: list[Event] = []
        self._mix = mix
        self._rng = random.Random(f"schedule/{seed}")
        self._end_ms = end_ms
        self._bag: list[str] = []
        self._in_force: list[_InForce] = []
        self._votes_ms = 0
        """When all votes that faults have removed so far should be back."""

    def fill(self) -> None:
        """Draw events until the time is full."""
        weights = [self._mix.of(name).weight for name in self._mix.faults]
        if not any(weights):
            return
        last_ms = 0
        while len(self.events) < MAX_EVENTS:
            at_ms: int | None = self._next_ms(last_ms)
            for _ in range(self._count()):
                at_ms = None if at_ms is None else self._add_fault(at_ms)
                if at_ms is None:
                    return
                last_ms = at_ms

    def _next_ms(self, last_ms: int) -> int:
        """When the next fault or burst is to come; `last_ms` is the start of the last one."""
        mix = self._mix
        if mix.rate_per_min is not None:
            return last_ms + round(self._rng.expovariate(mix.rate_per_min / 60_000))
        return max(last_ms, self._free_ms()) + self._rng.randint(*mix.interval_ms)

    def _count(self) -> int:
        low, high = self._mix.burst
        return low if low == high else self._rng.randint(low, high)

    def _free_ms(self) -> int:
        """The first moment when fewer than `overlap` faults are in force."""
        ends = sorted((held.end_ms for held in self._in_force), reverse=True)
        return ends[self._mix.overlap - 1] if len(ends) >= self._mix.overlap else 0

    def _add_fault(self, from_ms: int) -> int | None:
        """Add one fault from `from_ms` on, as soon as it fits; None when the time is full."""
        mix, rng = self._mix, self._rng
        duration_ms, least_ms = rng.randint(*mix.duration_ms), mix.duration_ms[0]
        self._bag = self._bag or self._fresh_bag()
        fault = find(self._bag.pop())
        tuning = mix.of(fault.name)
        if tuning.duration_ms is not None:
            duration_ms, least_ms = rng.randint(*tuning.duration_ms), tuning.duration_ms[0]
        selector = self._selector(fault, tuning)
        nodes_down, votes = (
            most_nodes_down(fault, selector, mix.nodes),
            fault.name in VOTE_TAKING_FAULTS,
        )
        from_ms = max(from_ms, self._votes_ms) if votes else from_ms
        at_ms = self._first_fit_ms(from_ms, least_ms, nodes_down)
        if at_ms is None:
            return None
        # The last fault before a quiet time is shortened rather than left out.
        end_ms = min(at_ms + duration_ms, self._healed_by_ms(at_ms))
        self._in_force = [held for held in self._in_force if held.end_ms > at_ms]
        self._in_force.append(_InForce(end_ms=end_ms, nodes_down=nodes_down))
        self._votes_ms = end_ms + VOTE_RECOVERY_MS if votes else self._votes_ms
        self.events.append(
            Event(
                id=len(self.events),
                at_ms=at_ms,
                fault=fault.name,
                targets=selector,
                duration_ms=end_ms - at_ms,
                params={name: _drawn(tuning.params[name], rng) for name in sorted(tuning.params)},
                until=QUORUM_WHOLE if votes else None,
                until_timeout_ms=QUORUM_WHOLE_TIMEOUT_MS if votes else UNTIL_TIMEOUT_MS,
            )
        )
        return at_ms

    def _fresh_bag(self) -> list[str]:
        names = [name for name in self._mix.faults for _ in range(self._mix.of(name).weight)]
        return self._rng.sample(names, len(names))

    def _selector(self, fault: Fault, tuning: Tuning) -> str:
        if tuning.targets:
            return self._rng.choice(tuning.targets)
        if fault.selectable and self._mix.targets:
            return self._rng.choice(self._mix.targets)
        return fault.default_selector

    def _first_fit_ms(self, from_ms: int, least_ms: int, nodes_down: int) -> int | None:
        """The first moment from `from_ms` on when a fault of at least `least_ms` fits."""
        at_ms = from_ms
        while at_ms + least_ms <= self._end_ms:
            held = [held for held in self._in_force if held.end_ms > at_ms]
            if (awake_ms := self._end_of_quiet_ms(at_ms)) > at_ms:
                at_ms = awake_ms
            elif held and (
                len(held) >= self._mix.overlap or not self._leaves_a_majority(held, nodes_down)
            ):
                at_ms = min(each.end_ms for each in held)
            elif at_ms + least_ms > self._healed_by_ms(at_ms):
                at_ms = self._healed_by_ms(at_ms)
            else:
                return at_ms
        return None

    def _leaves_a_majority(self, held: Sequence[_InForce], nodes_down: int) -> bool:
        """Whether the faults in force and a new one leave a majority of the nodes up."""
        others = sum(each.nodes_down for each in held)
        if self._mix.majority or not others or not nodes_down:
            return True
        return others + nodes_down <= (self._mix.nodes - 1) // 2

    def _end_of_quiet_ms(self, at_ms: int) -> int:
        """`at_ms`, or the end of the quiet time that contains it."""
        round_ms, into_ms = self._round(at_ms)
        return at_ms if into_ms < self._every_ms else round_ms + self._every_ms + self._mix.quiet_ms

    def _healed_by_ms(self, at_ms: int) -> int:
        """When a fault that begins at `at_ms` must be over."""
        return min(self._round(at_ms)[0] + self._every_ms, self._end_ms)

    def _round(self, at_ms: int) -> tuple[int, int]:
        """The start of the round (faults, then quiet) that contains `at_ms`, and the time since."""
        length_ms = self._every_ms + self._mix.quiet_ms
        return at_ms - at_ms % length_ms, at_ms % length_ms

    @property
    def _every_ms(self) -> int:
        return self._mix.quiet_every_ms or self._end_ms


def most_nodes_down(fault: Fault, expression: str, nodes: int) -> int:
    """How many of `nodes` a fault may take down at most."""
    # Administration takes down only the brokers that it removes, and none if it has no selector.
    whole = Ability.ADMINISTRATION in fault.needs and fault.default_selector == "all"
    if whole or fault.needs <= DEGRADING or expression == "clients":
        return 0
    kind, _, names = expression.partition(":")
    if kind == "zookeeper":
        return 0  # an ensemble without a majority stops changes, but takes no broker down
    if kind == "nodes":
        return len(names.split(","))
    if kind == "minority":
        return (nodes - 1) // 2
    if kind == "majority":
        return nodes // 2 + 1
    return 1 if kind in _ONE else nodes


def _drawn(choice: Choice, rng: random.Random) -> str:
    match choice:
        case str():
            return choice
        case (int() as low, int() as high):
            return str(rng.randint(low, high))
        case (float() | int() as low, float() | int() as high):
            return str(round(rng.uniform(low, high), 3))
        case _:
            return str(rng.choice(choice))
