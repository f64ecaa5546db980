"""Passes over compacted topics in simulated runs: what they record, and that following a run with a
broken cleaner alarms before the run ends."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from checkers.following.follow import Follower
from checkers.history.history import HISTORY, RunSources, load_plan, load_run, table
from checkers.verdict import Anomaly
from harness.simulation.recording import Recording
from harness.zoo.mutants import drops_tombstones_early
from nodes.log.cleaning.filtering import RecordFilter
from tests.harness.simulation.test_compacted_workload import found_in, plan_with, rows_of, run

PASSES = {"passes_every_s": 0.3}
SECOND_NS = 1_000_000_000


def follow(recording: Recording, folder: Path, cuts_ns: Sequence[int]) -> tuple[Anomaly, ...]:
    """Look at what the clients had recorded at each of these times; the first alarm."""
    stored = recording.store(folder / "stored", versions={}, commit=None).path
    history = folder / "followed"
    history.mkdir()

    def live() -> RunSources:
        whole = load_run(stored)
        return replace(whole, history=tuple(sorted(history.glob("*.parquet"))))

    follower = Follower(plan=load_plan(stored), live=live)
    begin_ns = -1
    for number, end_ns in enumerate(sorted(cuts_ns)):
        for writer in recording.histories:
            rows = [
                dict(zip(HISTORY.names, row, strict=True))
                for row in writer.rows
                if begin_ns < (row[5] or row[4]) <= end_ns and not row[2].startswith("final")
            ]
            rows = [row for row in rows if row["f"] != "keyed-read"]
            path = history / f"{writer.name}-{number:06d}.parquet"
            pyarrow.parquet.write_table(table(HISTORY, rows), path)
        if found := follower.look(history):
            return found
        begin_ns = end_ns
    return ()


def some_cuts(recording: Recording, seed: int) -> list[int]:
    """Random times up to the end of the faults."""
    until_ns = max(row[5] for row in rows_of(recording, "keyed-pass"))
    return [random.Random(seed).randrange(until_ns) for _ in range(8)] + [until_ns]


def test_sound_broker_is_read_in_passes_and_raises_no_alarm(tmp_path: Path) -> None:
    """A node is killed meanwhile; most records are cleaned."""
    recording = run(plan_with(**PASSES))
    ends = rows_of(recording, "keyed-pass")
    assert len([row for row in ends if row[3] == "ok"]) > 20
    given = {row[0]: 0 for row in ends}
    for row in rows_of(recording, "keyed-poll"):
        given[row[0]] += 1
    assert min(given[row[0]] for row in ends[4:]) > 5
    assert found_in(recording, tmp_path) == ("VALID", {})
    for seed in range(2):
        assert follow(recording, tmp_path / str(seed), some_cuts(recording, seed)) == ()


def alarm_and_verdict(recording: Recording, tmp_path: Path) -> tuple[set[str], set[str]]:
    """The kinds of the alarm, and those of the verdict's grave anomalies."""
    alarm = follow(recording, tmp_path, some_cuts(recording, 0))
    outcome, grave = found_in(recording, tmp_path / "whole")
    assert outcome == "INVALID"
    return {each.kind for each in alarm}, {kind for kind, _ in grave}


def test_lost_last_records_raise_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner removes the last record of a key with the earlier ones."""
    monkeypatch.setattr(RecordFilter, "retained", lambda self, header, fates: bytearray(len(fates)))
    alarm, grave = alarm_and_verdict(run(plan_with(**PASSES)), tmp_path)
    assert "missing-key" in alarm
    assert alarm <= grave


@pytest.mark.slow
def test_tombstones_that_go_too_early_raise_an_alarm(tmp_path: Path) -> None:
    """A mutant of the zoo, without any fault."""
    plan: dict[str, Any] = {"nemesis": {"events": []}}
    undo = drops_tombstones_early.apply()
    try:
        recording = run(plan_with(delete_share=0.5, plan=plan, **PASSES))
    finally:
        undo()
    alarm, grave = alarm_and_verdict(recording, tmp_path)
    assert "missing-key" in alarm
    assert alarm <= grave


@pytest.mark.slow
def test_run_with_passes_is_a_function_of_its_seed() -> None:
    """Readers draw from the same source of randomness as other clients."""
    one, other = run(plan_with(**PASSES)), run(plan_with(**PASSES))
    assert one.digest == other.digest
    assert one.histories[0].rows == other.histories[0].rows
