"""Producer epochs in librdkafka's log, with lines that it wrote."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from harness.workloads.clients.librdkafka import RecordingProducer, producer_config
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.payload import value_of
from harness.workloads.clients.producer_epochs import (
    MAX_CAUSES,
    DrainBegan,
    Drained,
    EpochLogReader,
    RefusedBatch,
    parse,
)
from tests.support.clients.recorded import Recorded

SKIPPED = (
    "[thrd:198.19.110.6:9092/6]: 198.19.110.6:9092/6: ProduceRequest for elastic [8] with 16 "
    "message(s) failed due to skipped sequence numbers (PID{Id:0,Epoch:0}, base seq 52 > next seq "
    "51) caused by previous failed request (NOT_LEADER_FOR_PARTITION, actions "
    "Refresh,MsgNotPersisted, base seq 51..51, base msgid 52, 0ms ago): recovering and retrying"
)
HEAD = (
    "[thrd:198.18.148.1:9092/1]: Fatal error: Broker: Broker received an out of order sequence "
    "number: ProduceRequest for elastic [8] with 1 message(s) failed due to sequence "
    "desynchronization with broker 1 (PID{Id:1000,Epoch:0}, base seq 319, idemp state change "
    "4502ms ago, last partition error _DESTROY_BROKER (actions Refresh,MsgNotPersisted, base seq "
    "0..19, base msgid 1, 2674ms ago)"
)
DRAIN = (
    "[thrd:198.19.110.6:9092/6]: Beginning partition drain in state Assigned for "
    "PID{Id:0,Epoch:0} epoch bump for 5 partition(s) with in-flight requests: "
)
DRAINED = "[thrd:198.19.110.4:9092/4]: All partitions drained, bumped epoch to PID{Id:0,Epoch:1}"
OWN = "skipped-ahead: NOT_LEADER_FOR_PARTITION"
REFUSED = RefusedBatch(error=OWN, topic="elastic", partition=8, failed_message=52)
TIMED_OUT = "1 message(s) timed out on elastic [3]"
GIVEN_UP = f"timed-out: {TIMED_OUT}"
SKIPPING, GAP = "skipped sequence numbers", "message sequence gap"


@pytest.mark.parametrize(
    ("facility", "text", "fact"),
    [
        ("ERRSEQ", SKIPPED, REFUSED),
        (
            "FATAL",
            HEAD,
            RefusedBatch(error="refused at the head of the line", topic="elastic", partition=8),
        ),
        ("DRAIN", DRAIN + SKIPPING, DrainBegan(reason=SKIPPING)),
        ("DRAIN", DRAIN + GAP, DrainBegan(reason=GAP)),
        (
            "DRAIN",
            "[thrd:main]: Beginning partition drain for PID{Id:0,Epoch:0} reset for 1 partition(s) "
            "with in-flight requests: unable to satisfy gap-less guarantee",
            DrainBegan(reason="unable to satisfy gap-less guarantee"),
        ),
        ("DRAIN", DRAINED, Drained()),
        ("DRAIN", "[thrd:main]: All partitions drained", Drained()),
        (
            "DRAIN",
            "[thrd:198.19.110.2:9092/2]: elastic [8] beginning partition drain: drain before "
            "retrying",
            None,
        ),
        (
            "NEWPID",
            "[thrd:198.19.110.6:9092/6]: elastic [10] changed PID{Id:0,Epoch:0} -> "
            "PID{Id:0,Epoch:1} with base MsgId 69",
            None,
        ),
        ("FATAL", "[thrd:main]: Fatal error: Local: Fenced by a newer instance", None),
        ("ERRSEQ", "something else", RefusedBatch(error="refused, in words that are not known")),
    ],
)
def test_relevant_lines_are_parsed_and_others_ignored(
    facility: str, text: str, fact: object
) -> None:
    """Every line that matters is read, and no other."""
    assert parse(facility, text) == fact


@pytest.mark.parametrize(
    ("change", "error"),
    [
        # Several were in flight to the old leader: the last of them is the failed one.
        (("base seq 52 > next seq 51", "base seq 54 > next seq 49"), OWN),
        (
            ("(NOT_LEADER_FOR_PARTITION", "(OUT_OF_ORDER_SEQUENCE_NUMBER"),
            "refused out of order, after OUT_OF_ORDER_SEQUENCE_NUMBER "
            "(sequence 52, expected 51, failed 51..51)",
        ),
        # An error of long ago, acknowledged since, is not why.
        (
            ("base seq 52 > next seq 51", "base seq 53 > next seq 52"),
            "refused out of order, after NOT_LEADER_FOR_PARTITION "
            "(sequence 53, expected 52, failed 51..51)",
        ),
        # The batch that failed is the refused one itself.
        (
            ("seq 51..51", "seq 52..67"),
            "refused out of order, after NOT_LEADER_FOR_PARTITION "
            "(sequence 52, expected 51, failed 52..67)",
        ),
    ],
)
def test_only_batches_sent_ahead_of_a_failed_one_are_excused(
    change: tuple[str, str], error: str
) -> None:
    """The earlier batch failed for another reason."""
    assert change[0] in SKIPPED
    fact = parse("ERRSEQ", SKIPPED.replace(*change))
    assert isinstance(fact, RefusedBatch)
    assert fact.error == error


@pytest.mark.parametrize(
    ("base", "expected", "taken_back", "failed_message"),
    [(52, 51, "68..80, base msgid 69", 52), (52, 40, "68..68, base msgid 169", 152)],
)
def test_batches_taken_back_hide_the_one_that_failed(
    base: int, expected: int, taken_back: str, failed_message: int
) -> None:
    """Two are in flight, and the first fails: queued batches are taken back, then the second is
    refused. The broker lacked at least the last message before that one."""
    text = (
        SKIPPED.replace("NOT_LEADER_FOR_PARTITION", "_RETRY")
        .replace("52 > next seq 51", f"{base} > next seq {expected}")
        .replace("51..51, base msgid 52", taken_back)
    )
    own = RefusedBatch(
        error="skipped-ahead: not told", topic="elastic", partition=8, failed_message=failed_message
    )
    assert parse("ERRSEQ", text) == own
    elsewhere = text.replace("(_RETRY", "(NOT_LEADER_FOR_PARTITION")
    assert parse("ERRSEQ", elsewhere) != own
    refused_itself = text.replace("68..", "52..")
    assert "refused out of order, after _RETRY" in str(parse("ERRSEQ", refused_itself))


def watched(*lines: tuple[str, str]) -> list[tuple[int, int | None, list[str]]]:
    """(began, begun, errors) of each bump in these lines, read at 1, 2, ..., and of the end."""
    watch = EpochLogReader()
    bumps = [watch.read(*line, at_ns) for at_ns, line in enumerate(lines, start=1)]
    found = [bump for bump in (*bumps, watch.close()) if bump is not None]
    return [(b.began_ns, b.begun_ns, [c.error for c in b.causes]) for b in found]


def test_first_refusal_of_a_partition_counts() -> None:
    """Later refusals of the partition are its consequences."""
    behind = SKIPPED.replace("(NOT_LEADER_FOR_PARTITION", "(OUT_OF_ORDER_SEQUENCE_NUMBER")
    elsewhere = SKIPPED.replace("[8]", "[9]")
    lines = [
        ("ERRSEQ", SKIPPED), ("DRAIN", DRAIN + SKIPPING),
        ("ERRSEQ", behind), ("DRAIN", DRAIN + SKIPPING),
        ("ERRSEQ", elsewhere), ("DRAIN", DRAIN + SKIPPING),
        ("DRAIN", DRAINED),
        ("DRAIN", DRAIN + TIMED_OUT), ("DRAIN", DRAINED),
    ]  # fmt: skip
    assert watched(*lines) == [
        (2, 7, [OWN, OWN]),
        (8, 9, [GIVEN_UP]),
    ]


def test_causes_of_brokers_and_of_the_client_are_both_kept() -> None:
    """Here the first batch in order is refused, and a refusal cannot be parsed."""
    own = (("ERRSEQ", SKIPPED), ("DRAIN", DRAIN + SKIPPING))
    head = ("FATAL", HEAD.replace("[8]", "[9]"))
    assert watched(*own, head, ("DRAIN", DRAIN + GAP), ("DRAIN", DRAINED)) == [
        (2, 5, [OWN, "refused at the head of the line", GAP])
    ]
    assert watched(*own, ("ERRSEQ", "?"), ("DRAIN", DRAINED)) == [
        (2, 4, [OWN, "refused, in words that are not known"])
    ]
    assert watched(("DRAIN", DRAIN + SKIPPING)) == [(1, None, [SKIPPING])]
    given_up = ("DRAIN", DRAIN + TIMED_OUT)
    assert watched(given_up, ("DRAIN", DRAIN + GAP)) == [(1, None, [GIVEN_UP, GAP])]
    assert watched(("DRAIN", DRAIN + TIMED_OUT + " for good")) == [
        (1, None, [TIMED_OUT + " for good"])
    ]


def test_causes_are_bounded() -> None:
    """However many partitions refuse."""
    many = [("ERRSEQ", SKIPPED.replace("[8]", f"[{n}]")) for n in range(MAX_CAUSES + 9)]
    ((_, _, errors),) = watched(*many, ("DRAIN", DRAIN + SKIPPING))
    assert errors == [OWN] * MAX_CAUSES


class Scripted:
    """librdkafka's producer as far as the recording one uses it, with a log at hand."""

    settings: Mapping[str, Any]

    def __init__(self, settings: Mapping[str, Any]) -> None:
        type(self).settings = settings

    def produce(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        """Refuses what does not fit."""
        if partition == 9:
            raise BufferError

    def poll(self, timeout_s: float) -> int:
        """Nothing happens."""
        return 0

    def purge(self) -> None:
        """Nothing is left."""


def recording(*, idempotence: bool) -> tuple[RecordingProducer, Recorded]:
    """A producer, and what it records."""
    seen = Recorded(client=7, topic="elastic")
    config = producer_config(ProducerOptions(
        bootstrap="127.0.0.1:1", acks=-1, idempotence=idempotence, linger_ms=0,
        message_timeout_ms=1000,
    ))  # fmt: skip
    return RecordingProducer(config, seen.sends()), seen


def log(level: int, facility: str, text: str) -> None:
    """As confluent_kafka hands on a line."""
    logger = Scripted.settings["logger"]
    assert isinstance(logger, logging.Logger)
    logger.log(level, "%s [%s] %s", facility, "rdkafka#producer-1", text)


def test_bumps_are_recorded_with_what_the_broker_lacked(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """There is one row per cause; a bump that the end interrupts has no completion time."""
    monkeypatch.setattr("harness.workloads.clients.librdkafka.Producer", Scripted)
    producer, seen = recording(idempotence=True)
    for partition in (8, 9, 3, 8, 8):
        producer.send(partition)
    log(logging.DEBUG, "ERRSEQ", SKIPPED.replace("msgid 52", "msgid 2"))
    log(logging.DEBUG, "DRAIN", DRAIN + SKIPPING)
    log(logging.DEBUG, "DRAIN", DRAIN + GAP)
    log(logging.DEBUG, "DRAIN", DRAINED)
    log(logging.DEBUG, "DRAIN", DRAIN + GAP)
    log(logging.ERROR, "FAIL", "a broker is gone")
    log(logging.CRITICAL, "CRIT", "the disk is on fire")
    producer.close(0)
    columns = ("client", "type", "topic", "partition", "value", "error")
    assert seen.writer.of("producer-epoch", *columns) == [
        (7, "ok", "elastic", 8, value_of(7, 4), OWN),
        (7, "ok", None, None, None, GAP),
        (7, "info", None, None, None, GAP),
    ]
    ops = [op for (op,) in seen.writer.of("producer-epoch", "op")]
    assert ops[0] == ops[1] != ops[2]
    (first, *_, last) = seen.writer.of("producer-epoch", "invoke_ns", "complete_ns")
    assert first[0] < first[1] < last[0]
    assert last[1] is None
    assert capfd.readouterr().err == "CRIT [rdkafka#producer-1] the disk is on fire\n"


def test_producer_without_idempotence_has_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no epoch to leave."""
    monkeypatch.setattr("harness.workloads.clients.librdkafka.Producer", Scripted)
    producer, _ = recording(idempotence=False)
    assert not {"debug", "logger"} & Scripted.settings.keys()
    assert Scripted.settings["log_level"] == 2
    producer.close(0)
