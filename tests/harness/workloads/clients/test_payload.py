"""The payload of a record, and every way in which it may be damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.workloads.clients.payload import (
    CHECKSUM,
    FOREIGN,
    HEADER_BYTES,
    MAX_SEQUENCE,
    PayloadCodec,
    client_of,
    peek_value,
    value_of,
)

numbers = st.integers(0, MAX_SEQUENCE)


@given(client=numbers, sequence=numbers, size=st.integers(HEADER_BYTES, 2_000))
def test_round_trip(client: int, sequence: int, size: int) -> None:
    """Every client, sequence and size comes back as the value it stands for."""
    codec = PayloadCodec("run", size)
    payload = codec.encode(client, sequence)
    assert len(payload) == size
    assert codec.decode(payload) == (value_of(client, sequence), None)
    assert peek_value(payload) == value_of(client, sequence)
    assert client_of(peek_value(payload)) == client


@given(
    position=st.integers(0, 255),
    bit=st.integers(0, 7),
)
def test_any_flipped_bit_is_a_checksum_error(position: int, bit: int) -> None:
    """A flipped bit is seen wherever it is: in the header, in the value, in the padding."""
    codec = PayloadCodec("run", 256)
    payload = bytearray(codec.encode(3, 4))
    payload[position] ^= 1 << bit
    assert codec.decode(bytes(payload)) == (None, CHECKSUM)


@given(cut=st.integers(4, 255))
def test_truncated_payload_is_a_checksum_error(cut: int) -> None:
    """It is corrupt, not foreign."""
    codec = PayloadCodec("run", 256)
    assert codec.decode(codec.encode(3, 4)[:cut]) == (None, CHECKSUM)


def test_payload_of_another_run_is_foreign() -> None:
    """It is not confused with a corrupt payload of this run."""
    assert PayloadCodec("a", 64).decode(PayloadCodec("b", 64).encode(1, 1)) == (None, FOREIGN)


@given(st.binary(max_size=200) | st.none())
def test_arbitrary_bytes_are_never_a_value(payload: bytes | None) -> None:
    """What no workload wrote has no value."""
    value, error = PayloadCodec("run", 64).decode(payload)
    assert value is None
    assert error in (CHECKSUM, FOREIGN)


def test_size_below_the_header_is_refused() -> None:
    """A plan that asks for less than the header is wrong."""
    with pytest.raises(ValueError, match="at least"):
        PayloadCodec("run", HEADER_BYTES - 1)
