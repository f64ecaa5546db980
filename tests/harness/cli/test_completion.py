"""Shell completion: what a shell gets when somebody presses the tabulator key."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.argv = ["highwater", *sys.argv[1:]]
from harness.cli.main import main
main()
"""


def completed(line: str) -> list[str]:
    """What bash gets for the last word of a line."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, check=False,
        env={
            **os.environ, "_HIGHWATER_COMPLETE": "complete_bash", "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("highwater ana", ["analyze"]),
        ("highwater fault he", ["heal", "heal-all"]),
        ("highwater cluster tra", ["transactions"]),
        ("highwater run --see", ["--seed"]),
        ("highwater run first", ["first-light"]),
        ("highwater fault inject disk.st", ["disk.stall", "disk.stale-copy"]),
        ("highwater faults clock.j", ["clock.jump"]),
    ],
)
def test_commands_options_plans_and_faults_are_completed(line: str, words: list[str]) -> None:
    assert completed(line) == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_can_be_shown(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--show-completion", shell],
        capture_output=True, text=True, check=False,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "_HIGHWATER_COMPLETE" in done.stdout
