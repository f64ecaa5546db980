"""What holds for a topic on this broker."""

from uuid import UUID

import pytest

from nodes.ids import Epoch, NodeId, Offset
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import TOPIC_RESOURCE, ConfigRecord, TopicRecord
from nodes.server.replicas.topic_settings import topic_settings


@pytest.mark.parametrize(
    ("policy", "kept"), [("delete", 5), ("compact", -1), ("compact,delete", 5)]
)
def test_what_is_only_compacted_is_not_deleted(policy: str, kept: int) -> None:
    """A compacted topic, which Kafka may have left, holds what counts however old it is."""
    values = {"cleanup.policy": policy, "retention.ms": "5", "retention.bytes": "5"}
    records = [
        TopicRecord(name="t", topic_id=UUID(int=1)),
        *(
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=name, value=value)
            for name, value in values.items()
        ),
    ]
    image, _ = ClusterImage().apply(records, Offset(9), Epoch(1))
    log = topic_settings(image, {}, NodeId(1), "t").log
    assert (log.retention_ms, log.retention_bytes) == (kept, kept)
