"""Options of a benchmark: parsing, and the messages of refusals."""

from dataclasses import replace
from typing import Any

import pytest

from harness.admin.errors import BadRequest
from harness.bench import options
from harness.bench.options import BenchError, MeasuredSystem, Options
from harness.bench.points import Client, Measure, PointSelection

OPTIONS = Options(
    selection=PointSelection(measures=tuple(Measure), clients=()),
    systems=(MeasuredSystem(name="highwater", bootstrap=None),),
    rounds=3,
    warmup_s=0.0,
    duration_s=2.0,
    size=1024,
    seed=0,
    broker={},
    broker_module="nodes",
    client_cpus=(),
    check_crcs=False,
)


def test_systems_are_parsed_from_their_names() -> None:
    """Addresses, started clusters under any name, and the built-in cluster without a name."""
    named = ["a=h:1,[::1]:2", "b=builtin", "builtin", "kafka", "c=kafka"]
    assert options.parse_systems(named, None) == (
        MeasuredSystem(name="a", bootstrap="h:1,[::1]:2"),
        MeasuredSystem(name="b", bootstrap=None),
        MeasuredSystem(name="highwater", bootstrap=None),
        MeasuredSystem(name="kafka", bootstrap=None, system="kafka"),
        MeasuredSystem(name="c", bootstrap=None, system="kafka"),
    )
    assert options.parse_systems([], "h:9092")[0].bootstrap == "h:9092"
    assert options.parse_systems([], None) == (MeasuredSystem(name="highwater", bootstrap=None),)


def test_clusters_of_both_control_planes_are_started_by_name() -> None:
    """A name of one's own may stand before it."""
    [old, named] = options.parse_systems(["builtin-one-by-one", "mine=kafka-3.9-zookeeper"], None)
    assert old.zookeeper
    assert old.properties == (("control.batched", "false"),)
    assert (named.name, named.system, named.zookeeper, named.kafka_39) == (
        "mine", "kafka", True, True,
    )  # fmt: skip


def test_control_planes_stands_for_all_outages_and_the_creation() -> None:
    """Each of them once."""
    found = options.parse_measures(["control-planes", "failover"], ours=True)
    assert found == (Measure.CREATION, Measure.FAILOVER, Measure.SHUTDOWN, Measure.CONTROLLER)


@pytest.mark.parametrize("text", ["a", "=h:1", "a=", "a=h", "a=h:x", "a=h:0", "a=h:65536", "a=:1"])
def test_system_without_name_or_address_is_refused(text: str) -> None:
    with pytest.raises((BenchError, BadRequest), match=r"(?i)host:port"):
        options.parse_systems([text], None)


def test_numbers_are_sorted_and_unique() -> None:
    assert options.parse_numbers("--partitions", "1000,100,100", most=1000) == (100, 1000)
    for text in ("", "0", "1001", "-1", "x", "1,,2"):
        with pytest.raises(BenchError, match="--partitions"):
            options.parse_numbers("--partitions", text, most=1000)


def test_acks_and_clients_are_parsed() -> None:
    """Acks modes come weakest first."""
    assert options.parse_acks(["all", "0"]) == (0, -1)
    assert options.parse_acks([]) == (0, 1, -1)
    assert options.parse_clients(["librdkafka"]) == (Client.LIBRDKAFKA,)
    with pytest.raises(BenchError, match="none of 0, 1, all"):
        options.parse_acks(["-1"])
    with pytest.raises(BenchError, match="none of raw, librdkafka"):
        options.parse_clients(["java"])


def test_measures_that_stop_nodes_need_a_started_cluster() -> None:
    assert options.parse_measures([], ours=True) == tuple(Measure)
    assert Measure.FAILOVER not in options.parse_measures([], ours=False)
    assert Measure.COMPACTION not in options.parse_measures([], ours=False)
    assert options.parse_measures(["latency"], ours=False) == (Measure.LATENCY,)
    with pytest.raises(BenchError, match="is none of latency, "):
        options.parse_measures(["speed"], ours=True)


def test_only_available_processors_are_accepted() -> None:
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
        ({"warmup_s": -1.0}, "--warm-up -1.0: must be zero or more"),
        ({"warmup_s": float("nan")}, "--warm-up nan"),
        ({"size": 1 << 20}, "more than the 15 MB of one request"),
        (
            {"systems": (MeasuredSystem(name="a", bootstrap="h:1"),)},
            "needs a cluster that the benchmark starts",
        ),
        ({"systems": (MeasuredSystem(name="a", bootstrap=None),) * 2}, "named twice"),
        ({"selection": PointSelection(measures=(), clients=())}, "nothing"),
    ],
)
def test_contradictory_options_are_refused(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(BenchError, match=why):
        options.check(replace(OPTIONS, **changed))


def test_quick_measures_one_short_round_of_the_ends_of_each_sweep() -> None:
    made = options.quick(replace(OPTIONS, warmup_s=5.0))
    assert (made.rounds, made.duration_s, made.warmup_s) == (1, 0.5, 0.0)
    assert {p.x for p in made.points if p.measure is Measure.PRODUCER} == {1, 20, 1000}
    assert len(made.points) < len(OPTIONS.points)
    assert options.check(OPTIONS) is OPTIONS
