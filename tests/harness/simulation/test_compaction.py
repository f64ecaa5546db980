"""Compacted topics in simulated runs: a sound cleaner passes, broken ones are found."""

from typing import Any

import pytest

from harness.simulation import keyed_work
from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.transactions import End
from harness.simulation.run import Simulation
from nodes.ids import Offset
from nodes.log import appending
from nodes.log.batch import BatchHeader
from nodes.log.cleaning import cleaner, filtering
from nodes.log.cleaning.cleaned_segment import CleanedSegment
from nodes.log.cleaning.filtering import RecordFilter
from nodes.log.cleaning.offset_map import GONE, STAYS, TOMBSTONE
from nodes.log.cleaning.selection import Cleanable
from nodes.log.cleaning.transactions import CleanedTransactions
from nodes.log.config import CompactionConfig
from nodes.log.errors import KeylessRecords
from nodes.log.record_validation import check_records
from nodes.server.replicas import log_cleaner
from nodes.server.replicas.log_cleaner import LogCleaner
from nodes.server.replicas.replica import Replica
from tests.support.simulation.plans import prepared
from tests.support.tiers import in_turn

KILLS = {
    "events": [
        {"at_ms": 2000, "fault": "kill", "targets": "node:1", "duration_ms": 1500},
        {"at_ms": 4500, "fault": "power-loss", "targets": "node:2", "duration_ms": 1500},
    ]
}


def simulation(retention_ms: int = 1000, nemesis: Any = KILLS) -> Simulation:
    """A run in which a node is killed, another one loses its power, and brokers compact often."""
    return Simulation(
        prepared(
            duration_s=8,
            nemesis=nemesis,
            simulated={"compacting_producers": 3},
            broker={
                "broker.session.timeout.ms": "1000",
                "log.cleaner.backoff.ms": "300",
                "log.cleaner.delete.retention.ms": str(retention_ms),
                "transaction.state.log.num.partitions": "2",
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            },
        )
    )


def broken_by(made: Simulation) -> str:
    """The invariant that the run breaks."""
    failure = made.run().failure
    assert isinstance(failure, InvariantBroken), failure
    return failure.name


def test_sound_cleaner_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It removes records, tombstones and markers, and nothing is judged wrong."""
    removed = {"records": 0, "tombstones": 0, "segments": 0}
    retained, install = RecordFilter.retained, cleaner.install

    def counting(self: Any, header: BatchHeader, fates: bytearray) -> bytearray:
        kept = retained(self, header, fates)
        removed["records"] += max(0, header.record_count - len(kept) + kept.count(GONE))
        removed["tombstones"] += fates.count(TOMBSTONE) - kept.count(TOMBSTONE)
        return kept

    def installing(*arguments: Any) -> None:
        removed["segments"] += 1
        install(*arguments)

    monkeypatch.setattr(RecordFilter, "retained", counting)
    monkeypatch.setattr(cleaner, "install", installing)
    made = simulation()
    recording = made.run()
    assert recording.failure is None
    assert removed["records"] > 50
    assert removed["tombstones"] > 3
    assert removed["segments"] > 10
    ends = [each.end for each in made._unrecorded.keyed.begun]
    assert ends.count(End.COMMITTED) > 10
    assert ends.count(End.ABORTED) > 3


@pytest.mark.parametrize(
    "more",
    in_turn(
        "harness/simulation/test_compaction.py::test_keyless_records_in_a_compacted_topic",
        [0, 1],
        of=2,
    ),
    ids=["takes them", "names others"],
)
def test_keyless_records_in_a_compacted_topic(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that takes them is found, and one that names other records than these."""

    def careless(*arguments: Any, keyed: bool, **rest: Any) -> None:
        try:
            check_records(*arguments, keyed=keyed, **rest)
        except KeylessRecords as error:
            if more:
                raise KeylessRecords([each + more for each in error.numbers]) from None

    monkeypatch.setattr(appending, "check_records", careless)
    undamaged = {"events": KILLS["events"][:1]}  # where clients are judged in the end
    assert broken_by(simulation(nemesis=undamaged)) == "wrong-batches-are-refused"


