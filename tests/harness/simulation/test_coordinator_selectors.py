"""Faults of nodes hit the coordinator of a group or of a transactional id in a simulated run."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from harness.simulation.run import Simulation
from nemesis import executor
from nemesis.faults.catalogue import FAULTS
from nemesis.selectors import Selection
from nodes.coordinators.partitioning import partition_for
from tests.support.simulation.plans import prepared

KEY: Final = "some-key"
TOPIC_OF: Final = {
    "group-coordinator": "__consumer_offsets",
    "transaction-coordinator": "__transaction_state",
}
DAMAGE: Final = ("disk.bit-flip", "disk.cut-tail", "disk.misdirected", "disk.stale-copy")
"""They need a file of some kind, and leave a node that may not lead."""
NODE_FAULTS: Final = tuple(
    name
    for name, fault in FAULTS.items()
    if fault.default_selector == "one"
    and fault.selectable
    and fault.min_nodes == 1
    and name not in (*DAMAGE, "disk.lost", "machine-power-loss")
)
PAUSE_MS: Final = 4000
PARTITIONS: Final = 3
"""Of an internal topic, in a run."""


def events(names: Sequence[str]) -> list[dict[str, Any]]:
    """Each fault in its turn, on one coordinator after the other."""
    kinds = tuple(TOPIC_OF)
    return [
        {
            "at_ms": 1000 + PAUSE_MS * number,
            "fault": name,
            "targets": f"{kinds[number % 2]}:{KEY}",
            "duration_ms": 1000,
        }
        for number, name in enumerate(names)
    ]


@pytest.mark.parametrize("part", range(3))
def test_node_faults_hit_the_leader_of_the_partition_of_the_key(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fault takes effect on the node that coordinates at that moment."""
    names = NODE_FAULTS[part::3]
    assert len(names) > 5
    leaders: list[int | None] = []
    simulation: Simulation

    def resolve(expression: str, *others: Any) -> Selection:
        found = original(expression, *others)
        assert simulation.invariants is not None
        topic = TOPIC_OF[expression.partition(":")[0]]
        at = topic, partition_for(KEY, PARTITIONS)
        partition = simulation.invariants.images.newest.partition(*at)
        assert partition is not None
        leaders.append(partition.leader)
        return found

    original = executor.resolve
    monkeypatch.setattr(executor, "resolve", resolve)
    duration_s = PAUSE_MS / 1000 * (len(names) + 1)
    simulation = Simulation(prepared(nemesis={"events": events(names)}, duration_s=duration_s))
    recording = simulation.run()
    assert recording.failure is None
    rows = recording.faults.named()
    assert [row["fault"] for row in rows] == list(names)
    assert [(row["fault"], row["error"]) for row in rows if row["error"]] == []
    assert [json.loads(str(row["targets"]))["meant"] for row in rows] == [[n] for n in leaders]
    assert [row["fault"] for row in rows if not row["took_effect"]] == []
