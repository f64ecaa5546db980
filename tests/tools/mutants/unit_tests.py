"""The broker's fast tests: which of them reach a function, and the first that a mutant fails."""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.simulation.decisions.mutations import Mutation
from tests.support import mutated, reaching

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = "tests/nodes"
TIMEOUT_S: Final = 300
HANGS: Final = "hangs"
_OPTIONS: Final = ("-q", "-n0", "-p", "no:cacheprovider", "-m", "not slow")


class UnitTests:
    """Tests by the function that they reach, the quickest first."""

    def __init__(self, by_function: Mapping[str, Sequence[str]]) -> None:
        self._by_function = by_function

    @classmethod
    def measured(cls) -> "UnitTests":
        """Run all tests once on the unmodified broker. Raises CalledProcessError if one fails."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "reached.json")
            names = {reaching.VARIABLE: str(path)}
            _pytest(reaching.__name__, names, FOLDER, timeout_s=None).check_returncode()
            found = json.loads(path.read_text())
        by_function: dict[str, list[str]] = defaultdict(list)
        for test, _, functions in sorted(found, key=lambda each: each[1]):
            for function in functions:
                by_function[function].append(test)
        return cls(by_function)

    def first_failure(self, mutation: Mutation) -> str | None:
        """Return the first test that fails with a mutation, and does so again; None when none does.

        HANGS is returned when the tests do not end.
        """
        tests = list(self._by_function.get(f"{mutation.module}:{mutation.function}", ()))
        try:
            while tests:
                failed = _first_failure(mutation, tests)
                if failed is None or failed == _first_failure(mutation, [failed]):
                    return failed
                tests = tests[tests.index(failed) + 1 :]  # a busy machine failed it
        except subprocess.TimeoutExpired:
            return HANGS
        return None


def _first_failure(mutation: Mutation, tests: Sequence[str]) -> str | None:
    """Return the first of these tests that fails. Raises TimeoutExpired."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "tests.txt")
        listed.write_text("\n".join(tests))
        names = {mutated.VARIABLE: mutation.name, mutated.TESTS: str(listed)}
        files = sorted({test.partition("::")[0] for test in tests})
        ended = _pytest(mutated.__name__, names, "-x", *files)
    if ended.returncode == 0:
        return None
    lines = ended.stdout.splitlines()
    failed = [line.split(" ", 1)[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    named = [test for test in tests if failed and failed[0].startswith(test)]
    return max(named, key=len, default=tests[0])


def _pytest(
    plugin: str, names: Mapping[str, str], *more: str, timeout_s: float | None = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", plugin, *_OPTIONS, *more],
        cwd=ROOT, env={**os.environ, **names}, timeout=timeout_s,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