def test_lost_latest_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last record of a key goes with the earlier ones."""
    monkeypatch.setattr(RecordFilter, "retained", lambda self, header, fates: bytearray(len(fates)))
    assert broken_by(simulation()) == "compaction-keeps-the-latest"


def test_resurrected_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions go when their time is over, and what they deleted stays."""
    retained = RecordFilter.retained

    def keeping(self: Any, header: BatchHeader, fates: bytearray) -> bytearray:
        kept = retained(self, header, fates)
        return kept if kept != fates else fates.replace(bytes([GONE]), bytes([STAYS]))

    monkeypatch.setattr(RecordFilter, "retained", keeping)
    assert broken_by(simulation(300)) == "deleted-keys-stay-deleted"


def test_early_removal_of_tombstones_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that began at offset 0 never hears of the deletion."""
    monkeypatch.setattr(RecordFilter, "horizon_is_over", lambda self, header: True)
    assert broken_by(simulation()) == "tombstones-stay-for-their-time"


def test_tombstones_whose_horizon_is_too_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The horizon is over, but the tombstone is younger than delete.retention.ms."""
    create = RecordFilter.__init__

    def created(self: Any, offsets: Any, *, now_ms: int, delete_retention_ms: int) -> None:
        create(self, offsets, now_ms=now_ms, delete_retention_ms=0)

    monkeypatch.setattr(RecordFilter, "__init__", created)
    of_both = {"tombstones-stay-for-their-time", "compaction-keeps-markers"}
    assert broken_by(simulation(3000)) in of_both


@pytest.mark.parametrize("beyond_committed", [False, True])
def test_cleaning_beyond_what_is_stable_is_found(
    monkeypatch: pytest.MonkeyPatch, beyond_committed: bool
) -> None:
    """What supersedes may be aborted, or be lost with the leader."""
    select, cleanable = LogCleaner._cleanable, log_cleaner.cleanable
    limit = Offset(0)

    def selecting(self: LogCleaner, replica: Replica, config: CompactionConfig) -> Cleanable:
        nonlocal limit
        limit = replica.log.end_offset if beyond_committed else replica.state.high_watermark
        return select(self, replica, config)

    def eager(segments: Any, dirty: Any, **arguments: Any) -> Cleanable:
        return cleanable(segments, dirty, **{**arguments, "stable_offset": limit})

    monkeypatch.setattr(LogCleaner, "_cleanable", selecting)
    monkeypatch.setattr(log_cleaner, "cleanable", eager)
    monkeypatch.setitem(keyed_work.CONFIGS, "segment.bytes", "100")
    of_both = {"compaction-is-below-the-stable-offset", "compaction-keeps-the-latest"}
    assert broken_by(simulation()) in of_both


def test_dropped_last_batch_of_a_producer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart the broker would not know the producer's sequence (KAFKA-5490)."""
    monkeypatch.setattr(cleaner, "is_remembered", lambda producers, header: False)
    assert broken_by(simulation()) == "compaction-keeps-producers"


def test_early_removal_of_markers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers would take the next transaction of the producer for a part of this one."""
    read_marker = CleanedTransactions.read_marker

    def discarding(self: Any, header: BatchHeader, marker: Any) -> bool:
        read_marker(self, header, marker)
        return True

    monkeypatch.setattr(CleanedTransactions, "read_marker", discarding)
    assert broken_by(simulation()) == "compaction-keeps-markers"


def test_changed_records_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a record counts from another time, once its batch has a delete horizon."""
    monkeypatch.setattr(filtering, "shifted", lambda record, shift: record)
    assert broken_by(simulation()) == "compaction-changes-nothing"


def test_lost_list_of_aborted_transactions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of aborted transactions are left, and readers take them for committed ones."""
    read_batch, finish = CleanedTransactions.read_batch, CleanedSegment.finish

    def keeping(self: Any, header: BatchHeader) -> bool:
        read_batch(self, header)
        return False

    monkeypatch.setattr(CleanedTransactions, "read_batch", keeping)
    monkeypatch.setattr(CleanedSegment, "finish", lambda self, aborted: finish(self, ()))
    assert broken_by(simulation()) == "compaction-keeps-aborted-transactions"
