"""The clients of a workload whose kind another package declares, on a mock cluster."""

import threading
import time
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from harness.plans import plugged as names
from harness.plans.plugged import WORKLOADS
from harness.workloads import threads
from harness.workloads.further_config import FurtherConfig
from harness.workloads.plugged import Plugged
from tests.support.clients.workloads import NOWHERE, rows_of
from tests.support.clusters.kafka_mock import PARTITIONS, mock_cluster
from tests.support.workload_kinds import DECLARED, Echo


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Entry points of a package that is not installed."""
    points = [EntryPoint(name, what, WORKLOADS) for name, what in DECLARED.items()]
    monkeypatch.setattr(names, "entry_points", lambda group: points if group == WORKLOADS else [])
    monkeypatch.setattr(Echo, "read", [])
    for each in (names._declared, names._points):
        each.cache_clear()
    yield
    for each in (names._declared, names._points):
        each.cache_clear()


def config(folder: Path, kind: str = "echo", **changes: Any) -> FurtherConfig:
    """The process of one workload, whose history goes to `folder`."""
    values: dict[str, Any] = {
        "run_id": "run",
        "base_ns": time.monotonic_ns(),
        "history_dir": str(folder),
        "first_client": 1000,
        "bootstrap": NOWHERE,
        "name": f"{kind}@1",
        "workload": {"kind": kind, "there": "t"},
        "partitions": {"t": PARTITIONS},
        "topic_acks": {"t": 1},
    }
    return FurtherConfig(**{**values, **changes})


def run(made: FurtherConfig, done: Any) -> int:
    """Run the threads until `done`, at most 30 s; return the exit code."""
    workload = Plugged(made)

    def watch() -> None:
        deadline_s = time.monotonic() + 30
        while not done() and time.monotonic() < deadline_s:
            time.sleep(0.02)
        workload.stop.set()

    threading.Thread(target=watch).start()
    return threads.run(workload)


def test_sends_and_reads_of_a_kind_are_recorded_as_all_others(tmp_path: Path) -> None:
    """With the acks of the topic. The kind gets the keys and values that it wrote."""
    with mock_cluster("t") as bootstrap:
        assert run(config(tmp_path, bootstrap=bootstrap), lambda: len(Echo.read) >= 5) == 0
    rows = rows_of(tmp_path)
    sends = [row for row in rows if row["f"] == "send"]
    assert [(row["type"], row["acks"], row["partition"]) for row in sends] == [("ok", 1, 1)] * 5
    assert [row["value"] for row in rows if row["f"] == "poll"] == [row["value"] for row in sends]
    assert [(row["partition"], row["offset"]) for row in rows if row["f"] == "assign"] == [(1, 0)]
    assert [each.key for each in Echo.read] == [b"k0", b"k1", b"k2", b"k3", b"k4"]
    assert [each.value for each in Echo.read] == [row["value"] for row in sends]
    for frame in ("start", "end"):
        assert sorted(row["client"] for row in rows if row["f"] == frame) == [1000, 1001]


@pytest.mark.slow
def test_broken_producer_is_replaced_under_another_client_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind goes on as if nothing had happened."""
    from harness.workloads import plugged

    class Breaks(plugged.RecordingProducer):
        """Is broken after its second send."""

        def start(self, *args: Any, **options: Any) -> int | None:
            value = super().start(*args, **options)
            self.fatal = "broken" if len(self._numbers) == 2 else None
            return value

    monkeypatch.setattr(plugged, "RecordingProducer", Breaks)
    run(config(tmp_path), lambda: (tmp_path / "echo@1.1000.arrows").stat().st_size > 5000)
    sends = [row for row in rows_of(tmp_path) if row["f"] == "send"]
    assert len(sends) == 5
    assert len({row["client"] for row in sends}) == 3


def test_error_of_a_kind_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With exit code 1, and the error in the log."""
    errors: list[str] = []
    monkeypatch.setattr(
        threading, "excepthook", lambda raised: errors.append(str(raised.exc_value))
    )
    assert run(config(tmp_path, "vague"), lambda: False) == 1
    assert errors == ["the workload's writes() did not name topic elsewhere"]
