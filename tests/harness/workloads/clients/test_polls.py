"""The rows of a poll."""

from collections.abc import Iterator

import pytest

from harness.workloads.clients import librdkafka
from tests.support.clients.recorded import CODEC, Recorded


class Message:
    """What librdkafka hands out."""

    def __init__(self, offset: int, partition: int = 0) -> None:
        self._offset, self._partition = offset, partition

    def error(self) -> None:
        """None."""

    def partition(self) -> int:
        """Its partition."""
        return self._partition

    def offset(self) -> int:
        """Its offset."""
        return self._offset

    def leader_epoch(self) -> int:
        """Its batch's."""
        return 0

    def value(self) -> bytes:
        """Client 1's, numbered as the offset."""
        return CODEC.encode(1, self._offset)

    def key(self) -> None:
        """None."""


class Polls:
    """A consumer that returns what it is told to."""

    def __init__(self, polls: Iterator[list[Message]]) -> None:
        self._polls = polls

    def assign(self, _: object) -> None:
        """Anything goes."""

    def consume(self, *_: object) -> list[Message]:
        """The next poll."""
        return next(self._polls)

    def close(self) -> None:
        """Nothing to do."""


def test_step_back_inside_a_poll_begins_another_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one operation are ordered only by offset."""
    given = [Message(0), Message(0, 1), Message(1), Message(1), Message(2), Message(1, 1)]
    monkeypatch.setattr(librdkafka, "Consumer", lambda _: Polls(iter([given])))
    seen = Recorded()
    consumer = librdkafka.RecordingConsumer({}, seen.reads())
    consumer.assign({0: 0, 1: 0})
    assert consumer.poll(1.0) == len(given)
    consumer.close()
    rows = seen.writer.of("poll", "op", "partition", "offset")
    steps = [(op - rows[0][0], partition, offset) for op, partition, offset in rows]
    assert steps == [(0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 0, 2), (1, 1, 1)]
