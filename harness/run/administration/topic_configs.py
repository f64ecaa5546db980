"""Topics' configurations, changed by several who do not know of each other, and restored.

A topic's own value before anybody changed it is remembered, and comes back when the last change is
taken away.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin import configs
from harness.admin.errors import Refused
from harness.run.administration.requests import Ask
from nemesis.concurrency import Strands

_OWN: Final = "DYNAMIC_TOPIC_CONFIG"

_Key = tuple[str, str]
"""A topic and the name of a configuration."""


class Settings:
    """Topics' configurations in layers: each goes alone, whatever came on top of it."""

    def __init__(self, ask: Ask, strands: Strands) -> None:
        self._ask = ask
        self._mutex = strands.mutex()
        self._own: dict[_Key, str | None] = {}
        self._layers: dict[_Key, dict[str, str]] = {}
        self._taken: dict[str, set[_Key]] = {}

    def now(self, topic: str, name: str) -> tuple[str | None, str | None]:
        """The value in force, and the topic's own where it has one. Raises Refused."""
        resource = configs.topic(topic)
        found = self._ask(lambda admin: configs.describe(admin, [resource]))[resource]
        for each in found:
            if each.name == name:
                return each.value, each.value if each.source == _OWN else None
        raise Refused(ErrorCode.invalid_config, f"topic {topic} has no configuration {name}")

    def change(self, layer: str, names: Sequence[str], name: str, value: str) -> None:
        """Put a layer on top. Raises AdminError; `restore` is then still to be called."""
        with self._mutex:
            for topic in names:
                key = (topic, name)
                if key not in self._own:
                    self._own[key] = self.now(topic, name)[1]
                self._layers.setdefault(key, {})[layer] = value
            wanted = {configs.topic(topic): {name: value} for topic in names}
            self._ask(lambda admin: configs.alter(admin, wanted))

    def restore(self, layer: str) -> bool:
        """Take a layer away. Returns whether what is left is in force; until it is, and after an
        AdminError, once more.
        """
        with self._mutex:
            keys = self._taken.setdefault(layer, set())
            for key, layers in self._layers.items():
                if layer in layers:
                    rest = {each: value for each, value in layers.items() if each != layer}
                    self._set(key, self._top(key, rest))
                    del layers[layer]
                    keys.add(key)
            return all(self.now(*key)[1] == self._top(key, self._layers[key]) for key in keys)

    def _top(self, key: _Key, layers: dict[str, str]) -> str | None:
        """What is to be in force: the last layer's value, else the topic's own."""
        return next(reversed(layers.values()), self._own[key])

    def _set(self, key: _Key, value: str | None) -> None:
        topic, name = key
        changes = {configs.topic(topic): {name: value}}
        self._ask(partial(configs.alter, changes=changes))
