"""Chooses the system of a plan: brokers to deploy, or an existing cluster.

Modules that speak Kafka's protocol are imported only when they are needed, because importing them
is slow.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.brokers.choose import broker_program_of
from harness.brokers.zookeeper.server import ZooKeeper
from harness.plans.plan import Plan

if TYPE_CHECKING:
    from harness.recording.store import Run
    from harness.systems.base import DeployedSystem
    from harness.systems.node_roles import Layout
    from harness.targets.base import Target

T = TypeVar("T")


def check(plan: Plan) -> None:
    """Raise PlanError or DeployError for a missing or wrong system, without contacting it."""
    if plan.system == "external":
        from harness.systems import external

        external.check(plan)
    else:
        broker_program_of(plan)
        _ensemble(plan, ZooKeeper.versions)


def reach(plan: Plan) -> None:
    """Contact an external cluster. Raises DeployError."""
    if plan.system == "external":
        from harness.systems import external

        external.reach(plan)


def layout_of(plan: Plan) -> "Layout":
    """Return the roles of the plan's nodes: each is broker and controller, or a broker beside the
    plan's ZooKeeper nodes."""
    from harness.systems.node_roles import Layout

    if plan.control_plane == "zookeeper":
        return Layout.beside_zookeeper(
            brokers=plan.nodes, zookeepers=plan.zookeepers, racks=plan.racks
        )
    return Layout.combined(range(1, plan.nodes + 1), plan.racks)


def versions(plan: Plan) -> Mapping[str, str]:
    """Return the versions that a run depends on because of its system; none if it is external."""
    if plan.system == "external":
        return {}
    return {**broker_program_of(plan).versions(), **(_ensemble(plan, ZooKeeper.versions) or {})}


def reads(plan: Plan) -> Sequence[Path]:
    """Return the files and directories of this machine that the nodes read."""
    if plan.system == "external":
        return ()
    return [
        *broker_program_of(plan).required_files(),
        *(_ensemble(plan, ZooKeeper.required_files) or ()),
    ]


def _ensemble(plan: Plan, ask: Callable[[ZooKeeper], T]) -> T | None:
    """Return what ZooKeeper's program says; None for a plan without ZooKeeper. Raises PlanError,
    DeployError when there is no ZooKeeper or no Java."""
    return ask(ZooKeeper.find()) if plan.control_plane == "zookeeper" else None


def system_of(plan: Plan, target: "Target", run: "Run", layout: "Layout") -> "DeployedSystem":
    """Make the plan's system on a target."""
    if plan.system == "external":
        from harness.systems.external import ExternalSystem

        return ExternalSystem(plan, target, run)
    from harness.systems.brokers import BrokerSystem

    return BrokerSystem(plan, target, run, layout)
