"""Follows the configurations in ZooKeeper: all of them at first, then those that notices name."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from nodes.metadata.image import ConfigResource
from nodes.metadata.records import TOPIC_RESOURCE, ConfigRecord
from nodes.server.zookeeper.client import ZooKeeper
from nodes.server.zookeeper.commits import IN_FLIGHT
from nodes.server.zookeeper.reading import ClusterReader
from nodes.zookeeper import paths, znodes
from nodes.zookeeper.writes import config_path, resource_of

log = logging.getLogger("nodes.zookeeper")


class ConfigFollower:
    """One per broker. `on_change` gets the records of every change."""

    def __init__(
        self, zookeeper: ZooKeeper, on_change: Callable[[Sequence[ConfigRecord]], None]
    ) -> None:
        self._reader = ClusterReader(zookeeper)
        self._on_change = on_change
        self._values: dict[ConfigResource, Mapping[str, str]] = {}
        self._fresh: set[str] = set()
        """Topics whose configuration was read before anything else of them was known."""
        self._seen: frozenset[str] = frozenset()
        self._changed = asyncio.Event()

    def records(self) -> list[ConfigRecord]:
        """Every configuration that is known."""
        return [
            record
            for resource, values in self._values.items()
            for record in _difference(resource, {}, values)
        ]

    async def load(self) -> None:
        """Read everything; call it at the begin of each session. Raises SessionExpired."""
        self._seen = frozenset(await self._reader.children(paths.CONFIG_CHANGES, self._changed.set))
        found = [
            resource
            for folder in paths.CONFIG_TYPES.values()
            for name in await self._reader.children(f"{paths.CONFIG}/{folder}", lambda: None)
            if (resource := resource_of(f"{folder}/{name}")) is not None
        ]
        gone = [resource for resource in self._values if resource not in set(found)]
        await self._read([*found, *gone])
        self._fresh = {each.name for each in found if each.resource_type == TOPIC_RESOURCE}

    async def follow(self) -> None:
        """Read what notices name, until the session ends. Raises SessionExpired."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            names = await self._reader.children(paths.CONFIG_CHANGES, self._changed.set)
            new = [f"{paths.CONFIG_CHANGES}/{name}" for name in names if name not in self._seen]
            self._seen = frozenset(names)
            notices = [found for found in await self._reader.read_all(new) if found is not None]
            resources = [resource_of(znodes.read_config_change(data)) for data, _ in notices]
            await self._read([each for each in dict.fromkeys(resources) if each is not None])

    async def topics(self, names: Iterable[str]) -> None:
        """Read the configuration of topics that are new to this broker."""
        unread = [name for name in names if name not in self._fresh]
        self._fresh.difference_update(names)
        await self._read([ConfigResource(TOPIC_RESOURCE, name) for name in unread])

    async def _read(self, resources: Sequence[ConfigResource]) -> None:
        for start in range(0, len(resources), IN_FLIGHT):
            chunk = resources[start : start + IN_FLIGHT]
            found = await self._reader.read_all([config_path(resource) for resource in chunk])
            records: list[ConfigRecord] = []
            for resource, result in zip(chunk, found, strict=True):
                try:
                    values = {} if result is None else znodes.read_config(result[0])
                except znodes.ZnodeError as error:
                    log.warning("%s is left out: %s", config_path(resource), error)
                    continue
                records += _difference(resource, self._values.get(resource, {}), values)
                self._values[resource] = values
                if not values:
                    del self._values[resource]
            if records:
                self._on_change(records)


def _difference(
    resource: ConfigResource, old: Mapping[str, str], new: Mapping[str, str]
) -> Iterator[ConfigRecord]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield ConfigRecord(
                resource_type=resource.resource_type,
                resource_name=resource.name,
                name=name,
                value=new.get(name),
            )
