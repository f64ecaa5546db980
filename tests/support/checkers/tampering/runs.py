"""The two runs that are tampered with: of a simulated world, as `simulate` stores them."""

from collections.abc import Callable
from pathlib import Path

from harness.judging import judge
from harness.plans.plan import Plan
from harness.run.prepare import prepare
from harness.simulation.campaign import apply_broker_module
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation

TOPICS = (
    {"name": "acks-1", "acks": 1, "partitions": 2},
    {"name": "acks-all", "acks": -1, "partitions": 2, "idempotence": True},
)
EVENTS = (
    {
        "at_ms": 1000,
        "fault": "partition.isolate-leader",
        "targets": "leader:acks-all/0",
        "duration_ms": 4000,
    },
    {"at_ms": 6500, "fault": "kill", "targets": "leader:acks-1/0", "duration_ms": 1500},
)
KEPT = "nodes"
BROKEN = "harness.zoo.mutants.ack_before_replication"


def make(
    module: str, root: Path, before: Callable[[Recording], None] = lambda recording: None
) -> Path:
    """The directory of a run of a broker, unmodified or broken by a module, ready to be judged.
    before: what is done before the nodes' files are read."""
    plan = Plan.from_json(
        {
            "name": "tampering",
            "seed": 3,
            "target": "sim",
            "broker_module": module,
            "warmup_s": 1,
            "duration_s": 9,
            "topics": TOPICS,
            "workload": {"producers": 1, "consumers": 1, "rate_per_s": 20},
            "nemesis": {"events": EVENTS},
        },
        "tampering",
    )
    with apply_broker_module(module):
        recording = Simulation(prepare(plan), invariants=False).run()
    before(recording)
    run = recording.store(root, versions={}, commit=None).path
    judge.complete_run(run)
    return run
