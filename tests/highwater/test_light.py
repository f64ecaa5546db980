"""`import highwater` loads nothing: each name is loaded at its first use."""

import subprocess
import sys
from pathlib import Path

import pytest

import highwater

ROOT = Path(__file__).parents[2]
HEAVY = ("pyarrow", "pydantic", "pandas", "duckdb", "kio", "pyspark", "typer", "numpy", "harness")


def loaded_by(code: str, *, prefixes: tuple[str, ...] = HEAVY) -> list[str]:
    """The heavy modules that are loaded after some code, in a new process."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in ended.stdout.split() if name in prefixes]


def test_importing_highwater_loads_nothing() -> None:
    assert loaded_by("import highwater; dir(highwater)") == []


def test_the_plugin_of_pytest_loads_nothing_before_it_is_used() -> None:
    assert loaded_by("import highwater.pytest_plugin") == []


def test_the_help_of_the_command_line_loads_no_library_of_data() -> None:
    code = "from harness.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    heavy = tuple(name for name in HEAVY if name not in ("typer", "harness", "kio"))
    assert loaded_by(code, prefixes=heavy) == []


@pytest.mark.parametrize("name", highwater.__all__)
def test_every_public_name_is_there_and_in_dir(name: str) -> None:
    assert getattr(highwater, name) is not None
    assert name in dir(highwater)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'ruin'"):
        highwater.ruin  # noqa: B018 - looking it up is the test
