"""`highwater analyze`: arguments, exit codes, and the files that it writes."""

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet
import pytest

from harness.cli.main import main
from harness.recording import store
from tests.support.histories.story import ALL, Story, healthy, v


def stored(root: Path, story: Story) -> str:
    """Store a story as a run directory; return its path."""
    run = store.create(root, "told", versions={}, commit=None)
    run.write_json("plan.json", story.plan)
    for name, rows in story.tables().items():
        folder = run.history_dir if name == "history" else run.path
        pyarrow.parquet.write_table(rows, folder / f"{name}.parquet")
    run.update(**asdict(story.run_file))
    return str(run.path)


def exit_code(*arguments: str) -> int:
    """Run `highwater analyze`; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["analyze", *arguments])
    return int(ended.value.code or 0)


def test_worst_run_decides_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run directory gets its verdict, and the output folder gets all tables."""
    lossy = healthy()
    lossy.forget(topic=ALL, values={v(ALL, 15)})
    runs = [stored(tmp_path / name, story) for name, story in (("a", healthy()), ("b", lossy))]
    out = tmp_path / "out"
    assert exit_code(*runs, "--out", str(out), "--json", "--no-report") == 1
    answer = json.loads(capsys.readouterr().out)
    assert [run["verdict"] for run in answer["runs"]] == ["VALID", "INVALID"]
    assert json.loads((Path(runs[1]) / "verdict.json").read_text())["verdict"] == "INVALID"
    assert sorted(path.name for path in out.iterdir()) == [
        "aggregates.parquet", "anomalies.parquet", "verdict.json", "verdicts",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no such run directory"),
        (["x", "--master", "local", "--remote", "sc://x"], "two ways to one cluster"),
        (["x", "--master", "local", "--engine", "duckdb"], "runs on this machine only"),
        (["s3a://bucket/run"], "only Spark reads"),
        (["x", "--out", "s3a://bucket/out"], "only Spark writes"),
    ],
)
def test_bad_arguments_are_refused_before_anything_starts(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert exit_code(*arguments) == 254
    assert message in capsys.readouterr().err
