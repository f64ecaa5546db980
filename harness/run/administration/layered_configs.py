"""Configs of topics and of all brokers that several faults change and restore independently.

A resource's own value before the first change is remembered. It is restored when the last change is
removed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin import configs
from harness.admin.configs import Resource
from harness.admin.descriptions import Config
from harness.admin.errors import RequestRefused
from harness.run.administration.requests import AdminCall
from nemesis.concurrency import TaskRunner

_OWN_SOURCES: Final = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG")
ALL_BROKERS: Final = configs.broker(None)
"""The resource of the defaults of all brokers. Any broker answers for it."""

_Key = tuple[Resource, str]
"""A resource and the name of a config."""


class LayeredConfigs:
    """Changes of configs in layers. A layer can be removed below other layers, too."""

    def __init__(self, ask: AdminCall, task_runner: TaskRunner) -> None:
        self._ask = ask
        self._mutex = task_runner.mutex()
        self._original: dict[_Key, str | None] = {}
        self._layers: dict[_Key, dict[str, str]] = {}
        self._restored: dict[str, dict[_Key, None]] = {}
        """In the order of restoring: a simulated run may not depend on the order of a set."""

    def current(self, resource: Resource, name: str) -> tuple[str | None, str | None]:
        """Return the value in force, and the resource's own value if it has one.

        The defaults of all brokers have only values of their own. Raises RequestRefused.
        """
        return self._current([(resource, name)])[resource, name]

    def _current(self, keys: Iterable[_Key]) -> dict[_Key, tuple[str | None, str | None]]:
        """Return what `current` does of each key, with one request."""
        resources = list(dict.fromkeys(resource for resource, _ in keys))
        found = self._ask(lambda admin: configs.describe(admin, resources))
        return {key: _of(found[key[0]], *key) for key in keys}

    def change(self, layer: str, resources: Sequence[Resource], name: str, value: str) -> None:
        """Put a layer on top. Raises AdminError; `restore` is then still to be called."""
        with self._mutex:
            keys = [(resource, name) for resource in resources]
            if new := [key for key in keys if key not in self._original]:
                self._original.update({key: own for key, (_, own) in self._current(new).items()})
            for key in keys:
                self._layers.setdefault(key, {})[layer] = value
            wanted = {resource: {name: value} for resource in resources}
            self._ask(lambda admin: configs.alter(admin, wanted))

    def restore(self, layer: str) -> bool:
        """Remove a layer; return whether the values below it are in force.

        It must be called again until it returns true, and after an AdminError.
        """
        with self._mutex:
            keys = self._restored.setdefault(layer, {})
            removed = {key: layers for key, layers in self._layers.items() if layer in layers}
            if removed:
                self._set({key: self._top(key, _below(layer, of)) for key, of in removed.items()})
            for key, layers in removed.items():
                del layers[layer]
                keys[key] = None
            current = self._current(keys) if keys else {}
            return all(current[key][1] == self._top(key, self._layers[key]) for key in keys)

    def _top(self, key: _Key, layers: dict[str, str]) -> str | None:
        """Return the value that should be in force: the last layer's, else the resource's own."""
        return next(reversed(layers.values()), self._original[key])

    def _set(self, values: Mapping[_Key, str | None]) -> None:
        """Set, or remove, all of them with one request."""
        changes: dict[Resource, dict[str, str | None]] = {}
        for (resource, name), value in values.items():
            changes.setdefault(resource, {})[name] = value
        self._ask(lambda admin: configs.alter(admin, changes))


def _below(layer: str, layers: Mapping[str, str]) -> dict[str, str]:
    """Return the other layers, in their order."""
    return {each: value for each, value in layers.items() if each != layer}


def _of(found: Sequence[Config], resource: Resource, name: str) -> tuple[str | None, str | None]:
    for each in found:
        if each.name == name:
            owns = each.source == _OWN_SOURCES[resource == ALL_BROKERS]
            return each.value, each.value if owns else None
    if resource == ALL_BROKERS:
        return None, None
    raise RequestRefused(ErrorCode.invalid_config, f"{resource} has no config {name}")
