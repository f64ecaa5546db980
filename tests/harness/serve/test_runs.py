"""What is told of runs: short, from whatever there is of them, and only as old as their files."""

import fcntl
import json
from pathlib import Path

import pytest

from harness.serve import pages
from harness.serve.catalogue import Catalogue
from harness.serve.comparison import compared
from harness.serve.filters import PER_PAGE, Wish, chosen, kept, trends
from harness.serve.nights import suites
from harness.serve.store_files import Vault, VaultError
from harness.serve.summaries import State, Summary
from tests.support.reports.stores import add_run, fault_row, journal, place_of, verdict_of


def test_a_judged_run_in_short(store: Path, vault: Vault) -> None:
    """Verdict, plan, faults, topics and times."""
    run = add_run(store, answer="INVALID", faults=(fault_row(),))
    journal(run, {"kind": "undone", "wall_ns": run.started_wall_ns + 45_000_000_000})
    (found,), whole = Catalogue(vault).runs()
    assert whole
    assert found.state is State.INVALID
    assert found.said.startswith("acks=all lost 12 acknowledged writes")
    assert (found.plan, found.seed, found.chaos_s, found.took_s) == ("quick", 7, 30.0, 45.0)
    assert found.fault_names == ("kill",)
    assert (found.acked, found.p99_ms) == (90, 20.0)
    assert found.anomalies == {"lost-write forbidden": 12}


def test_what_has_no_verdict(store: Path, vault: Vault) -> None:
    """Ended, cut, failed, broken an invariant: told apart."""
    ended = add_run(store, "ended", None)
    journal(ended, {"kind": "run"}, {"kind": "undone"})
    journal(add_run(store, "cut", None), {"kind": "run"})
    add_run(store, "failed", None).update(failed_phase="deploy", error="OSError: no disk")
    broken = add_run(store, "broken", None)
    broken.update(failed_phase="chaos", error="InvariantBroken: one-leader: t-0 has two")
    found = {run.plan: run for run in Catalogue(vault).runs()[0]}
    assert {plan: run.state for plan, run in found.items()} == {
        "ended": State.UNJUDGED,
        "cut": State.CUT,
        "failed": State.FAILED,
        "broken": State.INVALID,
    }
    assert found["failed"].said == "in the phase 'deploy': OSError: no disk"
    assert found["broken"].said == "an invariant does not hold: one-leader: t-0 has two"


def test_a_run_goes_on_while_its_journal_is_held(store: Path, vault: Vault) -> None:
    """And the lock is only looked at: whoever takes it finds it free."""
    run = add_run(store, answer=None)
    path = journal(
        run,
        {"kind": "run"},
        {"kind": "fault", "fault_id": 3, "fault": "pause", "label": "pause node 2", "at_ns": 5},
        {"kind": "fault-effective", "fault_id": 3, "effect": "it stands still"},
    )
    (run.path / "faults.parquet").unlink()
    catalogue = Catalogue(vault)
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
def test_damaged_files_are_no_errors(store: Path, vault: Vault, content: str) -> None:
    """A run of which nothing can be read is still a run, of which nothing is known."""
    run = add_run(store)
    for name in ("run.json", "plan.json", "verdict.json", "faults.parquet", "journal.jsonl"):
        (run.path / name).write_text(content)
    (found,), _ = Catalogue(vault).runs()
    assert found.place == place_of(store, run)
    assert found.plan == "quick", "by its directory"
    assert found.state in (State.UNJUDGED, State.UNKNOWN, State.CUT)


def test_files_that_are_links_are_not_read(store: Path, vault: Vault) -> None:
    """A run cannot show what lies outside."""
    run = add_run(store, answer=None)
    secret = store.parent / "secret.json"
    secret.write_text(json.dumps(verdict_of("INVALID")))
    (run.path / "verdict.json").symlink_to(secret)
    (store / "more").symlink_to(store.parent)
    (found,), _ = Catalogue(vault).runs()
    assert found.state is State.UNJUDGED


def test_a_run_is_read_again_when_a_file_changes(store: Path, vault: Vault) -> None:
    """And not before."""
    run = add_run(store, answer=None)
    catalogue = Catalogue(vault)
    before = catalogue.runs()[0][0]
    assert catalogue.runs()[0][0] is before
    run.write_json("verdict.json", verdict_of("VALID"))
    assert catalogue.run(place_of(store, run)).state is State.VALID


def test_a_run_that_lost_acknowledged_writes_is_no_success_like_another(
    store: Path, vault: Vault
) -> None:
    """Though its contract was kept: another state, another sign, another colour."""
    run = add_run(store, answer="lossy")
    found = Catalogue(vault).run(place_of(store, run))
    assert found.state is State.LOSSES
    assert found.said.startswith("Lost although acknowledged: 12 acks=all, permitted by")
    page = pages.run(found, "again", [], "")
    assert 'class="state valid-losses"><i aria-hidden="true">△</i>VALID, losses' in page


