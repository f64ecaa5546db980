"""The client libraries of a plan's workloads: whether they are installed, and what they can do."""

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from harness.plans.plan import ClientName, Plan, PlanError, Workload
from harness.plans.workloads import (
    PRODUCE,
    PROGRAM,
    CopyWorkload,
    FurtherWorkload,
    GroupWorkload,
)
from harness.workloads.clients.program import java
from harness.workloads.clients.program.process import ProgramFailed, introduce
from harness.workloads.clients.program.protocol import Introduction

PACKAGES: Final[Mapping[ClientName, str]] = {
    "librdkafka": "confluent-kafka",
    "own": "highwater",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
}
"""The Python package of each client that has one."""

AIOKAFKA: Final = "harness.workloads.further.aiokafka.program"
"""The program that runs further workloads with aiokafka."""

AnyWorkload = Workload | FurtherWorkload


def check(plan: Plan) -> None:
    """Raise PlanError when a client of the plan is not installed, or cannot do what its workload
    needs."""
    workloads: list[AnyWorkload] = [*plan.more_workloads]
    if plan.workload.producers + plan.workload.consumers:
        workloads.insert(0, plan.workload)
    for workload in workloads:
        where = f"plan {plan.name}: workload.client {workload.client}"
        if workload.client in PACKAGES:
            _check_package(workload.client, where)
        else:
            _check_program(workload, where)


def name_and_version(workload: AnyWorkload) -> str:
    """Return the client of a workload and its version, for reports."""
    client = workload.client
    if client == "librdkafka":
        from confluent_kafka import libversion

        return f"librdkafka {libversion()[0]} (confluent-kafka {version(PACKAGES[client])})"
    if client in PACKAGES:
        return f"{client} {version(PACKAGES[client])}"
    try:
        found = introduce(command(workload))
    except (PlanError, ProgramFailed) as error:
        return f"{client} ({error})"
    return f"{client} {found.name} {found.version}"


def command(workload: AnyWorkload) -> Sequence[str]:
    """Return the command that starts the program with a workload's clients; empty if its client
    needs no program. Raises PlanError."""
    if workload.client == "aiokafka" and not isinstance(workload, Workload):
        return [sys.executable, "-m", AIOKAFKA]
    if workload.client in PACKAGES:
        return []
    return list(workload.client_command) if workload.client == PROGRAM else java.command()


def _check_package(client: ClientName, where: str) -> None:
    try:
        version(PACKAGES[client])
    except PackageNotFoundError as error:
        raise PlanError(
            f"{where} is not installed: "
            "pip install 'highwater[clients]', or choose librdkafka or own"
        ) from error


def _check_program(workload: AnyWorkload, where: str) -> None:
    try:
        found = introduce(command(workload))
    except ProgramFailed as error:
        raise PlanError(f"{where}: {error}; see docs/clients-protocol.md") from error
    kind = PRODUCE if isinstance(workload, Workload) else workload.kind
    _check_can(kind, found.kinds, found, where)
    if isinstance(workload, GroupWorkload | CopyWorkload):
        _check_can(workload.protocol, found.group_protocols, found, where)


def _check_can(wanted: str, possible: Sequence[str], found: Introduction, where: str) -> None:
    if wanted not in possible:
        raise PlanError(
            f"{where}: {found.name} {found.version} cannot do {wanted}: it can do "
            f"{', '.join(possible) or 'nothing'}; give this workload another client"
        )
