"""The values that topic configurations accept; the expectations are Apache Kafka 4.2's answers."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.metadata.errors import ControlError
from nodes.metadata.topic_configs import check_config, check_configs, policies


@pytest.mark.parametrize(
    ("value", "items"),
    [
        ("delete", {"delete"}),
        ("compact", {"compact"}),
        ("compact,delete", {"compact", "delete"}),
        (" compact , delete ", {"compact", "delete"}),
        ("compact,compact", {"compact"}),
        ("", set()),
    ],
)
def test_cleanup_policy_is_a_list(value: str, items: set[str]) -> None:
    assert policies(check_config("cleanup.policy", value)) == items


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "COMPACT"),
        ("cleanup.policy", "none"),
        ("cleanup.policy", "compact,"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "-0.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "half"),
        ("max.compaction.lag.ms", "0"),
        ("delete.retention.ms", "-1"),
    ],
)
def test_value_that_kafka_refuses_is_refused(name: str, value: str) -> None:
    with pytest.raises(ControlError) as refused:
        check_config(name, value)
    assert refused.value.code is ErrorCode.invalid_config


@pytest.mark.parametrize("value", ["0", "1", "0.5", "1e-1", ".25"])
def test_dirty_ratio_is_a_decimal_number(value: str) -> None:
    assert check_config("min.cleanable.dirty.ratio", value) == value


def test_minimum_compaction_lag_is_not_above_the_maximum() -> None:
    check_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(ControlError, match="conflict topic config setting"):
        check_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})
