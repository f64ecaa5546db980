"""Configs of topics and of all brokers that several faults change and restore independently.

A resource's own value before the first change is remembered. It is restored when the last change is
removed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin import configs
from harness.admin.configs import Resource
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
        found = self._ask(lambda admin: configs.describe(admin, [resource]))[resource]
        for each in found:
            if each.name == name:
                owns = each.source == _OWN_SOURCES[resource == ALL_BROKERS]
                return each.value, each.value if owns else None
        if resource == ALL_BROKERS:
            return None, None
        raise RequestRefused(ErrorCode.invalid_config, f"{resource} has no config {name}")

    def change(self, layer: str, resources: Sequence[Resource], name: str, value: str) -> None:
        """Put a layer on top. Raises AdminError; `restore` is then still to be called."""
        with self._mutex:
            for resource in resources:
                key = (resource, name)
                if key not in self._original:
                    self._original[key] = self.current(resource, name)[1]
                self._layers.setdefault(key, {})[layer] = value
            wanted = {resource: {name: value} for resource in resources}
            self._ask(lambda admin: configs.alter(admin, wanted))

    def restore(self, layer: str) -> bool:
        """Remove a layer; return whether the values below it are in force.

        It must be called again until it returns true, and after an AdminError.
        """
        with self._mutex:
            keys = self._restored.setdefault(layer, {})
            for key, layers in self._layers.items():
                if layer in layers:
                    rest = {each: value for each, value in layers.items() if each != layer}
                    self._set(key, self._top(key, rest))
                    del layers[layer]
                    keys[key] = None
            return all(self.current(*key)[1] == self._top(key, self._layers[key]) for key in keys)

    def _top(self, key: _Key, layers: dict[str, str]) -> str | None:
        """Return the value that should be in force: the last layer's, else the resource's own."""
        return next(reversed(layers.values()), self._original[key])

    def _set(self, key: _Key, value: str | None) -> None:
        resource, name = key
        self._ask(partial(configs.alter, changes={resource: {name: value}}))
