"""Every message of the node survives encoding and decoding; garbage is refused."""

import random
import struct
import tracemalloc
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import schema_name_map

from nodes.wire.codec import (
    correlation_id_of,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from nodes.wire.errors import MalformedFrame, OversizedFrame, UnsupportedVersion
from nodes.wire.frames import FrameBuffer, frame_of, read_request_head
from nodes.wire.versions import fill, respond

APIS = {0: "produce", 1: "fetch", 2: "list_offsets", 3: "metadata", 18: "api_versions",
        19: "create_topics", 22: "init_producer_id", 52: "vote", 56: "alter_partition"}  # fmt: skip
VERSIONS = [(key, version) for key, name in APIS.items() for version in schema_name_map[name]]


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_message_of_defaults_survives_a_round_trip(api_key: int, version: int) -> None:
    """Every message, in every version."""
    request = fill(load_request_schema(api_key, version))
    frame = encode_request(request, 77, "someone")
    head = read_request_head(frame[4:])
    assert (head.api_key, head.api_version, head.correlation_id) == (api_key, version, 77)
    assert head.client_id == "someone"
    assert decode_request(frame[4:]).entity == request
    response = fill(load_response_schema(api_key, version))
    frame = encode_response(response, 78)
    assert correlation_id_of(frame[4:]) == 78
    assert decode_response(frame[4:], api_key, version) == response


def test_one_set_of_values_serves_every_version() -> None:
    """Fields that a version lacks are dropped, others keep their value."""
    for version in schema_name_map["metadata"]:
        request = fill(load_request_schema(3, version))
        answer = respond(request, cluster_id="c", topics=[{"name": "t", "partitions": [{}]}])
        assert answer.__version__ == version
        assert answer.topics[0].name == "t"
        assert getattr(answer, "cluster_id", "c") == "c"


def test_unknown_version_is_distinguished_from_garbage() -> None:
    """A version from the future is well-formed, and refused as unsupported."""
    with pytest.raises(UnsupportedVersion):
        decode_request(struct.pack(">hhih", 3, 9999, 1, -1))


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 7))
def test_frames_survive_any_splitting(payloads: list[bytes], piece: int) -> None:
    """However the stream is split, the same frames come out."""
    stream = b"".join(frame_of(payload) for payload in payloads)
    buffer = FrameBuffer(100)
    pieces = [stream[at : at + piece] for at in range(0, len(stream), piece)]
    assert [frame for part in pieces for frame in buffer.feed(part)] == payloads


@given(st.lists(st.integers(0, 80_000), max_size=4), st.lists(st.integers(1, 70_000), min_size=1))
def test_large_frames_survive_any_splitting(sizes: list[int], parts: list[int]) -> None:
    """Parts above and below the size from which they are kept as they come."""
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(frame_of, payloads))
    buffer, frames, at = FrameBuffer(80_000), [], 0
    for part in cycle(parts):
        frames += buffer.feed(stream[at : at + part])
        at += part
        if at >= len(stream):
            break
    assert frames == payloads
    assert buffer.held_bytes == 0


def test_tiny_parts_of_a_large_frame_cost_no_more_memory_than_their_bytes() -> None:
    """A peer may send byte by byte."""
    buffer = FrameBuffer(1 << 20)
    parts = [b"x"[:] for _ in range(50_000)]
    buffer.feed(struct.pack(">i", 100_000))
    tracemalloc.start()
    for part in parts:
        buffer.feed(part)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert buffer.held_bytes == 50_004
    assert allocated < 100_000


@pytest.mark.parametrize("length", [-1, 101, 2**31 - 1, -(2**31)])
def test_oversized_frames_are_refused_by_their_length(length: int) -> None:
    """Before a single byte of them is stored."""
    with pytest.raises(OversizedFrame):
        FrameBuffer(100).feed(struct.pack(">i", length))


def test_corrupt_requests_are_refused_or_read() -> None:
    """No bytes make the decoder raise anything but its own errors."""
    rng = random.Random(7)
    frames = [encode_request(fill(load_request_schema(k, v)), 1, "me")[4:] for k, v in VERSIONS]
    for _ in range(3000):
        frame = bytearray(rng.choice(frames))
        for _ in range(rng.randrange(1, 4)):
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        cut = bytes(frame[: rng.randrange(1, len(frame) + 1)])
        try:
            decode_request(cut)
        except (MalformedFrame, UnsupportedVersion):
            continue
