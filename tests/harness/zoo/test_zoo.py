"""The zoo: mutants can be applied and undone, only the zoo names them, and schedules catch them.

These tests run a few mutants; `highwater zoo --real` runs all of them.
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
from nodes.coordinators.groups import composition
from nodes.coordinators.groups.classic import checks, static_members
from nodes.coordinators.groups.consumer import reconciliation
from nodes.coordinators.groups.expiry import OffsetExpiry
from nodes.coordinators.groups.offsets import Offsets
from nodes.coordinators.transactions import decisions as transaction_decisions
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.log.cleaning import cleaner
from nodes.log.cleaning.cleaned_segment import CleanedSegment
from nodes.log.cleaning.cleaner import Cleaning
from nodes.log.cleaning.filtering import RecordFilter
from nodes.log.cleaning.transactions import CleanedTransactions
from nodes.log.health import Health
from nodes.log.leader_epochs import LeaderEpochs
from nodes.log.producer_state import Producers
from nodes.log.producer_state_manager import ProducerStateManager
from nodes.log.segment import Segment
from nodes.log.transactions.unstable import UnstableTransactions
from nodes.log.transactions.verification import Verifications
from nodes.raft.elections import Elections
from nodes.raft.leadership import Leadership
from nodes.raft.voters import Voter
from nodes.replication.partition import PartitionState
from nodes.server.coordinators.shard import Shard
from nodes.server.follower.fetcher import ReplicaFetcher, ReplicaFetcherManager
from nodes.server.quorum.lifecycle import BrokerLifecycle
from nodes.server.quorum.member import QuorumMember
from nodes.server.quorum.metadata_log import MetadataLog
from nodes.server.replicas.isr import IsrManager
from nodes.server.replicas.log_cleaner import LogCleaner
from nodes.server.replicas.log_directory import LogDirectory
from nodes.server.replicas.replica import Replica
from nodes.server.requests.fetch import read
from nodes.server.requests.fetch.read import PartitionReader
from nodes.server.requests.list_offsets import OffsetsHandler
from nodes.server.zookeeper import controller_requests, leader_writes
from nodes.server.zookeeper.controller import ZooKeeperController
from nodes.server.zookeeper.reading import ClusterReader
from nodes.zookeeper import broker_view, decisions, writes
from tests.scenarios import prepared
from tests.support.require import require
from tests.support.tiers import in_turn

ROOT = Path(__file__).parents[3]
EXAMPLE = "harness.zoo.mutants.ack_before_replication"
SCRIPTS = sorted(entries.SCENARIOS.glob("*.toml"))
DECIDE: tuple[Any, ...] = (
    isr, partition_changes, TopicPolicy, BrokerSessions, Health, Producers, Elections,
    Leadership, Voter, Segment, PartitionState, read, PartitionReader, ReplicaFetcher,
    ReplicaFetcherManager,
    IsrManager, BrokerLifecycle, LeaderEpochs, LogDirectory, MetadataLog, OffsetsHandler,
    QuorumMember, Replica,
    transaction_decisions, Verifications, UnstableTransactions, ProducerStateManager,
    cleaner, Cleaning, CleanedSegment, CleanedTransactions, RecordFilter, LogCleaner,
    Offsets, OffsetExpiry, composition, checks, static_members, reconciliation,
    TransactionCoordinator, Shard,
    broker_view, writes, decisions, controller_requests, leader_writes, ClusterReader,
    ZooKeeperController,
)  # fmt: skip
"""The classes and modules that mutants patch."""


def functions() -> list[tuple[str, object]]:
    """Return the functions and properties of the classes and modules that mutants patch."""
    return [
        (f"{owner.__name__}.{name}", value)
        for owner in DECIDE
        for name, value in sorted(vars(owner).items())
        if isinstance(value, FunctionType | property)
    ]


@pytest.mark.parametrize("name", mutants.NAMES)
def test_applied_mutant_changes_a_decision_and_undo_restores_it(name: str) -> None:
    """A mutant describes itself; while it is applied, one decision differs."""
    mutant = mutants.load(name)
    assert mutant.bug
    assert mutant.sources
    assert mutant.shows
    before = functions()
    undo = mutant.apply()
    try:
        assert functions() != before
    finally:
        undo()
    assert functions() == before


def test_no_module_outside_the_zoo_names_a_mutant() -> None:
    """A full module name is allowed: it is the example of a broker module in messages."""
    for package in ("nodes", "harness", "nemesis", "checkers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.is_relative_to(ROOT / "harness" / "zoo"):
                continue
            text = path.read_text().replace(EXAMPLE, "")
            named = [name for name in mutants.NAMES if "_" in name and name in text]
            assert not named, f"{path} names {named}"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scenario_is_a_valid_plan_with_the_name_of_its_file(path: Path) -> None:
    """The local target can run each scenario."""
    scenario = prepared(f"zoo/{path.stem}")
    assert scenario.plan.name == path.stem
    assert scenario.notes == ()


def test_scenario_table_names_existing_mutants_and_all_scenario_files() -> None:
    """SCENARIO_OF has no unknown mutant, and no scenario file is unused."""
    assert set(entries.SCENARIO_OF) <= set(mutants.NAMES)
    used = set(entries.SCENARIO_OF.values())
    assert used == {path.stem for path in SCRIPTS}


def test_each_mutant_has_a_schedule_or_a_scenario() -> None:
    """A mutant without either could not be caught on purpose."""
    assert [e.name for e in entries.ENTRIES if e.scenario is None and e.script is None] == []


@pytest.mark.parametrize(
    "name",
    in_turn(
        "harness/zoo/test_zoo.py::test_scenario_catches_the_mutant_with_real_processes",
        # The last one is caught by the output of a tested program.
        ["forgets_sequences", "last_replica_standing", "aborts_without_fencing"],
        of=3,
    ),
)
def test_scenario_catches_the_mutant_with_real_processes(name: str, tmp_path: Path) -> None:
    """The known anomaly appears, and the unmodified broker is VALID in the same scenario."""
    require("root", "netns", "loop")
    found = trials.try_real(load_entries("harness.zoo.entries", [name])[0], tmp_path)
    assert found.caught_by, found.problem
    assert found.unmodified == "VALID", found.problem


@pytest.mark.parametrize(
    "name",
    in_turn(
        "harness/zoo/test_zoo.py::test_schedule_catches_the_mutant_in_simulated_worlds",
        ["votes_in_memory", "truncate_to_high_watermark", "accepts_gaps", "forgets_epoch_ends"],
        of=2,
    ),
)
def test_schedule_catches_the_mutant_in_simulated_worlds(name: str) -> None:
    """Some schedules control single messages; others are scenarios for all targets."""
    found = trials.try_schedule("harness.zoo.entries", name, range(1, 3))
    assert found.holds, found


def test_random_search_ignores_seeds_in_which_the_unmodified_broker_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The search continues to the first seed in which only the mutant fails."""

    def judged(task: Task, seed: int) -> Result:
        wrong = seed == 2 or (seed >= 4 and task.plan.broker_module != "nodes")
        return Result(seed=seed, outcome=INVALID if wrong else VALID, signs=(f"sign {seed}",))

    monkeypatch.setattr(
        trials.Campaign,
        "results",
        lambda self, _: (judged(*each) for each in iter(self._source.take, None)),
    )
    found = trials.try_random(
        entries.ENTRIES[0], searches=1, limit=6, jobs=1, time_s=60, root=tmp_path
    )
    assert (found.seeds, found.signs, found.unmodified_failed) == ((4,), ("sign 4",), (2,))


