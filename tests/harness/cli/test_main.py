"""The command line: exit codes and messages."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from harness.cli.main import main
from harness.plans import fault_catalogue
from harness.recording import store
from nemesis.conditions import FORMS
from nemesis.faults.catalogue import FAULTS
from nemesis.selectors import SELECTORS
from tests.support.clusters.cluster_command import called

KILL = '[[nemesis.events]]\nat_ms = 0\nfault = "kill"\nduration_ms = 100\n'


@pytest.mark.parametrize(
    ("plan", "arguments", "message"),
    [
        (None, ["run", "absent.toml"], "plan absent.toml: cannot be read (No such file"),
        (None, ["run", "."], "plan .: cannot be read (Is a directory)"),
        ("nodes = ", ["run", "my.toml"], "plan my.toml: is no valid TOML"),
        ("nodez = 3", ["run", "my.toml"], "nodez: there is no such key"),
        ("nodes = 2", ["run", "my.toml"], "replication_factor 3 is more than the 2 nodes"),
        ('[nemesis]\nfaults = ["melt"]', ["run", "my.toml"], "there is no fault 'melt'"),
        (KILL + 'targets = "node:9"\n', ["run", "my.toml"], "there is no node 9"),
        (None, ["run", "--faults", "kill,paws"], "there is no fault 'paws' (did you mean pause?)"),
        (None, ["run", "--nodes", "1"], "replication_factor 3 is more than the 1 nodes"),
        (
            None,
            ["run", "--target", "moon"],
            "target: input should be 'local', ",
        ),
        (None, ["run", "--duration", "soon"], "no duration"),
        (None, ["run", "--acks", "2"], "--acks"),
        (None, ["run", "quick", "random"], "unexpected extra argument"),
        (None, ["run", "--loudly"], "No such option: --loudly"),
        (None, ["run", "--replay", "nowhere"], "nowhere: no such run directory"),
        (None, ["run", "quick", "--replay", "nowhere"], "leave out a plan"),
        (None, ["run", "--resolved"], "--resolved is for --replay"),
        (None, ["run", "--no-heal"], "--no-teardown too"),
        (None, ["run", "--schedule", "steps.toml"], "steps.toml: cannot be read (No such file"),
        (None, ["run", "quick", "--dry-run", "--faults", "melt.*"], "no fault matches 'melt.*'"),
        (None, ["faults", "melt"], "there is no fault 'melt'"),
        (None, ["walk"], "No such command 'walk'"),
        (None, ["check"], "Missing argument"),
        (None, ["check", "nowhere"], "nowhere: no such run directory"),
        (None, ["check", "."], ".: is no run"),
        (None, ["check", ".", "--engine", "abacus"], "--engine"),
        (None, ["check", ".", "--expect", "lots = 0"], "did you mean lost?"),
        (None, ["run", "--expect", "p99 <= 5"], "quantities are lost, duplicates"),
        (None, ["simulate", "--expect", "lost"], "'lost' is not an expectation"),
        (
            "[expect]\nlost.acks-2 = 0\n",
            ["run", "my.toml"],
            "expect: 'lost.acks-2 = 0': there is no",
        ),
        (None, ["report", "nowhere"], "nowhere: no such run directory"),
        (None, ["cluster", "up", "--nodes", "0"], "--nodes"),
        (None, ["cluster", "up", "--broker-module", "no way"], "broker_module: "),
    ],
)
def test_bad_arguments_end_with_254_and_one_message(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plan: str | None,
    arguments: list[str],
    message: str,
) -> None:
    """There is no traceback, nothing on stdout, and no new file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it goes on with other privileges"))
    if plan is not None:
        (tmp_path / "my.toml").write_text('name = "mine"\nseed = 1\n' + plan)
    before = sorted(tmp_path.iterdir())
    done = called(*arguments)
    assert done.code == 254, done.err
    assert message in done.err
    assert done.err.count("highwater: ") == 1
    assert "Traceback" not in done.err
    assert done.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_debug_adds_the_traceback(tmp_path: Path) -> None:
    """The message and the exit code stay the same."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "run", "absent.toml", "--debug"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 254
    assert "Traceback" in done.stderr
    assert "cannot be read" in done.stderr


def test_interrupted_command_ends_with_255_and_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typer's own code for Ctrl-C says nothing."""

    def interrupted(_: str) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.plans.plan.load", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["plans"])
    assert end.value.code == 255
    assert capsys.readouterr().err == (
        "highwater: interrupted; `highwater clean` removes what may still be running\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--version"], ["--help"], ["run", "--help"]),
        *(["plans"], ["plan", "show", "quick"], ["cluster", "--help"]),
        *(["faults"], ["faults", "--json"], ["run", "quick", "--faults", "kill", "--dry-run"]),
    ],
)
def test_information_goes_to_stdout_with_exit_code_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Help, version, lists and a dry run print nothing on stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it goes on with other privileges"))
    done = called(*arguments)
    assert done.code == 0
    assert done.out
    assert done.err == ""


def test_the_catalogue_tells_of_every_fault_target_and_condition() -> None:
    """With all parameters and their defaults; for programs the same."""
    told, data = fault_catalogue.text(), fault_catalogue.as_json()
    assert [fault["name"] for fault in data["faults"]] == list(FAULTS)
    assert [fault_catalogue.as_json(name) for name in FAULTS] == data["faults"]
    for name, fault in FAULTS.items():
        assert f"{fault_catalogue.describe(name)}\n" in told
        assert f"  {name}: {fault.about}\n" in told
        for option in fault.options:
            assert f"      {option.name} = {option.default or '(empty)'}: {option.about}\n" in told
    for text in (*SELECTORS, *SELECTORS.values(), *FORMS, *FORMS.values()):
        assert text in told


def test_a_run_that_recorded_nothing_is_unknown(tmp_path: Path) -> None:
    """A run directory with a plan and nothing else is a run; nothing can be concluded from it."""
    run = store.create(tmp_path, "test", versions={}, commit=None)
    run.write_json("plan.json", {"name": "test", "topics": [{"name": "t", "acks": 1}]})
    done = called("check", str(run.path), "--json", "--no-report")
    assert done.code == 2, done.err
    verdict = json.loads(done.out)
    assert verdict["verdict"] == "UNKNOWN"
    assert verdict["reasons"]
    assert json.loads((run.path / "verdict.json").read_text()) == verdict
