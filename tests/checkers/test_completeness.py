"""The table of what a run must contain, and the page that shows it."""

from dataclasses import replace
from pathlib import Path

import pytest

from checkers.check import check
from checkers.completeness.kinds import ANY, DEPLOYED, RUN_HERE
from checkers.completeness.required import REQUIRED
from checkers.history.plan_file import digest
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.golden.replicas import partition_without_records_has_no_files
from tests.support.histories.story import ALL, NONE, healthy, v

OF = {
    DEPLOYED: "clusters that highwater starts",
    RUN_HERE: "every run",
    ANY: "every run and import",
    ANY - DEPLOYED: "external clusters and imports",
}
PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"


def test_the_page_has_the_table() -> None:
    """Every line of the first table, in its order."""
    _, *after = PAGE.read_text().split("\n|", 1)
    first = f"|{after[0]}".split("\n\n")[0]
    rows = [line.split("|")[1:-1] for line in first.splitlines()]
    shown = [tuple(cell.strip() for cell in row[1:]) for row in rows[2:]]
    assert shown == [(OF[each.of], each.must) for each in REQUIRED]
    groups = [row[0].strip() for row in rows[2:] if row[0].strip()]
    assert groups == list(dict.fromkeys(each.group for each in REQUIRED))


@pytest.mark.parametrize(
    ("field", "same"), [("expect", True), ("bounds", True), ("seed", False), ("topics", False)]
)
def test_what_a_plan_is_known_by(field: str, same: bool) -> None:
    """All that says what was run, nothing of what is expected of it."""
    plan = {"seed": 1, "topics": [], "expect": [], "bounds": None}
    assert (digest(plan) == digest({**plan, field: ["other"]})) is same


@pytest.mark.parametrize(
    "name",
    ["partition_without_records_has_no_files", "partition_that_lost_its_only_record_with_a_disk"],
)
def test_directories_that_no_broker_had_to_make_are_not_missed(name: str) -> None:
    """The run is VALID as a whole."""
    story = ALL_GOLDEN[name].story()
    assert check(story.sources(), story.plan).outcome.value == "VALID"


@pytest.mark.parametrize("read", [("101", "102"), ()])
def test_every_zookeeper_log_must_be_read(read: tuple[str, ...]) -> None:
    """They take the place of the metadata logs of the nodes."""
    story = healthy()
    story.plan |= {"control_plane": "zookeeper", "zookeepers": 3}
    whole = replace(story.run_file, zookeeper_logs=("101", "102", "103"))
    story.run_file = replace(whole, plan_digest=None)
    assert check(story.sources(), story.plan).outcome.value == "VALID"
    story.run_file = replace(story.run_file, zookeeper_logs=read)
    found = check(story.sources(), story.plan)
    assert found.outcome.value == "UNKNOWN"
    lacks = [each.detail for each in found.assumptions]
    assert any(f"of {3 - len(read)} of 3 ZooKeeper nodes were not read" in each for each in lacks)


def test_session_that_ended_is_no_fenced_broker() -> None:
    """Beside ZooKeeper the controller learns of it later; beside the quorum it decides it."""
    story = ALL_GOLDEN["fenced_broker_is_taken_into_the_in_sync_replicas"].story()
    assert check(story.sources(), story.plan).outcome.value == "INVALID"
    story.plan |= {"control_plane": "zookeeper", "zookeepers": 1}
    story.run_file = replace(story.run_file, zookeeper_logs=("101",), plan_digest=None)
    found = check(story.sources(), story.plan)
    assert not [each for each in found.anomalies if each.kind == "isr-broken"]


