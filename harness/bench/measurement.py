"""One measurement by clients: a point's job for the worker processes, and what became of it.

Every throughput point writes to a topic of its own, so that no point meets the files of another.
Consumers read what was written for them just before: from the page cache, as a consumer that
keeps up does.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from harness.admin.client import Address
from harness.bench.admin import Admin
from harness.bench.clients import frames, loops, workers
from harness.bench.clients.workers import MeasureError
from harness.bench.options import Options
from harness.bench.points import Client, Measure, Point
from harness.plans.plan import acks_name

WARMUP_SHARE: Final = 0.25
"""Of the duration, before it."""
LEAST_WARMUP_S: Final = 0.2
CONSUMED_BYTES: Final = 64 << 20
"""What a consumer finds to read, again and again; less where that would be too many batches."""
WRITTEN_BATCH_BYTES: Final = 16 << 10
"""The batches it finds: Kafka's default batch.size, or a fetch where that is smaller, so that a
fetch gets what it asks for."""
MAX_WRITES: Final = 16_000
WRITE_TOGETHER: Final = 50
"""Sends in flight while that is written; less than brokers let wait on a connection."""
WRITTEN_S: Final = 60.0

Stop = Callable[[], bool]
Job = tuple[Mapping[str, Any], Sequence[bytes]]
Values = dict[str, float]


def measure(point: Point, admin: Admin, servers: str, topic: str, o: Options, stop: Stop) -> Values:
    """Measure a point of the clients on a system, in `topic`, which exists and is empty.

    Raises MeasureError, Stopped.
    """
    _, leader = admin.leader(topic)
    if point.measure is Measure.CONSUMER:
        _write(point, topic, leader, o, stop)
    results = workers.together(_jobs(point, topic, leader, servers, o), stop)
    if point.client is Client.LIBRDKAFKA and point.measure is Measure.PRODUCER:
        _check_batches(point, topic, leader)
    return _values(point, results, o)


def alone(point: Point, topic: str, o: Options, stop: Stop) -> Values | None:
    """The same by the same client without any broker behind it: what the client itself can do.

    The raw client gets its answers from a sink, librdkafka from its own mock cluster. None where
    that says nothing: the mock cluster has nothing to read, and a send without an answer is the
    client's own time anyway.
    """
    if point.measure is Measure.LATENCY and point.acks == 0:
        return None
    if point.client is Client.LIBRDKAFKA:
        if point.measure is Measure.CONSUMER:
            return None
        return _values(point, workers.together(_jobs(point, topic, ("", 0), None, o), stop), o)
    if point.measure is Measure.CONSUMER:
        frame = frames.fetch(topic, fetch_bytes=point.fetch_bytes)
        batch = frames.batch(_written_messages(point, o), o.size, _now_ms())
        answer = frames.fetch_answer(topic, batch * max(1, point.fetch_bytes // len(batch)))
    else:
        frame = _produce_frame(point, topic, o)
        answer = frames.produce_answer(topic)
    job = {**_common(o), "kind": "sink", "request_bytes": len(frame.data)}
    with workers.started({**job, "answer_bytes": len(answer)}, answer) as sink:
        port = int(sink.line(workers.READY_S, stop))
        there = ("127.0.0.1", port)
        return _values(point, workers.together(_jobs(point, topic, there, None, o), stop), o)


def bytes_written(point: Point, values: Values) -> float:
    """About how much a measurement left on each replica's disk."""
    return CONSUMED_BYTES if point.measure is Measure.CONSUMER else values.get("bytes", 0.0)


