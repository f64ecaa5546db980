"""The workload `compacted` in simulated runs: what it records, and that the checkers find broken
cleaners without any invariant."""

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.judging import judge
from harness.plans.plan import Plan, build
from harness.run import prepare
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation
from harness.zoo.mutants import cleans_uncommitted_records, drops_tombstones_early
from nodes.log.batch import BatchHeader
from nodes.log.cleaning.filtering import RecordFilter
from nodes.log.cleaning.offset_map import GONE, STAYS
from tests.support.tiers import in_turn

CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "4000",
    "min.cleanable.dirty.ratio": "0.01",
}
SHORT = {"delete.retention.ms": "100"}


def plan_with(**changes: Any) -> Plan:
    """A plan in which a node is killed, and brokers clean a compacted topic often."""
    others = changes.pop("plan", {})
    topic = {
        "name": "keys",
        "min_insync_replicas": 2,
        "acks": "all",
        "idempotence": True,
        "partitions": 2,
    }
    raw = {
        "seed": 3,
        "name": "compacted",
        "target": "sim",
        "topics": [topic | {"configs": CONFIGS | changes.pop("configs", {})}],
        "workload": [{"kind": "compacted", "client": "own", "topics": ["keys"], **changes}],
        "broker": {"log.cleaner.backoff.ms": 100, "broker.session.timeout.ms": 1000},
        "warmup_s": 0,
        "duration_s": 6,
        "nemesis": {
            "events": [
                {"at_ms": 2000, "fault": "kill", "targets": "node:1", "duration_ms": 1500},
            ]
        },
        **others,
    }
    return build(raw, where="plan compacted")


def run(plan: Plan) -> Recording:
    """What a simulated run of the plan records, without invariants."""
    recording = Simulation(prepare.prepare(plan), invariants=False).run()
    assert recording.failure is None
    return recording


def found_in(recording: Recording, tmp_path: Path) -> tuple[str, Counter[tuple[str, str | None]]]:
    """The outcome of the verdict, and the kinds and aspects of its grave anomalies."""
    verdict = judge.check(recording.store(tmp_path, versions={}, commit=None).path)
    grave: Counter[tuple[str, str | None]] = Counter()
    for each in verdict["anomalies"]:
        if each["judgement"] in ("forbidden", "unknown"):
            grave[each["kind"], each.get("aspect")] += each["count"]
    return verdict["verdict"], grave


def rows_of(recording: Recording, f: str) -> list[tuple[Any, ...]]:
    """The rows of a kind."""
    return [row for each in recording.histories for row in each.rows if row[2] == f]


def test_sound_broker_keeps_the_last_record_of_each_key(tmp_path: Path) -> None:
    """Keys are written and deleted, most records are cleaned, and the verdict is VALID."""
    recording = run(plan_with())
    writes, deletes = rows_of(recording, "keyed-write"), rows_of(recording, "keyed-delete")
    read = rows_of(recording, "keyed-read")
    assert len(writes) > 500
    assert len(deletes) > 100
    assert 20 < len(read) < (len(writes) + len(deletes)) / 2
    assert any(row[8] is None for row in read), "tombstones stay for a day"
    assert not rows_of(recording, "send") + rows_of(recording, "final-read")
    assert found_in(recording, tmp_path) == ("VALID", Counter())


@pytest.mark.slow
def test_removed_tombstones_are_no_loss_after_their_time(tmp_path: Path) -> None:
    """delete.retention.ms is short."""
    outcome, grave = found_in(run(plan_with(configs=SHORT, delete_share=0.6)), tmp_path)
    assert (outcome, grave) == ("VALID", Counter())


def test_lost_last_records_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner removes the last record of a key with the earlier ones."""
    monkeypatch.setattr(RecordFilter, "retained", lambda self, header, fates: bytearray(len(fates)))
    outcome, grave = found_in(run(plan_with()), tmp_path)
    assert outcome == "INVALID"
    assert grave["lost-key", None] > 5


@pytest.mark.slow
def test_tombstones_that_go_too_early_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that begins at offset 0 never hears of the deletion."""
    monkeypatch.setattr(RecordFilter, "horizon_is_over", lambda self, header: True)
    outcome, grave = found_in(run(plan_with(delete_share=0.5)), tmp_path)
    assert outcome == "INVALID"
    assert set(grave) == {("lost-key", "tombstone")}


@pytest.mark.slow
def test_deleted_keys_that_come_back_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tombstones go at once, and what they deleted stays."""
    retained = RecordFilter.retained

    def keeping(self: Any, header: BatchHeader, fates: bytearray) -> bytearray:
        kept = retained(self, header, fates)
        return kept if kept != fates else fates.replace(bytes([GONE]), bytes([STAYS]))

    monkeypatch.setattr(RecordFilter, "horizon_is_over", lambda self, header: True)
    monkeypatch.setattr(RecordFilter, "retained", keeping)
    outcome, grave = found_in(run(plan_with(delete_share=0.5)), tmp_path)
    assert outcome == "INVALID"
    assert grave["resurrected-key", None]


@pytest.mark.parametrize(
    ("mutant", "seed", "found"),
    in_turn(
        "harness/simulation/test_compacted_workload.py::test_mutants_of_the_cleaner_are_found",
        [
            (drops_tombstones_early, 3, ("lost-key", "tombstone")),
            (cleans_uncommitted_records, 2, ("lost-key", None)),
        ],
        of=2,
    ),
    ids=["drops_tombstones_early", "cleans_uncommitted_records"],
)
def test_mutants_of_the_cleaner_are_found(
    mutant: ModuleType, seed: int, found: tuple[str, str | None], tmp_path: Path
) -> None:
    """The leaders are cut off in turn, and clean what the others never get. The unmodified broker
    passes."""
    isolated = [
        {"at_ms": at, "fault": "partition.isolate-leader", "targets": where, "duration_ms": 1800}
        for at, where in zip(
            (500, 2500, 4500, 6500), ["leader:keys/0", "leader:keys/1"] * 2, strict=True
        )
    ]
    changes = {"seed": seed, "duration_s": 9, "nemesis": {"events": isolated}}
    small = {"segment.bytes": "1000"}
    plan = plan_with(configs=small, delete_share=0.5, plan=changes)
    assert found_in(run(plan), tmp_path / "sound") == ("VALID", Counter())
    undo = mutant.apply()
    try:
        outcome, grave = found_in(run(plan), tmp_path / "mutant")
    finally:
        undo()
    assert outcome == "INVALID"
    assert grave[found]


@pytest.mark.slow
def test_run_is_a_function_of_its_seed() -> None:
    """Keys depend on values alone."""
    one, other = run(plan_with()), run(plan_with())
    assert one.histories[0].rows == other.histories[0].rows


@pytest.mark.slow
def test_last_rename_of_a_swap_needs_no_sync() -> None:
    """A start completes the swap. The invariant about what is flushed knows that."""
    flushed = {"flush.messages": "1", "segment.bytes": "1000"}
    recording = Simulation(prepare.prepare(plan_with(configs=flushed))).run()
    assert recording.failure is None
