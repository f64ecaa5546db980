"""The client libraries of a workload: their packages, and whether they are installed."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from harness.plans.plan import ClientName, Plan, PlanError

PACKAGES: Final[Mapping[ClientName, str]] = {
    "librdkafka": "confluent-kafka",
    "own": "highwater",
    "kafka-python": "kafka-python",
    "aiokafka": "aiokafka",
}


def check(plan: Plan) -> None:
    """Raise PlanError when the plan's client is not installed."""
    client = plan.workload.client
    try:
        version(PACKAGES[client])
    except PackageNotFoundError as error:
        raise PlanError(
            f"plan {plan.name}: workload.client {client} is not installed: "
            "pip install 'highwater[clients]', or choose librdkafka or own"
        ) from error


def name_and_version(client: ClientName) -> str:
    """Return the client and its version, for reports."""
    if client == "own":
        return f"own {version(PACKAGES[client])}"
    if client == "librdkafka":
        from confluent_kafka import libversion

        return f"librdkafka {libversion()[0]} (confluent-kafka {version(PACKAGES[client])})"
    return f"{client} {version(PACKAGES[client])}"
