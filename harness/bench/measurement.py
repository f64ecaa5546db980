"""One measurement by clients: turns a point into jobs for worker processes, and reads the results.

Every throughput point has a topic of its own, so that no point meets the files of another.
Consumers read records that were written just before. They come from the page cache, as for any
consumer that keeps up.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from harness.admin.client import Address
from harness.bench.admin import BlockingAdmin
from harness.bench.clients import frames, loops, workers
from harness.bench.clients.workers import MeasureError, Stop
from harness.bench.options import Options
from harness.bench.points import COORDINATORS, Client, Measure, Point
from harness.plans.plan import acks_name

WARMUP_SHARE: Final = 0.25
"""The length of the warm-up before a measurement, as a share of the measurement's duration."""
LEAST_WARMUP_S: Final = 0.2
CONSUMED_BYTES: Final = 64 << 20
"""The data that a consumer reads again and again; less where MAX_WRITES limits the batches."""
WRITTEN_BATCH_BYTES: Final = 16 << 10
"""The size of the batches in that data: Kafka's default batch.size, or the fetch size if that is
smaller, so that a fetch gets the bytes that it asks for."""
MAX_WRITES: Final = 16_000
WRITES_IN_FLIGHT: Final = 50
"""Sends in flight while that data is written; fewer than brokers queue for a connection."""
READING: Final = (Measure.CONSUMER, Measure.COPIES)
"""Measures that read what is written before."""
WARMING_CLIENTS: Final = 4
WRITTEN_S: Final = 60.0
"""How long the writing of that data may take."""

Job = tuple[Mapping[str, Any], Sequence[bytes]]
Values = dict[str, float]


def measure(
    point: Point, admin: BlockingAdmin, servers: str, topic: str, options: Options, stop: Stop
) -> Values:
    """Measure a point on a system, with `topic`, which exists and is empty.

    Raises MeasureError, Stopped.
    """
    _, leader = admin.leader(topic)
    if point.measure in READING:
        _write(point, topic, leader, options, stop)
    if point.measure in COORDINATORS:
        results = workers.run_together([_own_job(point, topic, servers, options)], stop)
        return _own_values(point, results, options)
    results = workers.run_together(_jobs(point, topic, leader, servers, options), stop)
    if point.client is Client.LIBRDKAFKA and point.measure is Measure.PRODUCER:
        _check_batches(point, topic, leader)
    return _values(point, results, options)


def warm_up(
    point: Point, admin: BlockingAdmin, servers: str, topic: str, options: Options, stop: Stop
) -> None:
    """Measure a point for `warmup_s` without a result, so that a JVM compiles what it runs often.

    Several clients of our own work at once: one that waits for answers would warm up little.
    Raises MeasureError, Stopped.
    """
    longer = replace(options, duration_s=options.warmup_s)
    if point.measure not in COORDINATORS:
        measure(point, admin, servers, topic, longer, stop)
        return
    if point.measure in READING:
        _write(point, topic, admin.leader(topic)[1], options, stop)
    clients = 1 if point.measure is Measure.GROUPS else WARMING_CLIENTS
    end_s = time.monotonic() + options.warmup_s
    for number in count(step=clients):
        jobs = [_own_job(point, topic, servers, longer, number + n) for n in range(clients)]
        workers.run_together(jobs, stop)
        if time.monotonic() >= end_s:  # a join takes less
            return


