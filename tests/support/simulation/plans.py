"""Small plans for the simulator, and recordings of them."""

from functools import cache
from typing import Any

from harness.plans.plan import Plan
from harness.run.prepare import Prepared, prepare
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation

TOPICS = (
    {"name": "acks-1", "acks": 1, "partitions": 1},
    {"name": "acks-all", "acks": -1, "partitions": 2, "idempotence": True},
)


def small(**changes: Any) -> Plan:
    """Return a plan of a few seconds with three nodes, without faults unless `changes` has some."""
    raw: dict[str, Any] = {
        "name": "small",
        "seed": 1,
        "target": "sim",
        "warmup_s": 0.5,
        "duration_s": 5,
        "topics": TOPICS,
        "workload": {"client": "own", "producers": 1, "rate_per_s": 5},
    }
    return Plan.from_json(raw | changes, "small")


def prepared(**changes: Any) -> Prepared:
    """Return the run of such a plan."""
    return prepare(small(**changes))


@cache
def quiet() -> Recording:
    """Return the recording of a run without faults. Do not change it."""
    return Simulation(prepared()).run()


KILLS = {
    "events": [
        {"name": "first", "at_ms": 500, "fault": "kill", "targets": "leader", "duration_ms": 2500}
    ]
}
