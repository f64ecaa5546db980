"""Kafka clients of other projects behind one interface, with a list of what each cannot do. Every
adapter opens a client for one call and closes it again, so that no test depends on a client's
caches. Bytes go in and out unchanged. What a client cannot send or show is in its `cannot`, with
the reason."""

from tests.support.foreign.by_aiokafka import AioKafka
from tests.support.foreign.by_confluent import Confluent
from tests.support.foreign.by_kafka_python import KafkaPython
from tests.support.foreign.by_kcat import Kcat
from tests.support.foreign.face import (
    PARTITION,
    PATIENCE_S,
    REPLICAS,
    Client,
    Feature,
    Message,
    Offsets,
    bounded,
)

__all__ = [
    "CLIENTS",
    "PARTITION",
    "PATIENCE_S",
    "REPLICAS",
    "AioKafka",
    "Client",
    "Confluent",
    "Feature",
    "KafkaPython",
    "Kcat",
    "Message",
    "Offsets",
    "bounded",
]

CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), AioKafka(), Kcat())
