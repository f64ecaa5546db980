"""What runs reached of the broker's decisions, and what no run reached."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from harness.simulation.decisions import catalogue, probes
from harness.simulation.decisions.probes import LEAVE, Probe, ProbedFunction
from harness.simulation.decisions.rewriting import Codes, compiled, install, source_tree

State = tuple[int, int]
"""The number of a function, and the bits that one call of it set."""


class Notes:
    """The states that were reached, and when each was reached first, by the clock `now_ns`."""

    def __init__(self) -> None:
        self.first_ns: dict[State, int] = {}
        self.now_ns: Callable[[], int] = lambda: 0

    def leave(self, value: Any, function: int, bits: int) -> Any:
        """Note the state of a call, and return the call's value."""
        state = function, bits
        if state not in self.first_ns:
            self.first_ns[state] = self.now_ns()
        return value


class _Probed(NamedTuple):
    functions: tuple[ProbedFunction, ...]
    codes: tuple[tuple[ModuleType, Codes], ...]


@cache
def _probed() -> _Probed:
    """Return the functions with probes, in an order that is always the same, and their code."""
    found: list[ProbedFunction] = []
    codes: list[tuple[ModuleType, Codes]] = []
    for module in catalogue.modules():
        tree, functions = probes.add_probes(source_tree(module), module.__name__, len(found))
        found += functions
        codes.append((module, compiled(module, tree)))
    return _Probed(tuple(found), tuple(codes))


def functions() -> list[tuple[str, str]]:
    """Return the module and qualified name of each function, by its number in a state."""
    return [(each.module, each.name) for each in _probed().functions]


@contextmanager
def noted() -> Iterator[Notes]:
    """Put probes into the broker's decisions, and yield what they note."""
    notes = Notes()
    undos = [install(module, codes, {LEAVE: notes.leave}) for module, codes in _probed().codes]
    try:
        yield notes
    finally:
        for undo in undos:
            undo()


class Share(NamedTuple):
    """How many outcomes a module has, how many of them were reached, and in how many states."""

    module: str
    probes: int
    reached: int
    states: int

    @property
    def share(self) -> float:
        """The share of outcomes that was reached; all, if there is nothing to decide."""
        return self.reached / self.probes if self.probes else 1.0


@dataclass(slots=True)
class Reached:
    """How many runs reached each state."""

    runs: Counter[State] = field(default_factory=Counter)

    def add(self, states: Iterable[State]) -> None:
        """Add a run."""
        self.runs.update(iter(states))  # also of a mapping: its keys

    def shares(self) -> list[Share]:
        """Return the share of each module."""
        bits, states = self._bits(), Counter(function for function, _ in self.runs)
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for number, function in enumerate(_probed().functions):
            for at, probe in enumerate(function.probes, start=1):
                counts[probe.module][0] += 1
                counts[probe.module][1] += bits[number] >> at & 1
            counts[function.module][2] += states[number]
        return [Share(module, *found) for module, found in counts.items()]

    def missed(self) -> list[Probe]:
        """Return the outcomes that no run reached, in the order of the source."""
        return self._outcomes(reached=False)

    def outcomes(self) -> list[Probe]:
        """Return the outcomes that runs reached, in the order of the source."""
        return self._outcomes(reached=True)

    def _outcomes(self, *, reached: bool) -> list[Probe]:
        bits = self._bits()
        return [
            probe
            for number, function in enumerate(_probed().functions)
            for at, probe in enumerate(function.probes, start=1)
            if bool(bits[number] >> at & 1) is reached
        ]

    def text(self) -> str:
        """Return what was reached by module, and then what was not, for people."""
        shares = self.shares()
        width = max(len(each.module) for each in shares)
        total = Share(
            "all", *(sum(column) for column in zip(*(s[1:] for s in shares), strict=True))
        )
        lines = ["decisions reached, by module: outcomes, and states (combinations of outcomes)"]
        lines += [
            f"  {each.module:{width}}  {each.reached:4} of {each.probes:4} "
            f"({each.share:4.0%}), {each.states:6,} states"
            for each in (*shares, total)
        ]
        lines.append("never reached:")
        lines += [
            f"  {probe.module.replace('.', '/')}.py:{probe.line} {probe.function}: "
            f"{probe.decided}: {probe.outcome}"
            for probe in self.missed()
        ]
        return "\n".join(lines)

    def _bits(self) -> dict[int, int]:
        """Return all bits that were set in each function."""
        found: dict[int, int] = defaultdict(int)
        for function, bits in self.runs:
            found[function] |= bits
        return found
