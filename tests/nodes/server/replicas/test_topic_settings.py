"""The settings of a topic on this broker."""

from uuid import UUID

import pytest

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.config import CompactionConfig, LogConfig
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import TOPIC_RESOURCE, ConfigRecord, TopicRecord
from nodes.server.replicas.topic_settings import topic_settings


@pytest.mark.parametrize(
    ("policy", "kept"), [("delete", 5), ("compact", -1), ("compact,delete", 5), ("", -1)]
)
def test_topic_without_the_policy_delete_has_no_retention(policy: str, kept: int) -> None:
    """Its records count however old they are."""
    values = {"cleanup.policy": policy, "retention.ms": "5", "retention.bytes": "5"}
    log = log_config(values)
    assert (log.retention_ms, log.retention_bytes) == (kept, kept)
    assert log.deletes == ("delete" in policy)


def test_compacted_topic_has_the_settings_of_the_cleaner() -> None:
    """A segment is not longer active than the maximum compaction lag (KIP-354)."""
    values = {
        "cleanup.policy": "delete,compact",
        "min.cleanable.dirty.ratio": "0.25",
        "min.compaction.lag.ms": "2",
        "max.compaction.lag.ms": "3000",
        "delete.retention.ms": "4",
    }
    log = log_config(values)
    assert log.compaction == CompactionConfig(
        min_dirty_ratio=0.25, min_lag_ms=2, max_lag_ms=3000, delete_retention_ms=4
    )
    assert log.segment_ms == 3000
    plain = log_config({**values, "cleanup.policy": "delete"})
    assert plain.compaction is None
    assert plain.segment_ms == LogConfig().segment_ms


@pytest.mark.parametrize(
    ("value", "codec"), [("producer", None), ("uncompressed", 0), ("GZIP", 1), ("zstd", 4)]
)
def test_codec_is_the_producers_or_the_topics(value: str, codec: int | None) -> None:
    """By its number in a batch's attributes."""
    assert log_config({"compression.type": value}).compression == codec


def log_config(values: dict[str, str]) -> LogConfig:
    """The configuration of the logs of a topic with these values."""
    records = [
        TopicRecord(name="t", topic_id=UUID(int=1)),
        *(
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=name, value=value)
            for name, value in values.items()
        ),
    ]
    image, _ = ClusterImage().apply(records, Offset(9), Epoch(1))
    return topic_settings(image, {}, NodeId(1), "t").log
