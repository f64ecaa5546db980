"""A stored run with any numbers and names is judged, printed and drawn; a page that cannot be
written hides no verdict."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest

from checkers.history.history import SCHEMAS, table
from harness.cli import main
from harness.judging import judge
from harness.recording import store
from harness.reports import page
from tests.support.histories.story import ALL, Story, healthy
from tests.support.tiers import in_turn

pytestmark = pytest.mark.slow

GREATEST = (1 << 63) - 1
NUMBERS = (GREATEST, GREATEST - 1, -(1 << 63), (1 << 53) + 1)
OFFSETS = ("assign", "final-read", "final-read-end", "poll", "send", "watermark")
COLUMNS = (
    *((f, "offset") for f in OFFSETS),
    ("send", "invoke_ns"),
    ("poll", "complete_ns"),
    ("cluster", "start_offset"),
    ("cluster", "at_ns"),
    ("faults", "healed_ns"),
    ("replicas", "last_offset"),
    ("replica_ends", "end_offset"),
    ("replica_ends", "high_watermark"),
)
"""Of rows of the history, by their operation, or of another table."""
EACH = in_turn(
    "system/test_hostile_runs.py::test_numbers_at_the_limits_end_in_a_verdict_and_a_page",
    [(*column, number) for column in COLUMNS for number in NUMBERS],
    of=5,  # with four numbers a turn would have one number for all columns
)


def write(story: Story, root: Path) -> Path:
    """A stored run of a story."""
    run = store.create(root, "told", versions={}, commit=None)
    run.write_json("plan.json", story.plan)
    run.update(finished=["settle"], epoch_problems=[])
    history = table(SCHEMAS["history"], story.history)
    pyarrow.parquet.write_table(history, run.history_dir / "a.parquet")
    for name in SCHEMAS.keys() - {"history"}:
        run.write_table(name, getattr(story, name))
    return run.path


def exit_code(*arguments: str) -> int:
    """That of a command line."""
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def bent(where: str, column: str, number: int) -> Story:
    """The healthy run with one number changed: of a row of the history, or of another table."""
    story = healthy()
    rows = (
        [row for row in story.history if row["f"] == where]
        if where in OFFSETS
        else getattr(story, where)
    )
    row = next(row for row in reversed(rows) if row.get(column) is not None)
    row[column] = number
    return story


@pytest.mark.parametrize(("where", "column", "number"), EACH)
def test_numbers_at_the_limits_end_in_a_verdict_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, column: str, number: int
) -> None:
    """Whatever the verdict is: the exit code is its, and the page is drawn and says what it cannot
    draw."""
    path = write(bent(where, column, number), tmp_path)
    code = exit_code("check", str(path))
    said = capsys.readouterr()
    assert code in judge.EXIT_CODES.values(), said.err
    assert said.err == ""
    page = (path / "report.html").read_text()
    assert "cannot be read" not in page
    beyond = abs(number) > 1 << 61 if column.endswith("_ns") else True
    assert ("too large to draw" in page) == beyond


def test_a_page_that_cannot_be_written_hides_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict and its exit code come all the same, and what became of the page is said."""
    story = healthy()
    story.history = [
        row for row in story.history if (row["f"], row.get("offset")) != ("final-read", 19)
    ]
    path = write(story, tmp_path)

    def fail(_: Path) -> Path:
        raise RuntimeError("the page is broken")

    monkeypatch.setattr(page, "write_report", fail)
    assert exit_code("check", str(path), "--json") == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["verdict"] == "INVALID"
    assert "RuntimeError: the page is broken" in said.err


@pytest.mark.parametrize("command", ["check", "analyze"])
def test_names_from_a_run_do_nothing_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Markup is shown as it is, control characters as escapes."""
    story = healthy()
    name = "[/red]\x1b]0;owned\x07"
    for rows in (story.history, story.cluster, story.replicas, story.replica_ends):
        for row in rows:
            if row.get("topic") == ALL:
                row["topic"] = name
    story.plan["topics"][-1]["name"] = name
    for send in (row for row in story.history if row["f"] == "final-read"):
        send["value"] = None
    code = exit_code(command, str(write(story, tmp_path)))
    said = capsys.readouterr()
    assert code in (1, 2), said.err
    assert "[/red]" in said.out
    assert "\x1b" not in said.out + said.err
    assert "\x07" not in said.out + said.err
