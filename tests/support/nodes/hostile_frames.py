"""Frames that no client should send, made from the grammar of those that one may.

A frame starts as a well-formed request of a served api and version, with values that hurt (limits
of integers, names of other things, null where it may be, big arrays), and may then be broken:
truncated, its lengths and counts overwritten, bits flipped, its length prefix untrue, newer tagged
fields put in, cut out of the middle of another frame.

Half of the fields that coordinators look at have likely values instead: few groups, transactional
ids, producer ids and epochs, and the member ids that a broker has given away (`Malice.heard`). So
requests get past the first check.
"""

import gzip
import random
import re
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from crc32c import crc32c
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)

from nodes.wire.codec import encode_request
from nodes.wire.frames import frame_of
from nodes.wire.schemas import request_schema
from nodes.wire.versions import Draft

CLIENT_ID = "malice"
BOMB_BYTES = 64 << 20
NAMES = ("", "a", "noisy", "x" * 249, "x" * 30_000, "../../etc", "ä\0\n", "__cluster_metadata", ".")
INTERNAL = ("__consumer_offsets", "__transaction_state")
INTERNAL_TOPIC_APIS = frozenset({0, 1, 2, 8, 9, 21, 23, 24, 27, 28, 47, 61})
"""Requests that may name internal topics. Others could rightly delete them, or add partitions."""
_GROUPS, _IDS, _EPOCHS = ("g", "h", "i"), ("t", "u", "v"), (-1, 0, 1, 2, 3, 2**15 - 2, 2**15 - 1)
_GENERATIONS = (-1, 0, 1, 2, 3, 4, 5)
_LIKELY: Mapping[str, tuple[Any, ...]] = {
    "name": ("noisy",),
    "partition_index": (0, 1, 2),
    "partition_indexes": (0, 1, 2),
    "partitions": (0, 1, 2),
    "group_id": _GROUPS,
    "group_ids": _GROUPS,
    "groups": _GROUPS,
    "groups_names": _GROUPS,
    "coordinator_keys": (*_GROUPS, *_IDS),
    "generation_id": _GENERATIONS,
    "generation_id_or_member_epoch": _GENERATIONS,
    "member_epoch": (-2, *_GENERATIONS),
    "group_instance_id": (None, "s"),
    "instance_id": (None, "s"),
    "protocol_type": ("consumer",),
    "server_assignor": ("uniform", "range"),
    "subscribed_topic_regex": (None, "", "n.*", "(", "a{1000}{1000}"),
    "transactional_id": _IDS,
    "transactional_ids": _IDS,
    "transactional_id_pattern": (None, "", "t|u", "(", "(a|b)*a(a|b){100}"),
    "producer_id": tuple(range(-1, 10)),
    "producer_epoch": _EPOCHS,
    "coordinator_epoch": (-1, 0, 1),
    "feature": ("transaction.version", "group.version"),
    "session_timeout": (timedelta(seconds=6), timedelta(seconds=30)),
    "rebalance_timeout": (timedelta(seconds=1), timedelta(seconds=60)),
    "transaction_timeout": (timedelta(milliseconds=1), timedelta(seconds=60)),
}
"""By the name of a field."""
_MEMBER_ID: Final = re.compile(CLIENT_ID.encode() + rb"-[0-9a-f]{8}-[0-9a-f-]{27}")
LONG_NAME = "y" * 40_000
"""Only flexible versions can say it, and no record of a coordinator can."""
_EDGES = {
    "int8": (-128, -1, 0, 2, 127),
    "int16": (-(2**15), -1, 0, 2, 100, 2**15 - 1),
    "uint16": (0, 2, 2**16 - 1),
    "error_code": (-1, 0, 3),
    "int32": (-(2**31), -2, -1, 0, 2, 3, 1000, 65_536, 2**31 - 1),
    "uint32": (0, 2, 2**32 - 1),
    "int64": (-(2**63), -2, -1, 0, 2, 2**31, 2**62, 2**63 - 1),
    "float64": (0.0, -1.5, 1e308),
    "bool": (False, True),
    "timedelta_i32": tuple(map(timedelta, (0, 0, 24, -24))),
    "timedelta_i64": (timedelta(0), timedelta(days=10_000)),
    "datetime_i64": (datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(2**33, UTC)),
    "uuid": (None, UUID(int=1), UUID(int=2**128 - 1), UUID(int=0xABCDEF)),
    "bytes": (b"", b"\0", b"\0user\0secret", b"\xff" * 300),
}
_HUGE = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x00\x0f\x42\x40",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\xff\xff",
    b"\x80\x80\x40",
    b"\x00",
)


@cache
def compression_bomb() -> bytes:
    """A batch whose records claim to be, and are, gzip: 64 KB of it that would become 64 MB."""
    packed = gzip.compress(bytes(BOMB_BYTES), mtime=0)
    after_crc = struct.pack(">hiqqqhii", 1, 0, 0, 0, -1, -1, -1, 1) + packed
    head = struct.pack(">ibI", -1, 2, crc32c(after_crc))
    return struct.pack(">qi", 0, len(head) + len(after_crc)) + head + after_crc


