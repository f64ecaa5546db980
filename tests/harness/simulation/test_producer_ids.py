"""Producer ids in simulated runs: each is given once."""

from dataclasses import replace
from typing import Any

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.images import Images
from harness.simulation.invariants.producer_ids import ProducerIds
from harness.simulation.run import Simulation
from nodes.controller.controller import Controller
from nodes.ids import Offset
from nodes.log.producer_state import Producers
from nodes.metadata.image import ClusterImage
from tests.support.simulation.plans import prepared

CHANGING = {
    "client": "own",
    "producers": 3,
    "rate_per_s": 10,
    "sends_per_producer": 8,
    "message_timeout_ms": 300,
    "zombie_batches": True,
}
FENCING = {**CHANGING, "sends_per_producer": 0, "rate_per_s": 20, "message_timeout_ms": 150}
KILLS = {
    "events": [
        {"at_ms": at_ms, "fault": "kill", "targets": "leader:acks-all/0", "duration_ms": 1000}
        for at_ms in (1000, 3500)
    ]
}


def test_second_producer_with_an_id_breaks_producer_ids_once() -> None:
    """Whichever node gives it."""
    for second in (1, 2):
        ids = ProducerIds()
        ids.given(7, 1)
        ids.given(8, 2)
        with pytest.raises(InvariantBroken, match="producer-ids-once"):
            ids.given(7, second)


def test_next_producer_id_that_goes_back_breaks_producer_ids_once() -> None:
    """A new controller would give a block again."""
    images = Images()
    images.seen(1, replace(ClusterImage(), offset=Offset(5), next_producer_id=2000))
    with pytest.raises(InvariantBroken, match="producer-ids-once"):
        images.seen(1, replace(ClusterImage(), offset=Offset(6), next_producer_id=1000))


def test_controller_that_gives_a_block_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second broker gives its first id."""
    allocate = Controller.allocate_producer_ids

    def again(self: Controller, *args: Any) -> Any:
        found = allocate(self, *args)
        same = [replace(each, next_producer_id=found.response.start) for each in found.records]
        return replace(found, records=same)

    monkeypatch.setattr(Controller, "allocate_producer_ids", again)
    recording = Simulation(prepared(workload=CHANGING)).run()
    assert recording.facts["broken_invariant"]["name"] == "producer-ids-once"


@pytest.mark.parametrize("fenced", [True, False])
def test_broker_that_accepts_an_ended_epoch_is_found(
    monkeypatch: pytest.MonkeyPatch, *, fenced: bool
) -> None:
    """Its batch is appended a second time; a sound broker refuses it."""
    check = Producers.check
    refused: list[int] = []

    def lenient(self: Producers, header: Any, whole_log: Any, guard: Any = None) -> Any:
        known = self.get(header.producer_id)
        old = known is not None and header.producer_epoch < known.epoch
        refused.extend([header.producer_epoch] if old else [])
        if old and not fenced:
            return None
        return check(self, header, whole_log, guard)

    monkeypatch.setattr(Producers, "check", lenient)
    recording = Simulation(prepared(workload=FENCING, nemesis=KILLS)).run()
    assert refused
    broken = recording.facts.get("broken_invariant")
    assert (broken is None) if fenced else (broken is not None and broken["name"] == "sequences")
