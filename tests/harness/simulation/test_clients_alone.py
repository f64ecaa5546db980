"""What clients alone see of a broken broker: no invariant of the nodes' own state is checked.

Each test runs a sound broker, too, which must pass.
"""

from contextlib import nullcontext, suppress
from typing import Any

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.later_draws import TRANSACTION_TIMES
from harness.simulation.run import Simulation
from nodes.log.batch import with_append_time
from nodes.log.errors import CorruptBatch
from nodes.server.requests.produce import ProduceHandler
from tests.support.simulation.mutants import mutated
from tests.support.simulation.plans import prepared


def broken(made: Simulation) -> str:
    """Return the name of the rule that a run breaks; empty for a run that breaks none."""
    failure = made.run().failure
    assert failure is None or isinstance(failure, InvariantBroken), failure
    return "" if failure is None else failure.name


BUSY = {"client": "own", "producers": 1, "rate_per_s": 40, "linger_ms": 200}


@pytest.mark.parametrize("sound", [True, False])
def test_a_broker_that_refuses_valid_batches_is_found(sound: bool) -> None:
    """It calls batches invalid that took longer than 63 ms to fill. A refused send surely did not
    happen, so that no checker minds it."""
    misread = mutated(
        "nodes.log.record_validation", "_last_byte", "data[last] < 128", "data[last] >= 128"
    )
    with nullcontext() if sound else misread:
        found = broken(Simulation(prepared(workload=BUSY), invariants=False))
    assert found == ("" if sound else "valid-requests-are-accepted")


@pytest.mark.parametrize("sound", [True, False])
def test_a_broker_that_appends_wrong_batches_is_found(sound: bool) -> None:
    """It does not look at the offsets of records. A consumer would stop at such a batch."""
    unchecked = mutated(
        "nodes.log.record_validation",
        "_walk",
        "if delta != number << 1:",
        "if False:",
    )
    with nullcontext() if sound else unchecked:
        made = Simulation(prepared(simulated={"unusual_producers": 1}), invariants=False)
        found = broken(made)
    assert found == ("" if sound else "wrong-batches-are-refused")
    if sound:
        assert made._unrecorded.batches[0].acknowledged > 10


def test_a_broker_that_changes_a_valid_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It replaces the times of the records, though the topic keeps those of the producer."""
    append = ProduceHandler._append

    def stamped(self: ProduceHandler, requested: Any, *others: Any) -> Any:
        with suppress(CorruptBatch):
            records = with_append_time(requested.records, 1_700_000_000_000)
            requested = requested._replace(records=records)
        return append(self, requested, *others)

    monkeypatch.setattr(ProduceHandler, "_append", stamped)
    made = Simulation(prepared(simulated={"unusual_producers": 1}), invariants=False)
    assert broken(made) == "valid-batches-stay"


@pytest.mark.parametrize("sound", [True, False])
def test_a_controller_that_fences_nobody_is_found(sound: bool) -> None:
    """When the dead broker is back, the cluster settles as any other."""
    ticks = (
        "self.abort_open_transaction() or self._bootstrap() or "
        "self._fence(self._sessions.expired(now_ms), CHANGES_AT_ONCE) or "
        "self._empty_brokers() or self._elect(now_ms) or "
        "self._rebalance(now_ms) or self._idle(now_ms)"
    )
    fenceless = ticks.replace(
        "self._fence(self._sessions.expired(now_ms), CHANGES_AT_ONCE) or ", ""
    )
    with (
        nullcontext()
        if sound
        else mutated("nodes.controller.controller", "Controller.tick", ticks, fenceless)
    ):
        made = Simulation(prepared(simulated={"failover_at_end": True}), invariants=False)
        found = broken(made)
    assert found == ("" if sound else "failover-in-time")
    if sound:
        assert made.recording.facts["settled"]


REFUSES_ELECTIONS = ("elections", "elect", "record is not None", "record is None")
CHECKS_THE_WRONG_NAME = (
    "configs",
    "_alter",
    "_check_resource(image, resource)",
    "_check_resource(resource, image)",
)


@pytest.mark.parametrize("mutant", [None, REFUSES_ELECTIONS, CHECKS_THE_WRONG_NAME])
def test_a_controller_that_tells_an_administrator_wrong_things_is_found(
    mutant: tuple[str, str, str, str] | None,
) -> None:
    """It says that the preferred leader is not available, which it is; or it fails at a change of a
    configuration that is allowed."""
    with nullcontext() if mutant is None else mutated(f"nodes.controller.{mutant[0]}", *mutant[1:]):
        made = Simulation(prepared(simulated={"administration_at_end": True}), invariants=False)
        found = broken(made)
    assert found == ("" if mutant is None else "administrators-are-told-the-truth")


def test_a_broker_that_refuses_all_waiting_writes_is_found() -> None:
    """No write with acks=all happens, so none is lost, and the cluster settles."""
    refusing = mutated(
        "nodes.replication.partition",
        "PartitionState.check_append",
        "acks == -1 and self.below_min_isr",
        "acks == -1 and acks == -1",
    )
    with refusing:
        plan = prepared(simulated={"administration_at_end": True}, start_timeout_s=3)
        assert broken(Simulation(plan, invariants=False)) == "administrators-are-told-the-truth"


@pytest.mark.parametrize("sound", [True, False])
def test_a_marker_that_ends_the_next_transaction_is_found(sound: bool) -> None:
    """It has the epoch of that transaction (KAFKA-19446)."""
    fenced = "known.epoch + 1 if {} else known.epoch"
    lax = mutated(
        "nodes.log.producer_state",
        "Producers.check_marker",
        fenced.format("transaction_version >= EPOCH_BUMPED_SINCE"),
        fenced.format("False"),
    )
    with nullcontext() if sound else lax:
        plan = prepared(
            simulated={"transactional_producers": 2, "repeats": True},
            broker={**TRANSACTION_TIMES, "transaction.state.log.num.partitions": "2"},
        )
        found = broken(Simulation(plan, invariants=False))
    assert found == ("" if sound else "repeated-ends-agree")
