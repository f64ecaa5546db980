"""What a leader answers to ListOffsets is what its own log says at that moment.

The first record at or after a time is found here by reading the whole log, without any index. A
record counts from the log's start up to the high watermark (KIP-79, KIP-734). The check looks at
the answer when the broker makes it, and adds no event to the run. A leader that was deposed and
does not know it answers from its own log, so that log decides.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from nodes.ids import NO_EPOCH, NO_OFFSET, Epoch, Offset, TopicPartition
from nodes.log.log import Log
from nodes.log.recompression import decoded
from nodes.server.replicas.replica import Replica
from nodes.server.requests.list_offsets import (
    CONSUMER,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    ListedOffset,
    OffsetsHandler,
)

JUDGED: Final = (EARLIEST, LATEST, MAX_TIMESTAMP)
"""The special timestamps that are judged, besides every time."""


class Place(NamedTuple):
    """A record: where it is and when it was made."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: Epoch


NOWHERE: Final = Place(NO_OFFSET, -1, NO_EPOCH)


def watch_lookups(
    handler: OffsetsHandler, judge: Callable[[Replica, int, ListedOffset], None]
) -> None:
    """Call `judge` with the replica, the wanted timestamp and the answer, for each answer without
    an error that the handler gives a client from now on.
    """
    listed_offset = handler._listed_offset

    def watched(request: Any, partition: TopicPartition, part: Any) -> ListedOffset:
        answer = listed_offset(request, partition, part)
        replica = handler._replicas.find(partition)
        to_client = request.replica_id == CONSUMER and answer.error is ErrorCode.none
        if replica is not None and to_client:
            judge(replica, part.timestamp, answer)
        return answer

    vars(handler)["_listed_offset"] = watched


def check_lookup(replica: Replica, node: int, wanted_ms: int, answer: ListedOffset) -> None:
    """Raise InvariantBroken unless the answer is what the replica's log says.

    `wanted_ms` is a time in milliseconds since 1970, or one of Kafka's special timestamps. Raises
    CorruptBatch if the log is damaged.
    """
    if wanted_ms < 0 and wanted_ms not in JUDGED:
        return
    log, high_watermark = replica.log, replica.state.high_watermark
    got = Place(answer.offset, answer.timestamp_ms, Epoch(answer.leader_epoch))
    if wanted_ms in (EARLIEST, LATEST):
        end = log.start_offset if wanted_ms == EARLIEST else high_watermark
        right = Place(end, -1, got.leader_epoch)
    else:
        right = _first(log, wanted_ms)
        if right.offset >= high_watermark:
            right = NOWHERE
    if got != right:
        raise InvariantBroken(
            "lookups-find-the-first",
            f"{replica.partition}: node {node} answers {_text(got)} to a lookup of timestamp "
            f"{wanted_ms}, but its log from {log.start_offset} to the high watermark "
            f"{high_watermark} says {_text(right)}",
        )


def _first(log: Log, wanted_ms: int) -> Place:
    """Return the first record at or after a time, or the first one with the largest timestamp."""
    if wanted_ms == MAX_TIMESTAMP:
        return max(_places(log), key=lambda place: place.timestamp_ms, default=NOWHERE)
    return next((place for place in _places(log) if place.timestamp_ms >= wanted_ms), NOWHERE)


def _places(log: Log) -> Iterator[Place]:
    """Read every record of the log, in order."""
    for segment in log._segments.all:
        for position, header in segment.scan():
            for record in decoded(segment.file.pread(position, header.size)):
                if record.offset >= log.start_offset:
                    yield Place(record.offset, record.timestamp, header.partition_leader_epoch)


def _text(place: Place) -> str:
    return f"offset {place.offset} (timestamp {place.timestamp_ms}, epoch {place.leader_epoch})"
