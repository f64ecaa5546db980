"""Lookups by time in simulated runs: clients ask them, and wrong answers are found."""

from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.invariants import InvariantBroken, node_checker
from harness.simulation.invariants.lookups import check_lookup
from harness.simulation.run import Simulation
from nodes.ids import Epoch, Offset
from nodes.log.config import LogConfig
from nodes.log.segment import Segment
from nodes.server.requests.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import batch, open_log
from tests.support.simulation.plans import prepared

ASKING = {"lookups_per_s": 20.0}


def replica(high_watermark: int) -> Any:
    """A leader whose records have the timestamps 10, 30, 20, 30; two segments; epochs 0 and 1."""
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=150))
    for epoch, stamp in ((0, 10), (0, 30), (1, 20), (1, 30)):
        log.append_as_leader(batch(1, timestamp_ms=stamp), Epoch(epoch))
    state = SimpleNamespace(high_watermark=Offset(high_watermark))
    return SimpleNamespace(log=log, state=state, partition="t-0")


def listed(offset: int, timestamp_ms: int, epoch: int) -> ListedOffset:
    """An answer without an error."""
    return ListedOffset(ErrorCode.none, Offset(offset), timestamp_ms, epoch)


RIGHT = (
    (0, listed(0, 10, 0)),
    (10, listed(0, 10, 0)),
    (11, listed(1, 30, 0)),
    (31, listed(-1, -1, -1)),
    (MAX_TIMESTAMP, listed(1, 30, 0)),
    (EARLIEST, listed(0, -1, 0)),
    (LATEST, listed(4, -1, 1)),
)


@pytest.mark.parametrize(("wanted", "answer"), RIGHT)
def test_first_record_at_or_after_a_time_is_the_only_right_answer(
    wanted: int, answer: ListedOffset
) -> None:
    """A clock that went back hides no record: the first in order of offsets counts."""
    check_lookup(replica(4), 1, wanted, answer)
    for other in (1, -1):
        wrong = answer._replace(offset=Offset(answer.offset + other))
        with pytest.raises(InvariantBroken, match="lookups-find-the-first"):
            check_lookup(replica(4), 1, wanted, wrong)


@pytest.mark.parametrize("wanted", [11, MAX_TIMESTAMP])
def test_record_at_the_high_watermark_is_not_found(wanted: int) -> None:
    """It is not committed yet, so nobody may learn of it."""
    check_lookup(replica(1), 1, wanted, listed(-1, -1, -1))
    with pytest.raises(InvariantBroken, match="lookups-find-the-first"):
        check_lookup(replica(1), 1, wanted, listed(1, 30, 0))


def test_other_special_timestamps_are_not_judged() -> None:
    """They are about tiered storage, which does not exist here."""
    check_lookup(replica(4), 1, -5, listed(7, 7, 7))


def test_client_asks_for_times_and_special_timestamps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of lookup is answered and judged in a run."""
    judged: list[tuple[int, int]] = []

    def noted(replica: Any, node: int, wanted_ms: int, answer: ListedOffset) -> None:
        judged.append((wanted_ms, answer.offset))
        check_lookup(replica, node, wanted_ms, answer)

    monkeypatch.setattr(node_checker, "check_lookup", noted)
    recording = Simulation(prepared(simulated=ASKING)).run()
    assert recording.failure is None
    assert {EARLIEST, LATEST, MAX_TIMESTAMP, 0} <= {wanted for wanted, _ in judged}
    assert any(wanted > 0 and offset > 0 for wanted, offset in judged)


def test_broker_that_skips_a_record_of_that_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A boundary moved by one."""
    found = Segment.batch_from_time
    monkeypatch.setattr(Segment, "batch_from_time", lambda self, ms: found(self, ms + 1))
    broken = Simulation(prepared(simulated=ASKING)).run().facts["broken_invariant"]
    assert broken["name"] == "lookups-find-the-first"


@pytest.mark.parametrize("moved", [False, True])
def test_client_that_read_everything_sees_a_wrong_answer(
    monkeypatch: pytest.MonkeyPatch, *, moved: bool
) -> None:
    """Without looking into the broker; batches of unusual times are all there."""
    found = Segment.batch_from_time
    if moved:
        monkeypatch.setattr(Segment, "batch_from_time", lambda self, ms: found(self, ms + 1))
    recording = Simulation(prepared(simulated={"unusual_producers": 2}), invariants=False).run()
    assert isinstance(recording.failure, InvariantBroken) == moved, recording.failure
    assert not moved or recording.failure.name == "lookups-agree-with-reads"


@pytest.mark.parametrize("wiped", [False, True])
def test_node_with_a_damaged_disk_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, *, wiped: bool
) -> None:
    """An index with a flipped bit shows no sign of it; a wiped disk has no damage left."""
    found = Segment.batch_from_time
    monkeypatch.setattr(Segment, "batch_from_time", lambda self, ms: found(self, ms + 1))
    simulation = Simulation(prepared(simulated=ASKING))
    assert simulation.invariants is not None
    for node in (1, 2, 3):
        simulation.invariants.damaged(node)
        if wiped:
            simulation.invariants.damaged(node, wiped=True)
    assert ("broken_invariant" in simulation.run().facts) == wiped
