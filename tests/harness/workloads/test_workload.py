"""The workload's clients against mock brokers: what they send, read, record, and how they end."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.workloads.clients.counts import Tally
from harness.workloads.clients.librdkafka import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.config import ClientConfig
from harness.workloads.counters import stat_line
from harness.workloads.librdkafka import Librdkafka
from harness.workloads.pacing import MAX_BACKLOG_S, Pace
from harness.workloads.threads import Workload, run
from tests.support.clients.recorded import Recorded
from tests.support.clients.workloads import DEADLINE_S, client_config, rows_of
from tests.support.clusters.kafka_mock import PARTITIONS, mock_cluster


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """One mock cluster for the module; every test uses a topic of its own."""
    topics = ("flow", "zero", "process", "cut", "idempotent", "large", "broken", "keys")
    with mock_cluster(*topics) as address:
        yield address


def config(tmp_path: Path, **changes: Any) -> ClientConfig:
    """One producer."""
    return client_config(tmp_path, **{"topic": "flow", "consumers": 0, "linger_ms": 0, **changes})


def run_until(wanted: ClientConfig, done: Any) -> None:
    """Run a workload in a thread until `done(tallies)`, then stop it in order."""
    workload = Workload(wanted, Librdkafka)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(run(workload)))
    thread.start()
    deadline = time.monotonic() + DEADLINE_S
    while not done(workload.tallies) and time.monotonic() < deadline:
        time.sleep(0.01)
    workload.stop.set()
    thread.join(DEADLINE_S)
    assert codes == [0]


def test_sends_are_acknowledged_read_and_recorded(tmp_path: Path, bootstrap: str) -> None:
    """Every acknowledged value is read back at its offset, and every client ends in order."""
    wanted = config(tmp_path, bootstrap=bootstrap, producers=2, consumers=2)
    run_until(wanted, lambda tallies: sum(each.read for each in tallies) >= 100)
    rows = rows_of(tmp_path)
    sends = [row for row in rows if row["f"] == "send"]
    polls = [row for row in rows if row["f"] == "poll"]
    assert {row["type"] for row in sends} == {"ok"}
    assert len({row["value"] for row in sends}) == len(sends)
    assert {row["acks"] for row in sends} == {-1}
    placed = {row["value"]: (row["partition"], row["offset"]) for row in sends}
    assert len(polls) >= 100
    assert all(placed[row["value"]] == (row["partition"], row["offset"]) for row in polls)
    assert all(row["invoke_ns"] <= row["complete_ns"] for row in rows)
    started = sorted(row["client"] for row in rows if row["f"] == "start")
    ended = sorted(row["client"] for row in rows if row["f"] == "end")
    assert started == ended == [1000, 1001, 1002, 1003]


def test_keys_are_read_in_passes(tmp_path: Path, bootstrap: str) -> None:
    """Each whole pass has all records up to where it came; nothing is cleaned here."""
    keys = {"topic": "keys", "keys": [4, 50, 0.2], "passes_every_s": 0.05}
    wanted = config(tmp_path, bootstrap=bootstrap, **keys)
    run_until(wanted, lambda tallies: sum(tally.read for tally in tallies) > 2_000)
    rows = rows_of(tmp_path)
    given: dict[int, list[int]] = {row["op"]: [] for row in rows if row["f"] == "keyed-pass"}
    for row in rows:
        if row["f"] == "keyed-poll":
            given[row["op"]].append(row["offset"])
    whole = [row for row in rows if row["f"] == "keyed-pass" and row["type"] == "ok"]
    assert {row["partition"] for row in whole} == {*range(PARTITIONS)}
    for row in whole:
        assert given[row["op"]] == [*range(row["offset"])]
    sent = {row["value"]: row["key"] for row in rows if row["f"] == "keyed-write"}
    polled = [row for row in rows if row["f"] == "keyed-poll" and row["value"] is not None]
    assert polled
    assert all(row["value"] not in sent or sent[row["value"]] == row["key"] for row in polled)
    assert any(row["f"] == "keyed-poll" and row["value"] is None for row in rows), "tombstones"


def test_one_producers_sends_go_round_robin_in_sequence(tmp_path: Path, bootstrap: str) -> None:
    """While nothing holds them up, successive sends take successive partitions."""
    wanted = config(tmp_path, bootstrap=bootstrap, topic="process")
    run_until(wanted, lambda tallies: sum(each.acked for each in tallies) >= 20)
    sends = [row for row in rows_of(tmp_path) if row["f"] == "send"]
    sends.sort(key=lambda row: row["value"])
    partitions = [row["partition"] for row in sends]
    assert partitions == [index % PARTITIONS for index in range(len(sends))]


def test_acks_zero_has_no_offsets(tmp_path: Path, bootstrap: str) -> None:
    """Whatever the client library reports as the offset of an unanswered send is not recorded."""
    wanted = config(
        tmp_path, bootstrap=bootstrap, topic="zero", acks=0, rate_per_s=0, max_in_flight=5_000
    )
    run_until(wanted, lambda tallies: sum(each.acked for each in tallies) >= 5_000)
    sends = [row for row in rows_of(tmp_path) if row["f"] == "send"]
    assert {row["type"] for row in sends} == {"ok"}
    assert {row["offset"] for row in sends} == {None}


def test_an_idempotent_producer_delivers(tmp_path: Path, bootstrap: str) -> None:
    """Idempotence works with the settings of the workload."""
    wanted = config(tmp_path, bootstrap=bootstrap, topic="idempotent", idempotence=True)
    run_until(wanted, lambda tallies: sum(each.acked for each in tallies) >= 20)
    assert {row["type"] for row in rows_of(tmp_path) if row["f"] == "send"} == {"ok"}


def test_send_without_an_outcome_at_the_end_is_info(tmp_path: Path) -> None:
    """It has no completion time."""
    wanted = config(tmp_path, max_in_flight=8, drain_ms=100)
    run_until(wanted, lambda tallies: sum(each.sent for each in tallies) >= 8)
    sends = [row for row in rows_of(tmp_path) if row["f"] == "send"]
    assert len(sends) == 8
    assert {(row["type"], row["complete_ns"], row["error"]) for row in sends} == {
        ("info", None, "unfinished")
    }


def test_timed_out_message_is_info(tmp_path: Path) -> None:
    """librdkafka's time-out does not say whether an attempt was appended."""
    wanted = config(tmp_path, max_in_flight=4, message_timeout_ms=200)
    run_until(wanted, lambda tallies: sum(each.info for each in tallies) >= 4)
    errors = {
        (row["type"], row["error"])
        for row in rows_of(tmp_path)
        if row["f"] == "send" and row["complete_ns"] is not None
    }
    assert errors == {("info", "_MSG_TIMED_OUT")}


