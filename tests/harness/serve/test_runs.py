"""Runs in short, lists, trends, comparisons and nights."""

import fcntl
import json
from pathlib import Path

import pytest

from harness.reports import words
from harness.serve import pages
from harness.serve.catalogue import Catalogue
from harness.serve.comparison import compare_runs
from harness.serve.filters import PER_PAGE, RunQuery, choices, select_runs, split, trends
from harness.serve.nights import suites
from harness.serve.store_files import StoreFileError, StoreFiles
from harness.serve.summaries import RunSummary, State
from tests.support.reports.stores import (
    TOPIC,
    add_run,
    fault_row,
    journal,
    place_of,
    verdict_of,
)


def test_a_judged_run_in_short(store: Path, store_files: StoreFiles) -> None:
    """Verdict, plan, faults, topics and times."""
    run = add_run(store, answer="INVALID", faults=(fault_row(),))
    journal(run, {"kind": "undone", "wall_ns": run.started_wall_ns + 45_000_000_000})
    (found,), whole = Catalogue(store_files).runs()
    assert whole
    assert found.state is State.INVALID
    assert found.sentence.startswith("acks=all lost 12 acknowledged writes")
    assert (found.plan, found.seed, found.chaos_s, found.took_s) == ("quick", 7, 30.0, 45.0)
    assert found.fault_names == ("kill",)
    assert (found.acked, found.p99_ms) == (90, 20.0)
    assert found.anomalies == {"lost-write forbidden": 12}


def test_runs_without_a_verdict_have_different_states(store: Path, store_files: StoreFiles) -> None:
    """Ended, killed, failed, or with a broken invariant."""
    ended = add_run(store, "ended", None)
    journal(ended, {"kind": "run"}, {"kind": "undone"})
    journal(add_run(store, "cut", None), {"kind": "run"})
    add_run(store, "failed", None).update(failed_phase="deploy", error="OSError: no disk")
    broken = add_run(store, "broken", None)
    broken.update(failed_phase="chaos", error="InvariantBroken: one-leader: t-0 has two")
    found = {run.plan: run for run in Catalogue(store_files).runs()[0]}
    assert {plan: run.state for plan, run in found.items()} == {
        "ended": State.UNJUDGED,
        "cut": State.CUT,
        "failed": State.FAILED,
        "broken": State.INVALID,
    }
    assert found["failed"].sentence == "in the phase 'deploy': OSError: no disk"
    assert found["broken"].sentence == "an invariant is broken: one-leader: t-0 has two"


def test_run_goes_on_while_its_journal_is_locked(store: Path, store_files: StoreFiles) -> None:
    """The lock is only observed: another process can still take it."""
    run = add_run(store, answer=None)
    path = journal(
        run,
        {"kind": "run"},
        {"kind": "fault", "fault_id": 3, "fault": "pause", "label": "pause node 2", "at_ns": 5},
        {"kind": "fault-effective", "fault_id": 3, "effect": "it stands still"},
    )
    (run.path / "faults.parquet").unlink()
    catalogue = Catalogue(store_files)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (found,), _ = catalogue.runs()
        assert found.state is State.RUNNING
        assert found.faults[0].label == "pause node 2"
        assert found.faults[0].took_effect
    assert catalogue.runs()[0][0].state is State.CUT
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '"x"', '{"verdict": 3, "topics": 5, "anomalies": [1, {}]}', "[" * 9000],
)
def test_run_with_damaged_files_is_still_listed(
    store: Path, store_files: StoreFiles, content: str
) -> None:
    """Its contents are unknown."""
    run = add_run(store)
    for name in ("run.json", "plan.json", "verdict.json", "faults.parquet", "journal.jsonl"):
        (run.path / name).write_text(content)
    (found,), _ = Catalogue(store_files).runs()
    assert found.place == place_of(store, run)
    assert found.plan == "quick", "by its directory"
    assert found.state in (State.UNJUDGED, State.UNKNOWN, State.CUT)


