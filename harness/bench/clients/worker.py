"""One client in a process of its own: `python -m harness.bench.clients.worker`.

Standard input holds the job, a line of JSON followed by the frames that it announces; then `go`.
Standard output says `ready` (a sink: its port) once connected, and in the end the result, a line
of JSON: messages and seconds, or quantiles, or error. The process ends by itself after its time,
and at once when its parent closes standard input before `go`.
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
from typing import IO, Any

from harness.bench.clients import loops
from harness.bench.stats import quantile

NS = 1_000_000_000
MAX_SINK_S = 3600.0


class Orders:
    """The parent's side of standard input."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.job: Mapping[str, Any] = json.loads(source.readline())

    def frame(self) -> loops.Frame:
        """The next frame with its shape."""
        return loops.Frame(data=self.blob("frame_bytes"), **self.job["shape"])

    def blob(self, name: str) -> bytes:
        """The next so many bytes."""
        data = self._source.read(self.job[name])
        if len(data) != self.job[name]:
            raise SystemExit(1)  # the parent is gone
        return data

    def window(self) -> loops.Window:
        """Say that everything is ready, wait for `go`, and count the job's time from then on."""
        say("ready")
        if self._source.readline().strip() != b"go":
            raise SystemExit(1)
        now = time.monotonic_ns()
        warm = now + int(self.job["warmup_s"] * NS)
        return loops.Window(warm, warm + int(self.job["duration_s"] * NS))

    def closed(self) -> threading.Event:
        """Set when the parent has closed standard input."""
        event = threading.Event()

        def wait() -> None:
            self._source.read(1)
            event.set()

        threading.Thread(target=wait, daemon=True).start()
        return event


def say(text: str) -> None:
    """A line to the parent."""
    print(text, flush=True)


def main() -> None:
    """Do the one job."""
    orders = Orders(sys.stdin.buffer)
    if cpus := orders.job["cpus"]:
        os.sched_setaffinity(0, cpus)
    try:
        result = _KINDS[orders.job["kind"]](orders)
    except loops.ClientError as error:
        result = {"error": str(error)}
    say(json.dumps(result))


def _raw_latency(orders: Orders) -> dict[str, Any]:
    frame = orders.frame()
    unanswered = orders.blob("unanswered_bytes") or None
    with loops.connect(_address(orders)) as connection:
        return _quantiles(loops.latencies(connection, frame, unanswered, orders.window()))


def _raw_producer(orders: Orders) -> dict[str, Any]:
    frame = orders.frame()
    connections = [loops.connect(_address(orders)) for _ in range(orders.job["producers"])]
    counted = loops.pipelined(connections, frame, orders.job["in_flight"], orders.window())
    return counted._asdict()


def _raw_writer(orders: Orders) -> dict[str, Any]:
    frame = orders.frame()
    with loops.connect(_address(orders)) as connection:
        orders.window()
        loops.write(connection, frame, orders.job["in_flight"], orders.job["sends"])
    return {}


def _raw_consumer(orders: Orders) -> dict[str, Any]:
    frame = orders.frame()
    crc32c = import_module("crc32c").crc32c if orders.job["check_crcs"] else None
    with loops.connect(_address(orders)) as connection:
        return loops.consume(connection, frame, orders.window(), crc32c)._asdict()


def _sink(orders: Orders) -> dict[str, Any]:
    answer = orders.blob("answer_bytes")
    closed = orders.closed()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        say(str(listener.getsockname()[1]))
        end_s = time.monotonic() + MAX_SINK_S
        loops.sink(
            listener,
            orders.job["request_bytes"],
            answer,
            lambda: closed.is_set() or time.monotonic() > end_s,
        )
    return {}


def _rd_latency(orders: Orders) -> dict[str, Any]:
    from harness.bench.clients import librdkafka

    producer = librdkafka.RdProducer(orders.job)
    result = _quantiles(producer.latencies(orders.window()))
    producer.close()
    return result


def _rd_producer(orders: Orders) -> dict[str, Any]:
    from harness.bench.clients import librdkafka

    producer = librdkafka.RdProducer(orders.job)
    counted = producer.throughput(orders.window())
    producer.close()
    return counted._asdict()


def _rd_consumer(orders: Orders) -> dict[str, Any]:
    from harness.bench.clients import librdkafka

    consumer = librdkafka.RdConsumer(orders.job)
    counted = consumer.throughput(orders.window())
    consumer.close()
    return counted._asdict()


_KINDS = {
    "raw-latency": _raw_latency,
    "raw-producer": _raw_producer,
    "raw-writer": _raw_writer,
    "raw-consumer": _raw_consumer,
    "sink": _sink,
    "librdkafka-latency": _rd_latency,
    "librdkafka-producer": _rd_producer,
    "librdkafka-consumer": _rd_consumer,
}


def _address(orders: Orders) -> tuple[str, int]:
    host, port = orders.job["address"]
    return str(host), int(port)


def _quantiles(taken_ns: "array[int]") -> dict[str, Any]:
    if not taken_ns:
        raise loops.ClientError("not one message was answered in time")
    ordered = sorted(taken_ns)
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    return {
        **{name: quantile(ordered, share) / 1e6 for name, share in shares.items()},
        "max_ms": ordered[-1] / 1e6,
        "count": len(ordered),
    }


if __name__ == "__main__":
    main()
