"""The zoo: mutants can be put on and taken off, nobody knows their names, schedules catch them.

Here a few representative ones; all of them by `python -m tests.harness.zoo`.
"""

from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from nodes.control import isr
from nodes.control.elections import TopicPolicy
from nodes.control.sessions import BrokerSessions
from nodes.log.health import Health
from nodes.log.producers import Producers
from nodes.raft.elections import Elections
from nodes.raft.leadership import Leadership
from nodes.raft.voters import Voter
from nodes.replication.partition import PartitionState
from nodes.server import fetch_read
from nodes.server.fetch_read import PartReader
from nodes.server.fetcher import Fetcher, FetcherPool
from nodes.server.isr import IsrManager
from nodes.server.lifecycle import BrokerLifecycle
from nodes.server.log_directory import LogDirectory
from nodes.server.raft_log import MetadataLog
from nodes.server.raft_member import RaftMember
from nodes.server.replica import Replica
from tests import mutants
from tests.harness import zoo
from tests.require import require
from tests.scenarios import path_of, prepared

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((path_of("zoo/x").parent).glob("*.toml"))
DECIDE: tuple[Any, ...] = (
    isr, TopicPolicy, BrokerSessions, Health, Producers, Elections, Leadership, Voter,
    PartitionState, fetch_read, PartReader, Fetcher, FetcherPool, IsrManager, BrokerLifecycle,
    LogDirectory, MetadataLog, RaftMember, Replica,
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
    """The broker, the harness, the faults and the checkers do not name them."""
    for package in ("nodes", "harness", "nemesis", "checkers"):
        for path in sorted((ROOT / package).rglob("*.py")):
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
    assert set(zoo.SCENARIO_OF) <= set(mutants.NAMES)
    used = {name for name in zoo.SCENARIO_OF.values() if name.startswith("zoo/")}
    assert used == {f"zoo/{path.stem}" for path in SCRIPTS}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["last_replica_standing", "forgets_sequences"])
def test_representative_mutants_are_caught(name: str, tmp_path: Path) -> None:
    """Real processes, a scripted schedule, and the anomaly that the bug is known for."""
    for capability in ("root", "netns", "loop"):
        require(capability)
    mutant = mutants.load(name)
    ended = zoo.run(zoo.SCENARIO_OF[name], mutant.module, tmp_path)
    assert ended.verdict == "INVALID", ended.text
    assert set(ended.forbidden) & set(mutant.shows), ended.forbidden


@pytest.mark.slow
def test_the_broker_as_it_is_passes_the_same_schedule(tmp_path: Path) -> None:
    """What the others are caught by is not in the schedule."""
    for capability in ("root", "netns", "loop"):
        require(capability)
    ended = zoo.run("zoo/last-replica-standing", zoo.SOUND, tmp_path)
    assert ended.verdict == "VALID", ended.text
