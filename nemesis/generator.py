"""Random schedules: a pure function of a mix, a seed and a length.

Faults come one after the other, or up to `overlap` at once, with quiet time between them. Two that
are in force together never take a majority of the nodes between them, unless the mix asks for it:
a random schedule tests recovery, and not only a cluster that is down. What one fault takes alone is
the mix's own choice of faults and targets. A fault that takes a vote for longer than it is in force
waits until all have theirs: a quorum that loses two disks at once loses what it knew for good.
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
"""A parameter: as it is, from a range of numbers, or one of several texts."""

SERVING: Final = frozenset(
    {
        Ability.CLOCKS,
        Ability.LINK_QUALITY,
        Ability.CONNECTION_RESETS,
        Ability.DISK_SPEED,
    }
)
"""Whose targets go on serving, well or badly; every other fault may take its targets away."""
VOTES: Final = frozenset({"disk.lost", "broker.remove", "quorum.remove-voter"})
"""Which take a controller's vote; it gets it back some time after the heal, when its log has caught
up (KIP-853)."""
VOTE_MS: Final = 5_000
"""From the heal of one of these to the next one, at least: about what a vote takes to come back."""
WHOLE: Final = "quorum whole"
"""What each of these waits for, too: the next after one whose vote takes longer."""
WHOLE_TIMEOUT_MS: Final = 20_000
_ONE: Final = (
    *("one", "node", "broker", "controller", "quorum-leader", "quorum-follower"),
    *("leader", "isr-one", "last-isr"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What a mix says of one fault; nothing is what it says of all."""

    weight: int = 1
    """How often it comes in the time in which a fault of weight 1 comes once."""
    targets: Sequence[str] = ()
    duration_ms: Range | None = None
    params: Mapping[str, Choice] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What a generated schedule is made of."""

    faults: Sequence[str]
    targets: Sequence[str]
    """For the faults that can be aimed at anything; the others take their own."""
    interval_ms: Range
    """From the moment when there is room for a fault until one comes."""
    duration_ms: Range
    """How long a fault is in force."""
    rate_per_min: float | None = None
    """Faults, or bursts, begin so often, at moments that do not depend on each other; in place of
    the interval. They come later, and so fewer, while there is no room."""
    overlap: int = 1
    """So many may be in force at once."""
    burst: Range = (1, 1)
    """So many come together, each as soon as there is room for it."""
    quiet_every_ms: int | None = None
    """After so long nothing happens for `quiet_ms`, so that recovery is tested; then again."""
    quiet_ms: int = 0
    majority: bool = False
    """Faults that overlap may take a majority of the nodes together."""
    nodes: int = 3
    tunings: Mapping[str, Tuning] = field(default_factory=dict)

    def of(self, fault: str) -> Tuning:
        """What is said of one fault."""
        return self.tunings.get(fault, Tuning())


def expand(patterns: Iterable[str]) -> list[str]:
    """The faults that names and patterns (`partition.*`, `*`) mean, each once, in the order given.

    Raises UnknownFault.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not any(letter in pattern for letter in "*?["):
            found[find(pattern).name] = None
            continue
        matches = fnmatch.filter(FAULTS, pattern)
        if not matches:
            raise UnknownFault(f"no fault is like {pattern!r}; faults are {', '.join(FAULTS)}")
        found.update(dict.fromkeys(matches))
    return list(found)


