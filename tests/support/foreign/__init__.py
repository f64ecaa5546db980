"""Other people's Kafka clients behind one face, and a written list of what each cannot do.

Every adapter opens a client for one call and closes it again, so that no test depends on what
another left in a client's caches. Bytes go in and come out unchanged; what a client cannot send or
show is in its `cannot`, with the reason, and nowhere else.
"""

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
