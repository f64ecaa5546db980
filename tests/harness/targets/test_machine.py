"""Tests find only the run's own files in shared memory, although the kernel reuses pids."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from os import sysconf
from pathlib import Path

import pytest

from harness.recording.journal import Journal
from harness.targets.linux import processes
from harness.targets.linux.processes import ProcessId
from tests.support.require import require
from tests.support.targets.machine import leftovers, new_run_id

HOUR_S = 3600
NUMBER = processes.UNKNOWN_PROCESS.pid + 1


@pytest.fixture
def trace() -> Iterator[Path]:
    """What libfaketime would have made just now, for a number that no process has."""
    require("root")
    path = Path(f"/dev/shm/faketime_shm_{NUMBER}")
    path.touch()
    yield path
    path.unlink()


@pytest.mark.parametrize(("started_ago_s", "mine"), [(1, True), (HOUR_S, False), (-HOUR_S, False)])
def test_only_shared_memory_made_at_a_process_start_belongs_to_it(
    tmp_path: Path, trace: Path, started_ago_s: int, *, mine: bool
) -> None:
    """Other files belong to a process with the same pid before or after."""
    started_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_ago_s
    ticks = round(started_s * sysconf("SC_CLK_TCK"))
    process = ProcessId(pid=NUMBER, start_ticks=ticks, world=processes.world())
    run_id, registry = new_run_id(), tmp_path / "registry"
    registry.mkdir()
    path = tmp_path / "journal.jsonl"
    with Journal.create(path, run_id=run_id, registry=registry) as journal:
        journal.record("local.process", machine=1, **asdict(process))
        journal.finish()
    assert leftovers(run_id, tmp_path) == ([str(trace)] if mine else [])