class Malice:
    """Frames from one random source; `served` is the versions of each api (both ends included).

    `likely` is the share of likely values.
    """

    def __init__(
        self, rng: random.Random, served: Mapping[int, tuple[int, int]], likely: float = 0.5
    ) -> None:
        self._rng = rng
        self._likely = likely
        self._members: deque[str] = deque(["m"], maxlen=20)
        self._names: tuple[str, ...] = NAMES
        self.requests = [
            (key, version)
            for key, (oldest, newest) in served.items()
            for version in range(oldest, newest + 1)
            if _exists(key, version)
        ]
        """The api keys and versions that are asked."""
        self._break: tuple[Callable[[bytes], bytes], ...] = (
            self._truncated,
            self._shortened_in_place,
            self._wrong_lengths,
            self._flipped,
            self._untrue_prefix,
            self._noise,
            self._middle,
            self._unknown,
        )

    def burst(self) -> tuple[list[bytes], bool]:
        """Frames for one connection, in order; whether the last of them is broken."""
        frames = [self.request() for _ in range(min(int(self._rng.expovariate(0.15)), 40))]
        broken = self._rng.random() < 0.6 or not frames
        if broken:
            frames.append(self._rng.choice(self._break)(self.request()))
        return frames, broken

    def heard(self, answers: bytes) -> None:
        """Remember the member ids in what a broker answered."""
        self._members += (found.decode() for found in _MEMBER_ID.findall(answers))

    def request(self) -> bytes:
        """A well-formed request that may ask for anything."""
        return self.request_of(*self._rng.choice(self.requests))

    def request_of(self, key: int, version: int) -> bytes:
        """A well-formed request of this api and version."""
        schema = request_schema(key, version)
        internal = INTERNAL if key in INTERNAL_TOPIC_APIS else ()
        self._names = (*NAMES, *internal, *((LONG_NAME,) if schema.__flexible__ else ()))
        frame = encode_request(Draft(schema, self._values(schema, 0)), 7, CLIENT_ID)
        if self._rng.random() < 0.2:
            frame = self._newer(key, version, frame)
        return frame

    # -- values --------------------------------------------------------------------------------

    def _values(self, cls: Any, depth: int) -> dict[str, Any]:
        return {field.name: self._value(field, depth) for field in fields(cls)}

    def _value(self, field: Any, depth: int) -> Any:
        rng = self._rng
        tagged = get_field_tag(field) is not None
        kind = classify_field(field)
        null = _nullable(field) and not tagged
        if null and rng.random() < 0.2:
            return None
        match kind:
            case PrimitiveField():
                return self._primitive(field)
            case PrimitiveTupleField():
                return [self._primitive(field) for _ in range(self._count(depth))]
            case EntityTupleField(nested):
                return [self._values(nested, depth + 1) for _ in range(self._count(depth))]
            case EntityField(nested):
                nullable = is_optional(field) and not tagged
                return None if nullable and rng.random() < 0.5 else self._values(nested, depth + 1)

    def _count(self, depth: int) -> int:
        if self._rng.random() < 0.002 and depth < 1:
            return 300
        return self._rng.choice((0, 1, 1, 1, 2, 3))

    def _primitive(self, field: Any) -> Any:
        kafka_type = get_schema_field_type(field)
        if field.name in _LIKELY and self._rng.random() < self._likely:
            likely = self._rng.choice(_LIKELY[field.name])
            return likely if likely is not None or _nullable(field) else ""
        if field.name == "member_id" and self._rng.random() < self._likely:
            return self._rng.choice(self._members)
        if kafka_type == "string":
            return self._rng.choice(self._names)
        if kafka_type == "records":
            kind = self._rng.random()
            if kind < 0.02:
                return compression_bomb()
            return self._rng.randbytes(self._rng.choice((0, 10, 61, 200)))
        return self._rng.choice(_EDGES[kafka_type])

    # -- ways to break a frame -----------------------------------------------------------------

    def _newer(self, key: int, version: int, frame: bytes) -> bytes:
        """The body ends in two unknown tagged fields, if it ends in tagged fields at all."""
        if not request_schema(key, version).__flexible__ or frame[-1] != 0:
            return frame
        return frame_of(frame[4:-1], b"\x02\x2a\x03new\x99\x10\x00")

    def _truncated(self, frame: bytes) -> bytes:
        return frame_of(frame[4 : self._rng.randrange(4, len(frame))])

    def _shortened_in_place(self, frame: bytes) -> bytes:
        at = self._rng.randrange(4, len(frame))
        return frame_of(frame[4:at], frame[at + self._rng.randrange(1, 9) :])

    def _wrong_lengths(self, frame: bytes) -> bytes:
        body = bytearray(frame[4:])
        for _ in range(self._rng.randrange(1, 4)):
            huge = self._rng.choice(_HUGE)
            at = self._rng.randrange(8, max(9, len(body)))
            body[at : at + len(huge)] = huge
        return frame_of(bytes(body))

    def _flipped(self, frame: bytes) -> bytes:
        body = bytearray(frame[4:])
        for _ in range(self._rng.randrange(1, 12)):
            body[self._rng.randrange(len(body))] ^= 1 << self._rng.randrange(8)
        return frame_of(bytes(body))

    def _untrue_prefix(self, frame: bytes) -> bytes:
        length = self._rng.choice((-1, -(2**31), 2**31 - 1, 101 << 20, 0, len(frame) + 50, 3))
        return struct.pack(">i", length) + frame[4:]

    def _noise(self, frame: bytes) -> bytes:
        return self._rng.randbytes(self._rng.randrange(1, 300))

    def _middle(self, frame: bytes) -> bytes:
        return frame[self._rng.randrange(len(frame)) :]

    def _unknown(self, frame: bytes) -> bytes:
        key = self._rng.choice((-1, 4, 5, 6, 7, 88, 999, 2**15 - 1))
        version = self._rng.choice((-1, 0, 99, 2**15 - 1))
        head = struct.pack(">hhi", key, version, 7)
        return frame_of(self._rng.choice((head, head + frame[12:])))


def _nullable(field: Any) -> bool:
    return type(None) in getattr(field.type, "__args__", ())


@cache
def _exists(key: int, version: int) -> bool:
    try:
        request_schema(key, version)
    except Exception:
        return False
    return True
