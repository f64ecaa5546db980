"""What runs reach of the broker's decisions."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.plans import plan as plans
from harness.simulation.campaign import Task, run_seed
from harness.simulation.decisions import catalogue
from harness.simulation.decisions.reached import Reached, noted
from harness.simulation.decisions.rewriting import functions
from nodes.log import retention
from tests.test_docs import ROOT

DECIDING = (
    "nodes.replication",
    "nodes.raft",
    "nodes.controller",
    "nodes.metadata",
    "nodes.log",
    "nodes.log.transactions",
)
CARRYING = {
    *("nodes.raft.control_records", "nodes.raft.errors", "nodes.raft.messages"),
    *("nodes.controller.settings", "nodes.metadata.errors", "nodes.metadata.records"),
    *(
        "nodes.metadata.topic_configs",
        "nodes.metadata.unused_records",
        "nodes.log.batch",
        "nodes.log.checkpoints",
    ),
    *("nodes.log.config", "nodes.log.errors", "nodes.log.flushing", "nodes.log.health"),
    *(
        "nodes.log.compression",
        "nodes.log.index",
        "nodes.log.key_values",
        "nodes.log.segment",
        "nodes.log.segments",
    ),
    *("nodes.log.transactions.aborted_index", "nodes.log.transactions.markers"),
}
"""Forms of messages and files, settings and errors."""


def _task(tmp_path: Path, *, coverage: bool) -> Task:
    plan = plans.build(plans.load("simulation"), where="test", flags={"duration_s": 4.0})
    return Task(plan=plan, seeds_are_swarms=True, root=tmp_path, coverage=coverage)


def test_every_module_decides_or_carries() -> None:
    """A new module is one or the other."""
    there = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in DECIDING
        for path in (ROOT / package.replace(".", "/")).glob("*.py")
        if path.name != "__init__.py"
    }
    assert there == {*catalogue.NAMES, *CARRYING}
    assert not CARRYING & {*catalogue.NAMES}


@pytest.mark.slow
def test_notes_change_nothing_and_cost_nothing_afterwards(tmp_path: Path) -> None:
    before = {each: each.__code__ for m in catalogue.modules() for each in functions(m)}
    plain = run_seed(_task(tmp_path, coverage=False), 1)
    probed = run_seed(_task(tmp_path, coverage=True), 1)
    again = run_seed(_task(tmp_path, coverage=True), 1)
    assert plain.digest == probed.digest == again.digest
    assert not plain.states
    assert len(probed.states) > 200
    assert probed.states == again.states
    assert {each: each.__code__ for m in catalogue.modules() for each in functions(m)} == before


def test_what_no_run_reached_is_told_by_place() -> None:
    nothing, some = Reached(), Reached()
    every = nothing.missed()
    assert len(every) == sum(each.probes for each in nothing.shares()) > 1000
    with noted() as notes:
        assert not retention.rolls_by_age(0, 5, 5)
        assert retention.rolls_by_age(0, 6, 5)
    some.add(notes.first_ns)
    missed = some.missed()
    reached = some.outcomes()
    assert {*missed, *reached} == {*every}
    assert {(each.decided, each.outcome) for each in reached} == {
        ("first_timestamp >= 0", "equal"),
        ("first_timestamp >= 0", "true"),
        ("now_ms - first_timestamp > segment_ms", "equal"),
    }
    assert {f"nodes/log/retention.py:{each.line}" for each in missed} & {*some.text().split()}


@pytest.mark.slow
def test_simulate_prints_what_was_not_reached(tmp_path: Path) -> None:
    ended = subprocess.run(
        [
            sys.executable, "-m", "harness.cli.main", "simulate", "--swarm", "--seeds", "1..1",
            "--jobs", "1", "--duration", "3", "--coverage", "--store", str(tmp_path),
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "decisions reached, by module" in ended.stdout, ended.stderr
    assert "nodes.raft.elections" in ended.stdout
    assert "nodes/raft/elections.py:" in ended.stdout.partition("never reached:")[2]
