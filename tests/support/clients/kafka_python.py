"""Imports kafka-python once without its warning, and gives clients that close their sockets. Before
Python 3.13, kafka-python 3.0 reads its schemas at import with a deprecated function. It leaves the
socket of every failed connection to the garbage collector, which may warn in any later test. The
scheme of `proxy_url` chooses the class of its sockets; the class here closes them."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
    from kafka.admin import (
        ConfigResource,
        ConfigResourceType,
        MemberToRemove,
        NewPartitions,
        NewTopic,
        OffsetSpec,
    )
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import (
        InvalidProducerEpochError,
        KafkaError,
        ProducerFencedError,
        TopicAlreadyExistsError,
        UnsupportedVersionError,
    )
    from kafka.net.inet import KafkaNetSocket
    from kafka.record.memory_records import MemoryRecords

__all__ = [
    "ASSIGNORS",
    "CLOSING",
    "ConfigResource",
    "ConfigResourceType",
    "ConsumerRebalanceListener",
    "InvalidProducerEpochError",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "MemberToRemove",
    "MemoryRecords",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "ProducerFencedError",
    "TopicAlreadyExistsError",
    "TopicPartition",
    "UnsupportedVersionError",
]

CLOSING: Final[Mapping[str, Any]] = {"proxy_url": "closing:"}
"""What makes a client close the sockets of the connections that fail."""


ASSIGNORS: Final[Mapping[str, Any]] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
"""The assignors, by the names that every library gives them."""


class _ClosingSocket(KafkaNetSocket):
    """Connects without a proxy, and closes the socket when that fails or is cancelled."""

    SCHEMES = ("closing",)

    async def sock_connect(self, net: Any, sock: Any, address: Any, **options: Any) -> Any:
        try:
            return await super().sock_connect(net, sock, address, **options)
        except BaseException:
            sock.close()
            raise


KafkaAdminClient = partial(kafka.admin.KafkaAdminClient, **CLOSING)
KafkaConsumer = partial(kafka.KafkaConsumer, **CLOSING)
KafkaProducer = partial(kafka.KafkaProducer, **CLOSING)
