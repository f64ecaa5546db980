"""The client libraries of a plan's workloads: whether they are installed, and what they can do."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from harness.plans.app_workload import AppWorkload
from harness.plans.plan import Plan, PlanError, Workload
from harness.plans.workload_kind import WorkloadKind
from harness.plans.workload_kinds import PRODUCE
from harness.plans.workloads import (
    CLIENT_NAMES,
    PROGRAM,
    CompactedWorkload,
    CopyWorkload,
    FurtherWorkload,
    GroupWorkload,
)
from harness.workloads.clients.program import java
from harness.workloads.clients.program.process import ProgramFailed, introduce
from harness.workloads.clients.program.protocol import TOPICS_SINCE, Introduction

PACKAGES: Final[Mapping[str, str]] = {
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
    for workload in _with_clients(plan):
        where = f"plan {plan.name}: workload.client {workload.client}"
        if workload.client in PACKAGES:
            _check_package(workload.client, where)
        else:
            _check_program(workload, where)


def names_and_versions(plan: Plan) -> str:
    """Return the clients of a plan's workloads and their versions, for reports."""
    return ", ".join(dict.fromkeys(map(name_and_version, _with_clients(plan))))


def _with_clients(plan: Plan) -> Iterator[AnyWorkload]:
    if plan.workload.producers + plan.workload.consumers:
        yield plan.workload
    yield from plan.more_workloads


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
    if workload.client == "aiokafka" and not isinstance(workload, Workload | CompactedWorkload):
        return [sys.executable, "-m", AIOKAFKA]
    if workload.client in PACKAGES:
        return []
    if workload.client == PROGRAM and not isinstance(workload, AppWorkload | WorkloadKind):
        return list(workload.client_command)
    return java.command() if workload.client == "java" else _of_others(workload.client)


def _of_others(client: str) -> Sequence[str]:
    """Return the command of another package's client program. Raises PlanError."""
    try:
        found = [str(part) for part in CLIENT_NAMES.load(client)()]
    except PlanError:
        raise
    except Exception as error:
        raise PlanError(
            f"workload.client {client}: its package "
            f"({CLIENT_NAMES.packages()[client]}) gave no command: {type(error).__name__}: {error}"
        ) from error
    if not found:
        raise PlanError(f"workload.client {client}: its package gave an empty command")
    return found


def _check_package(client: str, where: str) -> None:
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
        if len(workload.read_topics) > 1 and found.protocol < TOPICS_SINCE:
            raise PlanError(
                f"{where}: {found.name} {found.version} speaks version {found.protocol} of the "
                "clients' protocol, in which a member of a group has one topic; give the group one "
                f"topic, or a client that speaks version {TOPICS_SINCE}, or librdkafka or own"
            )


def _check_can(wanted: str, possible: Sequence[str], found: Introduction, where: str) -> None:
    if wanted not in possible:
        raise PlanError(
            f"{where}: {found.name} {found.version} cannot do {wanted}: it can do "
            f"{', '.join(possible) or 'nothing'}; give this workload another client"
        )
