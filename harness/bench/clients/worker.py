"""The process of one client: `python -m harness.bench.clients.worker`.

Standard input holds the job (a line of JSON, then the frames that it announces) and later `go`.
Standard output gets `ready` (from a sink: its port) once the client is connected, and at the end
the result, a line of JSON: messages and seconds, or quantiles, or an error. The process ends by
itself after its time. It ends at once when its parent closes standard input before `go`.
"""

import json
import os
import socket
import sys
import threading
import time
from array import array
from collections.abc import Mapping
from importlib import import_module
from itertools import repeat
from typing import IO, Any

from harness.bench.clients import loops
from harness.bench.stats import quantile

NS = 1_000_000_000
MAX_SINK_S = 3600.0


class JobInput:
    """Reads the job, its frames and `go` from standard input."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.job: Mapping[str, Any] = json.loads(stream.readline())

    def frame(self) -> loops.Frame:
        """Return the next frame with its shape."""
        return loops.Frame(data=self.blob("frame_bytes"), **self.job["shape"])

    def blob(self, name: str) -> bytes:
        """Return the next bytes; their number is in the job, under `name`."""
        data = self._stream.read(self.job[name])
        if len(data) != self.job[name]:
            raise SystemExit(1)  # the parent has ended
        return data

    def window(self) -> loops.Window:
        """Print `ready`, wait for `go`, and return the job's time, counted from then on."""
        print_line("ready")
        if self._stream.readline().strip() != b"go":
            raise SystemExit(1)
        now = time.monotonic_ns()
        warm = now + int(self.job["warmup_s"] * NS)
        return loops.Window(warm, warm + int(self.job["duration_s"] * NS))

    def closed(self) -> threading.Event:
        """Return an event that is set when the parent closes standard input."""
        event = threading.Event()

        def wait() -> None:
            self._stream.read(1)
            event.set()

        threading.Thread(target=wait, daemon=True).start()
        return event


def print_line(text: str) -> None:
    """Print a line for the parent."""
    print(text, flush=True)


def main() -> None:
    """Run the one job."""
    source = JobInput(sys.stdin.buffer)
    if cpus := source.job["cpus"]:
        os.sched_setaffinity(0, cpus)
    try:
        result = _KINDS[source.job["kind"]](source)
    except loops.ClientError as error:
        result = {"error": str(error)}
    print_line(json.dumps(result))


def _raw_latency(source: JobInput) -> dict[str, Any]:
    frame = source.frame()
    unanswered = source.blob("unanswered_bytes") or None
    with loops.connect(_address(source)) as connection:
        return _quantiles(loops.latencies(connection, frame, unanswered, source.window()))


def _raw_producer(source: JobInput) -> dict[str, Any]:
    frame = source.frame()
    connections = [loops.connect(_address(source)) for _ in range(source.job["producers"])]
    counted = loops.pipelined(connections, frame, source.job["in_flight"], source.window())
    return counted._asdict()


def _raw_writer(source: JobInput) -> dict[str, Any]:
    frame = source.frame()
    with loops.connect(_address(source)) as connection:
        source.window()
        requests = repeat(frame.data, source.job["sends"])
        loops.write(connection, frame, source.job["in_flight"], requests)
    return {}


def _keyed_writer(source: JobInput) -> dict[str, Any]:
    from harness.bench.clients import frames

    job, now_ms = source.job, time.time_ns() // 1_000_000
    shape = {"messages": job["messages_per_send"], "size": job["size"], "now_ms": now_ms}
    frame = frames.produce(job["topic"], acks=-1, **shape)
    requests = frames.keyed(job["topic"], sends=job["sends"], keys=job["keys"], **shape)
    with loops.connect(_address(source)) as connection:
        source.window()
        loops.write(connection, frame, job["in_flight"], requests)
    return {}


def _raw_consumer(source: JobInput) -> dict[str, Any]:
    frame = source.frame()
    crc32c = import_module("crc32c").crc32c if source.job["check_crcs"] else None
    with loops.connect(_address(source)) as connection:
        return loops.consume(connection, frame, source.window(), crc32c)._asdict()


def _sink(source: JobInput) -> dict[str, Any]:
    answer = source.blob("answer_bytes")
    closed = source.closed()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        print_line(str(listener.getsockname()[1]))
        end_s = time.monotonic() + MAX_SINK_S
        loops.sink(
            listener,
            source.job["request_bytes"],
            answer,
            lambda: closed.is_set() or time.monotonic() > end_s,
        )
    return {}


def _rd_latency(source: JobInput) -> dict[str, Any]:
    from harness.bench.clients import librdkafka

    producer = librdkafka.MeasuringProducer(source.job)
    result = _quantiles(producer.latencies(source.window()))
    producer.close()
    return result


def _rd_producer(source: JobInput) -> dict[str, Any]:
    from harness.bench.clients import librdkafka

    producer = librdkafka.MeasuringProducer(source.job)
    counted = producer.throughput(source.window())
    producer.close()
    return counted._asdict()


def _rd_consumer(source: JobInput) -> dict[str, Any]:
    from harness.bench.clients import librdkafka

    consumer = librdkafka.MeasuringConsumer(source.job)
    counted = consumer.throughput(source.window())
    consumer.close()
    return counted._asdict()


def _own_commits(source: JobInput) -> dict[str, Any]:
    return _own_counted(source, "commits")


def _own_transactions(source: JobInput) -> dict[str, Any]:
    return _own_counted(source, "transactions")


def _own_counted(source: JobInput, what: str) -> dict[str, Any]:
    from harness.bench.clients.own import Measurement

    taken, seconds = Measurement(source.job, source.window).run(getattr(Measurement, what))
    return {f"{what}_per_s": len(taken) / seconds, **_quantiles(taken)}


def _own_copies(source: JobInput) -> dict[str, Any]:
    from harness.bench.clients.own import Measurement

    return Measurement(source.job, source.window).run(Measurement.copies)._asdict()


def _own_groups(source: JobInput) -> dict[str, Any]:
    from harness.bench.clients.own import Measurement

    return {"joined_ms": Measurement(source.job, source.window).run(Measurement.join)}


_KINDS = {
    "own-commits": _own_commits,
    "own-copies": _own_copies,
    "own-groups": _own_groups,
    "own-transactions": _own_transactions,
    "raw-latency": _raw_latency,
    "raw-producer": _raw_producer,
    "raw-writer": _raw_writer,
    "keyed-writer": _keyed_writer,
    "raw-consumer": _raw_consumer,
    "sink": _sink,
    "librdkafka-latency": _rd_latency,
    "librdkafka-producer": _rd_producer,
    "librdkafka-consumer": _rd_consumer,
}


def _address(source: JobInput) -> tuple[str, int]:
    host, port = source.job["address"]
    return str(host), int(port)


def _quantiles(taken_ns: "array[int]") -> dict[str, Any]:
    if not taken_ns:
        raise loops.ClientError("no message was answered in time")
    ordered = sorted(taken_ns)
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    return {
        **{name: quantile(ordered, share) / 1e6 for name, share in shares.items()},
        "max_ms": ordered[-1] / 1e6,
        "count": len(ordered),
    }


if __name__ == "__main__":
    main()
