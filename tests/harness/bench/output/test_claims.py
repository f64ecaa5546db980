"""What is said of the sources' claims about control planes."""

from dataclasses import replace
from typing import Any

import pytest

from harness.bench.output import claims, page, plots, table
from harness.bench.points import Client, Measure, Point, Sweep
from harness.bench.results import Result, Sample

SYSTEMS: list[dict[str, Any]] = [
    {"name": "new", "system": "nodes", "control_plane": "quorum", "bootstrap": None},
    {"name": "old", "system": "nodes", "control_plane": "zookeeper", "bootstrap": None},
]


def point(partitions: int, measure: Measure = Measure.SHUTDOWN) -> Point:
    """A point of the sweep over partitions."""
    return Point(
        measure=measure, sweep=Sweep.PARTITIONS, client=Client.RAW, acks=-1, partitions=partitions
    )


def result(times: dict[str, dict[int, float]], systems: Any = None) -> Result:
    """A result with these times until the node was down, by system and partitions."""
    return Result(
        started="2026-01-01T00:00:00+00:00",
        seconds=1.0,
        options={"rounds": 1, "duration_s": 1.0, "size": 1, "session_timeout_ms": 2000},
        systems=SYSTEMS if systems is None else systems,
        machine={
            "cpu": "x", "cores": 2, "memory": "1", "load_before": [0], "load_after": [0],
            "commit": "c", "versions": {"kernel": "k", "python": "p"},
        },
        samples=[
            Sample(
                point=point(partitions), system=name, round=0,
                values={"gap_ms": 5.0, "stopped_ms": value},
            )
            for name, found in times.items()
            for partitions, value in found.items()
        ],
    )  # fmt: skip


def test_each_cluster_is_held_against_the_claim_about_its_control_plane() -> None:
    """The claim is that the old times grow and the new ones do not."""
    found = claims.findings(
        result({"new": {100: 10.0, 10_000: 15.0}, "old": {100: 10.0, 10_000: 800.0}})
    )
    assert len(found) == 2
    [old, new] = sorted(found, key=lambda text: "new" in text)
    assert "old, node down after ms: 10 and 800, 80.0 times as long for 100 times" in old
    assert "(it grows) holds here" in old
    assert "(it stays flat) holds here" in new


def test_end_of_a_session_is_left_out_of_the_growth() -> None:
    """It is the same for any number of partitions."""
    made = result({"new": {100: 1.0, 1000: 1.0}, "old": {100: 1.0, 1000: 1.0}})
    samples = [
        Sample(
            point=point(partitions, Measure.FAILOVER), system="old", round=0,
            values={"gap_ms": gap_ms},
        )
        for partitions, gap_ms in ((100, 2_100.0), (1000, 2_900.0))
    ]  # fmt: skip
    [found] = claims.findings(replace(made, samples=samples))
    assert "2,100 and 2,900, 9.0 times as long (without the 2,000 ms of the session)" in found


def test_claim_that_does_not_hold_is_said_plainly() -> None:
    """Either way."""
    found = claims.findings(
        result({"new": {100: 10.0, 1000: 90.0}, "old": {100: 10.0, 1000: 11.0}})
    )
    assert len(found) == 2
    assert all("does not hold here" in text for text in found)


@pytest.mark.parametrize(
    "times",
    [
        {"new": {100: 1.0, 900: 1.0}, "old": {100: 1.0, 900: 9.0}},
        {"new": {100: 1.0}, "old": {100: 1.0}},
    ],
)
def test_few_partitions_prove_nothing(times: dict[str, dict[int, float]]) -> None:
    """A claim about growth needs ten times the partitions."""
    assert claims.findings(result(times)) == []


def test_one_control_plane_alone_proves_nothing() -> None:
    """The published figures are left out, too."""
    made = result({"new": {100: 1.0, 1000: 1.0}}, SYSTEMS[:1])
    assert claims.findings(made) == []
    assert not any("published" in line for line in table.notes(made))


def test_claims_are_drawn_beside_the_curves_and_told_in_the_notes() -> None:
    """Linear for ZooKeeper, flat for the quorum; each begins at its curve."""
    made = result({"new": {100: 10.0, 1000: 10.0}, "old": {100: 10.0, 1000: 90.0}})
    drawn = {plot.title: [each.text for each in plot.claims] for plot in plots.plots(made)}
    assert drawn == {
        "Controlled shutdown of a leader: gap in acknowledgements": [],
        "Controlled shutdown of a leader: node down after ms": [
            "claim, zookeeper: linear",
            "claim, quorum: flat",
        ],
    }
    text = page.render(made, command="highwater bench control-planes")
    assert "claim, zookeeper: linear" in text
    assert any("135 s" in line for line in table.notes(made))
