"""The payload of a record that a tested program reads: a JSON object with the record's id.

    {"id": "hw7f3a2c-1001-17-9c1e", "number": 4299262263313, "pad": "xxxx"}

The id names the run (three bytes of its tag), the client, the sequence, and two bytes of a
checksum of all before. So a program's output that has an id says from which input it was made, an
id of another run is told apart, and a part of an id is not taken for another one. `number` is the
same value as a number, for outputs that can hold no text. Pure.
"""

import json
import re
import zlib
from enum import StrEnum
from typing import Final, NamedTuple

from harness.workloads.clients.payload import CHECKSUM, FOREIGN, run_tag, value_of

TAG_BYTES: Final = 3
KEYS_OF_PARTITION: Final = 8
"""A partition has so many keys; `checkers.detectors.outputs` relies on it."""
MIN_BYTES: Final = 128
"""The least size of a payload."""
_ID: Final = re.compile(r"hw([0-9a-f]{6})-(\d{1,10})-(\d{1,10})-([0-9a-f]{4})(?![0-9a-f])")
_BEGINNING: Final = re.compile(r"hw[0-9a-f]{6}-")


class Found(StrEnum):
    """What a text is to the ids of a run."""

    ID = "id"
    TORN = "torn"
    """It has the beginning of an id of this run, and no whole id."""
    OTHER_RUN = "other run"
    """It has an id of another run."""
    NONE = "none"


class Extracted(NamedTuple):
    """What was found in a text, and the value of the id if one was."""

    found: Found
    value: int | None = None


class Ids:
    """The ids of one run."""

    def __init__(self, run_id: str) -> None:
        self.prefix = f"hw{run_tag(run_id)[:TAG_BYTES].hex()}-"
        """How every id of this run begins."""

    def id_of(self, value: int) -> str:
        """Return the id of a value."""
        text = f"{self.prefix}{value >> 32}-{value & 0xFFFF_FFFF}"
        return f"{text}-{_check(text)}"

    def find(self, text: str) -> Extracted:
        """Return the first id of this run in a text, or what is there instead."""
        whole = list(_ID.finditer(text))
        for each in whole:
            stem = each[0].rpartition("-")[0]
            if stem.startswith(self.prefix) and _check(stem) == each[4]:
                return Extracted(Found.ID, value_of(int(each[2]), int(each[3])))
        if self.prefix in text:
            return Extracted(Found.TORN)
        return Extracted(Found.OTHER_RUN if whole or _BEGINNING.search(text) else Found.NONE)


def _check(text: str) -> str:
    return f"{zlib.crc32(text.encode()) & 0xFFFF:04x}"


def key_of(value: int, partition: int) -> str:
    """Return the key of a record: one of KEYS_OF_PARTITION of its partition."""
    return f"p{partition}.{value % KEYS_OF_PARTITION}"


class TextPayload:
    """Encodes and decodes such payloads; see `payload.PayloadCodec` for the methods.

    Raises ValueError for a size below MIN_BYTES.
    """

    def __init__(self, run_id: str, size: int) -> None:
        if size < MIN_BYTES:
            raise ValueError(f"a text payload needs at least {MIN_BYTES} bytes, not {size}")
        self._ids = Ids(run_id)
        self._size = size

    def encode(self, client: int, sequence: int) -> bytes:
        """Return the payload of one send."""
        return self._made(value_of(client, sequence), self._size)

    def _made(self, value: int, size: int) -> bytes:
        head = json.dumps({"id": self._ids.id_of(value), "number": value})[:-1] + ', "pad": "'
        return (head + "x" * (size - len(head) - 2) + '"}').encode()

    def decode(self, payload: bytes | None) -> tuple[int | None, str | None]:
        """Return (value, None) for a payload of this run, else (None, CHECKSUM or FOREIGN)."""
        text = (payload or b"").decode(errors="replace")
        found, value = self._ids.find(text)
        if value is not None:
            same = payload == self._made(value, len(payload or b""))
            return (value, None) if same else (None, CHECKSUM)
        return None, CHECKSUM if found is Found.TORN else FOREIGN

    def key(self, value: int, partition: int) -> bytes | None:
        """Return the key of a record."""
        return key_of(value, partition).encode()

    def peek(self, payload: bytes) -> int:
        """Return the value of a payload that this process made itself; nothing is checked."""
        number: int = json.loads(payload)["number"]
        return number


def is_text(payload: bytes | None) -> bool:
    """Whether a payload has this form, and not that of `payload.PayloadCodec`."""
    return payload is not None and payload.startswith(b"{")
