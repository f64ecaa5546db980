"""The publisher: committed batches become images, one after the other."""

from dataclasses import dataclass
from uuid import UUID

import pytest

from nodes.ids import NO_OFFSET, Epoch, Offset
from nodes.metadata.errors import MetadataError
from nodes.metadata.image import ClusterImage, Delta
from nodes.metadata.records import MetadataRecord, TopicRecord, encode
from nodes.server.quorum.metadata_publisher import MetadataPublisher


@dataclass(frozen=True)
class Batch:
    """A committed batch as the quorum node delivers it."""

    last_offset: Offset
    epoch: Epoch
    records: tuple[bytes, ...]


def batch(last_offset: int, *records: MetadataRecord, epoch: int = 1) -> Batch:
    """A batch that ends at `last_offset`."""
    return Batch(Offset(last_offset), Epoch(epoch), tuple(map(encode, records)))


def topic(number: int) -> TopicRecord:
    """A record to apply."""
    return TopicRecord(name=f"t{number}", topic_id=UUID(int=number))


def test_each_batch_is_published_before_the_next_is_applied() -> None:
    """Subscribers see every image once, in order, with its changes."""
    publisher = MetadataPublisher()
    seen: list[tuple[int, list[str], int]] = []

    def note(image: ClusterImage, delta: Delta) -> None:
        assert publisher.image is image
        seen.append((image.offset, sorted(image.topic_ids), len(delta.topics)))

    publisher.subscribe(note)
    publisher.on_commit([batch(1, topic(1)), batch(3, topic(2), topic(3))])
    assert seen == [(1, ["t1"], 1), (3, ["t1", "t2", "t3"], 2)]
    assert publisher.image.epoch == 1


def test_batch_without_records_advances_the_offset() -> None:
    """A leader change of the quorum is a control batch, and counts in the offset."""
    publisher = MetadataPublisher()
    assert publisher.image.offset == NO_OFFSET
    told: list[Delta] = []
    publisher.subscribe(lambda image, delta: told.append(delta))
    publisher.on_commit([batch(0, epoch=4)])
    assert (publisher.image.offset, publisher.image.epoch) == (0, 4)
    assert [bool(delta) for delta in told] == [False]


def test_unreadable_record_stops_the_image() -> None:
    """The batch is not applied in part, and no subscriber is called."""
    publisher = MetadataPublisher()
    publisher.on_commit([batch(0, topic(1))])
    before = publisher.image
    publisher.subscribe(lambda image, delta: pytest.fail("told of a damaged batch"))
    damaged = Batch(Offset(2), Epoch(1), (encode(topic(2)), b"\x01\x63\x00"))
    with pytest.raises(MetadataError, match="unknown type 99"):
        publisher.on_commit([damaged])
    assert publisher.image is before
