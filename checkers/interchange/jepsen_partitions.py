"""Numbers of partitions, and values that are unique among all of them."""

from collections.abc import Sequence

import numpy as np

from checkers.interchange.columns import NONE, Entries, Numbers
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import VALUE_BITS


def number_partitions(entries: Entries, order: Sequence[int]) -> int:
    """Number partitions in the order of their keys, and tell equal values of two of them apart;
    returns by how many bits (0: there are none). Raises InterchangeError where that cannot be.

    order: the number so far of each key.
    """
    records = entries.records
    numbers = np.empty(len(order) + 1, np.int64)
    numbers[list(order)] = np.arange(len(order))
    numbers[-1] = NONE
    records["partition"] = numbers[np.where(records["partition"] == NONE, -1, records["partition"])]
    said = records["value"] != NONE
    partition, value = records["partition"][said], records["value"][said]
    bits = _value_bits(partition, value, len(order))
    if bits:
        packed = records["partition"] << bits | records["value"]
        records["value"] = np.where(said, packed, NONE)
    return bits


def _value_bits(partition: Numbers, value: Numbers, partitions: int) -> int:
    by_value = np.argsort(value, kind="stable")
    value, partition = value[by_value], partition[by_value]
    if not np.any((value[1:] == value[:-1]) & (partition[1:] != partition[:-1])):
        return 0
    greatest, most = int(value[-1]), 63 - (partitions - 1).bit_length()
    if greatest >= 1 << most:
        raise InterchangeError(
            f"two keys share a value, and there is the value {greatest}; values must be below "
            f"2^{most}, or each be sent to one key only"
        )
    return VALUE_BITS if greatest < 1 << VALUE_BITS else most
