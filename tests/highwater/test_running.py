"""`highwater.run`: errors of runs become errors of the API, and nothing is left behind."""

from pathlib import Path

import pytest

import highwater
from highwater import _running


def test_a_plan_that_cannot_be_run_is_refused_before_anything_starts(tmp_path: Path) -> None:
    plan = highwater.plan("acks-1-leader-cut-off", broker_module="no_such_module")
    with pytest.raises(highwater.InvalidPlan, match="no_such_module"):
        highwater.run(plan, store=tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_unknown_plan_is_named_with_the_plans_that_there_are() -> None:
    with pytest.raises(highwater.InvalidPlan, match="first-light"):
        highwater.run("first-lite")


def test_an_unknown_change_of_a_plan_is_named() -> None:
    with pytest.raises(highwater.InvalidPlan, match="no argument 'node'"):
        highwater.plan("first-light", node=5)


def test_a_run_without_an_answer_is_a_failed_run_with_its_last_lines() -> None:
    with pytest.raises(highwater.RunFailed, match="no space left") as failed:
        _running._run_of(255, "", ("  1.0s  deploy", "highwater: no space left"))
    assert failed.value.output[-1] == "highwater: no space left"


def test_a_run_whose_harness_failed_is_no_run_with_a_verdict() -> None:
    with pytest.raises(highwater.RunFailed, match="phase 'deploy'"):
        _running._run_of(
            1, '{"run": "x", "outcome": "FAILED", "reasons": ["in phase \'deploy\': x"]}', ()
        )


def test_the_plan_reaches_the_run_with_its_secrets() -> None:
    plan = highwater.plan("first-light", name="mine")
    secret = plan.model_copy(update={"broker": {"sasl.password": "hush"}})
    assert b"hush" in _running._as_toml(secret)
    assert "hush" not in str(secret.to_json())


def test_progress_is_told_line_by_line() -> None:
    told: list[str] = []
    command = ["python3", "-c", "import sys; print('1', file=sys.stderr); print('{}')"]
    assert _running._outcome(command, told.append) == (0, "{}\n", ("1",))
    assert told == ["1"]
