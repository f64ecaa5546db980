"""Turns frames into kio's entities and back. Pure; codecs are made once per message version."""

import io
import struct
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.schema.response_header.v1.header import ResponseHeader as FlexibleResponseHeader
from kio.serial import entity_reader, entity_writer

from nodes.wire.arrays import check_arrays, uvarint
from nodes.wire.errors import MalformedFrame, UnsupportedVersion
from nodes.wire.frames import RequestHead, frame_of, read_request_head

_REQUEST_HEAD = struct.Struct(">hhi")
_CORRELATION_ID = struct.Struct(">i")
_NO_TAGS = b"\x00"


class Request(NamedTuple):
    """A decoded request with its header."""

    head: RequestHead
    entity: Any


@cache
def _request_codec(api_key: int, version: int) -> tuple[Any, Any, bool]:
    try:
        schema = load_request_schema(api_key, version)
    except Exception as error:
        raise UnsupportedVersion(f"api key {api_key} has no version {version}") from error
    flexible_header = schema.__header_schema__.__version__ >= 2
    return schema, entity_reader(schema), flexible_header


@cache
def _response_codec(api_key: int, version: int) -> tuple[Any, bool]:
    schema = load_response_schema(api_key, version)
    return entity_reader(schema), schema.__header_schema__ is FlexibleResponseHeader


@cache
def _writer(cls: Any) -> Any:
    return entity_writer(cls)


@cache
def _client_id_bytes(client_id: str) -> bytes:
    raw = client_id.encode()
    return struct.pack(">h", len(raw)) + raw


def _body(entity: Any) -> bytes:
    buffer = io.BytesIO()
    cls: Any = type(entity)
    _writer(cls)(buffer, entity)
    return buffer.getvalue()


def _skip_tags(frame: bytes, position: int) -> int:
    """Where the header's tagged fields end; header tags are not used by anyone yet."""
    try:
        count, position = uvarint(frame, position)
        for _ in range(count):
            _, position = uvarint(frame, position)
            size, position = uvarint(frame, position)
            position += size
    except IndexError:
        position = len(frame) + 1
    if position > len(frame):
        raise MalformedFrame("tagged fields of the header run past the frame")
    return position


def decode_request(frame: bytes, head: RequestHead | None = None) -> Request:
    """Read a request frame. Raises MalformedFrame, UnsupportedVersion."""
    head = head or read_request_head(frame)
    schema, reader, flexible = _request_codec(head.api_key, head.api_version)
    position = head.after_client_id
    if flexible:
        position = _skip_tags(frame, position)
    try:
        check_arrays(schema, frame, position)
        entity, size = reader(frame, position)
    except Exception as error:
        # kio's readers raise a family of unrelated types (its own errors, ValueError, IndexError).
        raise MalformedFrame(f"api key {head.api_key} v{head.api_version}: {error}") from error
    if position + size > len(frame):
        raise MalformedFrame(f"api key {head.api_key} v{head.api_version}: runs past its frame")
    return Request(head, entity)


def encode_request(entity: Any, correlation_id: int, client_id: str) -> bytes:
    """A whole request frame for `entity` (a kio request payload)."""
    head = _REQUEST_HEAD.pack(entity.__api_key__, entity.__version__, correlation_id)
    flexible = type(entity).__header_schema__.__version__ >= 2
    return frame_of(head, _client_id_bytes(client_id), _NO_TAGS if flexible else b"", _body(entity))


def encode_response(entity: Any, correlation_id: int) -> bytes:
    """A whole response frame for `entity` (a kio response payload)."""
    flexible = type(entity).__header_schema__ is FlexibleResponseHeader
    return frame_of(
        _CORRELATION_ID.pack(correlation_id), _NO_TAGS if flexible else b"", _body(entity)
    )


def correlation_id_of(frame: bytes) -> int:
    """The correlation id of a response frame. Raises MalformedFrame."""
    if len(frame) < 4:
        raise MalformedFrame(f"a response of {len(frame)} bytes")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    return int(correlation_id)


def decode_response(frame: bytes, api_key: int, version: int) -> Any:
    """Read a response frame to a request of `api_key` and `version`. Raises MalformedFrame."""
    reader, flexible = _response_codec(api_key, version)
    position = _skip_tags(frame, 4) if flexible else 4
    try:
        entity, _ = reader(frame, position)
    except Exception as error:
        raise MalformedFrame(f"response to api key {api_key} v{version}: {error}") from error
    return entity
