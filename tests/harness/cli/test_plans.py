"""`highwater plans` and `highwater plan show | init`."""

import json
import tomllib
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.cli.plans import packaged_plans, purpose_of
from harness.plans.plan import Plan, build, load, packaged, packaged_files


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code of a command, and its stdout and stderr."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_plans_lists_every_packaged_plan_with_its_purpose(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = printed(capsys, "plans")
    assert code == 0
    for each in packaged_plans():
        assert any(
            line.split()[:1] == [each.name] and line.endswith(each.purpose)
            for line in out.splitlines()
        ), each.name
    code, out, _ = printed(capsys, "plans", "--json")
    listed = json.loads(out)
    assert sorted(each["name"] for each in listed) == list(packaged())
    assert {each["kind"] for each in listed} == {"plan", "scenario"}
    (first_light,) = [each for each in listed if each["name"] == "first-light"]
    assert first_light["duration_s"] == 64


@pytest.mark.parametrize("name", packaged())
def test_first_comment_line_of_a_packaged_plan_is_its_purpose(name: str) -> None:
    """One whole sentence that fits on a line of the list."""
    text = packaged_files()[name].read_text()
    purpose = purpose_of(text)
    assert text.startswith(f"# {purpose}\n")
    assert purpose[0].isupper()
    assert purpose.endswith(".")
    assert len(purpose) <= 92


def test_plan_without_a_comment_has_no_purpose() -> None:
    assert purpose_of('name = "a"\n') == ""


def test_show_prints_the_file_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, "plan", "show", "quick")
    assert code == 0
    assert out == packaged_files()["quick"].read_text()


@pytest.mark.parametrize("name", packaged())
def test_resolved_plan_has_every_key_and_is_the_same_plan(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed can be saved and run: it is read back as the plan it was made from."""
    code, out, _ = printed(capsys, "plan", "show", name, "--resolved")
    assert code == 0
    values = tomllib.loads(out)
    raw = load(name)
    assert ("seed" in values) == ("seed" in raw)
    seed = {"seed": raw.get("seed", 7)}
    assert Plan.from_json({**values, **seed}, name) == build({**raw, **seed}, where=name)
    assert values["settle_timeout_s"] > 0
    assert "linger_ms" in values["workload"]


def test_show_takes_a_file_and_refuses_a_broken_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my.toml"
    file.write_text('name = "mine"\n')
    assert printed(capsys, "plan", "show", str(file)) == (0, 'name = "mine"\n', "")
    file.write_text("nodez = 3\n")
    code, out, err = printed(capsys, "plan", "show", str(file))
    assert (code, out) == (254, "")
    assert "there is no such key" in err
    code, _, err = printed(capsys, "plan", "show", "nowhere")
    assert code == 254
    assert "first-light" in err


def test_init_writes_a_plan_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is named after its file; a dry run accepts it, and a simulated run is VALID."""
    file = tmp_path / "My First Plan.toml"
    assert printed(capsys, "plan", "init", str(file)) == (0, f"{file}\n", "")
    assert tomllib.loads(file.read_text())["name"] == "my-first-plan"
    code, out, _ = printed(capsys, "run", str(file), "--dry-run")
    assert code == 0
    assert "partition.isolate-leader" in out
    store = str(tmp_path / "store")
    options = ("--seeds", "3", "--jobs", "1", "--rate", "5", "--store", store)
    code, out, err = printed(capsys, "simulate", str(file), *options)
    assert code == 0, out + err


def test_init_does_not_overwrite_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("precious")
    code, out, err = printed(capsys, "plan", "init", str(file))
    assert (code, out) == (254, "")
    assert "exists already" in err
    assert file.read_text() == "precious"
    code, _, err = printed(capsys, "plan", "init", str(tmp_path / "no" / "mine.toml"))
    assert code == 254
    assert "cannot be written" in err
