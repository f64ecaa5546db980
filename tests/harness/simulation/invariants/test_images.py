"""Images that differ between two nodes are found, also for a moment, and after a snapshot."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.images import Images, Partition
from harness.simulation.invariants.partition_history import NEVER
from harness.zoo.schedules.stage import MessageSchedule, Stage
from nodes.ids import NO_NODE, Epoch, NodeId, Offset
from nodes.metadata import snapshot
from nodes.metadata.image import ClusterImage, ConfigResource, PartitionImage, TopicImage
from nodes.metadata.records import MetadataRecord, NoOpRecord, RegisterBrokerRecord
from nodes.server.quorum import metadata_publisher

PARTITION = PartitionImage(
    replicas=(NodeId(1),),
    isr=(),
    elr=(NodeId(1),),
    leader=NO_NODE,
    leader_epoch=Epoch(0),
    partition_epoch=0,
)


def image(*partitions: int) -> ClusterImage:
    """One topic with these partitions, in this order."""
    topic = TopicImage(
        name="t", topic_id=UUID(int=5), partitions=dict.fromkeys(partitions, PARTITION)
    )
    return ClusterImage(offset=Offset(5), topics={topic.topic_id: topic})


def configured(*names: str) -> ClusterImage:
    """Topics with a configuration, in this order."""
    return ClusterImage(
        offset=Offset(5), configs={ConfigResource(2, name): {"a": "1"} for name in names}
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (image(0, 1), image(1, 0)),
        (configured("a", "b"), configured("b", "a")),
        (image(0), replace(image(0), transaction=(NoOpRecord(),))),
    ],
    ids=["partitions", "configurations", "transaction"],
)
def test_order_and_open_transaction_are_part_of_an_image(
    one: ClusterImage, other: ClusterImage
) -> None:
    """The controller decides by the order of the tables."""
    images = Images()
    images.seen(1, one)
    images.seen(2, replace(one))
    with pytest.raises(InvariantBroken, match=r"^equal-images: node 3"):
        images.seen(3, other)


def test_image_that_was_wrong_within_one_event_breaks_equal_images() -> None:
    """Each batch of the metadata makes an image, and one event may have several."""

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        publisher = stage.checker(3)._publisher
        assert publisher is not None
        right = publisher.image
        publisher._image = replace(right, features={})
        publisher._image = right
        await asyncio.sleep(0.1)

    with pytest.raises(InvariantBroken, match=r"^equal-images: node 3"):
        Stage(MessageSchedule(play=play, settles_s=0), 1).run()


def _brokers_reversed(source: ClusterImage) -> Iterator[MetadataRecord]:
    records = list(snapshot.to_records(source))
    brokers = [each for each in records if isinstance(each, RegisterBrokerRecord)]
    for each in records:
        yield brokers.pop() if isinstance(each, RegisterBrokerRecord) else each


@pytest.mark.parametrize("reverse", [False, True])
def test_snapshot_must_make_the_image_of_the_log(
    monkeypatch: pytest.MonkeyPatch, *, reverse: bool
) -> None:
    """A node that starts from a snapshot has the image that others have from the whole log."""
    starts: list[Offset] = []

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        if reverse:
            monkeypatch.setattr(metadata_publisher, "to_records", _brokers_reversed)
        for _ in range(3):
            stage.cluster.kill(3)
            await stage.until("node 3 is out", lambda: 3 not in stage.partition.isr)
            stage.cluster.start(3)
            await stage.until("node 3 is back", lambda: 3 in stage.partition.isr)
        starts.append(stage.metadata(3).start)

    overrides = {
        "metadata.log.max.record.bytes.between.snapshots": 200,
        "broker.session.timeout.ms": 1_000,
    }
    stage = Stage(MessageSchedule(play=play, overrides=overrides, settles_s=0), 1)
    if reverse:
        with pytest.raises(InvariantBroken, match=r"^equal-images: node 3.* another order"):
            stage.run()
    else:
        stage.run()
        assert starts[0] > 0, "node 3 has no snapshot"


def test_a_leader_by_an_unclean_election_may_hear_of_it_late() -> None:
    """Only if a later unclean election is judged already, and only from the first one on."""
    partition = Partition("t-0")
    partition.unclean = {3: False, 4: False}
    partition.history.ignore_leaders_before(4)
    assert not partition.is_past_unclean_leader(3)
    partition.judged_epoch = 4
    assert partition.is_past_unclean_leader(3)
    assert not partition.is_past_unclean_leader(2)
    assert not partition.is_past_unclean_leader(4)


@pytest.mark.parametrize(
    ("leads_in", "knows", "may"),
    [(1, 3, True), (1, NEVER, True), (1, 2, False), (3, 3, False)],
    ids=["follows", "started anew", "has not heard", "leader has heard"],
)
def test_a_member_may_truncate_before_its_leader_hears_of_an_unclean_election(
    leads_in: int, knows: int, *, may: bool
) -> None:
    """The election began epoch 3."""
    partition = Partition("t-0")
    partition.history.ignore_leaders_before(3)
    member = partition.copy(1)
    member.epoch = knows
    assert partition.may_have_truncated(member, leads_in) is may
