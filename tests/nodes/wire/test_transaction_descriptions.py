"""The response to DescribeTransactions, byte for byte as Kafka's schema of version 0 has it."""

from datetime import UTC, datetime, timedelta

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from nodes.wire.codec import decode_response, encode_response
from nodes.wire.transaction_descriptions import DESCRIBE_TRANSACTIONS, DescribeTransactionsResponse
from nodes.wire.versions import fill

STARTS = {"ffffffffffffffff": None, "0000000000000fa1": datetime.fromtimestamp(4.001, UTC)}


def row(start: str) -> str:
    """The bytes of a response about id "x"."""
    return (
        "00000007 00 00000000 02"  # the number, no tags, no throttling, one id
        "0000 0278 06456d707479 0000ea60" + start + "0000000000000009 0003"
        "02 0261 02 00000005 00"  # one topic, one partition
        "00 00"
    )


@pytest.mark.parametrize("start", STARTS)
def test_response_bytes_are_those_of_kafkas_schema(start: str) -> None:
    """With a start, and without one, which is -1."""
    state = {
        "transactional_id": "x",
        "transaction_state": "Empty",
        "transaction_timeout": timedelta(minutes=1),
        "transaction_start_time": STARTS[start],
        "producer_id": 9,
        "producer_epoch": 3,
        "topics": [{"topic": "a", "partitions": [5]}],
    }
    response = fill(DescribeTransactionsResponse, transaction_states=[state])
    frame = encode_response(response, 7)[4:]
    assert frame == bytes.fromhex(row(start))
    assert decode_response(frame, DESCRIBE_TRANSACTIONS, 0) == response


def test_our_class_reads_as_kios_does_what_kio_can_read() -> None:
    """A new version of kio that reads -1 makes the module superfluous."""
    kios = entity_reader(load_response_schema(DESCRIBE_TRANSACTIONS, 0))
    with_start = bytes.fromhex(row("0000000000000fa1"))
    theirs, _ = kios(with_start, 5)
    ours = decode_response(with_start, DESCRIBE_TRANSACTIONS, 0)
    for name in theirs.transaction_states[0].__dataclass_fields__:
        theirs_value = getattr(theirs.transaction_states[0], name)
        assert getattr(ours.transaction_states[0], name) == theirs_value
    with pytest.raises(Exception, match="negative timestamp"):
        kios(bytes.fromhex(row("ffffffffffffffff")), 5)