def test_links_in_a_run_are_not_read(store: Path, store_files: StoreFiles) -> None:
    """A run cannot show files outside of the store."""
    run = add_run(store, answer=None)
    secret = store.parent / "secret.json"
    secret.write_text(json.dumps(verdict_of("INVALID")))
    (run.path / "verdict.json").symlink_to(secret)
    (store / "more").symlink_to(store.parent)
    (found,), _ = Catalogue(store_files).runs()
    assert found.state is State.UNJUDGED


def test_a_run_is_read_again_when_a_file_changes(store: Path, store_files: StoreFiles) -> None:
    """And not before."""
    run = add_run(store, answer=None)
    catalogue = Catalogue(store_files)
    before = catalogue.runs()[0][0]
    assert catalogue.runs()[0][0] is before
    run.write_json("verdict.json", verdict_of("VALID"))
    assert catalogue.run(place_of(store, run)).state is State.VALID


def test_valid_run_with_lost_writes_has_its_own_state(store: Path, store_files: StoreFiles) -> None:
    """Another sign and colour than success, although the contract was kept."""
    run = add_run(store, answer="lossy")
    found = Catalogue(store_files).run(place_of(store, run))
    assert found.state is State.LOSSES
    assert found.sentence.startswith("Acknowledged writes were lost: 12 acks=all, permitted by")
    page = pages.run(found, "again", [], "")
    assert 'class="state valid-losses"><i aria-hidden="true">△</i>VALID, losses' in page


def test_a_failed_expectation_is_a_state_of_its_own(store: Path, store_files: StoreFiles) -> None:
    """An expectation that could not be decided is UNKNOWN."""
    run = add_run(store)
    rows = [{"expectation": "lost = 0", "outcome": "failed", "said": "lost = 0, measured 3"}]
    run.write_json("verdict.json", verdict_of("VALID", expectations=rows))
    found = Catalogue(store_files).run(place_of(store, run))
    assert found.state is State.UNMET
    assert found.sentence.endswith("Expectation failed: lost = 0, measured 3.")
    assert 'class="state expectation-failed"' in pages.run(found, "again", [], "")
    run.write_json(
        "verdict.json", verdict_of("VALID", expectations=[rows[0] | {"outcome": "unknown"}])
    )
    assert Catalogue(store_files).run(place_of(store, run)).state is State.UNKNOWN


def test_runs_of_nights_are_found_with_their_suite(store: Path, store_files: StoreFiles) -> None:
    """Other directories are no runs."""
    run = add_run(store / "nightly/mine/20260101T000000.000Z/runs/cell-7")
    (found,), _ = Catalogue(store_files).runs()
    assert found.night == "mine"
    assert found.place == place_of(store, run)
    for place in ((), ("nightly",), (*found.place, "history"), ("no", "such")):
        with pytest.raises(StoreFileError):
            Catalogue(store_files).run(place)


@pytest.fixture
def many(store: Path, store_files: StoreFiles) -> list[RunSummary]:
    add_run(store, "orders", "VALID", seed=11, faults=(fault_row(),))
    add_run(
        store,
        "orders",
        "INVALID",
        seed=12,
        faults=(fault_row(fault="pause", label="pause node 1"),),
    )
    add_run(
        store, "quick", "UNKNOWN", seed=13, duration_s=90.0, broker_module="harness.zoo.mutants.x"
    )
    return Catalogue(store_files).runs()[0]


@pytest.mark.parametrize(
    ("query", "seeds"),
    [
        (RunQuery(), [13, 12, 11]),
        (RunQuery(text="mutants"), [13]),
        (RunQuery(text="ORDERS kill"), [11]),
        (RunQuery(text='"seed 12"'), [12]),
        (RunQuery(text="lost-write"), [12]),
        (RunQuery(text='" alone'), []),
        (RunQuery(state="INVALID"), [12]),
        (RunQuery(state="nonsense"), []),
        (RunQuery(plan="orders"), [12, 11]),
        (RunQuery(fault="pause"), [12]),
        (RunQuery(order="gravest"), [12, 13, 11]),
        (RunQuery(order="longest"), [13, 12, 11]),
        (RunQuery(system="nodes", target="local"), [13, 12, 11]),
        (RunQuery(target="ssh"), []),
        (RunQuery(order="nonsense", page=99), [13, 12, 11]),
    ],
)
def test_search_filter_and_order(many: list[RunSummary], query: RunQuery, seeds: list[int]) -> None:
    """All words must match; an unknown filter value matches nothing, an unknown order is newest."""
    assert [run.seed for run in select_runs(many, query).runs] == seeds


