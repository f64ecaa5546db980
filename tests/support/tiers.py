"""When a slow test runs: at every change or at night only, and which files a session begins with.

`.ci/run` runs what proves a rule once. What repeats the proof with more histories, seeds or targets
is `nightly`, and names the test that every change runs. `make test` runs both.
"""

from collections.abc import Sequence
from typing import Any, Final

import pytest

LONGEST: Final = (
    "tests/system/test_tutorial.py",
    "tests/system/test_whole_runs.py",
    "tests/checkers/test_golden.py",
    "tests/checkers/test_against_reference.py",
    "tests/system/test_foreign_clients.py",
    "tests/harness/simulation/test_corpus.py",
    "tests/checkers/tampering/test_on_spark.py",
    "tests/checkers/tampering/test_tampering.py",
    "tests/harness/targets/docker/test_containers.py",
    "tests/harness/targets/ssh/test_runs.py",
    "tests/system/test_hostile_runs.py",
    "tests/system/test_undo_faults.py",
    "tests/system/test_kafka_directories.py",
    "tests/checkers/test_check.py",
    "tests/nodes/log/cleaning/test_kills.py",
    "tests/nodes/server/coordinators/test_kills.py",
    "tests/checkers/following/test_follow.py",
    "tests/harness/workloads/app/test_process.py",
    "tests/harness/simulation/test_further_workloads.py",
    "tests/harness/cli/test_main.py",
    "tests/highwater/test_examples.py",
    "tests/harness/simulation/test_run.py",
    "tests/harness/simulation/test_group_coordinators.py",
    "tests/harness/simulation/test_compaction.py",
    "tests/system/test_scenarios.py",
    "tests/harness/zoo/test_zoo.py",
)
"""The files that take longest, roughly in this order: a worker that begins one of them last keeps
the others waiting. The tests of a file stay on one worker."""


def place(file: str) -> int:
    """Return the place of a test file in the order of a session."""
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def a_third_fast(names: Sequence[str]) -> list[Any]:
    """Return parameters of a test; two of every three are slow, where there are too many."""
    return [
        name if number % 3 == 0 else pytest.param(name, marks=pytest.mark.slow)
        for number, name in enumerate(names)
    ]


def nightly(daily: str) -> tuple[pytest.MarkDecorator, pytest.MarkDecorator]:
    """Return the marks of a test, or of a parameter of it, that only the night runs.

    daily: `file.py::test`, the test that every change runs instead, from the directory `tests`.
    """
    return pytest.mark.slow, pytest.mark.nightly(daily)
