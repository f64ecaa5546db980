"""A producer inside a run's network, with all guarantees."""

from confluent_kafka import Producer

from harness.targets.local import LocalTarget
from harness.workloads.clients.librdkafka import producer_config
from harness.workloads.clients.options import ProducerOptions


def sure_producer(target: LocalTarget, bootstrap: str, timeout_s: float) -> Producer:
    """A producer with acks=all and idempotence; it gives a message up after `timeout_s`."""
    options = ProducerOptions(
        bootstrap=bootstrap,
        acks=-1,
        idempotence=True,
        linger_ms=0,
        message_timeout_ms=round(timeout_s * 1000),
    )
    with target.in_client_netns():  # where librdkafka's threads then stay
        return Producer(producer_config(options))
