"""When a slow test runs: at every change, in turn or at night only, and which files a session
begins with.

| tier | mark | `make check` | `.ci/run` | `make test`, `.ci/run nightly` |
|---|---|---|---|---|
| fast | none | yes | yes | yes |
| slow | `slow` | no | yes | yes |
| in turn | `slow`; `nightly` outside its turn | no | a share | yes |
| nightly | `nightly` | no | no | yes |

`.ci/run` runs what proves a rule once. What repeats the proof with more histories, seeds or targets
is `nightly`, and names the test that every change runs. If all parameters of a test are worth the
same, every change runs a share of them: `in_turn`. The commit chooses the share.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import pytest

LONGEST: Final = (
    "tests/checkers/test_golden.py",
    "tests/system/test_tutorial.py",
    "tests/system/test_whole_runs.py",
    "tests/system/test_scenarios.py",
    "tests/system/test_plugins.py",
    "tests/system/test_client_programs.py",
    "tests/checkers/test_check.py",
    "tests/checkers/elle/test_graph.py",
    "tests/checkers/elle/test_planted.py",
    "tests/checkers/tampering/test_on_spark.py",
    "tests/harness/targets/ssh/test_lost_connections.py",
    "tests/system/test_fault_commands.py",
    "tests/harness/simulation/validation/test_specifications.py",
    "tests/system/test_java_clients.py",
    "tests/system/test_examples.py",
    "tests/system/test_programs_in_containers.py",
    "tests/system/test_programs.py",
    "tests/system/test_zookeeper.py",
    "tests/harness/run/test_runner.py",
    "tests/test_action.py",
    "tests/harness/simulation/guided/test_guided.py",
    "tests/harness/targets/docker/test_containers.py",
    "tests/system/test_clocks.py",
    "tests/system/test_scripted_runs.py",
    "tests/harness/targets/ssh/test_power.py",
    "tests/harness/zoo/test_zoo.py",
    "tests/system/test_foreign_java.py",
    "tests/system/test_administration.py",
    "tests/checkers/interchange/test_round_trip.py",
    "tests/harness/simulation/test_command.py",
    "tests/system/test_cluster_command.py",
    "tests/harness/reports/test_browser.py",
    "tests/system/test_old_control_plane.py",
    "tests/harness/workloads/clients/program/test_samples.py",
    "tests/harness/targets/ssh/test_runs.py",
    "tests/harness/bench/test_command.py",
    "tests/nodes/test_sources.py",
    "tests/highwater/test_pytest_plugin.py",
    "tests/highwater/test_notebooks.py",
    "tests/system/test_membership_faults.py",
    "tests/system/test_foreign_failures.py",
    "tests/system/test_disk_faults.py",
    "tests/harness/systems/test_external.py",
    "tests/system/test_kafka_streams.py",
    "tests/system/test_kafka_connect.py",
    "tests/checkers/tampering/test_tampering.py",
    "tests/harness/simulation/test_corpus.py",
    "tests/checkers/following/test_follow.py",
    "tests/system/test_kafka_copier.py",
    "tests/system/test_foreign_rebalances.py",
    "tests/system/test_foreign_clients.py",
    "tests/harness/simulation/test_further_workloads.py",
    "tests/harness/simulation/test_run.py",
    "tests/highwater/test_examples.py",
    "tests/harness/workloads/app/test_process.py",
    "tests/harness/cli/test_main.py",
    "tests/checkers/test_against_reference.py",
    "tests/harness/simulation/test_group_coordinators.py",
    "tests/harness/simulation/test_compaction.py",
    "tests/system/test_undo_faults.py",
    "tests/harness/targets/local/test_rootless.py",
    "tests/system/test_kafka_directories.py",
    "tests/system/test_kafka_tools.py",
    "tests/nodes/log/cleaning/test_kills.py",
    "tests/nodes/server/coordinators/test_kills.py",
    "tests/harness/workloads/clients/test_processes.py",
)
"""The files that take longest, roughly in this order: a worker that begins one of them last keeps
the others waiting. The tests of a file stay on one worker."""
CLUSTERS: Final = "tests/system/"
"""The other files in this folder come next: they start whole clusters, which takes many seconds."""


SPARK: Final = (
    "tests/checkers/test_golden.py",
    "tests/checkers/elle/test_graph.py",
    "tests/checkers/elle/test_planted.py",
    "tests/checkers/tampering/test_on_spark.py",
    "tests/checkers/test_against_reference.py",
    "tests/checkers/engines/test_engine.py",
    "tests/checkers/engines/test_remote.py",
    "tests/highwater/test_examples.py",
)
"""The files with tests on Spark. One worker runs all of them: the first starts Java, which takes
Spark many seconds, and the others find it there, with its classes loaded."""


def place(file: str) -> int:
    """Return the place of a test file in the order of a session."""
    if file in LONGEST:
        return LONGEST.index(file)
    return len(LONGEST) + (not file.startswith(CLUSTERS))


def file_of(test: str) -> str:
    """Return the file of a test's id."""
    return test.partition("::")[0]


def scope(test: str) -> str:
    """Return the name of the tests that stay on one worker with this one."""
    file = file_of(test)
    return "Spark" if file in SPARK else file


def done(passed: Iterable[str], left: Iterable[str]) -> list[str]:
    """Return the files that a session for what is left need not import.

    passed, left: ids of tests. Of these files some passed, and none is left.
    """
    return sorted({*map(file_of, passed)} - {*map(file_of, left)})


TURN: Final = int(os.environ.get("HIGHWATER_TURN", "0"))
"""Whose turn it is: any number. `.ci/run` makes it of the commit's hash, and prints it."""

T = TypeVar("T")


def share(values: Sequence[T], of: int, turn: int = TURN) -> list[T]:
    """Return one of `of` shares; with the turns 0 to `of` - 1 each value is in one of them."""
    return [value for number, value in enumerate(values) if (number + turn) % of == 0]


def in_turn(daily: str, values: Iterable[T], of: int) -> list[Any]:
    """Return slow parameters of a test. A change runs one of `of` shares, the night runs all.

    daily: `file.py::test`, the test itself, as for `nightly`. values: a tuple is the values of
    several parameters.
    """
    every = list(values)
    assert len(every) >= of, "a turn would have no test"
    now = share(range(len(every)), of)
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=pytest.mark.slow if number in now else nightly(daily),
        )
        for number, value in enumerate(every)
    ]


def a_third_fast(daily: str, values: Sequence[T], of: int) -> list[Any]:
    """Return the parameters of a test that has too many for `make check`: every third is fast, and
    the others are slow. A change runs one of `of` shares of these: with 1, all of them."""
    others = [value for number, value in enumerate(values) if number % 3]
    return [*values[::3], *in_turn(daily, others, of)]


def at_turn(turn: int, of: int, daily: str) -> pytest.MarkDecorator:
    """Return the mark of a slow test that has one of `of` turns; other tests have the others.

    daily: such a test, as for `nightly`.
    """
    assert 0 <= turn < of
    return pytest.mark.slow if TURN % of == turn else pytest.mark.nightly(daily)


def nightly(daily: str) -> tuple[pytest.MarkDecorator, pytest.MarkDecorator]:
    """Return the marks of a test, or of a parameter of it, that only the night runs.

    daily: `file.py::test`, the test that every change runs instead, from the directory `tests`.
    """
    return pytest.mark.slow, pytest.mark.nightly(daily)
