"""The measuring clients of librdkafka, without a cluster."""

from types import SimpleNamespace
from typing import Any

from harness.bench.clients.librdkafka import MeasuringConsumer
from harness.bench.clients.loops import Window


def test_consumer_counts_a_message_though_its_time_was_over_before_it_began() -> None:
    """A busy machine may let it run as late as that; nothing would be measured then."""
    answers: list[list[Any]] = [[], [SimpleNamespace(error=lambda: None)]]
    consumer = MeasuringConsumer.__new__(MeasuringConsumer)
    consumer._consumer = SimpleNamespace(consume=lambda *_: answers.pop(0))
    counted = consumer.throughput(Window(warm_ns=0, end_ns=0))
    assert counted.messages == 1
    assert counted.seconds > 0
