"""Feature levels: those of a new cluster, and their changes."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller.features import FeatureUpdate, missing_levels, update_features
from nodes.controller.settings import ControlSettings
from nodes.metadata.errors import ControlError
from nodes.metadata.records import FeatureLevelRecord

KNOWN = {"metadata.version": 23, "transaction.version": 1, "group.version": 1}


def test_an_older_log_keeps_level_0_of_what_it_does_not_know() -> None:
    """Its administrator raises it."""
    found = missing_levels({"metadata.version": 23}, ControlSettings())
    assert found == [FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)]


@pytest.mark.parametrize(
    ("name", "level", "lowers"),
    [
        ("transaction.version", 2, False),
        ("transaction.version", 0, True),
        ("group.version", 0, True),
    ],
)
def test_a_level_changes(name: str, level: int, lowers: bool) -> None:
    """Up, or down if that is asked for."""
    record = FeatureLevelRecord(name=name, feature_level=level)
    assert update_features(KNOWN, [FeatureUpdate(name, level, lowers)]) == [record]


def test_the_present_level_is_no_change() -> None:
    """Also of a feature that cannot change."""
    updates = [
        FeatureUpdate("group.version", 1, False),
        FeatureUpdate("metadata.version", 23, True),
    ]
    assert update_features(KNOWN, updates) == []


@pytest.mark.parametrize(
    ("name", "level", "lowers"),
    [
        ("transaction.version", 3, False),
        ("transaction.version", -1, True),
        ("transaction.version", 0, False),
        ("transaction.version", 2, True),
        ("metadata.version", 24, False),
        ("unknown", 1, False),
    ],
)
def test_a_level_that_is_not_possible_refuses_the_request(
    name: str, level: int, lowers: bool
) -> None:
    """All of it, as in Kafka."""
    good = FeatureUpdate("group.version", 0, True)
    with pytest.raises(ControlError) as refused:
        update_features(KNOWN, [good, FeatureUpdate(name, level, lowers)])
    assert refused.value.code is ErrorCode.invalid_update_version
