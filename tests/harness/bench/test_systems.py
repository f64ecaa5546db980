"""Which cluster is started for a system that is measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench import systems
from harness.bench.options import SystemName
from harness.plans.plan import PlanError
from tests.harness.bench.test_options import OPTIONS

KAFKA = SystemName(name="k", bootstrap=None, system="kafka")


def test_each_system_gets_its_own_plan() -> None:
    """The broker's module is the built-in one's alone, the properties are everybody's."""
    options = replace(OPTIONS, broker_module="mine", kafka_home="/k")
    broker = {"num.partitions": "2"}
    plan = systems.plan_of(options.systems[0], options, broker)
    assert (plan.system, plan.broker_module, plan.broker) == ("nodes", "mine", broker)
    plan = systems.plan_of(KAFKA, options, broker)
    assert (plan.system, plan.kafka_home, plan.broker) == ("kafka", "/k", broker)


def test_a_kafka_that_is_not_there_is_said_first(tmp_path: Path) -> None:
    """Before anything is measured; somebody's servers are not looked for."""
    theirs = SystemName(name="t", bootstrap="nobody:9092")
    systems.check(replace(OPTIONS, systems=(theirs,)))
    with pytest.raises(PlanError, match=f"no Kafka 4 at {tmp_path}"):
        systems.check(replace(OPTIONS, systems=(theirs, KAFKA), kafka_home=str(tmp_path)))
