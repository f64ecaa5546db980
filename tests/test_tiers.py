"""What only the night runs is more of what every change shows."""

import re
from pathlib import Path

import pytest

from tests.support.tiers import LONGEST, place

ROOT = Path(__file__).parents[1]
USE = re.compile(r'nightly\(\s*"([^"]+)::(\w+)"')
TEXTS = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
USES = sorted({found for text in TEXTS.values() for found in USE.findall(text)})


def test_there_are_some() -> None:
    """The pattern finds the marks."""
    assert len(USES) > 5


@pytest.mark.parametrize(("file", "name"), USES)
def test_what_only_the_night_runs_names_a_test_of_every_change(file: str, name: str) -> None:
    """The named test exists, and no mark above it makes it nightly as a whole."""
    above, found, _ = (ROOT / "tests" / file).read_text().partition(f"def {name}(")
    assert found
    decorators = above.rpartition("\n\n\n")[2]
    assert "@pytest.mark.nightly" not in decorators


def test_nightly_functions_are_slow() -> None:
    """Or `make check` would run them. Marks of parameters are made by `tiers.nightly`."""
    for path, text in TEXTS.items():
        for block in text.split("\n\n\n"):
            if "\n@pytest.mark.nightly(" in "\n" + block:
                assert "@pytest.mark.slow" in block or "pytestmark = pytest.mark.slow" in text, path


def test_a_session_begins_with_files_that_exist() -> None:
    """In the order in which they are named; all others come after them."""
    assert all((ROOT / each).is_file() for each in LONGEST)
    assert sorted(["tests/a.py", *reversed(LONGEST)], key=place) == [*LONGEST, "tests/a.py"]
