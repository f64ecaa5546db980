"""The features in ApiVersions (KIP-584): the supported levels of this node, and the finalized
levels of the cluster. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from nodes.controller.features import CHANGEABLE
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import ELIGIBLE_LEADER_REPLICAS_FEATURE, METADATA_VERSION_FEATURE

KRAFT_VERSION_FEATURE: Final = "kraft.version"

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    ELIGIBLE_LEADER_REPLICAS_FEATURE: (0, 1),
    KRAFT_VERSION_FEATURE: (0, 1),
    METADATA_VERSION_FEATURE: (23, 29),
    **{name: (0, highest) for name, highest in CHANGEABLE.items()},
}
"""The lowest and highest level of each feature. This node's own logs have metadata.version 23
(Kafka's 4.0-IV1), the first with eligible leader replicas. The later levels, up to 29 (4.2-IV1),
need no other records than those that this node writes.
"""

LEVEL_0_SINCE: Final = 4
"""Clients of older versions of ApiVersions cannot read a range from level 0 on (KAFKA-17011)."""


def feature_fields(version: int, image: ClusterImage, kraft_version: int) -> dict[str, Any]:
    """The feature fields of an ApiVersions response of this version.

    `kraft_version` is the quorum's level. As in Kafka, a feature at level 0 is not finalized. A
    feature that this node does not know (a log directory of Kafka may have it) has no effect here
    and is left out as well.
    """
    supported = [
        {"name": name, "min_version": oldest, "max_version": newest}
        for name, (oldest, newest) in SUPPORTED.items()
        if oldest > 0 or version >= LEVEL_0_SINCE
    ]
    levels = {**image.features, KRAFT_VERSION_FEATURE: kraft_version}
    finalized = [
        {"name": name, "min_version_level": level, "max_version_level": level}
        for name, level in sorted(levels.items())
        if level > 0 and name in SUPPORTED
    ]
    return {
        "supported_features": supported,
        "finalized_features_epoch": image.offset,
        "finalized_features": finalized,
    }
