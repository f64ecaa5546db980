"""Client processes as the runner sees them: started per topic, followed, stopped, or dead."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.history.history import read_arrow_stream
from harness.plans.plan import Plan, Topic, Workload
from harness.recording import store
from harness.workloads.launch import CLIENTS_PER_PROCESS, MODULES, client_configs, launch
from tests.support.clusters.fake_target import FakeTarget
from tests.support.clusters.kafka_mock import PARTITIONS, mock_cluster

DEADLINE_S = 30


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A mock cluster with the plan's topics."""
    with mock_cluster("one", "two") as address:
        yield address


PLAN = Plan(
    seed=1,
    topics=(
        Topic(name="one", acks=1, partitions=PARTITIONS),
        Topic(name="two", acks="all", partitions=PARTITIONS, idempotence=True),
    ),
    workload=Workload(producers=1, consumers=1, rate_per_s=100),
)


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_each_topic_has_client_numbers_of_its_own(tmp_path: Path) -> None:
    """Client numbers of different processes never meet."""
    run = store.create(tmp_path, "p", versions={}, commit=None)
    one, two = client_configs(PLAN, "b:1", run)
    assert (one.first_client, two.first_client) == (CLIENTS_PER_PROCESS, 2 * CLIENTS_PER_PROCESS)
    assert (one.acks, two.acks, two.idempotence) == (1, -1, True)


def test_clients_report_counters_and_write_end_rows(tmp_path: Path, bootstrap: str) -> None:
    """Counters arrive while they run; after stop every history has its end rows."""
    run = store.create(tmp_path, "p", versions={}, commit=None)
    clients = launch(PLAN, FakeTarget(tmp_path), bootstrap, run)
    wait_for(lambda: all(s.get("read", 0) > 10 for s in clients.stats().values()))
    assert clients.problems() == []
    assert clients.stop() == []
    assert set(clients.stats()) == {"one", "two"}
    streams = sorted(run.history_dir.glob("*.arrows"))
    assert len(streams) == 2
    for stream in streams:
        table, complete = read_arrow_stream(stream)
        assert complete
        assert table["f"].to_pylist().count("end") == 2


def test_dead_client_process_is_reported(tmp_path: Path, bootstrap: str) -> None:
    """Stopping still works."""
    run = store.create(tmp_path, "p", versions={}, commit=None)
    clients = launch(PLAN, FakeTarget(tmp_path), bootstrap, run)
    wait_for(lambda: all(clients.stats().values()))
    clients.processes()["one"].kill()
    wait_for(lambda: clients.problems() != [])
    (problem,) = clients.problems()
    assert "clients of one ended with code -9" in problem
    assert clients.stop() == [problem]


def test_error_of_a_client_process_is_told(
    tmp_path: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the process's log, which a person need not open then."""
    monkeypatch.setitem(MODULES, "librdkafka", "no_such_module")
    run = store.create(tmp_path, "p", versions={}, commit=None)
    clients = launch(PLAN, FakeTarget(tmp_path), bootstrap, run)
    wait_for(lambda: len(clients.problems()) == 2)
    assert "one ended with code 1: " in clients.problems()[0]
    assert "No module named no_such_module; see /" in clients.problems()[0]
    clients.stop()
