"""Java's ConsumerProtocol: what members of the classic protocol tell each other."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.coordinators.groups.embedded import (
    Subscription,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)

# Version 3: topic "t", no user data, partitions 0 and 1 of "u" owned, generation 5, rack "r".
SUBSCRIPTION = bytes.fromhex(
    "0003 00000001 000174 ffffffff 00000001 000175 00000002 00000000 00000001 00000005 000172"
)
ASSIGNMENT = bytes.fromhex("0001 00000001 000174 00000002 00000000 00000002 ffffffff")


def test_a_subscription_is_read_in_every_version() -> None:
    """Later versions have more at their end; one that is not known yet is read as the newest."""
    everything = Subscription(("t",), {"u": frozenset({0, 1})}, "r")
    assert read_subscription(SUBSCRIPTION) == everything
    assert read_subscription(b"\0\7" + SUBSCRIPTION[2:] + b"more") == everything
    assert read_subscription(b"\0\1" + SUBSCRIPTION[2:]) == everything._replace(rack=None)
    assert read_subscription(b"\0\0" + SUBSCRIPTION[2:]) == Subscription(("t",), {}, None)
    assert version_of(SUBSCRIPTION) == 3


def test_an_assignment_is_read_and_written() -> None:
    """In the version that the member understands. No bytes are an empty assignment."""
    partitions = {"t": frozenset({0, 2})}
    assert write_assignment(partitions, 1) == ASSIGNMENT
    assert read_assignment(ASSIGNMENT) == (partitions, b"")
    assert version_of(write_assignment({}, 9)) == 3
    assert read_assignment(b"") == ({}, b"")
    assert read_assignment(ASSIGNMENT[:-4] + struct.pack(">i", 1) + b"x") == (partitions, b"x")


@given(st.binary(max_size=30), st.integers(0, len(SUBSCRIPTION)))
def test_damaged_data_is_a_value_error(data: bytes, end: int) -> None:
    """Nothing else is raised."""
    cases = (data, SUBSCRIPTION[:end], SUBSCRIPTION[:end] + data)
    for read, text in itertools.product((read_subscription, read_assignment), cases):
        try:
            read(text)
        except ValueError:
            continue


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", SUBSCRIPTION[:-1]])
def test_a_subscription_that_is_cut_off_is_refused(data: bytes) -> None:
    """Also a negative version."""
    with pytest.raises(ValueError):
        read_subscription(data)
