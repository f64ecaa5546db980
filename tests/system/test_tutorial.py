"""The commands of docs/tutorial.md, as a new user types them, one after the other."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.require import SEARCH_PATH, require
from tests.support.tiers import at_turn
from tests.test_docs import ROOT, blocks

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "tutorial.md"
TIMEOUT_S = 1800
VIOLATION = "ack_before_replication"
"""The command with this broker module must end with 1."""


SEEDS = re.compile(r"^(\d+)\.\.\d+$")


def commands() -> list[list[str]]:
    """The `highwater` commands of the page, in order, without those that need Apache Kafka."""
    lines = [line for kind, text in blocks(PAGE) if kind == "" for line in text.splitlines()]
    found = [shlex.split(line) for line in lines if line.startswith("highwater ")]
    return [each[1:] for each in found if "kafka" not in each]


@at_turn(0, 4, "test_docs.py::test_every_command_and_option_in_the_documentation_exists")
def test_the_commands_of_the_tutorial_do_what_it_says(tmp_path: Path) -> None:
    require("netns")
    (plan,) = (text for kind, text in blocks(PAGE) if kind == "plan")
    (tmp_path / "my-plan.toml").write_text(plan)
    assert len(commands()) >= 6
    for typed in commands():
        # One of the seeds shows what the command does; each is half a minute of a cluster.
        arguments = [SEEDS.sub(r"\1..\1", each) for each in typed]
        ended = subprocess.run(
            [sys.executable, "-m", "harness.cli.main", *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
            env={"PYTHONPATH": str(ROOT), "PATH": SEARCH_PATH, "COLUMNS": "100"},
        )  # fmt: skip
        expected = 1 if any(VIOLATION in each for each in arguments) else 0
        shown = re.sub(r"\s+", " ", ended.stdout + ended.stderr)[-2000:]
        assert ended.returncode == expected, f"{arguments}: {shown}"
