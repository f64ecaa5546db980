"""Suite files, and the cells made of them."""

import tomllib
from pathlib import Path

import pytest

from harness.cli.nightly import nightly
from harness.nightly.cells import cells_of
from harness.nightly.order import LastNight, in_order, next_trial
from harness.nightly.results import Trial
from harness.nightly.suite import Suite, SuiteError, load

BESIDE = Path("/nowhere")
MUTANT = "harness.zoo.mutants.ack_before_replication"


def suite(**raw: object) -> Suite:
    return Suite.from_json({"name": "s", **raw}, "suite")


def test_a_matrix_makes_a_cell_of_every_combination() -> None:
    """In order, with names that distinguish them; a single value holds for all."""
    matrix = {"acks": ["1", "all"], "faults": [["kill", "pause"], "partition.*"], "duration_s": 9}
    found = cells_of(suite(matrix=matrix, seeds=2), BESIDE)
    assert [cell.name for cell in found] == [
        "first-light_acks-1_kill+pause",
        "first-light_acks-1_partition",
        "first-light_acks-all_kill+pause",
        "first-light_acks-all_partition",
    ]
    assert {cell.seeds for cell in found} == {2}
    assert found[0].argv(7, Path("/s")) == [
        *("run", "first-light", "--seed", "7", "--store", "/s", "--json"),
        *("--faults", "kill,pause", "--duration", "9", "--acks", "1"),
    ]


def test_cells_and_canaries_follow_the_matrix() -> None:
    """With their own names and seeds."""
    found = cells_of(
        suite(
            cell=[{"plan": "quick", "name": "rolling", "seeds": 3}],
            canary=[{"plan": "quick", "broker_module": MUTANT, "expect": "lost-write"}],
        ),
        BESIDE,
    )
    assert [(c.name, c.seeds, c.canary, c.expect) for c in found] == [
        ("rolling", 3, False, None),
        (f"quick_broker_module-{MUTANT}", 1, True, "lost-write"),
    ]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({}, "has no cells; give it a [matrix]"),
        ({"cell": [{"plan": "quick"}, {"plan": "quick"}]}, "two cells are called quick"),
        ({"cell": [{"plan": "no-such.toml"}]}, "give a TOML file or a packaged plan"),
        ({"cell": [{"plan": "quick", "nodes": 99}]}, "nodes"),
        (
            {"cell": [{"plan": "quick", "acks": "1", "expect": ["lost.acks-all = 0"]}]},
            "no topic of the plan has acks=all, only acks=1",
        ),
        ({"cell": [{"plan": "quick", "acks": "2"}]}, "no topic has the acks asked for"),
        (
            {"cell": [{"plan": "quick", "duration_s": 8}]},
            "after the chaos phase, which lasts 8000 ms",
        ),
        (
            {"canary": [{"plan": "quick", "broker_module": "mutants.ack_early"}]},
            "there is no broker module mutants.ack_early",
        ),
        (
            {"canary": [{"plan": "quick", "broker_module": f"{MUTANT}.more"}]},
            f"there is no broker module {MUTANT}.more",
        ),
    ],
)
def test_suite_that_cannot_run_is_refused_before_anything_starts(
    raw: dict[str, object], said: str
) -> None:
    """The message says what to do."""
    with pytest.raises(SuiteError) as caught:
        cells_of(suite(**raw), BESIDE)
    assert said in str(caught.value)


def test_dry_run_refuses_a_canary_whose_broker_module_does_not_exist(tmp_path: Path) -> None:
    """Before anything starts, with a sentence that names the cell and the module."""
    path = tmp_path / "suite.toml"
    path.write_text('name = "s"\n[[canary]]\nplan = "quick"\nbroker_module = "mutants.ack_early"\n')
    with pytest.raises(
        SuiteError,
        match=r"cell quick_\S+: plan quick: there is no broker module mutants\.ack_early",
    ):
        nightly(suite=path, store=tmp_path / "store", dry_run=True)
    assert not (tmp_path / "store").exists()


def test_canaries_of_the_documented_suite_can_run() -> None:
    """Their plans and broker modules exist."""
    text = (Path(__file__).parents[3] / "docs" / "nightly.md").read_text()
    documented = tomllib.loads(text.split("```toml")[1].split("```")[0])
    canaries = cells_of(suite(canary=documented["canary"]), BESIDE)
    assert [cell.settings.broker_module for cell in canaries] == [MUTANT]


def test_cells_have_expectations_of_the_suite_and_their_own() -> None:
    """A canary has none: its broker is broken."""
    found = cells_of(
        suite(
            expect={"lost": {"acks-all": 0}},
            matrix={"plan": "random"},
            cell=[{"plan": "quick", "expect": {"publish_p99_ms": "<= 50"}}],
            canary=[{"plan": "quick", "name": "bird", "expect": "one-leader"}],
        ),
        BESIDE,
    )
    assert [cell.expectations for cell in found] == [
        ("lost.acks-all = 0",),
        ("lost.acks-all = 0", "publish_p99_ms <= 50"),
        (),
    ]
    assert found[1].argv(7)[-4:] == [
        "--expect", "lost.acks-all = 0", "--expect", "publish_p99_ms <= 50",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"canary": [{"expect": "lost-writes"}]}, "did you mean lost-write?"),
        ({"canary": [{"expect": "unequal-ends"}]}, "no check can forbid 'unequal-ends'"),
        ({"cell": [{"expect": ["lots = 0"]}]}, "did you mean lost?"),
        ({"expect": "lost = 0"}, "expected a table of quantities or a list"),
    ],
)
def test_impossible_anomalies_and_quantities_are_refused(raw: dict[str, object], said: str) -> None:
    """Otherwise a canary would fail every night, or an expectation would never be checked."""
    with pytest.raises(SuiteError) as caught:
        suite(**raw)
    assert said in str(caught.value)


def test_file_that_is_no_suite_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """A missing file, no TOML, or an unknown key."""
    path = tmp_path / "s.toml"
    with pytest.raises(SuiteError, match="cannot be read"):
        load(path)
    path.write_text("name = [")
    with pytest.raises(SuiteError, match="no valid TOML"):
        load(path)
    path.write_text('name = "s"\nsedes = 3\n')
    with pytest.raises(SuiteError, match="sedes: there is no such key"):
        load(path)


def test_order_has_failed_cells_then_canaries_then_short_cells_in_each_round() -> None:
    """Every cell runs once before any cell runs twice."""
    cells = cells_of(
        suite(
            seeds=2,
            cell=[
                {"plan": "random", "name": "long", "duration_s": 500},
                {"plan": "random", "name": "short", "duration_s": 5},
                {"plan": "random", "name": "failed", "duration_s": 900},
            ],
            canary=[{"plan": "random", "name": "canary", "duration_s": 600, "seeds": 1}],
        ),
        BESIDE,
    )
    trials = [Trial(cell=cell.name, seed=n) for cell in cells for n in range(cell.seeds)]
    before = LastNight(failed=frozenset({"failed"}))
    ordered = in_order(cells, trials, before)
    first = ["failed", "canary", "short", "long"]
    assert [trial.cell for trial in ordered] == [*first, "failed", "short", "long"]

    by_name = {cell.name: cell for cell in cells}
    found = next_trial(ordered, by_name, before, 60)
    assert found is not None
    assert found.cell == "short", "the first that is over in time"
    assert next_trial(ordered, by_name, before, 10) is None
    seen = LastNight(seconds={"long": 8.0})
    assert seen.expected_s(by_name["long"]) == 8.0
