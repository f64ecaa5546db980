"""The zoo: mutants can be put on and taken off, nobody knows their names, schedules catch them.

Here a few representative ones; all of them by `highwater zoo --real`.
"""

import subprocess
import sys
import time
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from harness.plans.plan import PlanError
from harness.simulation.campaign import INVALID, VALID, Result, Task
from harness.zoo import entries, mutants, track_record, trials
from harness.zoo.entry import load_entries
from nodes.controller import isr, partition_changes
from nodes.controller.elections import TopicPolicy
from nodes.controller.sessions import BrokerSessions
from nodes.log.health import Health
from nodes.log.producer_state import Producers
from nodes.log.segment import Segment
from nodes.raft.elections import Elections
from nodes.raft.leadership import Leadership
from nodes.raft.voters import Voter
from nodes.replication.partition import PartitionState
from nodes.server.follower.fetcher import ReplicaFetcher, ReplicaFetcherManager
from nodes.server.lifecycle import BrokerLifecycle
from nodes.server.quorum.member import QuorumMember
from nodes.server.quorum.metadata_log import MetadataLog
from nodes.server.replicas.isr import IsrManager
from nodes.server.replicas.log_directory import LogDirectory
from nodes.server.replicas.replica import Replica
from nodes.server.requests.fetch import read
from nodes.server.requests.fetch.read import PartitionReader
from tests.scenarios import prepared
from tests.support.require import require

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted(entries.SCENARIOS.glob("*.toml"))
DECIDE: tuple[Any, ...] = (
    isr, partition_changes, TopicPolicy, BrokerSessions, Health, Producers, Elections,
    Leadership, Voter, Segment, PartitionState, read, PartitionReader, ReplicaFetcher, ReplicaFetcherManager,
    IsrManager, BrokerLifecycle, LogDirectory, MetadataLog, QuorumMember, Replica,
)  # fmt: skip
"""What mutants patch."""


def decisions() -> list[tuple[str, object]]:
    """The functions and properties of what mutants patch."""
    return [
        (f"{owner.__name__}.{name}", value)
        for owner in DECIDE
        for name, value in sorted(vars(owner).items())
        if isinstance(value, FunctionType | property)
    ]


@pytest.mark.parametrize("name", mutants.NAMES)
def test_mutants_can_be_put_on_and_taken_off(name: str) -> None:
    """It says what it is; while it is on, something decides otherwise, and afterwards as before."""
    mutant = mutants.load(name)
    assert mutant.bug
    assert mutant.sources
    assert mutant.shows
    before = decisions()
    undo = mutant.apply()
    try:
        assert decisions() != before
    finally:
        undo()
    assert decisions() == before


def test_nobody_knows_the_mutants() -> None:
    """Nothing but the zoo itself names them."""
    for package in ("nodes", "harness", "nemesis", "checkers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.is_relative_to(ROOT / "harness" / "zoo"):
                continue
            text = path.read_text()
            named = [name for name in mutants.NAMES if "_" in name and name in text]
            assert not named, f"{path} names {named}"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_schedules_can_be_run(path: Path) -> None:
    """Every schedule is a plan that this target can carry out, and bears its file's name."""
    scenario = prepared(f"zoo/{path.stem}")
    assert scenario.plan.name == path.stem
    assert scenario.notes == ()


def test_every_schedule_is_for_a_mutant() -> None:
    """And every mutant that is listed with one exists."""
    assert set(entries.SCENARIO_OF) <= set(mutants.NAMES)
    used = set(entries.SCENARIO_OF.values())
    assert used == {path.stem for path in SCRIPTS}


def test_every_mutant_has_a_schedule() -> None:
    """What nothing is made to show would be an open gap."""
    assert [e.name for e in entries.ENTRIES if e.scenario is None and e.script is None] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["last_replica_standing", "forgets_sequences"])
