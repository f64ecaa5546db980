"""The configurations of single groups (KIP-848): names, defaults and limits are Kafka's. Pure.

They replace the broker properties of the same names with the prefix `group.`. Those of share groups
and of Kafka Streams are unknown here, as these groups are.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, ConfigResource
from nodes.metadata.records import GROUP_RESOURCE


class GroupConfig(NamedTuple):
    """One configuration, a number of milliseconds: its default, and those of its limits."""

    default: int
    least: int
    most: int


SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
GROUP_CONFIGS: Final[Mapping[str, GroupConfig]] = {
    HEARTBEAT_INTERVAL_MS: GroupConfig(default=5_000, least=5_000, most=15_000),
    SESSION_TIMEOUT_MS: GroupConfig(default=45_000, least=45_000, most=60_000),
}
_MOST_DIGITS: Final = 10


def broker_property(name: str, limit: str = "") -> str:
    """The broker property behind a configuration, or behind its `limit` (`min` or `max`)."""
    kind, _, rest = name.partition(".")
    return ".".join(part for part in ("group", kind, limit, rest) if part)


def group_config(image: ClusterImage, group_id: str) -> Mapping[str, str]:
    """What is configured for the group."""
    return image.configs.get(ConfigResource(GROUP_RESOURCE, group_id), {})


def check_group_config(values: Mapping[str, str], static: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG unless a group may have these values.

    `static`: the controller's properties, which may have other limits.
    """
    unknown = next((name for name in values if name not in GROUP_CONFIGS), None)
    if unknown is not None:
        raise _invalid(f"Unknown group config name: {unknown}")
    numbers = {
        name: _number(name, values[name]) if name in values else known.default
        for name, known in GROUP_CONFIGS.items()
    }
    for name, known in GROUP_CONFIGS.items():
        least, most = broker_property(name, "min"), broker_property(name, "max")
        if numbers[name] < int(static.get(least, known.least)):
            raise _invalid(f"{name} must be greater than or equal to {least}")
        if numbers[name] > int(static.get(most, known.most)):
            raise _invalid(f"{name} must be less than or equal to {most}")
    if numbers[SESSION_TIMEOUT_MS] <= numbers[HEARTBEAT_INTERVAL_MS]:
        raise _invalid(f"{SESSION_TIMEOUT_MS} must be greater than {HEARTBEAT_INTERVAL_MS}")


def _number(name: str, value: str) -> int:
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise _invalid(f"Invalid value {value} for configuration {name}: Not a number of type INT")
    return int(value)


def _invalid(message: str) -> ControlError:
    return ControlError(ErrorCode.invalid_config, message)
