"""Topic configs that several faults change and restore independently of each other.

The topic's own value before the first change is remembered. It is restored when the last change is
removed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin import configs
from harness.admin.errors import RequestRefused
from harness.run.administration.requests import AdminCall
from nemesis.concurrency import TaskRunner

_SET_ON_TOPIC: Final = "DYNAMIC_TOPIC_CONFIG"

_Key = tuple[str, str]
"""A topic and the name of a config."""


class LayeredTopicConfigs:
    """Changes of topic configs in layers. A layer can be removed below other layers, too."""

    def __init__(self, ask: AdminCall, task_runner: TaskRunner) -> None:
        self._ask = ask
        self._mutex = task_runner.mutex()
        self._original: dict[_Key, str | None] = {}
        self._layers: dict[_Key, dict[str, str]] = {}
        self._restored: dict[str, dict[_Key, None]] = {}
        """In the order of restoring: a simulated run may not depend on the order of a set."""

    def current(self, topic: str, name: str) -> tuple[str | None, str | None]:
        """Return the value in force, and the topic's own value if it has one.

        Raises RequestRefused.
        """
        resource = configs.topic(topic)
        found = self._ask(lambda admin: configs.describe(admin, [resource]))[resource]
        for each in found:
            if each.name == name:
                return each.value, each.value if each.source == _SET_ON_TOPIC else None
        raise RequestRefused(ErrorCode.invalid_config, f"topic {topic} has no config {name}")

    def change(self, layer: str, names: Sequence[str], name: str, value: str) -> None:
        """Put a layer on top. Raises AdminError; `restore` is then still to be called."""
        with self._mutex:
            for topic in names:
                key = (topic, name)
                if key not in self._original:
                    self._original[key] = self.current(topic, name)[1]
                self._layers.setdefault(key, {})[layer] = value
            wanted = {configs.topic(topic): {name: value} for topic in names}
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
        """Return the value that should be in force: the last layer's, else the topic's own."""
        return next(reversed(layers.values()), self._original[key])

    def _set(self, key: _Key, value: str | None) -> None:
        topic, name = key
        changes = {configs.topic(topic): {name: value}}
        self._ask(partial(configs.alter, changes=changes))