def generate(mix: Mix, *, seed: int, end_ms: int) -> Schedule:
    """A random schedule that fills `end_ms`, every fault of the mix once before any comes again
    (as often as its weight says).

    Raises UnknownFault, BadTargets.
    """
    made = _Generator(mix, seed, end_ms)
    made.fill()
    return checked(Schedule(seed=seed, end_ms=end_ms, events=tuple(made.events)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A fault in force until `end_ms`, and how many nodes it may take."""

    end_ms: int
    takes: int


class _Generator:
    """Draws one schedule, event by event, in the order of their times."""

    def __init__(self, mix: Mix, seed: int, end_ms: int) -> None:
        self.events: list[Event] = []
        self._mix = mix
        self._rng = random.Random(f"schedule/{seed}")
        self._end_ms = end_ms
        self._bag: list[str] = []
        self._held: list[_Held] = []
        self._votes_ms = 0
        """When all votes that faults have taken so far should be back."""

    def fill(self) -> None:
        """Draw until the time is full."""
        weights = [self._mix.of(name).weight for name in self._mix.faults]
        if not any(weights):
            return
        last_ms = 0
        while len(self.events) < MAX_EVENTS:
            at_ms: int | None = self._next_ms(last_ms)
            for _ in range(self._count()):
                at_ms = None if at_ms is None else self._place(at_ms)
                if at_ms is None:
                    return
                last_ms = at_ms

    def _next_ms(self, last_ms: int) -> int:
        """When the next fault or burst is to come, `last_ms` being the start of the last."""
        mix = self._mix
        if mix.rate_per_min is not None:
            return last_ms + round(self._rng.expovariate(mix.rate_per_min / 60_000))
        return max(last_ms, self._free_ms()) + self._rng.randint(*mix.interval_ms)

    def _count(self) -> int:
        low, high = self._mix.burst
        return low if low == high else self._rng.randint(low, high)

    def _free_ms(self) -> int:
        """The first moment with room for one more."""
        ends = sorted((held.end_ms for held in self._held), reverse=True)
        return ends[self._mix.overlap - 1] if len(ends) >= self._mix.overlap else 0

    def _place(self, from_ms: int) -> int | None:
        """Add one fault from `from_ms` on, as soon as it fits; None when the time is full."""
        mix, rng = self._mix, self._rng
        duration_ms, least_ms = rng.randint(*mix.duration_ms), mix.duration_ms[0]
        self._bag = self._bag or self._fresh_bag()
        fault = find(self._bag.pop())
        tuning = mix.of(fault.name)
        if tuning.duration_ms is not None:
            duration_ms, least_ms = rng.randint(*tuning.duration_ms), tuning.duration_ms[0]
        aim = self._aim(fault, tuning)
        takes, votes = taken(fault, aim, mix.nodes), fault.name in VOTES
        from_ms = max(from_ms, self._votes_ms) if votes else from_ms
        at_ms = self._first_fit_ms(from_ms, least_ms, takes)
        if at_ms is None:
            return None
        # The last one before a quiet time is cut short rather than left out.
        end_ms = min(at_ms + duration_ms, self._healed_by_ms(at_ms))
        self._held = [held for held in self._held if held.end_ms > at_ms]
        self._held.append(_Held(end_ms=end_ms, takes=takes))
        self._votes_ms = end_ms + VOTE_MS if votes else self._votes_ms
        self.events.append(
            Event(
                id=len(self.events),
                at_ms=at_ms,
                fault=fault.name,
                targets=aim,
                duration_ms=end_ms - at_ms,
                params={name: _drawn(tuning.params[name], rng) for name in sorted(tuning.params)},
                until=WHOLE if votes else None,
                until_timeout_ms=WHOLE_TIMEOUT_MS if votes else UNTIL_TIMEOUT_MS,
            )
        )
        return at_ms

    def _fresh_bag(self) -> list[str]:
        names = [name for name in self._mix.faults for _ in range(self._mix.of(name).weight)]
        return self._rng.sample(names, len(names))

    def _aim(self, fault: Fault, tuning: Tuning) -> str:
        if tuning.targets:
            return self._rng.choice(tuning.targets)
        if fault.aimable and self._mix.targets:
            return self._rng.choice(self._mix.targets)
        return fault.default_targets

    def _first_fit_ms(self, from_ms: int, least_ms: int, takes: int) -> int | None:
        """The first moment from `from_ms` on with room for a fault of at least `least_ms`."""
        at_ms = from_ms
        while at_ms + least_ms <= self._end_ms:
            held = [held for held in self._held if held.end_ms > at_ms]
            if (awake_ms := self._awake_ms(at_ms)) > at_ms:
                at_ms = awake_ms
            elif held and (len(held) >= self._mix.overlap or not self._bearable(held, takes)):
                at_ms = min(each.end_ms for each in held)
            elif at_ms + least_ms > self._healed_by_ms(at_ms):
                at_ms = self._healed_by_ms(at_ms)
            else:
                return at_ms
        return None

    def _bearable(self, held: Sequence[_Held], takes: int) -> bool:
        """Whether those in force and one more leave a majority of the nodes."""
        others = sum(each.takes for each in held)
        if self._mix.majority or not others or not takes:
            return True
        return others + takes <= (self._mix.nodes - 1) // 2

    def _awake_ms(self, at_ms: int) -> int:
        """`at_ms`, or the end of the quiet time that it is in."""
        round_ms, into_ms = self._round(at_ms)
        return at_ms if into_ms < self._every_ms else round_ms + self._every_ms + self._mix.quiet_ms

    def _healed_by_ms(self, at_ms: int) -> int:
        """When everything that begins at `at_ms` must be over."""
        return min(self._round(at_ms)[0] + self._every_ms, self._end_ms)

    def _round(self, at_ms: int) -> tuple[int, int]:
        """When the round of faults and quiet began that `at_ms` is in, and how long ago that is."""
        length_ms = self._every_ms + self._mix.quiet_ms
        return at_ms - at_ms % length_ms, at_ms % length_ms

    @property
    def _every_ms(self) -> int:
        return self._mix.quiet_every_ms or self._end_ms


def taken(fault: Fault, expression: str, nodes: int) -> int:
    """How many of `nodes` a fault may at most take away from the cluster."""
    # Administration takes away whom it removes; what it does to the whole cluster, nobody.
    whole = Ability.ADMINISTRATION in fault.needs and fault.default_targets == "all"
    if whole or fault.needs <= SERVING or expression == "clients":
        return 0
    kind, _, names = expression.partition(":")
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
