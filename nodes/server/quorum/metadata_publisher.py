"""The cluster image on every node: it follows the committed metadata log and notifies subscribers.

Batches are applied whole and in order, each is published to every subscriber before the next one is
applied, and the image never has anything that is not committed. A snapshot replaces the image as a
whole; subscribers get the difference to the image before. A record that cannot be read stops the
image and is raised to the caller: a broker that skipped it would act on an image that no other node
has.
"""

from collections.abc import Callable, Sequence

from nodes.ids import Epoch, Offset
from nodes.metadata.image import ClusterImage, Delta
from nodes.metadata.records import decode, encode
from nodes.metadata.snapshot import difference, to_records
from nodes.raft.snapshot import Snapshot
from nodes.server.quorum.delivery import CommittedBatch
from nodes.server.quorum.snapshot_writer import SnapshotContent

Subscriber = Callable[[ClusterImage, Delta], None]


class MetadataPublisher:
    """A listener of the quorum node; it must be registered before a QuorumController."""

    def __init__(self) -> None:
        self._image = ClusterImage()
        self._subscribers: list[Subscriber] = []

    @property
    def image(self) -> ClusterImage:
        """The image after the last batch that was delivered."""
        return self._image

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(image, delta)` after every batch from now on, on the loop.

        It is also called for batches that changed only the offset, because brokers report it.
        """
        self._subscribers.append(subscriber)

    def snapshot_content(self) -> SnapshotContent:
        """The image, for a snapshot of it."""
        image = self._image
        records = (encode(record) for record in to_records(image))
        return SnapshotContent(image.offset, image.epoch, records)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the image by the snapshot's, and publish the difference. Raises MetadataError."""
        offset, epoch = snapshot.snapshot_id
        records = [decode(value) for value in snapshot.records]
        before = self._image
        self._image, _ = ClusterImage().apply(records, Offset(offset - 1), epoch)
        delta = difference(before, self._image)
        for subscriber in self._subscribers:
            subscriber(self._image, delta)

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Apply committed batches in order. Raises MetadataError."""
        for batch in batches:
            records = [decode(value) for value in batch.records]
            self._image, delta = self._image.apply(records, batch.last_offset, batch.epoch)
            for subscriber in self._subscribers:
                subscriber(self._image, delta)

    def on_active(self, epoch: Epoch) -> None:
        """Nothing to do: the image does not depend on the leader."""

    def on_inactive(self, epoch: Epoch) -> None:
        """Nothing to do: the image does not depend on the leader."""