def _jobs(point: Point, topic: str, leader: Address, servers: str | None, o: Options) -> list[Job]:
    common = _common(o)
    what = {Measure.LATENCY: "latency", Measure.PRODUCER: "producer", Measure.CONSUMER: "consumer"}
    kind = f"{point.client}-{what[point.measure]}"
    if point.client is Client.LIBRDKAFKA:
        job = {
            **common,
            "kind": kind,
            "bootstrap": servers,
            "topic": topic,
            "size": o.size,
            "acks": acks_name(point.acks),
            "in_flight": point.in_flight,
            "messages_per_send": point.messages_per_send,
            "fetch_bytes": point.fetch_bytes,
        }
        return [(job, ())] * max(1, point.producers)
    unanswered = b""
    if point.measure is Measure.CONSUMER:
        frame = frames.fetch(topic, fetch_bytes=point.fetch_bytes)
    elif point.measure is Measure.LATENCY and point.acks == 0:
        # Timed alone; the acknowledged one behind it only keeps the queue empty.
        frame = _produce_frame(replace(point, acks=1), topic, o)
        unanswered = frames.unanswered(topic, size=o.size, now_ms=_now_ms())
    else:
        frame = _produce_frame(point, topic, o)
    job = {
        **common,
        "kind": kind,
        "address": leader,
        "producers": point.producers,
        "in_flight": point.in_flight,
        "unanswered_bytes": len(unanswered),
    }
    return [_with_frame(job, frame, unanswered)]


def _with_frame(job: Mapping[str, Any], frame: loops.Frame, *blobs: bytes) -> Job:
    shape = {
        name: getattr(frame, name)
        for name in ("response_bytes", "error_at", "messages", "offset_at")
    }
    return {**job, "frame_bytes": len(frame.data), "shape": shape}, (frame.data, *blobs)


def _common(o: Options) -> dict[str, Any]:
    return {
        "duration_s": o.duration_s,
        "warmup_s": max(LEAST_WARMUP_S, o.duration_s * WARMUP_SHARE),
        "cpus": list(o.client_cpus),
        "check_crcs": o.check_crcs,
    }


def _produce_frame(point: Point, topic: str, o: Options) -> loops.Frame:
    return frames.produce(
        topic,
        acks=point.acks,
        messages=point.messages_per_send,
        size=o.size,
        now_ms=_now_ms(),
    )


def _write(point: Point, topic: str, leader: Address, o: Options, stop: Stop) -> None:
    """Fill the topic with batches of the size that this consumer is to find."""
    messages = _written_messages(point, o)
    data = frames.batch(messages, o.size, _now_ms())
    frame = frames.produce(topic, acks=-1, messages=messages, size=o.size, now_ms=_now_ms())
    job = {
        **_common(o),
        "kind": "raw-writer",
        "address": leader,
        "in_flight": WRITE_TOGETHER,
        "sends": min(MAX_WRITES, CONSUMED_BYTES // len(data)),
    }
    workers.together([_with_frame(job, frame)], stop, margin_s=WRITTEN_S)


def _written_messages(point: Point, o: Options) -> int:
    room = min(point.fetch_bytes, WRITTEN_BATCH_BYTES)
    # Some bytes of header for each batch, and for each record.
    return max(1, (room - 100) // (o.size + 12))


def _check_batches(point: Point, topic: str, leader: Address) -> None:
    """See in the log that librdkafka sent what it was told to. Raises MeasureError."""
    frame = frames.fetch(topic, fetch_bytes=4 << 20)
    with loops.connect(leader) as connection:
        sizes = loops.batch_sizes(loops.fetch_once(connection, frame))
    if odd := [size for size in sizes if size != point.messages_per_send]:
        raise MeasureError(
            f"librdkafka sent batches of {min(odd)} to {max(odd)} messages instead of "
            f"{point.messages_per_send}"
        )


def _values(point: Point, results: Sequence[Mapping[str, Any]], o: Options) -> Values:
    if point.measure is Measure.LATENCY:
        return {name: float(value) for name, value in results[0].items()}
    per_s = sum(each["messages"] / each["seconds"] for each in results)
    return {
        "mb_per_s": per_s * o.size / 1e6,
        "messages_per_s": per_s,
        "bytes": float(sum(each["messages"] for each in results) * o.size),
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
