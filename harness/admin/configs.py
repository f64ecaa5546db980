"""Requests for the configuration of topics and brokers: describe and alter (KIP-339).

A resource is ("topic", name), ("broker", number) or ("broker", ""), the default of all brokers.
Only the broker itself answers for a broker resource, so the request goes to that broker.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from harness.admin.client import ANY, CONTROLLER, AdminClient
from harness.admin.codes import check
from harness.admin.descriptions import Config

TOPIC: Final = 2
BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

_SOURCES: Final = {
    0: "UNKNOWN",
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "CLIENT_METRICS_CONFIG",
    8: "GROUP_CONFIG",
}


class Resource(NamedTuple):
    """The owner of a configuration; `kind` is Kafka's number of the type."""

    kind: int
    name: str

    @property
    def node(self) -> int | None:
        """The only broker that answers for this resource; None when any broker does."""
        return int(self.name) if self.kind == BROKER and self.name else None

    def __str__(self) -> str:
        if self.kind == TOPIC:
            return f"topic {self.name}"
        return f"broker {self.name}" if self.name else "the brokers' default"


def topic(name: str) -> Resource:
    """Return the resource of a topic."""
    return Resource(TOPIC, name)


def broker(node: int | None) -> Resource:
    """Return the resource of a broker, or with None that of the defaults of all brokers."""
    return Resource(BROKER, "" if node is None else str(node))


async def describe(
    admin: AdminClient, resources: Sequence[Resource]
) -> dict[Resource, list[Config]]:
    """Return the settings of each resource, by name. Raises RequestRefused."""
    found: dict[Resource, list[Config]] = {}
    for node, group in _by_node(resources):

        async def attempt(node: int | None = node, group: Sequence[Resource] = group) -> None:
            answer = await admin.request(
                "describe_configs",
                to=node,
                resources=[
                    {
                        "resource_type": each.kind,
                        "resource_name": each.name,
                        "configuration_keys": None,
                    }
                    for each in group
                ],
                include_synonyms=True,
            )
            for result in answer.results:
                resource = Resource(int(result.resource_type), str(result.resource_name))
                check(result.error_code, str(resource), result.error_message)
                found[resource] = sorted(map(_config, result.configs), key=lambda c: c.name)

        await admin.repeat(attempt)
    return found


def _config(entry: Any) -> Config:
    return Config(
        name=entry.name,
        value=entry.value,
        source=_SOURCES.get(int(entry.config_source), "UNKNOWN"),
        sensitive=entry.is_sensitive,
        read_only=entry.read_only,
        synonyms=tuple(
            (_SOURCES.get(int(each.source), "UNKNOWN"), each.name, each.value)
            for each in entry.synonyms
        ),
    )


async def alter(
    admin: AdminClient,
    changes: Mapping[Resource, Mapping[str, str | None]],
    operation: int = _SET,
) -> None:
    """Set settings; remove those whose value is None. Each resource is changed whole or not at all.

    With the operations APPEND and SUBTRACT, the values are items of settings that are lists.

    Raises RequestRefused about the first resource that cannot be changed. Others may be changed.
    """
    for node, group in _by_node(list(changes)):

        async def attempt(node: int | None = node, group: Sequence[Resource] = group) -> None:
            answer = await admin.request(
                "incremental_alter_configs",
                to=CONTROLLER if node is ANY else node,
                resources=[
                    {
                        "resource_type": each.kind,
                        "resource_name": each.name,
                        "configs": [
                            {
                                "name": name,
                                "config_operation": _DELETE if value is None else operation,
                                "value": value,
                            }
                            for name, value in changes[each].items()
                        ],
                    }
                    for each in group
                ],
            )
            for result in answer.responses:
                resource = Resource(int(result.resource_type), str(result.resource_name))
                check(result.error_code, str(resource), result.error_message)

        await admin.repeat(attempt)


def _by_node(resources: Sequence[Resource]) -> list[tuple[int | None, list[Resource]]]:
    ordered = sorted(resources, key=lambda each: (each.node is not None, each.node or 0, each))
    return [(node, list(group)) for node, group in groupby(ordered, key=lambda each: each.node)]
