"""The requests of the raw clients, encoded once, and the positions of fields in their answers.

Pure. The versions are old on purpose: they have no tagged fields and name topics by name. So the
answer for one partition has a fixed size, with fields at fixed positions. Every broker since Kafka
2.3 serves these versions. A request then costs a client one `send` and one `recv`, and the measured
rate is the broker's.
"""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchRequest
from kio.schema.fetch.v11.response import FetchResponse
from kio.schema.produce.v7.request import ProduceRequest
from kio.schema.produce.v7.response import ProduceResponse

from harness.bench.clients.loops import Frame
from nodes.log.batch import Record, encode_batch
from nodes.wire.codec import encode_request, encode_response
from nodes.wire.versions import fill

CLIENT_ID: Final = "highwater-bench"
CORRELATION: Final = 1
"""The correlation id of every request. Answers come in order, and no client checks it."""
ACKS_TIMEOUT: Final = timedelta(seconds=10)
FETCH_WAIT: Final = timedelta(milliseconds=500)
BARRIER_BYTES: Final = 1 << 20
BARRIER_SENDS: Final = 64
"""With acks=0, an acknowledged message follows after so many bytes or sends."""


def batch(messages: int, size: int, now_ms: int) -> bytes:
    """Return a record batch of `messages` messages of `size` bytes, with this wall-clock time.

    The time has to be true, because brokers delete old records.
    """
    value = b"x" * size
    return encode_batch([Record(value=value)] * messages, timestamp_ms=now_ms)


def produce(topic: str, *, acks: int, messages: int, size: int, now_ms: int) -> Frame:
    """Return one Produce to partition 0 of `topic`, with an answer for every acks mode.

    With acks=0 a broker does not answer, and a client knows only what its own socket accepted.
    Therefore a frame of acks=0 has many sends and one acknowledged message after them. Its answer
    proves that the broker has received all of them.
    """
    data = _produce(topic, acks, batch(messages, size, now_ms))
    if acks == 0:
        sends = max(1, min(BARRIER_SENDS, BARRIER_BYTES // len(data)))
        data = data * sends + _produce(topic, 1, batch(1, size, now_ms))
        messages = sends * messages + 1
    return Frame(
        data=data,
        messages=messages,
        response_bytes=len(produce_answer(topic, 0)),
        error_at=_first_difference(produce_answer(topic, 0), produce_answer(topic, 1)) - 1,
    )


def keyed(
    topic: str, *, messages: int, size: int, sends: int, keys: int, now_ms: int
) -> Iterator[bytes]:
    """Return `sends` Produce requests of messages with random keys, one of `keys` each.

    Their answers are those of `produce` with acks=-1. Equal arguments give equal keys.
    """
    draw = random.Random(keys)
    value = b"x" * size
    for _ in range(sends):
        records = [
            Record(key=b"key-%012d" % draw.randrange(keys), value=value) for _ in range(messages)
        ]
        yield _produce(topic, -1, encode_batch(records, timestamp_ms=now_ms))


def unanswered(topic: str, *, size: int, now_ms: int) -> bytes:
    """Return one Produce of one message with acks=0."""
    return _produce(topic, 0, batch(1, size, now_ms))


def _produce(topic: str, acks: int, records: bytes) -> bytes:
    request = fill(
        ProduceRequest,
        transactional_id=None,
        acks=acks,
        timeout=ACKS_TIMEOUT,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
    )
    return encode_request(request, CORRELATION, CLIENT_ID)


def fetch(topic: str, *, fetch_bytes: int) -> Frame:
    """Return one Fetch of up to `fetch_bytes` of partition 0; the client sets its offset."""
    data = _fetch(topic, fetch_bytes, 0)
    return Frame(
        data=data,
        messages=0,
        response_bytes=len(fetch_answer(topic, b"")),
        error_at=_first_difference(fetch_answer(topic, b""), fetch_answer(topic, b"", 1)) - 1,
        offset_at=_first_difference(data, _fetch(topic, fetch_bytes, 1)) - 7,
    )


def _fetch(topic: str, fetch_bytes: int, offset: int) -> bytes:
    request = fill(
        FetchRequest,
        replica_id=-1,
        max_wait=FETCH_WAIT,
        min_bytes=1,
        max_bytes=fetch_bytes,
        isolation_level=0,
        session_epoch=-1,
        topics=[
            {
                "topic": topic,
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": -1,
                        "fetch_offset": offset,
                        "log_start_offset": -1,
                        "partition_max_bytes": fetch_bytes,
                    }
                ],
            }
        ],
        rack_id="",
    )
    return encode_request(request, CORRELATION, CLIENT_ID)


def produce_answer(topic: str, error: int = 0) -> bytes:
    """Return an answer to `produce`, for the sink."""
    part = {"index": 0, "error_code": ErrorCode(error), "base_offset": 0}
    answer = fill(ProduceResponse, responses=[{"name": topic, "partition_responses": [part]}])
    return encode_response(answer, CORRELATION)


def fetch_answer(topic: str, records: bytes, error: int = 0) -> bytes:
    """Return an answer to `fetch` with `records`, which are not the last ones, for the sink."""
    part = {
        "partition_index": 0,
        "error_code": ErrorCode(error),
        "high_watermark": 1 << 62,
        "aborted_transactions": None,
        "records": records,
    }
    answer = fill(FetchResponse, responses=[{"topic": topic, "partitions": [part]}])
    return encode_response(answer, CORRELATION)


def _first_difference(left: bytes, right: bytes) -> int:
    return next(i for i, (a, b) in enumerate(zip(left, right, strict=True)) if a != b)
