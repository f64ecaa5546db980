"""The cluster that is started for a measured system."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench import options, systems
from harness.bench.options import MeasuredSystem
from harness.plans.plan import PlanError
from tests.harness.bench.test_options import OPTIONS

KAFKA = MeasuredSystem(name="k", bootstrap=None, system="kafka")


def test_each_system_gets_its_own_plan() -> None:
    """The broker module is for the built-in broker alone; the properties are for all systems."""
    options = replace(OPTIONS, broker_module="mine", kafka_home="/k")
    broker = {"num.partitions": "2"}
    plan = systems.plan_of(options.systems[0], options, broker)
    assert (plan.system, plan.broker_module, plan.broker) == ("nodes", "mine", broker)
    plan = systems.plan_of(KAFKA, options, broker)
    assert (plan.system, plan.kafka_home, plan.broker) == ("kafka", "/k", broker)


def test_cluster_beside_zookeeper_has_a_plan_beside_zookeeper() -> None:
    """Its own properties go before those of all clusters."""
    [old] = options.parse_systems(["builtin-one-by-one"], None)
    plan = systems.plan_of(old, OPTIONS, {"num.partitions": "2"})
    assert plan.control_plane == "zookeeper"
    assert plan.broker == {"num.partitions": "2", "control.batched": "false"}


def test_clusters_that_cannot_be_started_are_named_with_the_reason(tmp_path: Path) -> None:
    """The others are measured."""
    asked = replace(OPTIONS, kafka_home=str(tmp_path))
    found, missing = systems.startable(("builtin", "kafka"), asked)
    assert [each.name for each in found] == ["builtin"]
    assert f"no Kafka 4 at {tmp_path}" in missing["kafka"]


def test_missing_kafka_distribution_is_refused_before_the_benchmark(tmp_path: Path) -> None:
    """Running servers are not checked here."""
    theirs = MeasuredSystem(name="t", bootstrap="nobody:9092")
    systems.check(replace(OPTIONS, systems=(theirs,)))
    with pytest.raises(PlanError, match=f"no Kafka 4 at {tmp_path}"):
        systems.check(replace(OPTIONS, systems=(theirs, KAFKA), kafka_home=str(tmp_path)))
