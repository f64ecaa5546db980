"""What ApiVersions says of features (KIP-584): the levels that this node supports, and those that
the cluster has settled on. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from nodes.metadata.image import ClusterImage
from nodes.metadata.records import ELIGIBLE_LEADER_REPLICAS_FEATURE, METADATA_VERSION_FEATURE

KRAFT_VERSION_FEATURE: Final = "kraft.version"

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    ELIGIBLE_LEADER_REPLICAS_FEATURE: (0, 1),
    KRAFT_VERSION_FEATURE: (0, 1),
    METADATA_VERSION_FEATURE: (23, 29),
}
"""Lowest and highest level. This node's own logs have metadata.version 23 (Kafka's 4.0-IV1), the
first with eligible leaders; the later levels, up to 29 (4.2-IV1), ask nothing more of the records
that are written here.
"""

LEVEL_0_SINCE: Final = 4
"""Clients of older versions of ApiVersions cannot read a range from level 0 on (KAFKA-17011)."""


def described(version: int, image: ClusterImage, kraft_version: int) -> dict[str, Any]:
    """The fields of an ApiVersions response of this version. `kraft_version` is the quorum's level;
    like Kafka's, a feature at level 0 is not among the finalized. Nor is one that this node knows
    nothing of, which a directory of Kafka's may have brought: it is not in force here.
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
