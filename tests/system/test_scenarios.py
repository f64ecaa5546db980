"""The packaged scenarios: known losses that happen and are named, and settings that prevent them.

Each loss and its prevention run by one schedule on the unmodified broker, as a user starts them.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.plans.plan import build, load
from tests.support.require import require
from tests.support.tiers import in_turn

RUN_TIMEOUT_S = 150
"""Five times what a run takes on a quiet machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A packaged plan; what the causes of its losses say, in order; none: it must lose nothing."""

    name: str
    faults: tuple[str, ...]
    causes: tuple[str, ...] = ()
    rule: str = ""


CUT = ("partition.isolate-leader",)
ALONE = ("cut.port", "kill")
ALONE_WITHOUT_POWER = ("cut.port", "power-loss")

SCENARIOS = (
    Scenario(
        name="acks-1-leader-cut-off",
        faults=CUT,
        causes=("as leader at", "fault 0 (partition.isolate-leader node"),
        rule="acks=1, the epoch of a new leader starts at or below the write",
    ),
    Scenario(name="acks-all-leader-cut-off", faults=CUT),
    Scenario(
        name="unclean-election",
        faults=ALONE,
        causes=("fault 1 (kill node", "The new leader was not in sync"),
        rule="unclean elections enabled, and one took place",
    ),
    Scenario(name="clean-election", faults=ALONE),
    Scenario(
        name="power-loss-without-flush",
        faults=("power-loss",),
        causes=("Nodes 1, 2, 3 lost power by", "fault 0 (power-loss nodes 1, 2, 3", "from offset"),
        rule="m or more in-sync or eligible replicas lost power at the same time",
    ),
    Scenario(name="power-loss-with-flush", faults=("power-loss",)),
    Scenario(
        name="last-replica-standing",
        faults=ALONE_WITHOUT_POWER,
        causes=("lost power by", "fault 1 (power-loss node", "No other replica was in sync"),
        rule="eligible.leader.replicas.version=0",
    ),
    Scenario(name="eligible-leader-replicas", faults=ALONE_WITHOUT_POWER),
)
"""A loss, and its prevention; in pairs."""

REGRESSIONS = (Scenario(name="unclean-recovery", faults=("cut.port", "kill", "power-loss")),)
"""What was lost once and must not be."""


def run(name: str, store: Path) -> dict[str, Any]:
    """The verdict of a packaged plan's run."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "run", name, "--store", str(store), "--json"],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


