"""What a run says of itself, and that nonsense says nothing."""

import json
from pathlib import Path

import pytest

from checkers.run_file import NOTHING_SAID, RunFile, read_run_file


def test_what_is_said_is_read(tmp_path: Path) -> None:
    """Phases and problems, in their order."""
    said = {"finished": ["deploy", "settle"], "epoch_problems": ["a-0 has no leader"], "more": 1}
    (tmp_path / "run.json").write_text(json.dumps(said))
    found = read_run_file(tmp_path)
    assert found == RunFile(finished=("deploy", "settle"), epoch_problems=("a-0 has no leader",))


@pytest.mark.parametrize("text", [None, "", "[1]", '{"finished": 3}', '{"finished": null}', "{"])
def test_nonsense_says_nothing(tmp_path: Path, text: str | None) -> None:
    """Neither a missing file nor a broken one is an error."""
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    assert read_run_file(tmp_path) == NOTHING_SAID


@pytest.mark.parametrize(
    ("run_file", "why"),
    [
        (NOTHING_SAID, "nobody recorded them"),
        (RunFile(finished=("deploy",)), "the run ended before"),
        (RunFile(finished=(), epoch_problems=()), "nobody recorded them"),
        (RunFile(epoch_problems=("a-10: gone", "a-1: refused", "b")), "a-1: refused"),
        (RunFile(epoch_problems=("the monitor is not running",)), "the monitor is not running"),
    ],
)
def test_why_epochs_are_not_in_the_record(run_file: RunFile, why: str) -> None:
    """The partition's own problem before everybody's."""
    assert run_file.why_epochs_unread("a-1") == why
