"""The types of the public API: what a user's type checker sees."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.highwater import use
from tests.support.histories.golden import ALL_GOLDEN
from tests.tools.anomaly_reports import write_run

ROOT = Path(__file__).parents[2]
EXAMPLE = Path(use.__file__)


def mypy(program: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Check a program strictly, as a user does, without this project's configuration."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(cache),
         "--ignore-missing-imports", "--follow-imports=silent", str(program)],
        cwd=program.parent, capture_output=True, text=True, check=False,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.slow
def test_a_strict_type_checker_accepts_an_example_and_refuses_a_mistake(tmp_path: Path) -> None:
    right = tmp_path / "use_of_api.py"
    right.write_text(EXAMPLE.read_text())
    checked = mypy(right, tmp_path / "cache")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    wrong = tmp_path / "misuse.py"
    wrong.write_text(
        "import highwater\n"
        "number: int = highwater.load('x').path\n"
        "highwater.check('x', engine='sqlite')\n"
        "highwater.load('x').verdict.outcomes\n"
    )
    checked = mypy(wrong, tmp_path / "cache")
    assert checked.stdout.count(": error:") == 3, checked.stdout


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    use.main(write_run(tmp_path, ALL_GOLDEN["replica_has_other_bytes"]))
    assert "INVALID" in capsys.readouterr().out
