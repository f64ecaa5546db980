"""Administration with ZooKeeper: what clients ask, and what old tools write by themselves."""

import asyncio
import json
from uuid import UUID

from harness.admin import configs, reassignments, topics
from harness.zoo.schedules.load import make_topics
from harness.zoo.schedules.old_plane import BROKERS, OldPlaneStage
from nodes.ids import NodeId, TopicPartition
from nodes.zookeeper import paths, znodes
from nodes.zookeeper.znodes import Assignment, TopicZnode


def test_reassignment_that_an_old_tool_wrote_is_carried_out() -> None:
    """Tools before KIP-455 write a znode, which the controller removes."""

    async def main(cluster: OldPlaneStage) -> None:
        first, second, controller = await cluster.order()
        await cluster.make_topic([first, second])
        row = {"topic": "t", "partition": 0, "replicas": [controller, second]}
        wanted = json.dumps({"version": 1, "partitions": [row]}).encode()
        cluster.tree.create(paths.REASSIGN_PARTITIONS, wanted)

        def moved() -> bool:
            found = znodes.read_topic(cluster.tree.get(paths.topic("t"))[0]).partitions[0]
            return found == Assignment(replicas=(NodeId(controller), NodeId(second)))

        await cluster.until("it has moved", moved)
        await cluster.until(
            "the request is gone", lambda: paths.REASSIGN_PARTITIONS not in cluster.tree.znodes
        )

    OldPlaneStage(1, {}).run(main)


def test_topic_that_a_tool_wrote_gets_leaders() -> None:
    """The tool writes the assignment alone; one partition waits for its broker."""

    async def main(cluster: OldPlaneStage) -> None:
        first, second, controller = await cluster.order()
        await make_topics(cluster.cluster, {"u": 1})
        cluster.cluster.kill(first)
        await cluster.until("it is gone", lambda: paths.broker(first) not in cluster.tree.znodes)
        rows = {
            0: Assignment(replicas=(NodeId(second), NodeId(controller))),
            1: Assignment(replicas=(NodeId(first),)),
        }
        written = znodes.topic(TopicZnode(topic_id=UUID(int=77), partitions=rows))
        cluster.tree.create(paths.topic("t"), written)
        await cluster.until("it has a leader", lambda: paths.state("t", 0) in cluster.tree.znodes)
        assert cluster.state("t", 0).leader == second
        assert paths.state("t", 1) not in cluster.tree.znodes
        cluster.cluster.start(first)
        await cluster.until("the other", lambda: paths.state("t", 1) in cluster.tree.znodes)

        def known() -> bool:
            found = [cluster.image(node).topics.get(UUID(int=77)) for node in BROKERS]
            return all(topic is not None and len(topic.partitions) == 2 for topic in found)

        await cluster.until("all know it", known)

    OldPlaneStage(2, {}).run(main)


def test_partitions_are_added_and_preferred_leaders_elected() -> None:
    async def main(cluster: OldPlaneStage) -> None:
        first, second, controller = await cluster.order()
        await cluster.make_topic([first, second, controller])
        async with cluster.admin() as admin:
            await topics.grow(admin, "t", 3)
            await cluster.until_in_sync("t", 3)
            cluster.cluster.kill(first)
            await cluster.until("another leads", lambda: cluster.state().leader not in (-1, first))
            cluster.cluster.start(first)
            await cluster.until_in_sync("t", 3)
            assert cluster.state().leader != first
            await reassignments.elect(admin, reassignments.PREFERRED, [TopicPartition("t", 0)])
            assert cluster.state().leader == first
            assert cluster.state().leader_epoch == 2

    OldPlaneStage(3, {}).run(main)


def test_unclean_election_is_made_when_the_topic_allows_it() -> None:
    """The last member of the ISR is down. Whoever is live leads once the setting is there."""

    async def main(cluster: OldPlaneStage) -> None:
        first, second, _ = await cluster.order()
        await cluster.make_topic([first, second])
        cluster.cluster.kill(second)
        await cluster.until("it has left", lambda: cluster.state().isr == (first,))
        cluster.cluster.kill(first)
        await cluster.until("nobody leads", lambda: cluster.state().leader == -1)
        assert cluster.state().isr == (first,)
        cluster.cluster.start(second)
        await cluster.until("it is back", lambda: cluster.active(second))
        await asyncio.sleep(1)
        assert cluster.state().leader == -1
        async with cluster.admin() as admin:
            allowed = {"unclean.leader.election.enable": "true"}
            await configs.alter(admin, {configs.topic("t"): allowed})
        await cluster.until("it leads", lambda: cluster.state().leader == second)
        assert cluster.state().isr == (second,)

    OldPlaneStage(4, {}).run(main)
