"""The feature levels of a cluster: those of a new one, and their changes (KIP-584). Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.controller.settings import ControlSettings
from nodes.metadata.errors import ControlError
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

CHANGEABLE: Final[Mapping[str, int]] = {TRANSACTION_VERSION_FEATURE: 2, GROUP_VERSION_FEATURE: 1}
"""The highest level of each feature that may change while the cluster runs; the lowest is 0."""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A level that an administrator asks for. `lowers`: a downgrade is asked for, no upgrade."""

    name: str
    level: int
    lowers: bool


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


def update_features(
    known: Mapping[str, int], updates: Iterable[FeatureUpdate]
) -> list[MetadataRecord]:
    """The records of the updates, all of them or none. Raises ControlError.

    `known`: the present levels; a feature without one has level 0.
    """
    records: list[MetadataRecord] = []
    for update in updates:
        present = known.get(update.name, 0)
        highest = CHANGEABLE.get(update.name)
        if highest is None and update.level != present:
            raise _invalid(update, "this cluster cannot change it while it runs")
        if highest is not None and not 0 <= update.level <= highest:
            raise _invalid(update, f"its levels are 0 to {highest}")
        if update.level < present and not update.lowers:
            raise _invalid(update, "a lower level needs a downgrade, safe or unsafe")
        if update.level > present and update.lowers:
            raise _invalid(update, "a higher level is no downgrade")
        if update.level != present:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return records


def _invalid(update: FeatureUpdate, why: str) -> ControlError:
    message = f"Invalid update version {update.level} for feature {update.name}: {why}"
    return ControlError(ErrorCode.invalid_update_version, message)
