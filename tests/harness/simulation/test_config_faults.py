"""Configurations of brokers and throttles in a simulated run: in force, and then gone."""

from harness.simulation.run import Simulation
from nodes.metadata.image import ConfigResource
from nodes.metadata.records import BROKER_RESOURCE, TOPIC_RESOURCE
from tests.support.simulation.plans import prepared

EVENTS = {
    "events": [
        {
            "at_ms": 200,
            "fault": "config.broker",
            "duration_ms": 1500,
            "params": {"name": "log.roll.ms", "value": "1000"},
        },
        {
            "at_ms": 300,
            "fault": "config.throttle",
            "duration_ms": 2500,
            "params": {"bytes_per_s": "700"},
        },
        {
            "at_ms": 400,
            "fault": "config.throttle",
            "duration_ms": 1500,
            "params": {"bytes_per_s": "900"},
        },
    ],
    "overlap": 3,
}


def test_configs_of_brokers_and_throttles_are_set_and_removed() -> None:
    """Each is seen in force; after the heals the cluster has none of them."""
    simulation = Simulation(prepared(nemesis=EVENTS))
    recording = simulation.run()
    assert recording.failure is None
    rows = recording.faults.named()
    assert [row["took_effect"] for row in rows] == [True, True, True]
    assert simulation.invariants is not None
    left = simulation.invariants.images.newest.configs
    assert set(left[ConfigResource(BROKER_RESOURCE, "")]) == {"min.insync.replicas"}
    topic = left[ConfigResource(TOPIC_RESOURCE, "acks-all")]
    assert topic["leader.replication.throttled.replicas"] == ""