OF_TRANSACTIONS = (
    "one-epoch-for-all-transactions",
    "epoch-for-each-transaction",
    "client-with-one-epoch-for-all-transactions",
)
"""What a late end does to the next transaction, its prevention, and a client that has none."""
RUNS = 4
"""How often a run is repeated until it shows something."""
TORN_OR_READ = {"torn-transaction", "aborted-read", "false-abort"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGroups:
    """A packaged plan about groups. shows: the anomaly that it must show, permitted, by a rule that
    says so; of its pair nothing may show it. fault, needs: what its schedule has, and takes."""

    name: str
    fault: str
    needs: tuple[str, ...]
    shows: str
    says: str = ""


OF_GROUPS = (
    OfGroups(
        name="commits-in-memory", fault="power-loss", needs=("loop",), shows="lost-commit",
        says="__consumer_offsets: min.insync.replicas=1, no flush before the acknowledgement",
    ),
    OfGroups(name="commits-on-disk", fault="power-loss", needs=("loop",), shows="lost-commit"),
    OfGroups(
        name="read-uncommitted", fault="kill", needs=(), shows="aborted-read",
        says="the reader asked for isolation.level=read_uncommitted",
    ),
    OfGroups(name="read-committed", fault="kill", needs=(), shows="aborted-read"),
    OfGroups(
        name="copies-before-commits", fault="request-delayed", needs=("bad-links",),
        shows="copied-twice", says="processing=at-least-once, and the record was delivered again",
    ),
    OfGroups(
        name="copies-in-transactions", fault="request-delayed", needs=("bad-links",),
        shows="copied-twice",
    ),
)  # fmt: skip
"""What a group may meet, and what prevents it; in pairs."""


def named(scenario: Scenario | OfGroups) -> str:
    """How tests call a scenario."""
    return scenario.name


@pytest.mark.parametrize(
    "scenario",
    in_turn("system/test_scenarios.py::test_scenario", (*SCENARIOS, *REGRESSIONS), of=9),
    ids=named,
)
def test_scenario(scenario: Scenario, tmp_path: Path) -> None:
    """What is lost is permitted and its cause is named; or nothing is, by the same schedule."""
    require("root", "netns", *(["loop"] if "power-loss" in scenario.faults else []))
    verdict = run(scenario.name, tmp_path)
    assert verdict["verdict"] == "VALID", verdict["reasons"]
    faults = pq.read_table(Path(verdict["run"]) / "faults.parquet").to_pylist()
    assert all(row["took_effect"] and row["healed_ns"] for row in faults), faults
    assert sorted(row["fault"] for row in faults) == sorted(scenario.faults)
    [topic] = verdict["topics"]
    assert topic["acked"] > 1000
    if not scenario.causes:
        assert topic["lost"] == 0, topic["loss_causes"]
        return
    assert topic["lost"] == topic["lost_permitted"] > 0
    lost = [each for each in verdict["anomalies"] if each["kind"] == "lost-write"]
    for each in lost:
        assert scenario.rule in each["rule"]
        for text in scenario.causes:
            assert text in each["cause"]


@pytest.mark.parametrize(
    ("loses", "loses_nothing"),
    [(one.name, other.name) for one, other in zip(SCENARIOS[::2], SCENARIOS[1::2], strict=True)],
)
def test_pairs_share_their_schedule(loses: str, loses_nothing: str) -> None:
    """A loss and its prevention differ in settings alone."""
    one, other = (build(load(name), where=name) for name in (loses, loses_nothing))
    assert one.nemesis == other.nemesis
    assert one.duration_s == other.duration_s
    assert (one.topics, one.broker) != (other.topics, other.broker)


@pytest.mark.parametrize(
    "name",
    in_turn("system/test_scenarios.py::test_scenario_of_transactions", OF_TRANSACTIONS, of=3),
)
def test_scenario_of_transactions(name: str, tmp_path: Path) -> None:
    """KAFKA-17754 is permitted and its cause is named; or every transaction is whole. Whether a
    late request meets the next transaction is chance, so a run may show nothing."""
    require("root", "netns", "bad-links")
    if name == OF_TRANSACTIONS[1]:
        assert torn_or_read(name, tmp_path) == []
    else:
        assert any(torn_or_read(name, tmp_path / str(number)) for number in range(RUNS))


def torn_or_read(name: str, place: Path) -> list[dict[str, Any]]:
    """Return the anomalies of transactions in one run, all with their cause."""
    place.mkdir(exist_ok=True)
    verdict = run(name, place)
    assert verdict["verdict"] == "VALID", verdict["reasons"]
    faults = pq.read_table(Path(verdict["run"]) / "faults.parquet").to_pylist()
    assert [row["fault"] for row in faults] == ["request-delayed"] * 3
    assert any(row["took_effect"] for row in faults), faults
    found = [each for each in verdict["anomalies"] if each["kind"] in TORN_OR_READ]
    assert all("a fault may have made a request so late" in each["rule"] for each in found), found
    return found


@pytest.mark.parametrize(
    "scenario",
    in_turn("system/test_scenarios.py::test_scenario_of_groups", OF_GROUPS, of=6),
    ids=named,
)
def test_scenario_of_groups(scenario: OfGroups, tmp_path: Path) -> None:
    """What a group meets is permitted, and the rule says why; or it meets nothing."""
    require("root", "netns", *scenario.needs)
    verdict = run(scenario.name, tmp_path)
    assert verdict["verdict"] == "VALID", verdict["reasons"]
    faults = pq.read_table(Path(verdict["run"]) / "faults.parquet").to_pylist()
    assert {row["fault"] for row in faults} == {scenario.fault}
    assert all(row["took_effect"] and row["healed_ns"] for row in faults), faults
    found = [each for each in verdict["anomalies"] if each["kind"] == scenario.shows]
    assert bool(found) is bool(scenario.says), found
    assert all(scenario.says in each["rule"] for each in found), found


@pytest.mark.parametrize(
    ("shows", "shows_nothing"),
    [(one.name, other.name) for one, other in zip(OF_GROUPS[::2], OF_GROUPS[1::2], strict=True)],
)
def test_pairs_of_groups_differ_in_settings_alone(shows: str, shows_nothing: str) -> None:
    """The topics and the faults are the same, but for the API of a request that is held."""
    one, other = (build(load(name), where=name) for name in (shows, shows_nothing))
    assert one.topics == other.topics
    assert one.duration_s == other.duration_s
    assert (one.broker, one.more_workloads) != (other.broker, other.more_workloads)
