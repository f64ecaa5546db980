"""A cluster inside the test's own process: librdkafka's mock brokers on loopback ports."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

PARTITIONS = 4
"""Partitions of every topic that the mock cluster creates when asked for it."""


@contextmanager
def mock_cluster(*topics: str) -> Iterator[str]:
    """Three mock brokers with these topics; gives their bootstrap addresses."""
    host = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 3, "log_level": 3})
    for topic in topics:
        host.list_topics(topic, timeout=10)
    brokers = host.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del host
