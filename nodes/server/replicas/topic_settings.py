"""The settings of a topic on this broker, resolved once for each change of configuration. Pure.

The order of sources is KIP-226's and is defined in `nodes.metadata.topic_configs`: the topic's own
value, the broker's dynamic value, the cluster's dynamic value, the broker's file, Kafka's default.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nodes.ids import NodeId
from nodes.log.config import CompactionConfig, LogConfig
from nodes.log.recompression import CODECS
from nodes.metadata.image import ClusterImage
from nodes.metadata.topic_configs import (
    CLEANUP_POLICY,
    MAX_COMPACTION_LAG_MS,
    MIN_COMPACTION_LAG_MS,
    effective,
    policies,
)

UNBOUNDED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How this broker keeps and replicates the topic's partitions."""

    log: LogConfig
    min_isr: int
    unclean_leader_election: bool


def topic_settings(
    image: ClusterImage, static: Mapping[str, str], node_id: NodeId, topic: str | None = None
) -> TopicSettings:
    """Return the settings of `topic`; without `topic`, those of a topic without own configuration.

    `static` holds the properties of this broker's file.
    """

    def value(name: str) -> str:
        return effective(name, image, static, topic=topic, node_id=node_id)

    def number(name: str) -> int:
        return int(value(name))

    cleanup = policies(value(CLEANUP_POLICY))
    deletes, compacts = "delete" in cleanup, "compact" in cleanup
    compaction = CompactionConfig(
        min_dirty_ratio=float(value("min.cleanable.dirty.ratio")),
        min_lag_ms=number(MIN_COMPACTION_LAG_MS),
        max_lag_ms=number(MAX_COMPACTION_LAG_MS),
        delete_retention_ms=number("delete.retention.ms"),
    )
    segment_ms = number("segment.ms")
    if compacts:  # otherwise records in the active segment could stay longer than the maximum lag
        segment_ms = min(segment_ms, compaction.max_lag_ms)
    return TopicSettings(
        log=LogConfig(
            segment_bytes=number("segment.bytes"),
            segment_ms=segment_ms,
            index_interval_bytes=number("index.interval.bytes"),
            max_message_bytes=number("max.message.bytes"),
            retention_ms=number("retention.ms") if deletes else UNBOUNDED,
            retention_bytes=number("retention.bytes") if deletes else UNBOUNDED,
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
            log_append_time=value("message.timestamp.type").lower() == "logappendtime",
            compression=CODECS[value("compression.type").lower()],
            producer_expiration_ms=int(static.get("producer.id.expiration.ms", "86400000")),
            deletes=deletes,
            compaction=compaction if compacts else None,
        ),
        min_isr=number("min.insync.replicas"),
        unclean_leader_election=value("unclean.leader.election.enable").lower() == "true",
    )
