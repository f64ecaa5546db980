"""Which system a plan means: brokers to deploy, of some make, or a cluster that is there.

What asks clusters is loaded when it is needed: the protocol takes its time to load.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.brokers.choose import broker_program_of
from harness.plans.plan import Plan

if TYPE_CHECKING:
    from harness.recording.store import Run
    from harness.systems.base import Deployed
    from harness.systems.node_roles import Layout
    from harness.targets.base import Target


def check(plan: Plan) -> None:
    """Raises PlanError or DeployError for a system that can be seen to be missing or wrong."""
    if plan.system == "external":
        from harness.systems import external

        external.check(plan)
    else:
        broker_program_of(plan)


def reach(plan: Plan) -> None:
    """Ask a cluster that has to be there already. Raises DeployError."""
    if plan.system == "external":
        from harness.systems import external

        external.reach(plan)


def versions(plan: Plan) -> Mapping[str, str]:
    """What a run depends on because of it; of a cluster of others nobody knows."""
    return {} if plan.system == "external" else broker_program_of(plan).versions()


def reads(plan: Plan) -> Sequence[Path]:
    """Files and directories of this machine that its nodes read."""
    return () if plan.system == "external" else broker_program_of(plan).required_files()


def system_of(plan: Plan, target: "Target", run: "Run", layout: "Layout") -> "Deployed":
    """The plan's system on a target."""
    if plan.system == "external":
        from harness.systems.external import ExternalSystem

        return ExternalSystem(plan, target, run)
    from harness.systems.brokers import BrokerSystem

    return BrokerSystem(plan, target, run, layout)
