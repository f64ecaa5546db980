"""A node that does not know yet that a topic is deleted goes on with its replicas."""

from uuid import UUID

import pytest

from harness.admin import topics
from harness.admin.client import AdminClient
from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.images import Images
from harness.simulation.invariants.partition_history import PartitionHistory
from harness.zoo.schedules.stage import TOPIC, MessageSchedule, Stage
from nodes.ids import Offset
from nodes.metadata.image import ClusterImage, TopicImage


def _run(*, knows_of_commits: bool = True) -> None:
    async def play(stage: Stage) -> None:
        await stage.make_topic([2], min_insync_replicas="1")
        await stage.send()
        stage.block_metadata(2, 1)
        async with AdminClient([stage.cluster.brokers[3]]) as admin:
            await topics.delete(admin, [TOPIC.topic])
        images = stage.invariants.images
        await stage.until("it is deleted", lambda: images.newest.partition(*TOPIC) is None)
        if not knows_of_commits:
            checker = stage.checker(2).replica_checkers[TOPIC]
            checker.partition.history = PartitionHistory("t-0")
            vars(checker)["_check_commit"] = lambda image, settled: None
        await stage.send(to=2)
        assert stage.copy(2).end == 2

    Stage(MessageSchedule(play=play, settles_s=0), 1).run()


def test_a_leader_that_does_not_know_of_the_deletion_may_acknowledge() -> None:
    """It has committed the record."""
    _run()


def test_what_such_a_leader_has_not_committed_is_still_found() -> None:
    """Its own record of the partition goes on."""
    with pytest.raises(InvariantBroken, match="acknowledged-is-committed"):
        _run(knows_of_commits=False)


def test_deleted_topics_are_known() -> None:
    """As soon as one node knows."""
    topic = TopicImage(name="t", topic_id=UUID(int=5), partitions={})
    images = Images()
    images.seen(1, ClusterImage(offset=Offset(5), topics={topic.topic_id: topic}))
    assert not images.deleted
    images.seen(2, ClusterImage(offset=Offset(6)))
    assert images.deleted == {topic.topic_id}


def test_a_restarted_nodes_replica_of_a_deleted_topic_is_not_judged() -> None:
    """What the others have done is not known any more."""

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        await stage.send()
        await stage.await_replication()
        stage.cluster.kill(4)
        await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
        images = stage.invariants.images
        images.deleted.add(images.newest.topic_ids[TOPIC.topic])
        stage.cluster.start(4)
        await stage.until("node 4 is back", lambda: 4 in stage.partition.isr)
        assert TOPIC not in stage.checker(4).replica_checkers
        assert TOPIC in stage.checker(3).replica_checkers

    Stage(MessageSchedule(play=play, settles_s=0), 1).run()
