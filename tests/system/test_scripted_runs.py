"""Scripted schedules on real clusters: events that wait for the cluster and for each other."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.tiers import at_turn
from tests.system.test_whole_runs import Ended, run

LATE_MS = 3_000
"""When an injection is surely not what was waited for; on a quiet machine it takes 150 ms."""


def faults_of(ended: Ended) -> dict[str, dict[str, Any]]:
    """The record of faults, by the names of the events."""
    events = json.loads((ended.path / "schedule.json").read_text())["events"]
    names = {event["id"]: event["name"] for event in events}
    return {names[row["fault_id"]]: row for row in ended.faults()}


@pytest.mark.slow
@at_turn(1, 2, "system/test_scripted_runs.py::test_every_fault_of_processes_on_a_real_cluster")
def test_an_event_strikes_when_the_isr_is_what_it_waited_for(tmp_path: Path) -> None:
    """The pause comes after the controller's decision that it waited for, and soon."""
    ended = run("waits-for-an-isr", "nodes", tmp_path)
    assert ended.verdict["verdict"] == "VALID", ended.verdict["reasons"]
    third = faults_of(ended)["third"]
    changes = [
        row["at_ns"]
        for row in pq.read_table(ended.path / "cluster.parquet").to_pylist()
        if row["source"] == "metadata-log" and sorted(row["isr"] or ()) == [1, 2, 3]
    ]
    late_ms = (third["started_ns"] - changes[0]) / 1e6
    print(f"struck {late_ms:.0f} ms after the controller's decision")
    assert -10 < late_ms < LATE_MS
    assert third["took_effect"]


@pytest.mark.slow
@at_turn(
    0, 2, "system/test_scripted_runs.py::test_an_event_strikes_when_the_isr_is_what_it_waited_for"
)
def test_every_fault_of_processes_on_a_real_cluster(tmp_path: Path) -> None:
    """Each has its proof, one after the other; nothing acknowledged is lost by any of them."""
    ended = run("process-faults", "nodes", tmp_path)
    assert ended.verdict["verdict"] == "VALID", ended.verdict["reasons"]
    found = faults_of(ended)
    assert set(found) == {"clients", "again", "loop", "recovery", "all"}
    for name, row in found.items():
        print(name, row["effect"], "|", row["healing"], row["inject_ms"], row["heal_ms"])
        assert row["took_effect"], row
        assert row["error"] is None, row
        assert row["healed_ns"], row
    assert "ended with code 0 after" in found["again"]["effect"]
    assert "0 before" not in found["recovery"]["effect"]
    assert found["all"]["effect"].startswith("3 of 3 had their turn")
    ends = sorted((row["started_ns"], row["healed_ns"]) for row in found.values())
    assert all(one[1] <= other[0] for one, other in pairwise(ends))


@pytest.mark.slow
def test_a_node_that_refuses_its_damaged_files_is_told_and_the_rest_is_judged(
    tmp_path: Path,
) -> None:
    """Its metadata log is shorter than what it had flushed: the run names it, and is VALID."""
    ended = run("refused-files", "nodes", tmp_path)
    assert ended.verdict["verdict"] == "VALID", ended.verdict["reasons"]
    [cut] = faults_of(ended).values()
    [node] = json.loads(cut["targets"])["nodes"]
    [told] = [
        each["detail"]
        for each in ended.verdict["assumptions"]
        if each["name"] == "no node refused its files"
    ]
    assert told.startswith(f"node {node} refused its damaged files (fault 0, disk.cut-tail"), told
    assert "node cannot run: __cluster_metadata-0" in told


@pytest.mark.slow
@at_turn(1, 2, "system/test_killed_coordinators.py::test_every_commit_that_was_answered_is_there")
def test_faults_hit_the_coordinators_of_a_real_cluster(tmp_path: Path) -> None:
    """While the coordinator of a transactional id is down, the selector means its successor."""
    ended = run("coordinator-faults", "nodes", tmp_path)
    assert ended.verdict["verdict"] == "VALID", ended.verdict["reasons"]
    found = faults_of(ended)
    assert {name for name, row in found.items() if row["took_effect"]} == {"dies", "slow", "group"}
    targets = {name: json.loads(row["targets"]) for name, row in found.items()}
    assert targets["dies"]["resolved"] == "transaction coordinator of some-key"
    assert targets["group"]["resolved"] == "group coordinator of some-key"
    assert targets["dies"]["meant"] != targets["slow"]["meant"]