def test_interrupted_zoo_ends_its_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`highwater clean` has nothing left to remove."""
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


def test_track_record_row_fails_if_the_unmodified_broker_fails() -> None:
    """A schedule that the unmodified broker fails proves nothing."""
    entry = entries.ENTRIES[0]
    good = trials.ScheduleTrial(worlds=3, caught=2, unmodified_passed=3, signs=("lost-write: 3",))
    bad = trials.ScheduleTrial(
        worlds=3, caught=3, unmodified_passed=2, signs=("x",), problem="unmodified, seed 1: x"
    )
    lucky = trials.RandomTrial(seeds=(3, None, 9), tried=50)
    unlucky = trials.RandomTrial(seeds=(3, None, None), tried=50, unmodified_failed=(7,))
    lines = [
        track_record.TrackRecordRow(entry=entry, by_schedule=good, at_random=lucky),
        track_record.TrackRecordRow(entry=entry, by_schedule=bad, at_random=unlucky),
    ]
    assert [line.holds for line in lines] == [True, False]
    assert (lucky.median, unlucky.median) == (9, None)
    assert lines[0].caught_by == ("lost-write",)
    text = track_record.markdown(lines)
    assert "| 2 of 3 worlds | 9 seeds |" in text
    assert "unmodified broker failed in 1" in text
    assert "not within 50 seeds (1 of 3 searches), unmodified broker failed in seeds 7 |" in text
    assert track_record.summary(lines).startswith("1 of 2 caught by their schedules; 1 of 2 ")


def test_unknown_collection_or_entry_is_a_plan_error() -> None:
    """The message names what there is instead."""
    with pytest.raises(PlanError, match=r"harness\.zoo\.mutants is not a collection"):
        load_entries("harness.zoo.mutants")
    with pytest.raises(PlanError, match="there is no broken broker nobody; there are "):
        load_entries("harness.zoo.entries", ["nobody"])
