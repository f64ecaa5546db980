"""The cluster image on every node: follows the committed metadata log, tells who wants to know.

Brokers without a controller role use it alone. Batches are applied whole and in order, each is told
to every subscriber before the next is applied, and the image never runs ahead of what is committed.
A snapshot replaces the image as a whole; subscribers are told how it differs from the one before.
A record that cannot be read stops the node's metadata where it is and is raised to the caller: a
broker that skipped it would act on an image that nobody else has.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from nodes.ids import Epoch, Offset
from nodes.metadata.image import ClusterImage, Delta
from nodes.metadata.records import decode, encode
from nodes.metadata.snapshot import difference, to_records
from nodes.raft.snapshot import Snapshot
from nodes.server.quorum.snapshot_writer import State

Subscriber = Callable[[ClusterImage, Delta], None]


class Committed(Protocol):
    """One committed batch of the metadata log; control batches carry no records here."""

    @property
    def last_offset(self) -> Offset:
        """The offset of the batch's last record."""
        ...

    @property
    def epoch(self) -> Epoch:
        """The quorum epoch that wrote the batch."""
        ...

    @property
    def records(self) -> Sequence[bytes]:
        """The values of the batch's records."""
        ...


class MetadataPublisher:
    """A listener of the quorum node; must be registered before a ControllerShell."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self._subscribers: list[Subscriber] = []

    @property
    def image(self) -> ClusterImage:
        """The image after the last committed batch delivered here."""
        return self._image

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(image, delta)` after every batch from now on, on the loop.

        Also for batches that changed nothing but the offset: brokers report how far they are.
        """
        self._subscribers.append(subscriber)

    def state(self) -> State:
        """The image, for a snapshot of it."""
        image = self._image
        records = (encode(record) for record in to_records(image))
        return State(image.offset, image.epoch, records)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Take the snapshot's image for the one that was, and tell what differs. Raises
        MetadataError."""
        offset, epoch = snapshot.snapshot_id
        records = [decode(value) for value in snapshot.records]
        before = self._image
        self._image, _ = ClusterImage().apply(records, Offset(offset - 1), epoch)
        delta = difference(before, self._image)
        for subscriber in self._subscribers:
            subscriber(self._image, delta)

    def on_commit(self, batches: Sequence[Committed]) -> None:
        """Apply committed batches in order. Raises MetadataError."""
        for batch in batches:
            records = [decode(value) for value in batch.records]
            self._image, delta = self._image.apply(records, batch.last_offset, batch.epoch)
            for subscriber in self._subscribers:
                subscriber(self._image, delta)

    def on_active(self, epoch: Epoch) -> None:
        """Nothing to do: the image does not depend on who leads."""

    def on_inactive(self, epoch: Epoch) -> None:
        """Nothing to do: the image does not depend on who leads."""
