"""Final reads with mock brokers: every record is read once, and gaps are reported."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from checkers.history.history import read_arrow_stream
from harness.plans.plan import Plan, Topic, Workload
from harness.recording import store
from harness.workloads.clients.payload import PayloadCodec, value_of
from harness.workloads.final_reads import FinalReadConfig, read_all, run_final_reads
from tests.support.clusters.fake_target import FakeTarget
from tests.support.clusters.kafka_mock import PARTITIONS, mock_cluster

RECORDS = 300
SIZE = 128


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A mock cluster whose topics hold values of run "run", and what is none in "odd"."""
    with mock_cluster("a", "b", "odd", "empty") as address:
        producer = Producer({"bootstrap.servers": address, "log_level": 2})
        codec = PayloadCodec("run", SIZE)
        for sequence in range(RECORDS):
            for topic in ("a", "b"):
                payload = codec.encode(7, sequence)
                producer.produce(topic, payload, partition=sequence % PARTITIONS)
        producer.produce("odd", b"whatever", partition=0)
        producer.produce("odd", codec.encode(7, 1)[:-1] + b"\0", partition=0)
        assert producer.flush(30) == 0
        yield address


def config(tmp_path: Path, bootstrap: str, topics: dict[str, int], **changes: Any) -> Any:
    values: dict[str, Any] = {
        "run_id": "run",
        "base_ns": time.monotonic_ns(),
        "history_dir": str(tmp_path),
        "bootstrap": bootstrap,
        "topics": topics,
        "value_bytes": SIZE,
        "patience_s": 10.0,
        "timeout_s": 30.0,
    }
    return FinalReadConfig(**values | changes)


def rows(folder: Path) -> list[dict[str, Any]]:
    table, complete = read_arrow_stream(folder / "final-reads.arrows")
    assert complete
    return list(table.to_pylist())


def test_every_record_of_every_partition_is_read_once(tmp_path: Path, bootstrap: str) -> None:
    """Two topics at once: each value at its offset, and every partition's end reached."""
    assert read_all(config(tmp_path, bootstrap, {"a": PARTITIONS, "b": PARTITIONS}))
    found = rows(tmp_path)
    for topic in ("a", "b"):
        reads = [row for row in found if row["f"] == "final-read" and row["topic"] == topic]
        assert sorted(row["value"] for row in reads) == [value_of(7, n) for n in range(RECORDS)]
        ends = {
            row["partition"]: row["offset"]
            for row in found
            if row["f"] == "final-read-end" and row["topic"] == topic
        }
        assert ends == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    assert (found[0]["f"], found[-1]["f"]) == ("start", "end")


def test_an_empty_partition_is_read_to_its_end(tmp_path: Path, bootstrap: str) -> None:
    """Nothing to read is complete at offset 0."""
    assert read_all(config(tmp_path, bootstrap, {"empty": 1}))
    (end,) = [row for row in rows(tmp_path) if row["f"] == "final-read-end"]
    assert (end["type"], end["offset"]) == ("ok", 0)


def test_foreign_and_damaged_records_are_recorded_without_a_value(
    tmp_path: Path, bootstrap: str
) -> None:
    """They are told apart."""
    assert read_all(config(tmp_path, bootstrap, {"odd": 1}))
    found = [(row["value"], row["error"]) for row in rows(tmp_path) if row["f"] == "final-read"]
    assert found == [(None, "foreign"), (None, "checksum")]


def test_unreachable_cluster_is_incomplete_within_the_time_limit(tmp_path: Path) -> None:
    """Every partition ends as info with a reason."""
    assert not read_all(config(tmp_path, "127.0.0.1:1", {"a": 2}, patience_s=0.2))
    ends = [row for row in rows(tmp_path) if row["f"] == "final-read-end"]
    assert [(row["type"], row["offset"]) for row in ends] == [("info", None)] * 2
    assert all(row["error"] for row in ends)


def test_partition_without_a_leader_delays_no_other(tmp_path: Path, bootstrap: str) -> None:
    """The other partitions are read, and the reason is recorded."""
    wanted = {"a": PARTITIONS + 1, "b": PARTITIONS}
    assert not read_all(config(tmp_path, bootstrap, wanted, patience_s=4.0))
    found = rows(tmp_path)
    reads = [row["topic"] for row in found if row["f"] == "final-read"]
    assert (reads.count("a"), reads.count("b")) == (RECORDS, RECORDS)
    (missing,) = [row for row in found if row["f"] == "final-read-end" and row["type"] == "info"]
    assert (missing["topic"], missing["partition"]) == ("a", PARTITIONS)
    assert missing["error"]


def test_process_reports_completeness_by_its_exit_code(tmp_path: Path, bootstrap: str) -> None:
    """Started on a target for a plan, it reads the plan's topics into the run's history."""
    plan = Plan(
        seed=1,
        topics=(Topic(name="a", acks=1, partitions=PARTITIONS),),
        workload=Workload(value_bytes=SIZE),
    )
    run = store.create(tmp_path, "p", versions={}, commit=None)
    assert run_final_reads(plan, FakeTarget(tmp_path), bootstrap, run)
    reads = [row for row in rows(run.history_dir) if row["f"] == "final-read"]
    assert len(reads) == RECORDS
    assert {row["error"] for row in reads} == {"foreign"}  # written by another run