def test_representative_mutants_are_caught(name: str, tmp_path: Path) -> None:
    """RealTrial processes, a scripted schedule, the anomaly that the bug is known for; and the broker
    as it is comes through the same schedule.
    """
    require("root", "netns", "loop")
    found = trials.try_real(load_entries("harness.zoo.entries", [name])[0], tmp_path)
    assert found.caught_by, found.said
    assert found.sound == "VALID", found.said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["votes_in_memory", "accepts_gaps", "truncate_to_high_watermark"])
def test_schedules_catch_mutants_in_simulated_worlds(name: str) -> None:
    """By single messages, or by the faults that real processes meet, too."""
    found = trials.try_schedule("harness.zoo.entries", name, range(1, 3))
    assert found.holds, found


def test_a_seed_that_accuses_the_unmodified_broker_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A search goes on behind it, to the first that accuses the broken one alone."""

    def judged(task: Task, seed: int) -> Result:
        wrong = seed == 2 or (seed >= 4 and task.plan.broker_module != "nodes")
        return Result(seed=seed, outcome=INVALID if wrong else VALID, signs=(f"sign {seed}",))

    monkeypatch.setattr(trials, "run_seed", judged)
    monkeypatch.setattr(
        trials.Campaign, "results", lambda self, _: (judged(self._task, n) for n in self._waiting)
    )
    found = trials.try_random(
        entries.ENTRIES[0], searches=1, limit=6, jobs=1, time_s=60, root=tmp_path
    )
    assert (found.seeds, found.signs, found.unsound) == ((4,), ("sign 4",), (2,))


def test_what_interrupts_a_zoo_lets_its_run_end_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that it made is left to `highwater clean`."""
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    run = tmp_path / "run"
    run.write_text(f"#!/bin/sh\ntrap 'echo > {ended}; exit' TERM\necho > {begun}\n"
                   "for _ in $(seq 600); do sleep 0.1; done\n")  # fmt: skip
    run.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(run))
    waits = subprocess.Popen.communicate

    def interrupted(self: Any, *, timeout: float) -> Any:
        if timeout == trials.RUN_TIMEOUT_S:
            deadline_s = time.monotonic() + 60
            while not begun.exists() and time.monotonic() < deadline_s:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return waits(self, timeout=timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trials._run(SCRIPTS[0], "nodes", tmp_path)
    assert ended.exists()


def test_a_record_says_what_holds_and_what_does_not() -> None:
    """A schedule that also finds something in the unmodified broker proves nothing."""
    entry = entries.ENTRIES[0]
    good = trials.ScheduleTrial(worlds=3, caught=2, sound=3, signs=("lost-write: 3",))
    bad = trials.ScheduleTrial(worlds=3, caught=3, sound=2, signs=("x",), said="unmodified, seed 1: x")
    lucky = trials.RandomTrial(seeds=(3, None, 9), tried=50)
    unlucky = trials.RandomTrial(seeds=(3, None, None), tried=50, unsound=(7,))
    lines = [
        track_record.TrackRecordRow(entry=entry, scripted=good, chance=lucky),
        track_record.TrackRecordRow(entry=entry, scripted=bad, chance=unlucky),
    ]
    assert [line.holds for line in lines] == [True, False]
    assert (lucky.median, unlucky.median) == (9, None)
    assert lines[0].caught_by == ("lost-write",)
    text = track_record.markdown(lines)
    assert "| 2 of 3 worlds | 9 seeds |" in text
    assert "unmodified wrong in 1" in text
    assert "not within 50 seeds (1 of 3 searches), unmodified wrong in seeds 7 |" in text
    assert track_record.summary(lines).startswith("1 of 2 caught by their schedules; 1 of 2 ")


def test_a_collection_that_is_none_is_a_sentence() -> None:
    """And so is an exhibit that it does not have."""
    with pytest.raises(PlanError, match=r"harness\.zoo\.mutants is no collection"):
        load_entries("harness.zoo.mutants")
    with pytest.raises(PlanError, match="has no nobody; it has "):
        load_entries("harness.zoo.entries", ["nobody"])