def test_message_that_the_client_refuses_has_failed(bootstrap: str) -> None:
    """A message above the client's own limit never left the process."""
    seen = Recorded(topic="large", codec=PayloadCodec("run", 2 << 20))
    sends = seen.sends()
    producer = RecordingProducer(
        producer_config(
            ProducerOptions(
                bootstrap=bootstrap,
                acks=-1,
                idempotence=False,
                linger_ms=0,
                message_timeout_ms=5_000,
            )
        ),
        sends,
    )
    producer.send(0)
    assert sends.pending == 0
    producer.close(1)
    assert seen.writer.of("send", "type", "error") == [("fail", "MSG_SIZE_TOO_LARGE")]
    assert seen.tally.failed == 1


def test_consumer_without_a_valid_position_rewinds_and_records_it(bootstrap: str) -> None:
    """Reading beyond the end of the log is never a silent jump."""
    seen = Recorded(topic="cut")
    consumer = RecordingConsumer(consumer_config(bootstrap=bootstrap, group="g"), seen.reads())
    consumer.assign({0: 1_000_000, 1: 0})
    deadline = time.monotonic() + DEADLINE_S
    while len(seen.writer.of("assign")) < 4 and time.monotonic() < deadline:
        consumer.poll(0.1)
    consumer.close()
    assert seen.writer.of("assign", "partition", "offset", "error") == [
        (0, 1_000_000, None),
        (1, 0, None),
        (0, 0, "_AUTO_OFFSET_RESET"),
        (1, 0, "_AUTO_OFFSET_RESET"),
    ]


def test_broken_producer_is_replaced_under_a_new_number(
    tmp_path: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken one is closed and has its end row."""

    class Breaking(RecordingProducer):
        def send(self, partition: int) -> None:
            super().send(partition)
            if self._sends.client == 1000 and self._sends.tally.sent == 3:
                self.fatal = "broken"

    monkeypatch.setattr("harness.workloads.librdkafka.RecordingProducer", Breaking)
    wanted = config(tmp_path, bootstrap=bootstrap, topic="broken")
    run_until(wanted, lambda tallies: sum(each.sent for each in tallies) >= 6)
    rows = rows_of(tmp_path)
    assert [row["client"] for row in rows if row["f"] == "start"] == [1000, 1001]
    assert sorted(row["client"] for row in rows if row["f"] == "end") == [1000, 1001]
    sends = [row for row in rows if row["f"] == "send"]
    assert len({row["value"] for row in sends}) == len(sends) >= 6
    assert sum(row["client"] == 1000 for row in sends) == 3


def test_stat_line_adds_up_the_clients() -> None:
    """Counters are sums; latencies are quantiles of recent sends, each used once."""
    tallies = [Tally(sent=3, acked=2, info=1), Tally(sent=1, acked=1)]
    tallies[0].latencies_ns.extend([1_000_000, 3_000_000])
    tallies[1].latencies_ns.append(2_000_000)
    line = json.loads(stat_line("t", -1, tallies, 5))
    assert (line["sent"], line["acked"], line["info"]) == (4, 3, 1)
    assert (line["p50_ms"], line["p99_ms"]) == (2.0, 2.0)
    assert json.loads(stat_line("t", -1, tallies, 6))["p50_ms"] is None


@given(
    rate=st.floats(1, 1e6),
    steps=st.lists(st.floats(0, 0.5), max_size=200),
)
def test_pace_never_exceeds_its_rate_by_more_than_the_backlog(
    rate: float, steps: list[float]
) -> None:
    """Whenever the producer looks at the clock, it has sent no more than its rate allows."""
    pace = Pace(rate, 0.0)
    now = sent = 0.0
    for step in steps:
        now += step
        for _ in range(1_000):
            if pace.wait_s(now) > 0:
                break
            pace.sent(now)
            sent += 1
    assert sent <= rate * (now + MAX_BACKLOG_S) + 2


def test_rate_zero_is_always_due() -> None:
    """Rate 0 means as fast as possible."""
    pace = Pace(0, 0.0)
    pace.sent(0.0)
    assert pace.wait_s(0.0) == 0
