"""The settings of a topic on this broker."""

from uuid import UUID

import pytest

from nodes.ids import Epoch, NodeId, Offset
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import TOPIC_RESOURCE, ConfigRecord, TopicRecord
from nodes.server.replicas.topic_settings import topic_settings


@pytest.mark.parametrize(
    ("policy", "kept"), [("delete", 5), ("compact", -1), ("compact,delete", 5)]
)
def test_compacted_topic_has_no_retention(policy: str, kept: int) -> None:
    """Kafka may have left such a topic; its records count however old they are."""
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