def test_what_zookeeper_lost_is_no_fault_of_the_broker() -> None:
    """Without the loss a leader from outside the in-sync replicas is forbidden."""
    story = ALL_GOLDEN["outsider_is_elected"].story()
    story.plan |= {"control_plane": "zookeeper", "zookeepers": 1}
    told = replace(story.run_file, zookeeper_logs=("101",), plan_digest=None)
    story.run_file = told
    assert check(story.sources(), story.plan).outcome.value == "INVALID"
    lost = "transaction 0x50000000d wrote version 6 of /brokers/topics/t/partitions/0/state"
    story.run_file = replace(told, zookeeper_lost=(lost,))
    found = check(story.sources(), story.plan)
    assert found.outcome.value == "UNKNOWN"
    assert [each.holds for each in found.assumptions if lost in each.detail] == [False]
    assert [e.judgement.value for e in found.anomalies if e.kind == "isr-broken"] == ["unknown"]


def test_what_zookeeper_lost_is_told_where_nothing_is_forbidden() -> None:
    """What brokers did after it is not judged, so the run is not VALID."""
    story = healthy()
    story.plan |= {"control_plane": "zookeeper", "zookeepers": 1}
    told = replace(story.run_file, zookeeper_logs=("101",), plan_digest=None)
    story.run_file = replace(told, zookeeper_lost=("transaction 0x50000000d",))
    assert check(story.sources(), story.plan).outcome.value == "UNKNOWN"


def test_what_zookeeper_discarded_matters_only_where_something_is_forbidden() -> None:
    """A replaced leader's proposals are discarded often, and mostly nobody had seen them."""
    discarded = ("transaction 0x200000001 wrote version 2 of /brokers/topics/t/partitions/0/state",)
    for name, outcome in (("outsider_is_elected", "UNKNOWN"), (None, "VALID")):
        story = healthy() if name is None else ALL_GOLDEN[name].story()
        story.plan |= {"control_plane": "zookeeper", "zookeepers": 1}
        told = replace(story.run_file, zookeeper_logs=("101",), plan_digest=None)
        story.run_file = replace(told, zookeeper_discarded=discarded)
        assert check(story.sources(), story.plan).outcome.value == outcome


def test_files_are_missed_where_a_consumer_read_a_record() -> None:
    """A record was there once, so a node without files lost them, whoever acknowledged it."""
    story = healthy()
    partition_without_records_has_no_files(story)
    story.poll(NONE, 18.5, {0: v(NONE, 21)}, partition=1)
    lacks = [each.detail for each in check(story.sources(), story.plan).assumptions]
    assert any("the files of 3 replicas were not read: none-1 of node 1" in each for each in lacks)


@pytest.mark.parametrize(("missing", "outcome"), [(0, "VALID"), (1, "VALID"), (-1, "UNKNOWN")])
def test_a_compacted_topic_may_lack_batches_but_the_last(missing: int, outcome: str) -> None:
    """Kafka's cleaner leaves nothing of a batch of which no record stays."""
    story = ALL_GOLDEN["compacted_topic_has_the_last_record_of_each_key"].story()
    mine = [r for r in story.replicas if (r["topic"], r["partition"], r["node"]) == (ALL, 0, 2)]
    story.replicas.remove(sorted(mine, key=lambda row: row["base_offset"])[missing])
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome.value == outcome, verdict.reasons
    lacks = [each.detail for each in verdict.assumptions]
    assert any("do not reach their ends" in each for each in lacks) is (outcome == "UNKNOWN")


@pytest.mark.parametrize("system", ["careful", "kafkaa"])
def test_system_of_another_package_needs_all_evidence(system: str) -> None:
    """So that a wrong name excuses nothing: without files the verdict is open, with them it is
    that of any other cluster which highwater starts."""
    story = healthy()
    story.plan |= {"system": system}
    assert check(story.sources(), story.plan).outcome.value == "VALID"
    story.replicas.clear()
    story.replica_ends.clear()
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome.value == "UNKNOWN"
    assert any("replica" in reason for reason in verdict.reasons), verdict.reasons


@pytest.mark.parametrize("system", ["", None, 3])
def test_plan_without_a_systems_name_is_not_judged(system: object) -> None:
    """Nobody knows what such a run must contain."""
    story = healthy()
    story.plan |= {"system": system}
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome.value == "UNKNOWN"
    assert any(f"system is {system!r}, which is no name" in each for each in verdict.reasons)
