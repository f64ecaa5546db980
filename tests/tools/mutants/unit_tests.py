"""The broker's fast tests: which of them reach a function, and the first that a mutant fails."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.simulation.decisions.mutations import Mutation
from tests.support import mutated, reaching
from tests.tools.mutants.patience import Patience

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = "tests/nodes"
HANGS: Final = "hangs"
CPU_S: Final = 600
ASLEEP_S: Final = 120
"""More than all tests of one function use, and sleep."""
LOOK_EVERY_S: Final = 0.5
_OPTIONS: Final = ("-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow")


class UnitTests:
    """Tests by the function that they reach, the quickest first."""

    def __init__(self, by_function: Mapping[str, Sequence[str]]) -> None:
        self._by_function = by_function

    @classmethod
    def measured(cls, path: Path) -> "UnitTests":
        """Run all tests once on the unmodified broker, unless `path` has what they reached.

        Raises RuntimeError if one fails.
        """
        if not path.exists():
            names = {reaching.VARIABLE: str(path)}
            if (printed := _pytest(reaching.__name__, names, FOLDER)) is not None:
                path.unlink(missing_ok=True)
                raise RuntimeError("\n".join(["tests of the unmodified broker fail", *printed]))
        by_function: dict[str, list[str]] = defaultdict(list)
        for test, _, functions in sorted(json.loads(path.read_text()), key=lambda each: each[1]):
            for function in functions:
                by_function[function].append(test)
        return cls(by_function)

    def first_failure(self, mutation: Mutation) -> str | None:
        """Return the first test that fails with a mutation, and does so again; None when none does.

        HANGS is returned when the tests do not end.
        """
        tests = list(self._by_function.get(f"{mutation.module}:{mutation.function}", ()))
        while tests:
            failed = _first_failure(mutation, tests)
            if failed in (None, HANGS) or failed == _first_failure(mutation, [failed]):
                return failed
            tests = tests[tests.index(failed) + 1 :]  # a busy machine failed it
        return None


def _first_failure(mutation: Mutation, tests: Sequence[str]) -> str | None:
    """Return the first of these tests that fails; HANGS if they do not end."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "tests.txt")
        listed.write_text("\n".join(tests))
        names = {mutated.VARIABLE: mutation.name, mutated.TESTS: str(listed)}
        files = sorted({test.partition("::")[0] for test in tests})
        try:
            output = _pytest(mutated.__name__, names, "-x", *files)
        except _Hangs:
            return HANGS
    if output is None:
        return None
    failed = [line.split(" ", 1)[1] for line in output if line.startswith(("FAILED ", "ERROR "))]
    named = [test for test in tests if failed and failed[0].startswith(test)]
    return max(named, key=len, default=tests[0])


class _Hangs(Exception):
    """The tests do not end."""


def _pytest(plugin: str, names: Mapping[str, str], *more: str) -> list[str] | None:
    """Run tests; return the lines that they print, None if none fails. Raises _Hangs."""
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", plugin, *_OPTIONS, *more],
            cwd=ROOT, env={**os.environ, **names}, stdout=printed, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        patience = Patience(process.pid, cpu_s=CPU_S, asleep_s=ASLEEP_S)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_EVERY_S)
                    break
                if patience.ended():
                    raise _Hangs
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        printed.seek(0)
        return None if process.returncode == 0 else printed.read().splitlines()
