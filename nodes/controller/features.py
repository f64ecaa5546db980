"""The feature levels of a new cluster. Pure."""

from collections.abc import Mapping
from typing import Final

from nodes.controller.settings import ControlSettings
from nodes.metadata.records import (
    ELIGIBLE_LEADER_REPLICAS_FEATURE,
    GROUP_VERSION_FEATURE,
    METADATA_VERSION_FEATURE,
    TRANSACTION_VERSION_FEATURE,
    FeatureLevelRecord,
    MetadataRecord,
)

METADATA_VERSION: Final = 23
"""Kafka's 4.0-IV1: the feature level whose records this controller writes."""


def missing_levels(known: Mapping[str, int], settings: ControlSettings) -> list[MetadataRecord]:
    """The levels that a metadata log lacks, where `known` is what it has.

    A log from before transactions and groups keeps them at level 0, until they are raised.
    """
    levels = {
        METADATA_VERSION_FEATURE: METADATA_VERSION,
        ELIGIBLE_LEADER_REPLICAS_FEATURE: settings.eligible_leader_replicas,
    }
    if METADATA_VERSION_FEATURE not in known:
        levels[TRANSACTION_VERSION_FEATURE] = settings.transaction_version
        levels[GROUP_VERSION_FEATURE] = settings.group_version
    return [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in levels.items()
        if name not in known
    ]
