"""The GitHub Action: its step `run` as a runner executes it, with the command and with a fake."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkers.verdict import Outcome
from harness.reports.summary import LOOKS
from tests.support.require import require
from tests.support.tiers import at_turn

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
FAKE = """#!/bin/bash
echo "$@" > arguments
echo "  1.0s  chaos"
echo
echo "✕ INVALID: CONTRACT BROKEN"
echo "report   highwater-store/quick/1/report.html"
echo "run      highwater-store/quick/1"
exit 1
"""


def step(name: str) -> dict[str, Any]:
    """A step of the action."""
    (found,) = [each for each in ACTION["runs"]["steps"] if each["name"] == name]
    return dict(found)


class Runner:
    """Executes the step `run` as GitHub's runners do, in a directory of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.summary, self.output = folder / "summary", folder / "output"

    def command(self, text: str) -> None:
        """The program `highwater` of this machine."""
        program = self.tools / "highwater"
        program.write_text(text)
        program.chmod(0o755)

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """The step with these inputs; the others have their defaults."""
        given = {name: str(each["default"]) for name, each in ACTION["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        environment = {
            name: given[text.removeprefix("${{ inputs.").removesuffix(" }}")]
            for name, text in step("run")["env"].items()
        }
        environment |= {"GITHUB_OUTPUT": str(self.output), "GITHUB_STEP_SUMMARY": str(self.summary)}
        environment["PATH"] = f"{self.tools}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step("run")["run"]],
            cwd=self.folder, env=os.environ | environment, capture_output=True, text=True,
        )  # fmt: skip


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner with a fake command, which judges INVALID."""
    made = Runner(tmp_path)
    made.command(FAKE)
    return made


def test_verdict_is_the_summary_and_decides(runner: Runner) -> None:
    """The step fails as the command does, after it has said where the run is."""
    ended = runner.run(plan="quick", arguments="--seed 7")
    assert ended.returncode == 1
    words = (runner.folder / "arguments").read_text().split()
    assert words == ["run", "quick", "--store", "highwater-store", "--seed", "7"]
    assert runner.output.read_text() == "run=highwater-store/quick/1\n"
    summary = runner.summary.read_text()
    assert summary.startswith("```\n✕ INVALID: CONTRACT BROKEN\n")
    assert "chaos" not in summary
    assert "chaos" in ended.stdout


@pytest.mark.parametrize("sign", ["", *(f"{sign} " for sign, _ in LOOKS.values())])
@pytest.mark.parametrize("verdict", Outcome)
def test_summary_begins_with_every_verdict(runner: Runner, sign: str, verdict: Outcome) -> None:
    """Also with the sign of permitted losses, and without signs on an ASCII terminal."""
    line = f"{sign}{verdict}: WHAT IT MEANS"
    runner.command(FAKE.replace("✕ INVALID: CONTRACT BROKEN", line))
    runner.run(plan="quick")
    assert runner.summary.read_text().startswith(f"```\n{line}\n")


def test_program_is_tested_by_its_file(runner: Runner) -> None:
    """A path with a space stays one word."""
    runner.run(test_app="my app/APP.toml")
    assert (runner.folder / "arguments").read_text().startswith("test-app my app/APP.toml --store")


@pytest.mark.parametrize("inputs", [{}, {"plan": "quick", "test_app": "APP.toml"}])
def test_one_of_two_inputs_is_needed(runner: Runner, inputs: dict[str, str]) -> None:
    """Neither and both are errors that GitHub shows."""
    ended = runner.run(**inputs)
    assert ended.returncode == 2
    assert "::error::give the input plan, or the input test-app" in ended.stdout


@pytest.mark.slow
@at_turn(0, 2, "harness/run/test_runner.py::test_real_run_ends_in_a_verdict_and_can_be_replayed")
def test_real_run_in_a_job(tmp_path: Path) -> None:
    """A short run is VALID, and the report is where the next step uploads it."""
    require("root", "netns")
    runner = Runner(tmp_path)
    runner.command(
        f'#!/bin/bash\nPYTHONPATH={ROOT} exec {sys.executable} -m harness.cli.main "$@"\n'
    )
    ended = runner.run(plan="quick", arguments="--duration 12 --seed 3 --faults pause")
    assert ended.returncode == 0, ended.stdout
    assert " VALID: " in runner.summary.read_text()
    run = runner.output.read_text().strip().removeprefix("run=")
    assert (tmp_path / run / "report.html").stat().st_size > 10_000
