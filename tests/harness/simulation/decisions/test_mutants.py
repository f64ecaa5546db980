"""The tool that tries mutants: what it takes for a hang, and which survivors it explains."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.simulation.decisions import mutations
from harness.simulation.decisions.mutations import Mutation
from harness.simulation.decisions.probes import Probe
from tests.tools.mutants import explained, patience
from tests.tools.mutants.__main__ import main, sample, trials
from tests.tools.mutants.baselines import Baseline, promising
from tests.tools.mutants.patience import Patience
from tests.tools.mutants.table import table
from tests.tools.mutants.trial import Tried, try_clients
from tests.tools.mutants.unit_tests import UnitTests

ENOUGH_S = 60
"""A test waits for so long for what must come at some time."""


@contextmanager
def running(code: str) -> Iterator[int]:
    """The process id of a Python program."""
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as process:
        yield process.pid
        process.kill()


def ended(asked: Patience) -> bool:
    """Whether the patience ends at some time."""
    until_s = time.monotonic() + ENOUGH_S
    while time.monotonic() < until_s:
        if asked.ended():
            return True
        time.sleep(0.02)
    return False


def test_a_process_that_computes_for_ever_hangs() -> None:
    with running("while True: pass") as pid:
        assert ended(Patience(pid, cpu_s=0.1, asleep_s=3600))


def test_a_process_that_waits_for_ever_hangs() -> None:
    with running("import time; time.sleep(3600)") as pid:
        assert ended(Patience(pid, cpu_s=3600, asleep_s=0.1))


def test_a_process_that_waits_for_a_busy_child_does_not_sleep() -> None:
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'while True: pass'])"
    )
    with running(code) as pid:
        assert ended(Patience(pid, cpu_s=0.3, asleep_s=3600))
        for child in patience._family(pid):
            if child != pid:
                subprocess.run(["kill", "-9", str(child)], check=True)


def test_a_process_that_gets_no_time_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A starved process could run at each look, and used nothing in an hour."""
    now_s = 0.0
    monkeypatch.setattr(patience, "cpu_used_s", lambda pid: 1.0)
    monkeypatch.setattr(patience, "sleeps", lambda pid: False)
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    asked = Patience(1, cpu_s=0.5, asleep_s=0.5)
    for _ in range(10):
        now_s += 360
        assert not asked.ended()


def test_each_seed_has_the_whole_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    used_s = 0.0
    monkeypatch.setattr(patience, "cpu_used_s", lambda pid: used_s)
    monkeypatch.setattr(patience, "sleeps", lambda pid: False)
    asked = Patience(1, cpu_s=10, asleep_s=10)
    used_s = 9.0
    assert not asked.ended()
    asked.begin()
    used_s = 18.0
    assert not asked.ended()
    used_s = 20.0
    assert asked.ended()


def test_explained_mutants_exist() -> None:
    """An entry for source text that is no longer there explains nothing: it must be removed or
    written for the new text."""
    for entry in explained.entries():
        changes = [*map(explained.change, mutations.mutations(entry.module))]
        assert changes.count(entry.change) == 1, f"{explained.FILE}: not one mutant: {entry.change}"
        assert entry.why.endswith("."), entry.why
    assert len({each.change for each in explained.entries()}) == len(explained.entries())


def test_the_table_tells_explained_survivors_from_open_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second, third = mutations.mutations("nodes.log.retention")[:3]
    entry = explained.Explained(
        module=first.module, function=first.function, before=first.before, after=first.after,
        why="Both do the same.",
    )  # fmt: skip
    monkeypatch.setattr(explained, "_reasons", lambda: {entry.change: entry.why})
    shown = table(
        [
            Tried(mutation=each, tests=tests, invariants=None, clients=None, reached=1, changed=0)
            for each, tests in ((first, None), (second, None), (third, "a test"))
        ]
    )
    heads, row, *rest = (line.split() for line in shown.splitlines())
    assert dict(zip(heads, row, strict=True)) == {
        "module": "nodes.log.retention", "mutants": "3", "tests": "1", "simulated": "3",
        "invariants": "0", "clients": "0", "found": "1", "explained": "1", "open": "1",
    }  # fmt: skip
    lines = [" ".join(line) for line in rest]
    assert f"{first.name} {first.text()}: Both do the same." in lines
    assert f"{second.name} {second.text()}" in lines


def test_one_session_of_tests_tries_mutant_after_mutant() -> None:
    """None is there any more when the next one is tried."""
    file = "tests/nodes/log/test_retention.py"
    case = f"{file}::test_the_expected_segments_expire[-1-300-99-1]"
    reaching = {f"nodes.log.retention:{name}": [case] for name in ("expired", "rolls_by_age")}
    every = mutations.mutations("nodes.log.retention")
    wrong = next(each for each in every if each.operator == "other extreme")
    harmless = next(each for each in every if each.function == "rolls_by_age")
    tests = UnitTests(reaching, file)
    try:
        found = [tests.first_failure(each) for each in (wrong, harmless, wrong)]
    finally:
        tests.close()
    assert found == [case, None, case]


def test_the_sample_may_be_continued(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(UnitTests, "measured", lambda path: UnitTests({}))
    command = ["mutants", "--sample", "5", "--skip", "3", "--seeds", "0"]
    monkeypatch.setattr(sys, "argv", command)
    main()
    printed = capsys.readouterr().out
    for at, each in enumerate(sample(5, 1)):
        assert (f" {each.name} " in printed) == (at >= 3)


def test_no_trial_begins_after_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial takes a minute of a clock that stands still otherwise."""
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    def try_one(mutation: mutations.Mutation) -> Tried:
        nonlocal now_s
        now_s += 60
        return Tried(
            mutation=mutation, tests=None, invariants=None, clients=None, reached=0, changed=0
        )

    chosen = mutations.mutations("nodes.log.retention")[:5]
    tried = trials(chosen, try_one, jobs=1, until_s=180)
    assert [each.mutation for each in tried] == chosen[:3]


def some_mutation() -> Mutation:
    """A node that persists its vote, and does not take it over."""
    every = mutations.mutations("nodes.raft.elections")
    return next(each for each in every if each.before == "self._state = state")


def seed_that_met(mutation: Mutation, seed: int, *outcomes: str) -> Baseline:
    """A seed that reached the mutant's function, and these outcomes on its line."""
    probes = [
        Probe(mutation.module, mutation.line, mutation.function, mutation.before, outcome)
        for outcome in outcomes
    ]
    functions = frozenset({(mutation.module, mutation.function)})
    return Baseline(seed, "another digest", "VALID", functions, frozenset(probes))


def test_seeds_whose_decision_went_both_ways_come_first() -> None:
    mutation = some_mutation()
    seeds = [
        seed_that_met(mutation, 1),
        seed_that_met(mutation, 2, "true"),
        seed_that_met(mutation, 3, "true", "false"),
        seed_that_met(mutation, 4, "false"),
        seed_that_met(mutation, 5)._replace(functions=frozenset()),
    ]
    assert [each.seed for each in promising(mutation, seeds)] == [3, 2, 4, 1]


@pytest.mark.slow
def test_clients_see_a_broker_that_does_not_start(tmp_path: Path) -> None:
    mutation = some_mutation()
    seeds = [seed_that_met(mutation, seed) for seed in (1, 2)]
    tried = try_clients(mutation, seeds, tmp_path, first=1)
    assert tried.clients == (1, "FAILED")
    assert (tried.reached, tried.tests, tried.invariants) == (1, None, None)
