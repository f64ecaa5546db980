"""The broker's fast tests: which of them reach a function, and the first that a mutant fails.

The tests are collected once. What tries a mutant is forked from the process that has them.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Pipe
from pathlib import Path
from queue import Empty, SimpleQueue
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
    """Tests by the function that they reach, the quickest first. Close it at the end."""

    def __init__(self, by_function: Mapping[str, Sequence[str]], collected: str = FOLDER) -> None:
        self._by_function = by_function
        self._collected = collected
        self._idle: SimpleQueue[_Session] = SimpleQueue()

    @classmethod
    def measured(cls, path: Path) -> "UnitTests":
        """Run all tests once on the unmodified broker, unless `path` has what they reached.

        Raises RuntimeError if one fails.
        """
        if not path.exists():
            names = {**os.environ, reaching.VARIABLE: str(path)}
            command = _command(reaching.__name__, FOLDER)
            run = subprocess.run(command, cwd=ROOT, env=names, stdout=subprocess.PIPE, check=False)
            if run.returncode:
                path.unlink(missing_ok=True)
                raise RuntimeError(f"tests of the unmodified broker fail\n{run.stdout.decode()}")
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
            failed = self._first_failure(mutation, tests)
            if failed in (None, HANGS, mutated.DIED):
                return failed
            if failed == self._first_failure(mutation, [failed]):
                return failed
            tests = tests[tests.index(failed) + 1 :]  # a busy machine failed it
        return None

    def close(self) -> None:
        """End the processes."""
        with contextlib.suppress(Empty):
            while True:
                self._idle.get_nowait().close()

    def _first_failure(self, mutation: Mutation, tests: Sequence[str]) -> str | None:
        try:
            session = self._idle.get_nowait()
        except Empty:
            session = _Session(self._collected)
        try:
            answer = session.ask(mutation, tests)
        except _Hangs:
            session.close()
            return HANGS
        self._idle.put(session)
        return answer


class _Hangs(Exception):
    """The tests do not end."""


class _Session:
    """A pytest session that has collected the tests, and is asked about mutants."""

    def __init__(self, collected: str) -> None:
        self._opened = contextlib.ExitStack()
        printed = tempfile.TemporaryFile("w+")  # noqa: SIM115 - the stack closes it
        self._printed = self._opened.enter_context(printed)
        here, there = Pipe()
        self._asked = self._opened.enter_context(here)
        with there:
            self._process = subprocess.Popen(
                _command(mutated.__name__, collected), cwd=ROOT, pass_fds=[there.fileno()],
                env={**os.environ, mutated.VARIABLE: str(there.fileno())},
                stdout=self._printed, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def ask(self, mutation: Mutation, tests: Sequence[str]) -> str | None:
        """Return the first of these tests that fails, None if none does.

        Raises _Hangs, and RuntimeError if the session has ended.
        """
        patience = Patience(self._process.pid, cpu_s=CPU_S, asleep_s=ASLEEP_S)
        try:
            self._asked.send((mutation.name, tests))
            while not self._asked.poll(LOOK_EVERY_S):
                if patience.ended():
                    raise _Hangs
            answer: str | None = self._asked.recv()
        except (EOFError, ConnectionError) as error:
            self._printed.seek(0)
            raise RuntimeError(f"the tests have ended\n{self._printed.read()}") from error
        return answer

    def close(self) -> None:
        """End the session and all that it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._opened.close()


def _command(plugin: str, collected: str) -> list[str]:
    """Return the command of a session of fast tests with a plugin."""
    return [sys.executable, "-m", "pytest", "-p", plugin, *_OPTIONS, collected]
