"""What only the night runs is more of what every change shows."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.tiers import (
    CLUSTERS,
    LONGEST,
    SPARK,
    a_third_fast,
    at_turn,
    done,
    in_turn,
    place,
    scope,
    share,
)

ROOT = Path(__file__).parents[1]
USE = re.compile(
    r'(?:nightly|in_turn|a_third_fast|at_turn)\((?:\s*\d,\s*\d,)?\s*"([^":]+)(?:"\s*")?::(\w+)"'
)
TEXTS = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
USES = sorted({found for text in TEXTS.values() for found in USE.findall(text)})


AT_TURN = re.compile(r'@at_turn\(\s*(\d),\s*(\d),\s*"([^":]+)(?:"\s*")?::(\w+)"')
TURNS = {
    f"{path.relative_to(ROOT / 'tests')}::{function[1]}": (
        found[1],
        found[2],
        "::".join(found.group(3, 4)),
    )
    for path, text in TEXTS.items()
    for block in text.split("\n\n\n")
    if (found := AT_TURN.search(block)) and (function := re.search(r"def (\w+)\(", block))
}
"""By test that has a turn of its own: the turn, of how many, and the test that it names."""


def test_there_are_some() -> None:
    """The pattern finds the marks."""
    assert len(USES) > 5
    assert len(TURNS) > 5


@pytest.mark.parametrize(("file", "name"), USES)
def test_what_only_the_night_runs_names_a_test_of_every_change(file: str, name: str) -> None:
    """The named test exists, and no mark above it makes it nightly as a whole."""
    above, found, _ = (ROOT / "tests" / file).read_text().partition(f"def {name}(")
    assert found
    decorators = above.rpartition("\n\n\n")[2]
    assert "@pytest.mark.nightly" not in decorators


@pytest.mark.parametrize("name", TURNS)
def test_a_test_names_one_that_has_another_turn(name: str) -> None:
    """Or one that has no turn of its own, so that every change runs one of its kind."""
    turn, of, daily = TURNS[name]
    other_turn, other_of, _ = TURNS.get(daily, ("none", of, ""))
    assert (turn, of) != (other_turn, other_of)
    assert of == other_of


def test_nightly_functions_are_slow() -> None:
    """Or `make check` would run them. Marks of parameters are made by `tiers.nightly`."""
    for path, text in TEXTS.items():
        for block in text.split("\n\n\n"):
            if re.search(r"^@(pytest\.mark\.nightly|at_turn)\(", block, re.MULTILINE):
                assert "@pytest.mark.slow" in block or "pytestmark = pytest.mark.slow" in text, path


@pytest.mark.parametrize("of", [1, 3, 4])
def test_all_turns_together_run_everything_once(of: int) -> None:
    """And each turn runs about the same number."""
    shares = [share(range(10), of, turn) for turn in range(7, 7 + of)]
    assert sorted(number for each in shares for number in each) == list(range(10))
    assert {len(each) for each in shares} <= {10 // of, 10 // of + 1}


def marks(parameter: object) -> list[str]:
    """The names of the marks of a parameter."""
    return sorted(mark.name for mark in getattr(parameter, "marks", ()))


def test_a_parameter_is_nightly_outside_its_turn() -> None:
    """And slow in any case."""
    found = in_turn("test_tiers.py::test_a_parameter_is_nightly_outside_its_turn", range(9), of=3)
    assert sorted(map(marks, found)) == [["nightly", "slow"]] * 6 + [["slow"]] * 3


def test_tests_with_turns_of_their_own_share_the_commits() -> None:
    """One of them runs, the others are nightly."""
    found = [at_turn(turn, 3, "test_tiers.py::test_there_are_some").name for turn in range(3)]
    assert sorted(found) == ["nightly", "nightly", "slow"]


def test_a_third_is_fast_and_the_rest_is_slow() -> None:
    """Of the rest one half is not nightly."""
    daily = "test_tiers.py::test_a_third_is_fast_and_the_rest_is_slow"
    found = a_third_fast(daily, list("abcdef"), of=2)
    assert sorted(map(marks, found)) == [[]] * 2 + [["nightly", "slow"]] * 2 + [["slow"]] * 2


def test_a_session_begins_with_files_that_exist() -> None:
    """In the order in which they are named; then others with clusters, and then the rest."""
    assert all((ROOT / each).is_file() for each in LONGEST)
    rest = [f"{CLUSTERS}a.py", "tests/a.py"]
    assert sorted([*reversed(rest), *reversed(LONGEST)], key=place) == [*LONGEST, *rest]


USES_SPARK = re.compile(r"\bspark: Any\b|\blocal_spark_session\(|\"spark\"(\)\.|, pieces)")


def test_files_with_tests_on_spark_share_a_worker() -> None:
    """The others have one for each file."""
    found = {str(path.relative_to(ROOT)) for path, text in TEXTS.items() if USES_SPARK.search(text)}
    assert found == set(SPARK)
    assert {scope(f"{file}::test_it[a::b]") for file in SPARK} == {"Spark"}
    assert scope("tests/a.py::test_it[a::b]") == "tests/a.py"


def test_a_file_is_done_when_none_of_its_tests_is_left() -> None:
    """One that was skipped, failed or left out keeps its file in the next session."""
    assert done(["a.py::one", "a.py::two[1]", "b.py::one"], ["b.py::two", "c.py::one"]) == ["a.py"]


OF_THREE_KINDS = {
    "test_all.py": "def test_it(): pass",
    "test_slow.py": """
        import pytest
        def test_it(): pass
        @pytest.mark.slow
        def test_slow(): pass
    """,
    "test_wants.py": """
        import os, pytest
        def test_other(): pass
        @pytest.mark.skipif("TOOL" not in os.environ, reason="no tool")
        def test_it(): pass
    """,
}


def test_a_second_session_leaves_out_what_has_passed(tmp_path: Path) -> None:
    """It imports no file of which all has passed, and runs what was left out or skipped."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow")
    for name, text in OF_THREE_KINDS.items():
        (tmp_path / name).write_text(dedent(text))

    def session(*options: str, **variables: str) -> str:
        argv = (
            sys.executable,
            "-m",
            "pytest",
            "-v",
            "-p",
            "xdist",
            "--numprocesses",
            "1",
            *options,
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        return done.stdout

    first = session("-m", "not slow", "--remember-passed")
    assert "3 passed, 1 skipped" in first
    (tmp_path / "test_all.py").write_text("raise AssertionError('imported again')")
    second = session("--leave-out-passed", TOOL="1")
    assert sorted(re.findall(r"PASSED (\S+)", second)) == [
        "test_slow.py::test_slow",
        "test_wants.py::test_it",
    ]
