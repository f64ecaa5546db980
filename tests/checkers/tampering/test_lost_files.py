"""Files that were gone from the nodes' disks before anybody read them are missed."""

from pathlib import Path

import pytest

from checkers.history.history import METADATA_TOPIC
from harness.judging import judge
from harness.simulation.recording import Recording
from tests.support.checkers.tampering.runs import KEPT, make
from tests.support.tiers import in_turn

NODES = ((2,), (1, 3), (1, 2, 3))
PARTITIONS = (("acks-all-0",), ("acks-1-0", "acks-1-1"), (f"{METADATA_TOPIC}-0",))
LATIN_SQUARE = [
    (nodes, PARTITIONS[(row + turn) % 3]) for row, nodes in enumerate(NODES) for turn in range(3)
]
"""Each turn has all nodes and all partitions."""


@pytest.mark.parametrize(
    ("nodes", "partitions"),
    in_turn(
        "checkers/tampering/test_lost_files.py::test_a_replica_that_is_gone_is_missed",
        LATIN_SQUARE,
        of=3,
    ),
)
def test_a_replica_that_is_gone_is_missed(
    nodes: tuple[int, ...], partitions: tuple[str, ...], tmp_path: Path
) -> None:
    """Of one node, of most, of all: no verdict, and the replicas are named."""

    def lose(recording: Recording) -> None:
        for node in nodes:
            disk = recording.disks[node]
            for path, _ in list(disk.files()):
                if path.split("/")[0] in partitions:
                    disk.unlink(path)

    verdict = judge.check(make(KEPT, tmp_path, lose))
    assert verdict["verdict"] == "UNKNOWN"
    assert any("replica's files were read" in reason for reason in verdict["reasons"])
    assert any("not read" in reason for reason in verdict["reasons"])
