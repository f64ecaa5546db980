"""The topic configurations: one table of Kafka's names, types, defaults and synonyms. Pure.

A topic's value is the first that is set of: the topic's own, the broker's dynamic value, the
cluster's dynamic default, the broker's static property, Kafka's default (KIP-226). `sources`
returns all that are set, in that order; `effective` returns the first.
"""

import enum
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.ids import NodeId
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, ConfigResource
from nodes.metadata.records import BROKER_RESOURCE

UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
CLEANUP_POLICY: Final = "cleanup.policy"
MIN_COMPACTION_LAG_MS: Final = "min.compaction.lag.ms"
MAX_COMPACTION_LAG_MS: Final = "max.compaction.lag.ms"

Check = Callable[[str], str | None]
"""Returns what is wrong with a value; None if it is valid."""


class ConfigType(enum.IntEnum):
    """The type of a value, numbered as DescribeConfigs does."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Source(enum.IntEnum):
    """Where a value comes from, numbered as DescribeConfigs does."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class Synonym(NamedTuple):
    """A broker property that sets a topic configuration's default, and the factor of its unit."""

    name: str
    unit: int = 1

    def value(self, raw: str) -> str:
        """The property's value in the topic configuration's unit; -1 stays unlimited."""
        return raw if self.unit == 1 or raw.startswith("-") else str(int(raw) * self.unit)


class TopicConfig(NamedTuple):
    """One row of the table."""

    type: ConfigType
    default: str
    check: Check
    synonyms: tuple[Synonym, ...] = ()
    """The broker properties; the first has the highest priority."""


class Sourced(NamedTuple):
    """One value set for a configuration: the name that sets it, its source, and the value."""

    name: str
    source: Source
    value: str


def integer(low: int, high: int = (1 << 63) - 1) -> Check:
    """A check for whole numbers from `low` to `high`."""

    def check(value: str) -> str | None:
        if not re.fullmatch(r"[+-]?\d{1,19}", value):
            return "is not a whole number"
        return None if low <= int(value) <= high else f"is not between {low} and {high}"

    return check


def _ratio(value: str) -> str | None:
    if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", value):
        return "is not a number"
    return None if 0 <= float(value) <= 1 else "is not between 0 and 1"


def _one_of(*allowed: str) -> Check:
    folded = [name.casefold() for name in allowed]

    def check(value: str) -> str | None:
        return None if value.casefold() in folded else f"is not one of {', '.join(allowed)}"

    return check


def _policies(value: str) -> str | None:
    """Kafka accepts an empty list, which neither deletes nor compacts, and repeated items."""
    items = [item.strip() for item in value.split(",")] if value else []
    if all(item in ("compact", "delete") for item in items):
        return None
    return "is not a list of compact and delete"


def _replicas(value: str) -> str | None:
    pairs = [item.strip() for item in value.split(",") if item.strip()]
    if pairs == ["*"] or all(re.fullmatch(r"\d+:\d+", item) for item in pairs):
        return None
    return "is neither * nor a list of partition:broker"


_INT: Final = (1 << 31) - 1
_LONG: Final = (1 << 63) - 1
BOOLEAN: Final = _one_of("true", "false")


def _int(default: int, low: int, *synonyms: Synonym | str) -> TopicConfig:
    return TopicConfig(ConfigType.INT, str(default), integer(low, _INT), _synonyms(synonyms))


def _long(default: int, low: int, *synonyms: Synonym | str) -> TopicConfig:
    return TopicConfig(ConfigType.LONG, str(default), integer(low), _synonyms(synonyms))


def _synonyms(names: tuple[Synonym | str, ...]) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) if isinstance(name, str) else name for name in names)


def _text(type_: ConfigType, default: str, check: Check, *synonyms: str) -> TopicConfig:
    return TopicConfig(type_, default, check, _synonyms(synonyms))


_HOUR_MS: Final = 3_600_000

TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    CLEANUP_POLICY: _text(ConfigType.LIST, "delete", _policies, "log.cleanup.policy"),
    "compression.type": _text(
        ConfigType.STRING,
        "producer",
        _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "compression.type",
    ),
    "delete.retention.ms": _long(24 * _HOUR_MS, 0, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _long(60_000, 0, "log.segment.delete.delay.ms"),
    "flush.messages": _long(_LONG, 1, "log.flush.interval.messages"),
    "flush.ms": _long(_LONG, 0, "log.flush.interval.ms"),
    "follower.replication.throttled.replicas": _text(ConfigType.LIST, "", _replicas),
    "index.interval.bytes": _int(4096, 0, "log.index.interval.bytes"),
    "leader.replication.throttled.replicas": _text(ConfigType.LIST, "", _replicas),
    MAX_COMPACTION_LAG_MS: _long(_LONG, 1, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _int(1_048_588, 0, "message.max.bytes"),
    "message.timestamp.type": _text(
        ConfigType.STRING,
        "CreateTime",
        _one_of("CreateTime", "LogAppendTime"),
        "log.message.timestamp.type",
    ),
    "min.cleanable.dirty.ratio": _text(
        ConfigType.DOUBLE, "0.5", _ratio, "log.cleaner.min.cleanable.ratio"
    ),
    MIN_COMPACTION_LAG_MS: _long(0, 0, "log.cleaner.min.compaction.lag.ms"),
    MIN_INSYNC_REPLICAS: _int(1, 1, MIN_INSYNC_REPLICAS),
    "preallocate": _text(ConfigType.BOOLEAN, "false", _one_of("false"), "log.preallocate"),
    "retention.bytes": _long(-1, -1, "log.retention.bytes"),
    "retention.ms": _long(
        168 * _HOUR_MS,
        -1,
        "log.retention.ms",
        Synonym("log.retention.minutes", 60_000),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": _int(1 << 30, 14, "log.segment.bytes"),
    "segment.index.bytes": _int(10 << 20, 4, "log.index.size.max.bytes"),
    "segment.ms": _long(168 * _HOUR_MS, 1, "log.roll.ms", Synonym("log.roll.hours", _HOUR_MS)),
    UNCLEAN_LEADER_ELECTION_ENABLE: _text(
        ConfigType.BOOLEAN, "false", BOOLEAN, UNCLEAN_LEADER_ELECTION_ENABLE
    ),
}


def check_config(name: str, value: str) -> str:
    """Return the value in its stored form. Raises ControlError INVALID_CONFIG for an unknown name
    or an unsupported value.
    """
    row = TOPIC_CONFIGS.get(name)
    if row is None:
        raise ControlError(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
    complaint = row.check(value.strip())
    if complaint is not None:
        raise ControlError(
            ErrorCode.invalid_config,
            f"Invalid value {value} for configuration {name}: it {complaint}",
        )
    return value.strip()


def policies(value: str) -> frozenset[str]:
    """The items of a valid cleanup.policy."""
    return frozenset(item.strip() for item in value.split(",")) - {""}


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configuration of a new topic, sorted by name.

    Raises ControlError INVALID_CONFIG also for null values, which make sense only as a deletion.
    """
    empty = [name for name, value in configs.items() if value is None]
    if empty:
        raise ControlError(
            ErrorCode.invalid_config,
            f"Null value not supported for topic configs: {','.join(empty)}",
        )
    items = sorted(configs.items())
    checked = {name: check_config(name, value) for name, value in items if value is not None}
    check_together(checked)
    return checked


def check_together(configs: Mapping[str, str]) -> None:
    """Raise ControlError INVALID_CONFIG if a topic's own values contradict each other."""
    low, high = (
        int(configs.get(name, TOPIC_CONFIGS[name].default))
        for name in (MIN_COMPACTION_LAG_MS, MAX_COMPACTION_LAG_MS)
    )
    if low > high:
        raise ControlError(
            ErrorCode.invalid_config,
            f"conflict topic config setting {MIN_COMPACTION_LAG_MS} ({low}) > "
            f"{MAX_COMPACTION_LAG_MS} ({high})",
        )


def sources(
    name: str,
    image: ClusterImage,
    static: Mapping[str, str],
    *,
    topic: str | None = None,
    node_id: NodeId | None = None,
) -> list[Sourced]:
    """All values set for the topic configuration `name`; the first is in force.

    `static` contains the broker's properties from its file. Without `topic`: the defaults for a
    topic on `node_id`. Without `node_id`: those of the whole cluster.
    """
    row = TOPIC_CONFIGS[name]
    found = []
    own = None if topic is None else image.topic_config(topic).get(name)
    if own is not None:
        found.append(Sourced(name, Source.TOPIC, own))
    layers = [
        (Source.DYNAMIC_DEFAULT_BROKER, image.cluster_config()),
        (Source.STATIC_BROKER, static),
    ]
    if node_id is not None:
        key = ConfigResource(BROKER_RESOURCE, str(node_id))
        layers.insert(0, (Source.DYNAMIC_BROKER, image.configs.get(key, {})))
    for source, values in layers:
        for synonym in row.synonyms:
            if synonym.name in values:
                value = synonym.value(values[synonym.name])
                found.append(Sourced(synonym.name, source, value))
    main = row.synonyms[0].name if row.synonyms else name
    return [*found, Sourced(main, Source.DEFAULT, row.default)]


def effective(
    name: str,
    image: ClusterImage,
    static: Mapping[str, str],
    *,
    topic: str | None = None,
    node_id: NodeId | None = None,
) -> str:
    """The value in force (see `sources`)."""
    return sources(name, image, static, topic=topic, node_id=node_id)[0].value
