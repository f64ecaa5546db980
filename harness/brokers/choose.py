"""Which make of broker a plan means."""

from typing import assert_never

from harness.brokers.built_in import BuiltIn
from harness.brokers.program import Make
from harness.plans.plan import Plan, PlanError


def make_of(plan: Plan, *, lasting: bool = False) -> Make:
    """The plan's make; `lasting` nodes may start slowly to be fast later.

    Raises PlanError when there is none where the plan says, DeployError when it cannot run here.
    """
    match plan.system:
        case "nodes":
            return BuiltIn(plan.broker_module)
        case "kafka":
            from harness.brokers.kafka.program import Kafka

            return Kafka.of(plan, lasting=lasting)
        case "external":
            raise PlanError(f"plan {plan.name}: an external cluster is not ours to start")
        case _:
            assert_never(plan.system)
