"""What may be asked for, and the sentence that refuses the rest."""

from dataclasses import replace
from typing import Any

import pytest

from harness.bench import options
from harness.bench.options import BenchError, Options, SystemName
from harness.bench.points import Client, Measure, Wanted

OPTIONS = Options(
    wanted=Wanted(measures=tuple(Measure), clients=()),
    systems=(SystemName(name="highwater", bootstrap=None),),
    rounds=3,
    duration_s=2.0,
    size=1024,
    seed=0,
    broker={},
    broker_module="nodes",
    client_cpus=(),
    check_crcs=False,
)


def test_systems() -> None:
    """Names with addresses, clusters of our own under any name, and the built-in without any."""
    named = ["a=h:1,[::1]:2", "b=builtin", "builtin", "kafka", "c=kafka"]
    assert options.parse_systems(named, None) == (
        SystemName(name="a", bootstrap="h:1,[::1]:2"),
        SystemName(name="b", bootstrap=None),
        SystemName(name="highwater", bootstrap=None),
        SystemName(name="kafka", bootstrap=None, system="kafka"),
        SystemName(name="c", bootstrap=None, system="kafka"),
    )
    assert options.parse_systems([], "h:9092")[0].bootstrap == "h:9092"
    assert options.parse_systems([], None) == (SystemName(name="highwater", bootstrap=None),)


@pytest.mark.parametrize("text", ["a", "=h:1", "a=", "a=h", "a=h:x", "a=h:0", "a=h:1,", "a=:1"])
def test_no_system(text: str) -> None:
    """What is no name with addresses is refused in a sentence."""
    with pytest.raises(BenchError, match="HOST:PORT"):
        options.parse_systems([text], None)


def test_bootstrap_addresses() -> None:
    """Brackets around an IPv6 address are no part of it."""
    assert options.parse_bootstrap("h:1, [::1]:65535") == [("h", 1), ("::1", 65535)]


def test_numbers() -> None:
    """Ascending, each once."""
    assert options.parse_numbers("--partitions", "1000,100,100", most=1000) == (100, 1000)
    for text in ("", "0", "1001", "-1", "x", "1,,2"):
        with pytest.raises(BenchError, match="--partitions"):
            options.parse_numbers("--partitions", text, most=1000)


def test_acks_and_clients() -> None:
    """As people write them, in the order of their strength."""
    assert options.parse_acks(["all", "0"]) == (0, -1)
    assert options.parse_acks([]) == (0, 1, -1)
    assert options.parse_clients(["librdkafka"]) == (Client.LIBRDKAFKA,)
    with pytest.raises(BenchError, match="none of 0, 1, all"):
        options.parse_acks(["-1"])
    with pytest.raises(BenchError, match="only raw, librdkafka"):
        options.parse_clients(["java"])


def test_measures() -> None:
    """All that is possible, or those named: what stops nodes needs nodes of ours."""
    assert options.parse_measures([], ours=True) == tuple(Measure)
    assert Measure.FAILOVER not in options.parse_measures([], ours=False)
    assert options.parse_measures(["latency"], ours=False) == (Measure.LATENCY,)
    with pytest.raises(BenchError, match="there is only latency, "):
        options.parse_measures(["speed"], ours=True)


def test_properties() -> None:
    """A value may hold an equals sign, a name must be there."""
    assert options.parse_properties(["a.b=1=2"]) == {"a.b": "1=2"}
    for text in ("a", "=1"):
        with pytest.raises(BenchError, match="NAME=VALUE"):
            options.parse_properties([text])


def test_processors() -> None:
    """Only those that this process may use."""
    assert options.parse_cpus("1,0", {0, 1}) == (0, 1)
    with pytest.raises(BenchError, match=r"\[0, 1\]"):
        options.parse_cpus("2", {0, 1})


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"rounds": 0}, "--rounds 0"),
        ({"duration_s": -1.0}, "--duration -1.0"),
        ({"size": 0}, "--size 0"),
        ({"size": 2 << 20}, "at most"),
        ({"duration_s": float("inf")}, "--duration inf: must be above zero, and at most"),
        ({"duration_s": float("nan")}, "--duration nan: must be above zero, and at most"),
        ({"rounds": 10**20}, "at most"),
        ({"size": 1 << 20}, "more than the 15 MB of one request"),
        ({"systems": (SystemName(name="a", bootstrap="h:1"),)}, "only a cluster of our own"),
        ({"systems": (SystemName(name="a", bootstrap=None),) * 2}, "named twice"),
        ({"wanted": Wanted(measures=(), clients=())}, "nothing"),
    ],
)
def test_contradictions(changed: dict[str, Any], why: str) -> None:
    """What cannot be measured is refused before anything starts."""
    with pytest.raises(BenchError, match=why):
        options.check(replace(OPTIONS, **changed))


def test_quick_measures_less() -> None:
    """One short round of the ends of each sweep, whatever was asked for."""
    made = options.quick(OPTIONS)
    assert (made.rounds, made.duration_s) == (1, 0.5)
    assert {p.x for p in made.points if p.measure is Measure.PRODUCER} == {1, 20, 1000}
    assert len(made.points) < len(OPTIONS.points)
    assert options.check(OPTIONS) is OPTIONS
