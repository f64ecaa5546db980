"""Batches of unusual forms are valid, and each wrong kind is what it says."""

import random

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.batch_forms import (
    CODECS,
    GAP,
    MAX_BYTES,
    OLD_EPOCH,
    WRONG,
    Stamp,
    Wrong,
    encoded,
    unusual_records,
)
from harness.workloads.clients.own.committed_reads import visible
from nodes.log.appending import validate_produced
from nodes.log.batch import Record
from nodes.log.config import LogConfig
from nodes.log.errors import LogError
from nodes.server.requests.append_errors import append_error
from nodes.server.requests.produced_batches import invalid_batch

CONFIG = LogConfig(max_message_bytes=MAX_BYTES)
PRODUCE = 12
NOW_MS = 1_700_000_000_000
STAMP = Stamp(7, 0, 3)
PLAIN = encoded([Record(timestamp=1_000, value=b"wrong %d" % n) for n in range(3)], STAMP)


def answer(batch: bytes) -> ErrorCode:
    """What the broker answers to a batch, as far as its bytes decide that."""
    invalid = invalid_batch(batch, PRODUCE, in_transactions=False)
    if invalid is not None:
        return invalid[0]
    try:
        validate_produced(batch, CONFIG)
    except LogError as error:
        return append_error(error)
    return ErrorCode.none


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: each.name)
def test_each_wrong_kind_is_refused_by_its_error(wrong: Wrong) -> None:
    """The valid batch that it is made of is not refused."""
    assert answer(PLAIN) is ErrorCode.none
    assert answer(wrong.make(PLAIN)) in wrong.errors


@pytest.mark.parametrize("wrong", [OLD_EPOCH, GAP], ids=lambda each: each.name)
def test_kinds_that_the_log_decides_are_well_formed(wrong: Wrong) -> None:
    """Only what the log has of the producer makes them wrong."""
    assert answer(wrong.make(PLAIN)) is ErrorCode.none


def test_unusual_batches_are_valid_and_can_be_read() -> None:
    """Of each codec, with every kind of record that is drawn."""
    rng = random.Random(1)
    drawn: list[Record] = []
    for number in range(200):
        records = unusual_records(number, NOW_MS, rng)
        batch = encoded(records, STAMP, CODECS[number % len(CODECS)])
        assert answer(batch) is ErrorCode.none
        found, _ = visible(batch, (), 0)
        assert [(e.timestamp, e.key, e.value, e.headers) for e in found] == [
            (e.timestamp, e.key, e.value, e.headers) for e in records
        ]
        drawn += records
    assert {None, b""} < {each.key for each in drawn}
    assert {None, b""} < {each.value for each in drawn}
    assert any(content is None for each in drawn for _, content in each.headers)
    steps_ms = {each.timestamp - NOW_MS for each in drawn}
    assert min(steps_ms) < -(1 << 32) < 1 << 32 < max(steps_ms)
