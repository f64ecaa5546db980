"""Probes change no answer, and note each combination of outcomes once."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.simulation.decisions.probes import LEAVE, ProbedFunction, add_probes
from harness.simulation.decisions.rewriting import compiled, functions, install, source_tree

SOURCE = '''
import functools
from dataclasses import dataclass


def compared(a, b):
    """Return which is greater."""
    if a < b:
        return "b"
    elif a > b:
        return "a"


def joined(a, b, c):
    return (a and b or c) if a is not None else -1


def matched(value):
    match value:
        case int() if value > 10:
            return "large"
        case int():
            return "small"
    raise TypeError(value)


def counted(values, least):
    total = 0
    for each in values:
        total += each
    while total > 100:
        total -= 100
    return total + sum(1 for each in values if each >= least)


def nested(value):
    def inner(other):
        return other < value

    return [each for each in range(5) if inner(each)] + list(map(lambda x: x > 1, [value]))


def generated(values):
    for each in values:
        if each == "b":
            return
        yield each


@functools.cache
def cached(value):
    return value if value > 0 else 0


@dataclass(frozen=True, slots=True)
class Held:
    value: int

    @property
    def doubled(self):
        return self.value * 2 if self.value else None

    @classmethod
    def of(cls, value):
        return cls(value or 1)

    @staticmethod
    def least(a, b):
        return a if a <= b else b
'''
CALLS: list[Any] = [
    lambda m: [m.compared(1, 2), m.compared(2, 1), m.compared(1, 1)],
    lambda m: [m.joined(a, b, 3) for a in (None, 0, 1) for b in (0, 2)],
    lambda m: [m.matched(10), m.matched(11)],
    lambda m: [m.counted([50, 60, 10], 50), m.counted([], 0)],
    lambda m: m.nested(3),
    lambda m: [list(m.generated("aab")), list(m.generated("")), next(m.generated("a"))],
    lambda m: [m.cached(5), m.cached(0), m.cached(-1)],
    lambda m: [m.Held.of(0), m.Held.of(7).doubled, m.Held(0).doubled],
    lambda m: [m.Held.least(1, 2), m.Held.least(2, 2), m.Held.least(3, 2)],
]


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """A module that decides in every form that there is."""
    path = tmp_path / "deciding.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("deciding", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["deciding"] = made
    spec.loader.exec_module(made)
    return made


class Noted:
    """A module with probes, and what they noted."""

    def __init__(self, module: ModuleType) -> None:
        self.states: list[tuple[int, int]] = []
        tree, self.functions = add_probes(source_tree(module), "deciding", 0)
        self.undo = install(module, compiled(module, tree), {LEAVE: self._leave})

    def _leave(self, value: Any, function: int, bits: int) -> Any:
        self.states.append((function, bits))
        return value

    def outcomes(self) -> list[set[str]]:
        """What was noted of each call."""
        return [self._outcomes(self.functions[number], bits) for number, bits in self.states]

    def _outcomes(self, function: ProbedFunction, bits: int) -> set[str]:
        return {
            f"{probe.decided}: {probe.outcome}"
            for at, probe in enumerate(function.probes, start=1)
            if bits >> at & 1
        }


@pytest.fixture
def noted(module: ModuleType) -> Iterator[Noted]:
    """The module, with probes."""
    made = Noted(module)
    yield made
    made.undo()


@pytest.mark.parametrize("call", CALLS)
def test_probes_change_no_answer(call: Any, module: ModuleType) -> None:
    expected = call(module)
    module.cached.cache_clear()
    probed = Noted(module)
    assert call(module) == expected
    probed.undo()


def test_both_ways_and_equal_sides_are_noted(module: ModuleType, noted: Noted) -> None:
    module.compared(1, 2)
    module.compared(2, 1)
    module.compared(1, 1)
    assert noted.outcomes() == [
        {"a < b: true"},
        {"a < b: false", "a > b: true"},
        {"a < b: equal", "a < b: false", "a > b: equal", "a > b: false"},
    ]


def test_further_operands_are_noted(module: ModuleType, noted: Noted) -> None:
    module.joined(1, 0, 3)
    module.joined(0, 2, 3)
    assert noted.outcomes() == [
        {"a is not None: true", "a: true", "a and b: false"},
        {"a is not None: true", "a and b: false"},
    ]


def test_an_error_ends_a_call_too(module: ModuleType, noted: Noted) -> None:
    with pytest.raises(TypeError):
        module.matched("x")
    module.matched(10)
    assert noted.outcomes() == [
        set(),
        {"value > 10: equal", "int(): matched"},
    ]


def test_every_form_of_function_has_its_probes(module: ModuleType, noted: Noted) -> None:
    assert {each.__name__ for each in functions(module)} >= {"cached", "doubled", "of", "least"}
    module.cached(3)
    held = module.Held.of(0)
    assert held.doubled == 2
    module.Held.least(2, 2)
    assert noted.outcomes() == [
        {"value > 0: true"},
        {"value: false"},
        {"self.value: true"},
        {"a <= b: equal", "a <= b: true"},
    ]


def test_a_generator_is_noted_when_it_ends_or_is_left(module: ModuleType, noted: Noted) -> None:
    list(module.generated("ab"))
    left = module.generated("ab")
    next(left)
    assert len(noted.states) == 1
    left.close()
    assert noted.outcomes() == [
        {"values: not empty", "each == 'b': false", "each == 'b': true"},
        {"values: not empty", "each == 'b': false"},
    ]


def test_undone_functions_are_as_before(module: ModuleType) -> None:
    before = [each.__code__ for each in functions(module)]
    probed = Noted(module)
    assert [each.__code__ for each in functions(module)] != before
    probed.undo()
    assert [each.__code__ for each in functions(module)] == before
    assert LEAVE not in vars(module)
