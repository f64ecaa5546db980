"""Traces as a TLA+ module."""

import pytest

from harness.simulation.validation import tla
from harness.simulation.validation.traces import Trace


def trace(*entries: tuple[object, ...], name: str = "some") -> Trace:
    return Trace(
        name=name,
        specification="QuorumTrace",
        constants=(("Nodes", frozenset({2, 1})),),
        entries=entries,
    )


def test_each_value_has_its_form() -> None:
    """Sets are written in one order, whatever the order of their elements."""
    value = (1, "step", True, ((1, 2), ()), frozenset({3, 1}), {"hw": 0})
    assert tla.expression(value) == ('<<1, "step", TRUE, <<<<1, 2>>, <<>>>>, {1, 3}, [hw |-> 0]>>')


@pytest.mark.parametrize("value", [None, 1.5, 'a"b', "a\\b", b"bytes"])
def test_value_without_a_form_is_refused(value: object) -> None:
    """No text may end its own string."""
    with pytest.raises(TypeError):
        tla.expression(value)


def test_module_has_the_constants_and_all_traces() -> None:
    """One entry a line: TLC names lines in its errors."""
    text = tla.module([trace((1, "stop"), (2, "stop")), trace((1, "power"))])
    assert text.splitlines() == [
        "---- MODULE Traces ----",
        "TraceNodes == {1, 2}",
        "Traces == <<",
        "<<",
        '<<1, "stop">>,',
        '<<2, "stop">>',
        ">>,",
        "<<",
        '<<1, "power">>',
        ">>",
        ">>",
        "====",
    ]
