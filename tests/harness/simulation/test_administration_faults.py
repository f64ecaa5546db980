"""Faults of configurations and records in a simulated run: in force, and then gone."""

from typing import Any

import pytest

from harness.simulation.invariants import node_checker
from harness.simulation.invariants.lookups import check_lookup
from harness.simulation.run import Simulation
from nodes.log import timestamps
from nodes.metadata.image import ConfigResource
from nodes.metadata.records import BROKER_RESOURCE, TOPIC_RESOURCE
from nodes.server.requests.list_offsets import ListedOffset
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


def test_records_are_deleted_up_to_random_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs start inside their segments, and lookups by time there are judged."""
    judged: list[tuple[int, int]] = []

    def noted(replica: Any, node: int, wanted_ms: int, answer: ListedOffset) -> None:
        if str(replica.partition).startswith("scratch"):
            judged.append((replica.log.start_offset, wanted_ms))
        check_lookup(replica, node, wanted_ms, answer)

    monkeypatch.setattr(node_checker, "check_lookup", noted)
    event = {"at_ms": 200, "fault": "records.delete", "duration_ms": 3000}
    recording = Simulation(prepared(nemesis={"events": [event]})).run()
    assert recording.failure is None
    (row,) = recording.faults.named()
    assert row["took_effect"]
    assert len({start for start, wanted in judged if wanted > 0 and start > 0}) > 5


def test_broker_that_forgets_where_a_log_starts_inside_a_batch_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The built-in broker once answered the last offset of a batch of which the log has only the
    end, with the time of a deleted record."""
    monkeypatch.setattr(
        timestamps,
        "_largest_in",
        lambda segment, position, header, start: (header.last_offset, header.max_timestamp),
    )
    event = {"at_ms": 200, "fault": "records.delete", "duration_ms": 3000}
    recording = Simulation(prepared(nemesis={"events": [event]})).run()
    assert recording.facts["broken_invariant"]["name"] == "lookups-find-the-first"


def test_compacted_topics_are_cleaned_at_once() -> None:
    """Also those of the coordinators, whose segments are too large to be sealed in a short run."""
    event = {"at_ms": 1500, "fault": "records.compact", "duration_ms": 3000}
    simulation = Simulation(
        prepared(
            broker={"log.cleaner.backoff.ms": "300"},
            simulated={"transactional_producers": 2},
            nemesis={"events": [event]},
            duration_s=6,
        )
    )
    recording = simulation.run()
    assert recording.failure is None
    (row,) = recording.faults.named()
    assert row["took_effect"], row
    assert "__transaction_state/" in str(row["effect"])
    assert " clean up to " in str(row["effect"])
    assert simulation.invariants is not None
    name = ConfigResource(TOPIC_RESOURCE, "__transaction_state")
    left = simulation.invariants.images.newest.configs[name]
    assert "min.cleanable.dirty.ratio" not in left
    assert "segment.ms" not in left
