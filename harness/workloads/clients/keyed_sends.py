"""The sends of a producer that writes and deletes the keys of a compacted topic, and their rows.

A producer writes to a few keys of each partition at a time, the same keys as other producers. After
some sends it leaves the lowest of them for good, so that the last records of most keys are old when
the run ends. The value of a send says which key it writes, and whether it is a deletion. Pure.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from checkers.history.history import KEYED_DELETE, KEYED_WRITE
from harness.workloads.clients.payload import FOREIGN, PayloadCodec, sequence_of
from harness.workloads.clients.sends import Sends
from harness.workloads.clients.text_payload import TextPayload


class Keys(NamedTuple):
    """How a producer chooses keys: how many of each partition at a time, after how many sends it
    leaves the lowest one, and the share of deletions."""

    at_a_time: int
    sends_each: int
    delete_share: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Keys | None":
        """Return what a configuration says; None if it says nothing."""
        if not values:
            return None
        at_a_time, sends_each, delete_share = values
        return cls(int(at_a_time), int(sends_each), delete_share)

    def number(self, value: int) -> int:
        """Return the number of the key that a send writes."""
        first = sequence_of(value) // self.sends_each
        return first + _mixed(value) % self.at_a_time

    def deletes(self, value: int) -> bool:
        """Whether a send is a deletion."""
        return _mixed(~value) < self.delete_share * (1 << 32)


def _mixed(value: int) -> int:
    """Return a number of 32 bits that looks random, but depends on the value alone."""
    return zlib.crc32(value.to_bytes(16, "big", signed=True) * 2)


def key_bytes(number: int) -> bytes:
    """Return a key as the topic has it."""
    return b"%d" % number


def key_number(key: bytes | None) -> int | None:
    """Return the number of a key; None for a key that no producer of a run writes."""
    return int(key) if key is not None and key.isdigit() and len(key) <= 18 else None


def read_keyed(
    codec: PayloadCodec | TextPayload, payload: bytes | None, key: bytes | None
) -> tuple[int | None, str | None, int | None]:
    """Return value, error and key of a record of a compacted topic, as its row has them."""
    number = key_number(key)
    value, error = (None, None) if payload is None else codec.decode(payload)
    return value, FOREIGN if number is None else error, number


@dataclass(slots=True, kw_only=True)
class KeyedSends(Sends):
    """The sends of one producer. Only the thread or task that sends may use it."""

    keys: Keys

    def payload(self, value: int) -> bytes | None:
        """Return the payload of a send; None for a deletion."""
        return None if self.keys.deletes(value) else Sends.payload(self, value)

    def key(self, value: int, partition: int) -> bytes | None:
        """Return the key of a send."""
        return key_bytes(self.keys.number(value))

    def row_of(self, value: int) -> tuple[str, int | None]:
        """Return the `f` and the key of the row of a send."""
        return (KEYED_DELETE if self.keys.deletes(value) else KEYED_WRITE), self.keys.number(value)
