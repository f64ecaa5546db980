"""Splits a byte stream into length-prefixed frames, and reads a request's header.

Pure: bytes in, frames out. A frame is Kafka's: a big-endian int32 length, then that many bytes.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from nodes.wire.errors import MalformedFrame, OversizedFrame

_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">hhih")

Piece = bytes | bytearray | memoryview
LARGE_BYTES = 16 << 10
"""Below this size, copying a piece costs less than passing it to the kernel separately."""


class RequestHead(NamedTuple):
    """The first header fields of a request; `after_client_id` is the byte position after them."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    after_client_id: int


class FrameBuffer:
    """Collects received bytes and gives back whole frames.

    Raises OversizedFrame for a length above `max_frame_bytes` (or below zero) as soon as it has the
    length, so that a hostile peer cannot make the buffer grow. The parts of a large frame are
    copied once, when the last one has arrived.
    """

    __slots__ = ("_parts", "_wanted_bytes", "held_bytes", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.discard()

    def discard(self) -> None:
        """Drop the incomplete frame."""
        self._parts: list[bytes | bytearray] = []
        self._wanted_bytes = 4
        """The size of the incomplete frame with its length; 4 while the length is not known."""
        self.held_bytes = 0
        """The size of the incomplete frame's parts."""

    def feed(self, data: bytes) -> list[bytes]:
        """Add `data`; return the frames that are complete now, in order, without their length."""
        if self.held_bytes:
            self._hold(data)
            if self.held_bytes < self._wanted_bytes:
                return []
            first, *others = self._parts
            if self.held_bytes == self._wanted_bytes > 4 <= len(first):
                frame = b"".join((memoryview(first)[4:], *others))
                self.discard()
                return [frame]  # the usual case of a large frame
            data = b"".join(self._parts)
            self.discard()
        elif len(data) > 4:
            (length,) = _LENGTH.unpack_from(data)
            if length == len(data) - 4 and length <= self.max_frame_bytes:
                return [data[4:]]  # exactly one frame, the usual case
        frames: list[bytes] = []
        start, end = 0, len(data)
        while end - start >= 4:
            (length,) = _LENGTH.unpack_from(data, start)
            if not 0 <= length <= self.max_frame_bytes:
                raise OversizedFrame(
                    f"a frame of {length} bytes; at most {self.max_frame_bytes} are accepted"
                )
            if end - start - 4 < length:
                self._wanted_bytes = 4 + length
                break
            frames.append(data[start + 4 : start + 4 + length])
            start += 4 + length
        if start < end:
            self._hold(data[start:])
        return frames

    def _hold(self, part: bytes) -> None:
        """Add a part. Small parts are joined: objects of a few bytes would cost much more."""
        self.held_bytes += len(part)
        if len(part) >= LARGE_BYTES:
            self._parts.append(part)
        elif self._parts and isinstance(last := self._parts[-1], bytearray):
            last += part
        else:
            self._parts.append(bytearray(part))


def read_request_head(frame: bytes) -> RequestHead:
    """Read the header fields that every request has in any version. Raises MalformedFrame."""
    try:
        api_key, version, correlation_id, length = _HEAD.unpack_from(frame)
    except struct.error as error:
        raise MalformedFrame(f"a frame of {len(frame)} bytes is no request") from error
    end = 10 + max(length, 0)
    if end > len(frame):
        raise MalformedFrame("the client id is longer than the frame")
    try:
        client_id = None if length < 0 else frame[10:end].decode()
    except UnicodeDecodeError as error:
        raise MalformedFrame("the client id is not UTF-8") from error
    return RequestHead(api_key, version, correlation_id, client_id, end)


def framed(parts: Sequence[Piece]) -> list[Piece]:
    """Return a frame of `parts` as pieces: small parts are joined, large parts are not copied."""
    size = sum(map(len, parts))
    head = _LENGTH.pack(size)
    if size < LARGE_BYTES:
        return [b"".join((head, *parts))]
    out: list[Piece] = []
    small: list[Piece] = [head]
    for part in parts:
        if len(part) < LARGE_BYTES:
            small.append(part)
            continue
        out += (b"".join(small), part) if small else (part,)
        small = []
    if small:
        out.append(b"".join(small))
    return out


def frame_of(*parts: Piece) -> bytes:
    """Return a frame of `parts` as bytes."""
    return b"".join(framed(parts))