def test_pages_have_bounds(many: list[RunSummary]) -> None:
    """Every run is on exactly one."""
    runs = many * 50
    pages = [select_runs(runs, RunQuery(page=n)) for n in range(1, 5)]
    assert pages[0].pages == 3
    assert [len(page.runs) for page in pages] == [PER_PAGE, PER_PAGE, PER_PAGE, PER_PAGE]
    assert pages[3].page == 3
    assert select_runs([], RunQuery()).pages == 1


def test_trend_of_each_plan_has_the_oldest_run_first(many: list[RunSummary]) -> None:
    """And the filters offer every plan and fault."""
    found = {trend.plan: [run.seed for run in trend.runs] for trend in trends(many)}
    assert found == {"quick": [13], "orders": [11, 12]}
    offered = choices(many)
    assert (offered.plans, offered.faults) == (["orders", "quick"], ["kill", "pause"])
    assert (offered.systems, offered.targets) == (["nodes"], ["local"])


def test_trends_keep_systems_targets_and_brokers_apart(
    store: Path, store_files: StoreFiles
) -> None:
    """Their latencies and verdicts cannot be compared."""
    add_run(store, seed=1)
    add_run(store, seed=2, system="kafka")
    add_run(store, seed=3, target="ssh")
    add_run(store, seed=4, broker_module="harness.zoo.mutants.isr_of_one")
    add_run(store, seed=5)
    runs, _ = Catalogue(store_files).runs()
    found = {(t.system, t.target, t.broker): [run.seed for run in t.runs] for t in trends(runs)}
    assert found == {
        ("nodes", "local", "nodes"): [1, 5],
        ("kafka", "local", "nodes"): [2],
        ("nodes", "ssh", "nodes"): [3],
        ("nodes", "local", "harness.zoo.mutants.isr_of_one"): [4],
    }
    page = pages.runs(
        select_runs(runs, RunQuery()), RunQuery(), trends(runs), choices(runs), [], whole=True
    )
    for badge in ("kafka", "ssh", "harness.zoo.mutants.isr_of_one"):
        assert page.count(f'<span class="badge">{badge}</span>') == 2, "in the list and its trend"


@pytest.mark.parametrize(
    ("topics", "lost", "cell"),
    [
        ([TOPIC | {"lost": 5}, TOPIC | {"acks": 0, "lost": 900}], 5, 'class="n valid-losses">5<'),
        ([TOPIC | {"lost": 5, "lost_forbidden": 5}], 5, 'class="n invalid">5<'),
        ([TOPIC], 0, 'class="n">0<'),
        ([TOPIC | {"lost": None}], None, f'class="n">{words.NOTHING}<'),
    ],
)
def test_list_has_the_lost_writes_of_each_run(
    store: Path,
    store_files: StoreFiles,
    topics: list[dict[str, object]],
    lost: int | None,
    cell: str,
) -> None:
    """Without acks=0, which asks for no acknowledgement."""
    run = add_run(store)
    run.write_json("verdict.json", verdict_of("VALID", topics=topics))
    runs, _ = Catalogue(store_files).runs()
    assert runs[0].lost == lost
    page = pages.runs(
        select_runs(runs, RunQuery(order="lost")), RunQuery(), [], choices(runs), [], whole=True
    )
    assert cell in page


