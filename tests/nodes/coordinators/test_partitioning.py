"""Groups and transactional ids find Kafka's partition."""

import pytest

from nodes.coordinators.partitioning import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_hash_is_that_of_java(text: str, value: int) -> None:
    """Over UTF-16 code units; the values are those of a JVM."""
    assert java_hash(text) == value


def test_the_smallest_hash_has_a_partition() -> None:
    """Its absolute value does not fit into 32 bits: Kafka takes partition 0."""
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("hello", 50) == 99162322 % 50