def test_a_failed_expectation_is_a_state_of_its_own(store: Path, vault: Vault) -> None:
    """The contract was kept; what could not be decided is UNKNOWN."""
    run = add_run(store)
    rows = [{"expectation": "lost = 0", "outcome": "failed", "said": "lost = 0, measured 3"}]
    run.write_json("verdict.json", verdict_of("VALID", expectations=rows))
    found = Catalogue(vault).run(place_of(store, run))
    assert found.state is State.UNMET
    assert found.said.endswith("Expectation failed: lost = 0, measured 3.")
    assert 'class="state expectation-failed"' in pages.run(found, "again", [], "")
    run.write_json(
        "verdict.json", verdict_of("VALID", expectations=[rows[0] | {"outcome": "unknown"}])
    )
    assert Catalogue(vault).run(place_of(store, run)).state is State.UNKNOWN


def test_runs_below_nights_are_found_and_named(store: Path, vault: Vault) -> None:
    """At their depth; what is no run is none."""
    run = add_run(store / "nightly/mine/20260101T000000.000Z/runs/cell-7")
    (found,), _ = Catalogue(vault).runs()
    assert found.night == "mine"
    assert found.place == place_of(store, run)
    for place in ((), ("nightly",), (*found.place, "history"), ("no", "such")):
        with pytest.raises(VaultError):
            Catalogue(vault).run(place)


@pytest.fixture
def many(store: Path, vault: Vault) -> list[Summary]:
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
    return Catalogue(vault).runs()[0]


@pytest.mark.parametrize(
    ("wish", "seeds"),
    [
        (Wish(), [13, 12, 11]),
        (Wish(text="mutants"), [13]),
        (Wish(text="ORDERS kill"), [11]),
        (Wish(text='"seed 12"'), [12]),
        (Wish(text="lost-write"), [12]),
        (Wish(text='" alone'), []),
        (Wish(state="INVALID"), [12]),
        (Wish(state="nonsense"), []),
        (Wish(plan="orders"), [12, 11]),
        (Wish(fault="pause"), [12]),
        (Wish(order="gravest"), [12, 13, 11]),
        (Wish(order="longest"), [13, 12, 11]),
        (Wish(order="nonsense", page=99), [13, 12, 11]),
    ],
)
def test_search_filter_and_order(many: list[Summary], wish: Wish, seeds: list[int]) -> None:
    """Words all have to be there; what is no filter finds nothing, what is no order is newest."""
    assert [run.seed for run in chosen(many, wish).runs] == seeds


def test_pages_have_bounds(many: list[Summary]) -> None:
    """Every run is on exactly one."""
    runs = many * 50
    pages = [chosen(runs, Wish(page=n)) for n in range(1, 5)]
    assert pages[0].pages == 3
    assert [len(page.runs) for page in pages] == [PER_PAGE, PER_PAGE, PER_PAGE, PER_PAGE]
    assert pages[3].page == 3
    assert chosen([], Wish()).pages == 1


def test_the_trend_of_each_plan(many: list[Summary]) -> None:
    """The oldest first, as people read."""
    found = {trend.plan: [run.seed for run in trend.runs] for trend in trends(many)}
    assert found == {"quick": [13], "orders": [11, 12]}
    assert kept(many) == (["orders", "quick"], ["kill", "pause"])


def test_two_runs_side_by_side(store: Path, vault: Vault, many: list[Summary]) -> None:
    """Counts with their change, and only what differs of the plans."""
    catalogue = Catalogue(vault)
    first, second = many[2], many[1]
    plans = catalogue.files(first.place).plan, catalogue.files(second.place).plan
    told = compared(first, second, plans)
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


def test_nights_are_listed_with_what_they_came_to(store: Path, vault: Vault) -> None:
    """One that is no night is left out; lines that were cut are no results."""
    night = store / "nightly/mine/20260101T000000.000Z"
    night.mkdir(parents=True)
    (store / "nightly/mine/20260102T000000.000Z").mkdir()
    told = {"began_s": 1e9, "ended_s": None, "trials": [["a", 1], ["b", 2]]}
    (night / "night.json").write_text(json.dumps(told))
    result = {"result": {"cell": "a", "seed": 1, "outcome": "violation"}}
    (night / "trials.jsonl").write_text(json.dumps(result) + '\n{"result": {"cell"')
    (mine,) = suites(vault)
    (found,) = mine["nights"]
    assert (found["worst"], found["trials"], found["over"]) == ("violation", 2, False)
    assert mine["trend"] is None


def test_a_store_of_thousands_is_listed_from_memory(store: Path, vault: Vault) -> None:
    """The second look reads no file of a run that did not change."""
    for number in range(30):
        add_run(store, seed=number)
    catalogue = Catalogue(vault)
    first, _ = catalogue.runs()
    for run in first:
        store.joinpath(*run.place, "verdict.json").chmod(0)
    again, _ = catalogue.runs()
    assert all(a is b for a, b in zip(first, again, strict=True))
