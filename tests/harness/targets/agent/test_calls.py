"""Calls as JSON lines: encoding and decoding keep the values of every type that methods use."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.targets.agent import calls
from harness.targets.base import NodeState, TargetError
from nemesis.hosts import (
    ClockReading,
    Clocks,
    Cut,
    Disks,
    LinkCounters,
    LinkQuality,
    Links,
    PowerCut,
    Probe,
)


def travelled(value: Any) -> Any:
    """As the other end reads it."""
    return json.loads(calls.line({"it": value}))["it"]


@pytest.mark.parametrize(
    ("method", "args", "kwargs"),
    [
        (Links.block, (Cut(1, 2), Cut(2, 0, 9092, True, "layer")), {}),
        (Links.degrade, ([(1, 2)], LinkQuality(delay_ms=1.5, lost=0.25), "layer"), {}),
        (Disks.limit, (3,), {"bytes_per_s": 10, "operations_per_s": 0}),
        (Disks.write, (1, "log/a", 7, b"\x00\xff"), {}),
        (Clocks.skew, (1, "layer", -2.5), {}),
    ],
)
def test_arguments_are_the_same_after_encoding_and_decoding(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Positional, named and variable arguments."""
    asked = json.loads(calls.request("7", method, args, kwargs))
    assert (asked["id"], asked["call"]) == ("7", method.__qualname__)
    positional, named = calls.arguments(method, asked["arguments"])
    assert [tuple(each) if isinstance(each, list) else each for each in positional] == [
        tuple(each) if isinstance(each, list) else each for each in args
    ]
    assert named == kwargs


@pytest.mark.parametrize(
    ("method", "value"),
    [
        (Links.dropped, None),
        (Links.counters, LinkCounters(packets=3, mean_delay_ms=0.1)),
        (Disks.read, b"\x00\xff"),
        (Disks.probed, Probe(4096, 1.25, done=False)),
        (Disks.restore_copy, {"log/a": (1, 2)}),
        (Disks.cut_power, [PowerCut(1, 2**62 + 1, {"log": 3})]),
        (Clocks.read, ClockReading(-1.0, 1.0, True)),
    ],
)
def test_results_are_the_same_after_encoding_and_decoding(
    method: Callable[..., Any], value: Any
) -> None:
    """The method's annotation decodes them without loss."""
    assert calls.result(method, travelled(value)) == value


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NodeState("it runs"), NodeState),
        (OSError(28, "No space left on device"), OSError),
        (KeyError("x"), TargetError),
    ],
)
def test_errors_keep_their_type_and_name_the_machine(
    error: Exception, kind: type[Exception]
) -> None:
    """TargetErrors and OSErrors; other errors become TargetErrors."""
    again = calls.exception_of(travelled(calls.error_reply(error)), "node 1's host lab-1")
    assert type(again) is kind
    assert "node 1's host lab-1: " in str(again)
    if isinstance(error, OSError):
        assert isinstance(again, OSError)
        assert again.errno == error.errno


def test_an_invalid_argument_is_refused() -> None:
    """Before anything is executed."""
    with pytest.raises(ValueError):
        calls.arguments(Disks.freeze, {"node": "all"})
