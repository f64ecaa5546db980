"""Racks of a plan in a simulated cluster."""

from typing import Any

from harness.simulation.run import Simulation
from nodes.metadata.image import ClusterImage
from tests.support.simulation.plans import prepared

TOPICS = [{"name": "t", "acks": -1, "partitions": 6, "replication_factor": 2}]


def racks_of(**changes: Any) -> tuple[dict[int, str | None], ClusterImage]:
    """Run four nodes in two racks; return the racks of all brokers that were seen, and the newest
    metadata."""
    simulation = Simulation(prepared(nodes=4, racks=["a", "b"], topics=TOPICS, **changes))
    seen: dict[int, str | None] = {}
    assert simulation.invariants is not None
    images = simulation.invariants.images
    judge = images._judge

    def noted(before: ClusterImage, image: ClusterImage) -> None:
        seen.update({node: broker.rack for node, broker in image.brokers.items()})
        judge(before, image)

    images._judge = noted  # type: ignore[method-assign]
    assert simulation.run().failure is None
    return seen, images.newest


def test_replicas_are_spread_over_the_racks_of_the_plan() -> None:
    """Nodes get the racks in turn."""
    racks, image = racks_of()
    assert racks == {1: "a", 2: "b", 3: "a", 4: "b"}
    (topic,) = (each for each in image.topics.values() if each.name == "t")
    placed = [partition.replicas for partition in topic.partitions.values()]
    assert all({racks[node] for node in nodes} == {"a", "b"} for nodes in placed)


def test_broker_that_joins_gets_the_rack_with_the_fewest_brokers() -> None:
    """As in a run with real processes."""
    join = {"at_ms": 200, "fault": "broker.add", "duration_ms": 2000}
    racks, _ = racks_of(nemesis={"events": [join]})
    assert racks == {1: "a", 2: "b", 3: "a", 4: "b", 5: "a"}