def client_alone(point: Point, topic: str, options: Options, stop: Stop) -> Values | None:
    """Measure a point without a broker: the limit of the client itself.

    The raw client gets its answers from a sink, librdkafka from its own mock cluster. Returns None
    for points without a meaning: nothing coordinates there, the mock cluster has no records to
    read, and the time of a send with acks=0 is the client's own anyway.
    """
    if point.client is Client.OWN:
        return None
    if point.measure is Measure.LATENCY and point.acks == 0:
        return None
    if point.client is Client.LIBRDKAFKA:
        if point.measure is Measure.CONSUMER:
            return None
        return _values(
            point, workers.run_together(_jobs(point, topic, ("", 0), None, options), stop), options
        )
    if point.measure is Measure.CONSUMER:
        frame = frames.fetch(topic, fetch_bytes=point.fetch_bytes)
        batch = frames.batch(_written_messages(point, options), options.size, _now_ms())
        answer = frames.fetch_answer(topic, batch * max(1, point.fetch_bytes // len(batch)))
    else:
        frame = _produce_frame(point, topic, options)
        answer = frames.produce_answer(topic)
    job = {**job_fields(options), "kind": "sink", "request_bytes": len(frame.data)}
    with workers.started({**job, "answer_bytes": len(answer)}, answer) as sink:
        port = int(sink.line(workers.READY_S, stop))
        there = ("127.0.0.1", port)
        return _values(
            point, workers.run_together(_jobs(point, topic, there, None, options), stop), options
        )


def bytes_written(point: Point, values: Values) -> float:
    """Return the approximate bytes that a measurement left on each replica's disk."""
    written = CONSUMED_BYTES if point.measure in READING else 0
    return written + (0.0 if point.measure is Measure.CONSUMER else values.get("bytes", 0.0))


def _jobs(
    point: Point, topic: str, leader: Address, servers: str | None, options: Options
) -> list[Job]:
    common = job_fields(options)
    what = {Measure.LATENCY: "latency", Measure.PRODUCER: "producer", Measure.CONSUMER: "consumer"}
    kind = f"{point.client}-{what[point.measure]}"
    if point.client is Client.LIBRDKAFKA:
        job = {
            **common,
            "kind": kind,
            "bootstrap": servers,
            "topic": topic,
            "size": options.size,
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
        # Only the send with acks=0 is timed; the acknowledged send after it keeps the queue empty.
        frame = _produce_frame(replace(point, acks=1), topic, options)
        unanswered = frames.unanswered(topic, size=options.size, now_ms=_now_ms())
    else:
        frame = _produce_frame(point, topic, options)
    job = {
        **common,
        "kind": kind,
        "address": leader,
        "producers": point.producers,
        "in_flight": point.in_flight,
        "unanswered_bytes": len(unanswered),
    }
    return [_with_frame(job, frame, unanswered)]


def _own_job(point: Point, topic: str, servers: str, options: Options, number: int = 0) -> Job:
    job = {
        **job_fields(options),
        "kind": f"own-{point.measure}",
        "bootstrap": servers,
        "topic": topic,
        "number": number,
        "size": options.size,
        "messages_per_send": point.messages_per_send,
        "partitions": point.partitions,
        "members": point.members,
    }
    return job, ()


def _with_frame(job: Mapping[str, Any], frame: loops.Frame, *blobs: bytes) -> Job:
    shape = {
        name: getattr(frame, name)
        for name in ("response_bytes", "error_at", "messages", "offset_at")
    }
    return {**job, "frame_bytes": len(frame.data), "shape": shape}, (frame.data, *blobs)


def job_fields(options: Options) -> dict[str, Any]:
    """Return the fields that every job has."""
    return {
        "duration_s": options.duration_s,
        "warmup_s": max(LEAST_WARMUP_S, options.duration_s * WARMUP_SHARE),
        "cpus": list(options.client_cpus),
        "check_crcs": options.check_crcs,
    }


def _produce_frame(point: Point, topic: str, options: Options) -> loops.Frame:
    return frames.produce(
        topic,
        acks=point.acks,
        messages=point.messages_per_send,
        size=options.size,
        now_ms=_now_ms(),
    )


def _write(point: Point, topic: str, leader: Address, options: Options, stop: Stop) -> None:
    """Fill the topic with batches for this point's consumer."""
    messages = _written_messages(point, options)
    data = frames.batch(messages, options.size, _now_ms())
    frame = frames.produce(topic, acks=-1, messages=messages, size=options.size, now_ms=_now_ms())
    job = {
        **job_fields(options),
        "kind": "raw-writer",
        "address": leader,
        "in_flight": WRITES_IN_FLIGHT,
        "sends": min(MAX_WRITES, CONSUMED_BYTES // len(data)),
    }
    workers.run_together([_with_frame(job, frame)], stop, margin_s=WRITTEN_S)


def _written_messages(point: Point, options: Options) -> int:
    room = min(point.fetch_bytes, WRITTEN_BATCH_BYTES)
    # About 100 bytes of header for a batch, and 12 for each record.
    return max(1, (room - 100) // (options.size + 12))


def _check_batches(point: Point, topic: str, leader: Address) -> None:
    """Check in the log that librdkafka sent batches of the right size. Raises MeasureError."""
    frame = frames.fetch(topic, fetch_bytes=4 << 20)
    with loops.connect(leader) as connection:
        sizes = loops.batch_sizes(loops.fetch_once(connection, frame))
    if odd := [size for size in sizes if size != point.messages_per_send]:
        raise MeasureError(
            f"librdkafka sent batches of {min(odd)} to {max(odd)} messages instead of "
            f"{point.messages_per_send}"
        )


def _own_values(point: Point, results: Sequence[Mapping[str, Any]], options: Options) -> Values:
    if point.measure is Measure.COPIES:
        return _values(point, results, options)
    return {name: float(value) for name, value in results[0].items()}


def _values(point: Point, results: Sequence[Mapping[str, Any]], options: Options) -> Values:
    if point.measure is Measure.LATENCY:
        return {name: float(value) for name, value in results[0].items()}
    per_s = sum(each["messages"] / each["seconds"] for each in results)
    return {
        "mb_per_s": per_s * options.size / 1e6,
        "messages_per_s": per_s,
        "bytes": float(sum(each["messages"] for each in results) * options.size),
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
