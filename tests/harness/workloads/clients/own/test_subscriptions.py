"""What members of a classic group tell each other is what Kafka's consumers tell each other."""

import struct

import pytest

from harness.workloads.clients.own.subscriptions import (
    assigned,
    assignment,
    by_range,
    subscription,
)


def test_bytes_are_those_of_kafkas_consumers() -> None:
    """Version, topics, no user data; version, topic with partitions, no user data."""
    assert subscription(["t"]) == struct.pack(">hih1si", 0, 1, 1, b"t", -1)
    assert assignment({"t": [1, 2]}) == struct.pack(">hih1siiii", 0, 1, 1, b"t", 2, 1, 2, -1)


def test_an_assignment_can_be_read() -> None:
    """Of several topics; a member may get nothing."""
    given = {"t": [0, 3], "u": [3]}
    assert assigned(assignment(given)) == (("t", 0), ("t", 3), ("u", 3))
    assert assigned(b"") == ()


@pytest.mark.parametrize(
    ("members", "partitions", "shares"),
    [
        (["b", "a"], 5, {"a": range(3), "b": range(3, 5)}),
        (["a", "b", "c"], 2, {"a": range(1), "b": range(1, 2), "c": range(2, 2)}),
    ],
)
def test_ranges_are_equal_within_one(
    members: list[str], partitions: int, shares: dict[str, range]
) -> None:
    """In the order of the member ids, the first ones with one more, and alike in all topics."""
    found = by_range(members, {"t": partitions, "u": partitions})
    assert found == {member: {"t": share, "u": share} for member, share in shares.items()}
