"""The configuration a topic may carry: names and values, Kafka's. Pure.

A value that this broker would silently ignore (compaction, recompression) is refused instead.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.control.errors import ControlError

UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"


def _integer(low: int, high: int = (1 << 63) - 1) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        if not re.fullmatch(r"[+-]?\d{1,19}", value):
            return "is not a whole number"
        return None if low <= int(value) <= high else f"is not between {low} and {high}"

    return check


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    folded = [name.casefold() for name in allowed]

    def check(value: str) -> str | None:
        return None if value.casefold() in folded else f"is not one of {', '.join(allowed)}"

    return check


_INT = (1 << 31) - 1
_CONFIGS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "cleanup.policy": _one_of("delete"),
    "compression.type": _one_of("producer"),
    "file.delete.delay.ms": _integer(0),
    "flush.messages": _integer(1),
    "flush.ms": _integer(0),
    "index.interval.bytes": _integer(0, _INT),
    "max.message.bytes": _integer(0, _INT),
    "message.timestamp.type": _one_of("CreateTime"),
    "min.insync.replicas": _integer(1, _INT),
    "retention.bytes": _integer(-1),
    "retention.ms": _integer(-1),
    "segment.bytes": _integer(14, _INT),
    "segment.index.bytes": _integer(4, _INT),
    "segment.ms": _integer(1),
    UNCLEAN_LEADER_ELECTION_ENABLE: _one_of("true", "false"),
}


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configuration in order of name; null values fall to the default and are left out.

    Raises ControlError INVALID_CONFIG for an unknown name or a value this broker does not support.
    """
    checked = {}
    for name, value in sorted(configs.items()):
        check = _CONFIGS.get(name)
        if check is None:
            raise ControlError(ErrorCode.invalid_config, f"unknown topic config name: {name}")
        if value is None:
            continue
        complaint = check(value.strip())
        if complaint is not None:
            raise ControlError(ErrorCode.invalid_config, f"{name}={value} {complaint}")
        checked[name] = value.strip()
    return checked
