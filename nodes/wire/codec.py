"""Decodes frames to kio's entities, and encodes messages. Pure. There is one codec per message
version."""

import struct
from functools import cache
from typing import Any, NamedTuple

from kio.schema.response_header.v1.header import ResponseHeader as FlexibleResponseHeader
from kio.serial import entity_reader

from nodes.wire import encoders, screening
from nodes.wire.encoders import pieces
from nodes.wire.errors import MalformedFrame, UnsupportedVersion
from nodes.wire.frames import Piece, RequestHead, framed, read_request_head
from nodes.wire.schemas import request_schema, response_schema
from nodes.wire.screening import checked, uvarint
from nodes.wire.versions import response_class, schema_of

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
        schema = request_schema(api_key, version)
    except Exception as error:
        raise UnsupportedVersion(f"api key {api_key} has no version {version}") from error
    flexible_header = schema.__header_schema__.__version__ >= 2
    return schema, entity_reader(schema), flexible_header


@cache
def _response_codec(api_key: int, version: int) -> tuple[Any, bool]:
    schema = response_schema(api_key, version)
    return entity_reader(schema), schema.__header_schema__ is FlexibleResponseHeader


def prepare(api_key: int, version: int) -> None:
    """Make what reads a request and writes its response, before the first of them comes.

    kio's classes are imported at their first use, and their readers and writers are made then: 10
    ms of CPU time for a version of Produce. Raises UnsupportedVersion.
    """
    schema, _, _ = _request_codec(api_key, version)
    screening.prepare(schema)
    encoders.prepare(response_class(api_key, version))


@cache
def _client_id_bytes(client_id: str) -> bytes:
    raw = client_id.encode()
    return struct.pack(">h", len(raw)) + raw


def _skip_tags(frame: bytes, position: int) -> int:
    """Return where the header's tagged fields end. Kafka defines none for requests yet."""
    if frame[position : position + 1] == _NO_TAGS:
        return position + 1
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
        frame = checked(schema, frame, position)
        entity, size = reader(frame, position)
    except Exception as error:
        # kio's readers raise a family of unrelated types (its own errors, ValueError, IndexError).
        raise MalformedFrame(f"api key {head.api_key} v{head.api_version}: {error}") from error
    if position + size > len(frame):
        raise MalformedFrame(f"api key {head.api_key} v{head.api_version}: runs past its frame")
    return Request(head, entity)


def request_pieces(message: Any, correlation_id: int, client_id: str) -> list[Piece]:
    """Encode a request frame of `message` (a Draft or an entity), as pieces to send in order."""
    cls = schema_of(message)
    head = _REQUEST_HEAD.pack(cls.__api_key__, cls.__version__, correlation_id)
    flexible = cls.__header_schema__.__version__ >= 2
    tags = _NO_TAGS if flexible else b""
    return framed([head, _client_id_bytes(client_id), tags, *pieces(message)])


def response_pieces(message: Any, correlation_id: int) -> list[Piece]:
    """Encode a response frame of `message` (a Draft or an entity), as pieces to send in order."""
    flexible = schema_of(message).__header_schema__ is FlexibleResponseHeader
    head = _CORRELATION_ID.pack(correlation_id)
    return framed([head, _NO_TAGS if flexible else b"", *pieces(message)])


def encode_request(message: Any, correlation_id: int, client_id: str) -> bytes:
    """`request_pieces` as one piece."""
    return b"".join(request_pieces(message, correlation_id, client_id))


def encode_response(message: Any, correlation_id: int) -> bytes:
    """`response_pieces` as one piece."""
    return b"".join(response_pieces(message, correlation_id))


def correlation_id_of(frame: bytes) -> int:
    """Return the correlation id of a response frame. Raises MalformedFrame."""
    if len(frame) < 4:
        raise MalformedFrame(f"a response of {len(frame)} bytes")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    return int(correlation_id)


def decode_response(frame: bytes, api_key: int, version: int) -> Any:
    """Read the response frame of a request of `api_key` and `version`. Raises MalformedFrame."""
    reader, flexible = _response_codec(api_key, version)
    position = _skip_tags(frame, 4) if flexible else 4
    try:
        entity, _ = reader(frame, position)
    except Exception as error:
        raise MalformedFrame(f"response to api key {api_key} v{version}: {error}") from error
    return entity
