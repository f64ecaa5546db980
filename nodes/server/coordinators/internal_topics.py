"""How the internal topics are created, with the settings that Kafka gives them."""

from collections.abc import Mapping
from typing import Any

from nodes.config import InternalTopicSettings, NodeConfig
from nodes.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC


def internal_topics(config: NodeConfig) -> dict[str, dict[str, Any]]:
    """Return fields of CreateTopics for each internal topic, by its name."""
    transactions = {
        "min.insync.replicas": str(config.transactions.min_isr),
        "unclean.leader.election.enable": "false",
    }
    return {
        OFFSETS_TOPIC: _creation(config.groups.topic, {}),
        TRANSACTIONS_TOPIC: _creation(config.transactions.topic, transactions),
    }


def _creation(topic: InternalTopicSettings, more: Mapping[str, str]) -> dict[str, Any]:
    configs = {"cleanup.policy": "compact", "segment.bytes": str(topic.segment_bytes), **more}
    return {
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "configs": [{"name": name, "value": value} for name, value in configs.items()],
    }
