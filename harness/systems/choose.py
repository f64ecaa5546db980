"""Chooses the system of a plan: brokers to deploy, or an existing cluster.

Modules that speak Kafka's protocol are imported only when they are needed, because importing them
is slow.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.brokers.choose import broker_program_of
from harness.plans.plan import Plan

if TYPE_CHECKING:
    from harness.recording.store import Run
    from harness.systems.base import DeployedSystem
    from harness.systems.node_roles import Layout
    from harness.targets.base import Target


def check(plan: Plan) -> None:
    """Raise PlanError or DeployError for a missing or wrong system, without contacting it."""
    if plan.system == "external":
        from harness.systems import external

        external.check(plan)
    else:
        broker_program_of(plan)


def reach(plan: Plan) -> None:
    """Contact an external cluster. Raises DeployError."""
    if plan.system == "external":
        from harness.systems import external

        external.reach(plan)


def versions(plan: Plan) -> Mapping[str, str]:
    """Return the versions that a run depends on because of its system; none if it is external."""
    return {} if plan.system == "external" else broker_program_of(plan).versions()


def reads(plan: Plan) -> Sequence[Path]:
    """Return the files and directories of this machine that the nodes read."""
    return () if plan.system == "external" else broker_program_of(plan).required_files()


def system_of(plan: Plan, target: "Target", run: "Run", layout: "Layout") -> "DeployedSystem":
    """Make the plan's system on a target."""
    if plan.system == "external":
        from harness.systems.external import ExternalSystem

        return ExternalSystem(plan, target, run)
    from harness.systems.brokers import BrokerSystem

    return BrokerSystem(plan, target, run, layout)