@pytest.mark.parametrize(
    ("outcome", "canary", "answer", "state"),
    [
        ("passed", True, "INVALID", State.CANARY),
        ("violation", True, "VALID", State.MISSED),
        ("error", True, None, State.UNJUDGED),
        ("violation", False, "INVALID", State.INVALID),
    ],
)
def test_canary_counts_as_a_failure_only_when_it_was_not_found(
    store: Path,
    store_files: StoreFiles,
    outcome: str,
    canary: bool,
    answer: str | None,
    state: State,
) -> None:
    """To be INVALID is the task of a canary; its night says whether that happened."""
    night = store / "nightly/mine/20260101T000000.000Z"
    run = add_run(night / "runs/bird-7", answer=answer)
    result = {"cell": "bird", "seed": 7, "outcome": outcome, "canary": canary, "said": "so it is"}
    (night / "trials.jsonl").write_text(json.dumps({"result": result}) + "\n")
    catalogue = Catalogue(store_files)
    (found,), _ = catalogue.runs()
    assert found.state is state
    assert catalogue.run(place_of(store, run)).state is state
    if state in (State.CANARY, State.MISSED):
        assert found.sentence == "so it is"


def test_clusters_are_listed_apart_from_runs(store: Path, store_files: StoreFiles) -> None:
    """No test ran on them: they are no runs, and have no trend."""
    for name, has_schedule in (("cluster", False), ("cluster", True), ("quick", True)):
        run = add_run(store, name, None)
        run.update(bootstrap="127.0.0.1:9092")
        if has_schedule:
            run.write_json("schedule.json", {})
        journal(run, {"kind": "run"}, {"kind": "undone"})
    found, _ = Catalogue(store_files).runs()
    runs, clusters = split(found)
    assert [run.plan for run in runs] == ["quick", "cluster"], "a plan may have that name"
    (cluster,) = clusters
    assert (cluster.state, cluster.sentence) == (State.CLUSTER, "the cluster is down")
    page = pages.runs(
        select_runs(runs, RunQuery()), RunQuery(), trends(runs), choices(runs), clusters, whole=True
    )
    assert "<h2>Clusters</h2>" in page
    assert "2 runs" in page


def test_comparison_shows_changes_and_differences(
    store: Path, store_files: StoreFiles, many: list[RunSummary]
) -> None:
    """Counts with their change, and only differences of the plans."""
    catalogue = Catalogue(store_files)
    first, second = many[2], many[1]
    plans = catalogue.files(first.place).plan, catalogue.files(second.place).plan
    told = compare_runs(first, second, plans)
    assert [row.name for row in told.about if row.differs] == ["verdict", "seed"]
    assert [(row.name, row.first, row.second) for row in told.plan] == [("seed", "11", "12")]
    (lost,) = told.anomalies
    assert (lost.name, lost.first, lost.second, lost.change) == (
        "lost-write forbidden",
        "0",
        "12",
        "+12",
    )
    assert [row.name for row in told.faults] == ["kill", "pause"]
    assert told.topics[0][0] == "t, acks=all"


def test_nights_are_listed_with_their_outcomes(store: Path, store_files: StoreFiles) -> None:
    """Other directories are left out; incomplete lines are no results."""
    night = store / "nightly/mine/20260101T000000.000Z"
    night.mkdir(parents=True)
    (store / "nightly/mine/20260102T000000.000Z").mkdir()
    told = {"began_s": 1e9, "ended_s": None, "trials": [["a", 1], ["b", 2]]}
    (night / "night.json").write_text(json.dumps(told))
    result = {"result": {"cell": "a", "seed": 1, "outcome": "violation"}}
    (night / "trials.jsonl").write_text(json.dumps(result) + '\n{"result": {"cell"')
    (mine,) = suites(store_files)
    (found,) = mine["nights"]
    assert (found["worst"], found["trials"], found["over"]) == ("violation", 2, False)
    assert mine["trend"] is None


def test_second_listing_comes_from_the_cache(store: Path, store_files: StoreFiles) -> None:
    """It reads no file of a run that did not change."""
    for number in range(30):
        add_run(store, seed=number)
    catalogue = Catalogue(store_files)
    first, _ = catalogue.runs()
    for run in first:
        store.joinpath(*run.place, "verdict.json").chmod(0)
    again, _ = catalogue.runs()
    assert all(a is b for a, b in zip(first, again, strict=True))
