"""Parses properties files, and reads typed values from them.

The format is Kafka's: key=value, comments with # or !.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class ConfigError(Exception):
    """A property is missing or invalid; the message says which, why, and what is accepted."""


class Property(NamedTuple):
    """A property that a node knows: its type (string, int, double or boolean), and Kafka's default
    if it has one.
    """

    kind: str
    default: str | None


def parse_properties(text: str) -> dict[str, str]:
    """Parse the key=value lines of `text`; skip blank lines and lines that start with # or !.

    Raises ConfigError for a line without `=`.
    """
    properties: dict[str, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"line {number} is not key=value: {line!r}")
        properties[key.strip()] = value.strip()
    return properties


class PropertyReader:
    """Reads typed values from the properties, and records which keys were read.

    Every method raises ConfigError for a value that cannot be used.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self.asked: dict[str, Property] = {}

    def text(self, key: str, default: str | None = None, *, kind: str = "string") -> str:
        """A string; required if there is no default."""
        self.asked[key] = Property(kind, default)
        value = self._properties.get(key, default)
        if value is None:
            raise ConfigError(f"{key} is missing: add a line {key}=...")
        return value

    def number(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number."""
        raw = self.text(key, None if default is None else str(default), kind="int")
        return self._parsed(key, raw, f"a whole number of at least {least}", _at_least(least))

    def decimal(self, key: str, default: str) -> float:
        """A number above 0."""
        raw = self.text(key, default, kind="double")
        return self._parsed(key, raw, "a number above 0", _above_zero)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        accepted = {"true": True, "false": False}
        raw = self.text(key, str(default).lower(), kind="boolean").lower()
        return self._parsed(key, raw, "true or false", lambda text: accepted[text])

    def one_of(self, key: str, accepted: Mapping[str, T], default: str) -> T:
        """The object that the value stands for."""
        raw = self.text(key, default)
        names = " or ".join(name or "empty" for name in accepted)
        return self._parsed(key, raw, names, lambda text: accepted[text])

    def _parsed(self, key: str, raw: str, accepts: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(raw)
        except (ValueError, KeyError) as error:
            raise ConfigError(f"{key}={raw} cannot be used: it must be {accepts}") from error


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError(text)
        return value

    return parse


def _above_zero(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise ValueError(text)
    return value
