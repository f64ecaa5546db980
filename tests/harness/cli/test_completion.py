"""Shell completion: what a shell gets when somebody presses the tabulator key."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import contextlib, io, json, os, sys
from harness.cli.main import main
printed = []
for environment, arguments in json.loads(sys.argv[1]):
    os.environ.update(environment)
    sys.argv = ["highwater", *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as ended:
            assert ended.code == 0, ended.code
    printed.append(out.getvalue())
    for name in environment:
        del os.environ[name]
print(json.dumps(printed))
"""
"""One process for many calls, because a process takes longer to start than all of them. Typer asks
the process for the name of the command, so it cannot be that of pytest."""

COMPLETED = {
    "highwater ana": ["analyze"],
    "highwater fault he": ["heal", "heal-all"],
    "highwater cluster tra": ["transactions"],
    "highwater run --see": ["--seed"],
    "highwater run first": ["first-light"],
    "highwater fault inject disk.st": ["disk.stall", "disk.stale-copy"],
    "highwater faults clock.j": ["clock.jump"],
}
SHELLS = ("bash", "zsh", "fish")

Call = tuple[dict[str, str], list[str]]
"""Environment and arguments."""


def completion_of(line: str) -> Call:
    """How bash asks for the last word of a line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    return {"_HIGHWATER_COMPLETE": "complete_bash", **words}, []


def script_of(shell: str) -> Call:
    """How a user asks for the script of a shell."""
    return {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}, ["--show-completion", shell]


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What `highwater` prints for each line and each shell."""
    calls = [*map(completion_of, COMPLETED), *map(script_of, SHELLS)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(calls)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip([*COMPLETED, *SHELLS], json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("line", "words"), COMPLETED.items())
def test_commands_options_plans_and_faults_are_completed(
    line: str, words: list[str], printed: dict[str, str]
) -> None:
    assert printed[line].split() == words


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_can_be_shown(shell: str, printed: dict[str, str]) -> None:
    assert "_HIGHWATER_COMPLETE" in printed[shell]
