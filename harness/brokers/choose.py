"""Chooses the broker program of a plan, also one of another package."""

from harness.brokers.built_in import BuiltIn
from harness.brokers.program import BrokerProgram
from harness.plans.plan import SYSTEM_NAMES, Plan, PlanError


def broker_program_of(plan: Plan, *, long_running: bool = False) -> BrokerProgram:
    """Return the plan's broker program. `long_running` nodes may start slowly to be fast later.

    Raises PlanError when the program is not where the plan says, and DeployError when it cannot
    run on this machine.
    """
    match plan.system:
        case "nodes":
            return BuiltIn(plan.broker_module)
        case "kafka":
            from harness.brokers.kafka.program import Kafka

            return Kafka.of(plan, long_running=long_running)
        case "external":
            raise PlanError(f"plan {plan.name}: the harness cannot start an external cluster")
        case _:
            made: BrokerProgram = SYSTEM_NAMES.load(plan.system)(plan)
            return made
