"""The interface of a foreign client: its requests and their types."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

PATIENCE_S = 60.0
"""The bound of every wait: far above what a busy machine needs."""
PARTITION = 0
PARTITIONS, REPLICAS = 2, 3


class Feature(StrEnum):
    """An optional ability of a client."""

    ADMIN = "admin"
    EMPTY_VALUE = "empty value"
    NULL_VALUE = "null value"
    EMPTY_KEY = "empty key"
    NUL_IN_HEADER = "NUL in a header"


@dataclass(frozen=True, slots=True)
class Message:
    """A record as its sender gives it and its reader gets it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def needs(self) -> frozenset[Feature]:
        """The features that a client needs to send the message."""
        wanted = {
            Feature.EMPTY_VALUE: self.value == b"",
            Feature.NULL_VALUE: self.value is None,
            Feature.EMPTY_KEY: self.key == b"",
            Feature.NUL_IN_HEADER: any(b"\0" in value for _, value in self.headers),
        }
        return frozenset(feature for feature, needed in wanted.items() if needed)


@dataclass(frozen=True, slots=True)
class Offsets:
    """Answers of ListOffsets; None for a time after the last record."""

    earliest: int
    latest: int
    at_time: int | None
    after_the_end: int | None


class Client(Protocol):
    """One foreign client. `acks` is 0, 1 or -1; `codec` none, gzip, snappy, lz4 or zstd."""

    name: str
    cannot: Mapping[Feature, str]

    def create_topic(self, bootstrap: str, topic: str) -> bool:
        """Create a topic by the client's admin API; return false when it exists."""
        ...

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> None:
        """Send to PARTITION in order, wait for the acknowledgements, raise if there are none."""
        ...

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        """Assign PARTITION, read `count` records from its beginning."""
        ...

    def offsets(self, bootstrap: str, topic: str, at_ms: int) -> Offsets:
        """List PARTITION's offsets: the ends, by time `at_ms`, and by a time far in the future."""
        ...


def in_the_future_ms() -> int:
    """A timestamp that no record has yet."""
    return int(time.time() * 1000) + 3_600_000


def bounded(what: str) -> Iterable[None]:
    """Rounds of a poll loop; raises at the time limit."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        yield
    raise TimeoutError(f"{what} after {PATIENCE_S:.0f} s")
