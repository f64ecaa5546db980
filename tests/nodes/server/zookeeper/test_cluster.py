"""Three brokers with ZooKeeper: they elect a controller, serve, and survive what a cluster must."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from harness.admin import configs, reassignments, topics
from harness.zoo.schedules.load import make_topics
from harness.zoo.schedules.old_plane import BROKERS, OldPlaneStage
from nodes.ids import NodeId, TopicPartition
from nodes.server.zookeeper.commits import MAX_NOTICES
from nodes.wire.controller_requests import LeaderAndIsrRequest
from nodes.zookeeper import requests, znodes

SEEDS = range(3)


async def write(cluster: OldPlaneStage, count: int = 5, partitions: int = 1) -> None:
    for _ in range(count):
        for number in range(partitions):
            await cluster.client.send_until_acked("t", number)


async def assert_nothing_is_lost(cluster: OldPlaneStage, partitions: int = 1) -> None:
    for number in range(partitions):
        cluster.client.leaders.clear()
        await cluster.client.send_until_acked("t", number)
        read = await cluster.client.read("t", number)
        assert set(cluster.client.acked["t", number]) <= set(read)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_brokers_elect_a_controller_and_serve(seed: int, batched: bool) -> None:
    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 4})
        assert cluster.controller in BROKERS
        assert cluster.state("t").isr == tuple(cluster.state("t").isr)
        await write(cluster, partitions=4)
        await assert_nothing_is_lost(cluster, partitions=4)

    OldPlaneStage(seed, {"control.batched": batched}).run(main)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_killed_controller_is_replaced_and_comes_back(seed: int, batched: bool) -> None:
    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 4})
        await write(cluster, partitions=4)
        first = cluster.controller
        assert first is not None
        cluster.cluster.kill(first)
        await cluster.until("another controller", lambda: cluster.controller not in (None, first))
        await cluster.until(
            "other leaders", lambda: all(cluster.state("t", n).leader != first for n in range(4))
        )
        cluster.client.leaders.clear()
        await write(cluster, partitions=4)
        cluster.cluster.start(first)
        await cluster.until_in_sync("t", 4)
        await assert_nothing_is_lost(cluster, partitions=4)

    OldPlaneStage(seed, {"control.batched": batched}).run(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_controller_whose_session_expires_resigns_and_registers_again(seed: int) -> None:
    """A paused controller is replaced. When it continues, it writes nothing and is a broker."""

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 4})
        await write(cluster, partitions=4)
        first = cluster.controller
        assert first is not None
        before = cluster.tree.get(f"/brokers/ids/{first}")[1].czxid
        cluster.cluster.nodes[first].hold("test")
        await cluster.until("another controller", lambda: cluster.controller not in (None, first))
        cluster.client.leaders.clear()
        await write(cluster, partitions=4)
        cluster.cluster.nodes[first].release("test")
        await cluster.until_in_sync("t", 4)
        assert cluster.tree.get(f"/brokers/ids/{first}")[1].czxid > before
        assert cluster.controller != first
        await assert_nothing_is_lost(cluster, partitions=4)

    OldPlaneStage(seed, {}).run(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_broker_whose_session_expires_while_it_starts_begins_another(seed: int) -> None:
    """It once ended with a message that said to start ZooKeeper first."""

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 4})
        await write(cluster, partitions=4)
        cluster.cluster.kill(1)
        cluster.cluster.start(1)
        await asyncio.sleep(0.005)  # it looks for the cluster's znodes, a millisecond each
        cluster.ensemble.cut(1)
        await asyncio.sleep(10.0)
        cluster.ensemble.heal(1)
        await cluster.until_in_sync("t", 4)
        await assert_nothing_is_lost(cluster, partitions=4)

    OldPlaneStage(seed, {}).run(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_leader_that_is_cut_off_from_zookeeper_loses_nothing_acknowledged(seed: int) -> None:
    """It serves on, but its followers follow the next leader, so nothing is committed there."""

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 1})
        await write(cluster)
        leader = cluster.state("t").leader
        cluster.ensemble.cut(leader)
        await cluster.until("another leader", lambda: cluster.state("t").leader not in (-1, leader))
        cluster.client.leaders["t", 0] = leader
        assert not await cluster.client.send("t", 0, -1)
        for _ in range(5):
            cluster.client.leaders["t", 0] = cluster.state("t").leader
            assert await cluster.client.send("t", 0, -1)
        cluster.ensemble.heal(leader)
        await cluster.until_in_sync("t")
        await assert_nothing_is_lost(cluster)

    OldPlaneStage(seed, {}).run(main)


def test_isr_shrinks_and_grows_in_the_state_of_the_partition() -> None:
    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 1})
        await write(cluster)
        leader = cluster.state("t").leader
        follower = next(n for n in BROKERS if n not in (leader, cluster.controller))
        epoch = cluster.state("t").leader_epoch
        cluster.ensemble.cut(follower)  # its session must live on
        cluster.ensemble.heal(follower)
        host = cluster.cluster.nodes[follower]
        for _ in range(20):  # slow, but not silent
            host.hold("test")
            await asyncio.sleep(0.5)
            host.release("test")
            await asyncio.sleep(0.0001)
            if follower not in cluster.state("t").isr:
                break
        assert follower not in cluster.state("t").isr
        await cluster.until_in_sync("t")
        assert cluster.state("t").leader == leader
        assert cluster.state("t").leader_epoch >= epoch
        await cluster.until(
            "the notices are gone", lambda: not cluster.tree.children("/isr_change_notification")
        )

    OldPlaneStage(1, {"replica.lag.time.max.ms": 300}).run(main)


def test_deletion_waits_for_the_broker_that_is_down() -> None:
    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 2, "u": 1})
        down = next(n for n in BROKERS if n != cluster.controller)
        cluster.cluster.kill(down)
        await cluster.until("it is gone", lambda: f"/brokers/ids/{down}" not in cluster.tree.znodes)
        async with cluster.admin() as admin:
            deleting = asyncio.ensure_future(topics.delete(admin, ["t"]))
            await asyncio.sleep(2)
            assert "/admin/delete_topics/t" in cluster.tree.znodes
            assert "/brokers/topics/t" in cluster.tree.znodes
            cluster.cluster.start(down)
            await cluster.until(
                "it is deleted", lambda: "/brokers/topics/t" not in cluster.tree.znodes
            )
            deleting.cancel()
        assert not cluster.tree.children("/admin/delete_topics")
        assert all(cluster.hosts_nothing(node, "t") for node in BROKERS)
        await cluster.until_in_sync("u")

    OldPlaneStage(2, {}).run(main)


@pytest.mark.parametrize("batched", [True, False])
def test_controlled_shutdown_moves_the_leaderships_first(batched: bool) -> None:
    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 6})
        await write(cluster, partitions=6)
        leaving = next(
            n
            for n in BROKERS
            if n != cluster.controller and any(cluster.state("t", p).leader == n for p in range(6))
        )
        led: list[int] = []

        def gone() -> None:
            led.extend(p for p in range(6) if leaving in cluster.state("t", p).isr)

        cluster.tree.exists(f"/brokers/ids/{leaving}", gone)
        cluster.cluster.nodes[leaving].terminate()
        await cluster.until("it has ended", lambda: not cluster.cluster.nodes[leaving].running)
        assert cluster.cluster.nodes[leaving].exit_code == 0
        await cluster.until(
            "its session ends", lambda: f"/brokers/ids/{leaving}" not in cluster.tree.znodes
        )
        assert led == []
        cluster.client.leaders.clear()
        await write(cluster, partitions=6)

    OldPlaneStage(3, {"control.batched": batched}).run(main)


def test_reassignment_moves_the_replicas_and_ends() -> None:
    async def main(cluster: OldPlaneStage) -> None:
        async with cluster.admin() as admin:
            await make_topics(cluster.cluster, {"u": 1})
            await topics.create(admin, "t", assignment=[[1, 2]])
            await cluster.until_in_sync("t", count=2)
            await write(cluster)
            moved = TopicPartition("t", 0)
            assert await reassignments.alter(admin, {moved: (3, 2)}) == {}

            def done() -> bool:
                assignment = znodes.read_topic(cluster.tree.get("/brokers/topics/t")[0]).partitions[
                    0
                ]
                return assignment == znodes.Assignment(replicas=(NodeId(3), NodeId(2)))

            await cluster.until("the reassignment ends", done)
            assert 1 not in cluster.state("t").isr
            await cluster.until("it is removed", lambda: cluster.hosts_nothing(1, "t"))
            assert await reassignments.ongoing(admin) == {}
        await assert_nothing_is_lost(cluster)

    OldPlaneStage(4, {}).run(main)


def test_configuration_reaches_every_broker() -> None:
    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 1})
        async with cluster.admin() as admin:
            resource = configs.topic("t")
            await configs.alter(admin, {resource: {"retention.ms": "12345"}})

        def taken() -> bool:
            images = [
                made.broker.replicas.image for made in cluster.running.values() if made.broker
            ]
            return all(image.topic_config("t").get("retention.ms") == "12345" for image in images)

        await cluster.until("all have it", taken)
        stored = znodes.read_config(cluster.tree.get("/config/topics/t")[0])
        assert stored == {"retention.ms": "12345", "min.insync.replicas": "2"}

    OldPlaneStage(5, {}).run(main)


def test_broker_that_comes_back_at_once_is_not_missed() -> None:
    """It has another epoch, although its znode was there at every look (KAFKA-1120, KIP-380)."""

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 3})
        await write(cluster, partitions=3)
        bounced = next(n for n in BROKERS if n != cluster.controller)
        controller = cluster.cluster.nodes[cluster.controller or 0]
        controller.hold("test")
        cluster.cluster.kill(bounced)
        path = f"/brokers/ids/{bounced}"
        epoch = cluster.tree.get(path)[1].czxid
        cluster.tree.delete(path)
        cluster.cluster.start(bounced)
        await cluster.until("it is back", lambda: path in cluster.tree.znodes)
        assert cluster.tree.get(path)[1].czxid > epoch
        controller.release("test")
        await cluster.until("it serves", lambda: cluster.active(bounced))
        await cluster.until_in_sync("t", 3)
        await assert_nothing_is_lost(cluster, partitions=3)

    OldPlaneStage(6, {"zookeeper.session.timeout.ms": 6000}).run(main)


def test_request_of_a_deposed_controller_is_refused() -> None:
    """Its write fails at the controller epoch, and brokers refuse what it sends."""

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 1})
        broker = next(n for n in BROKERS if n != cluster.controller)
        epoch = znodes.read_controller_epoch(cluster.tree.get("/controller_epoch")[0])
        for controller_epoch, broker_epoch, expected in (
            (epoch - 1, 1 << 40, ErrorCode.stale_controller_epoch),
            (epoch, 0, ErrorCode.stale_broker_epoch),
        ):
            answer = await cluster.client.channel(broker).request(
                LeaderAndIsrRequest(
                    controller_id=9,
                    controller_epoch=controller_epoch,
                    broker_epoch=broker_epoch,
                    topic_states=(),
                )
            )
            assert answer.error_code is expected

    OldPlaneStage(7, {}).run(main)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_lost_answers_leave_no_topic_half_made(seed: int, batched: bool) -> None:
    """The controller's connection breaks again and again while it creates a topic."""

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"u": 1})
        controller = cluster.controller
        assert controller is not None
        rng = cluster.world.stream("cuts")
        async with cluster.admin() as admin:
            creating = asyncio.ensure_future(
                topics.create(admin, "t", partitions=40, replication_factor=3)
            )
            for _ in range(12):
                await asyncio.sleep(rng.random() * 0.02)
                cluster.ensemble.cut(controller)
                await asyncio.sleep(0.01)
                cluster.ensemble.heal(controller)
            await creating
        await cluster.until_in_sync("t", 40)
        assert cluster.controller == controller
        made = znodes.read_topic(cluster.tree.get("/brokers/topics/t")[0]).topic_id
        await cluster.until(
            "all know it",
            lambda: all(
                made in cluster.image(node).topics
                and len(cluster.image(node).topics[made].partitions) == 40
                for node in BROKERS
            ),
        )

    OldPlaneStage(seed, {"control.batched": batched}).run(main)


def test_old_notices_of_configurations_are_removed() -> None:
    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 1})
        for _ in range(MAX_NOTICES + 5):
            notice = znodes.config_change("topics/t")
            cluster.tree.create("/config/changes/config_change_", notice, sequence=True)
        async with cluster.admin() as admin:
            await configs.alter(admin, {configs.topic("t"): {"retention.ms": "1"}})
        names = cluster.tree.children("/config/changes")
        assert len(names) == MAX_NOTICES

    OldPlaneStage(8, {}).run(main)


def test_killed_broker_that_starts_at_once_waits_for_the_end_of_its_old_session() -> None:
    """Its old znode is still there, and would take the registration away with it."""

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 3})
        await write(cluster, partitions=3)
        node = next(n for n in BROKERS if n != cluster.controller)
        path = f"/brokers/ids/{node}"
        epoch = cluster.tree.get(path)[1].czxid
        cluster.cluster.kill(node)
        cluster.cluster.start(node)
        await asyncio.sleep(3)
        assert cluster.tree.get(path)[1].czxid > epoch
        await cluster.until_in_sync("t", 3)
        await assert_nothing_is_lost(cluster, partitions=3)

    OldPlaneStage(9, {}).run(main)


def test_restarted_broker_keeps_the_logs_that_a_later_request_names(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only after the last request of the controller does it know which logs belong to nobody."""
    monkeypatch.setattr(requests, "MAX_PARTITIONS", 2)
    caplog.set_level("INFO", logger="nodes.replicas")

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 7})
        await write(cluster, partitions=7)
        node = next(n for n in BROKERS if n != cluster.controller)
        cluster.cluster.nodes[node].terminate()
        await cluster.until("it has ended", lambda: not cluster.cluster.nodes[node].running)
        cluster.cluster.start(node)
        await cluster.until_in_sync("t", 7)
        await cluster.until("it serves", lambda: cluster.active(node))

    OldPlaneStage(10, {}).run(main)
    assert "is not assigned to this node" not in caplog.text


def test_leader_whose_write_was_made_but_not_answered_goes_on() -> None:
    """It writes again, is refused, and finds its own state: the ISR may grow again later."""

    async def main(cluster: OldPlaneStage) -> None:
        first, second, controller = await cluster.order()
        await cluster.make_topic([first, second, controller])
        await write(cluster)
        cut: list[int] = []

        def written() -> None:
            cut.append(first)
            cluster.ensemble.cut(first)

        cluster.tree.exists("/brokers/topics/t/partitions/0/state", written)
        cluster.isolate(second)
        cluster.client.leaders["t", 0] = first
        sending = asyncio.ensure_future(cluster.client.send("t", 0, -1))
        await cluster.until("its write was made", lambda: cut == [first])
        assert second not in cluster.state().isr
        await asyncio.sleep(0.1)
        cluster.ensemble.heal(first)
        await sending
        await cluster.settle()

    OldPlaneStage(11, {}).run(main)


@pytest.mark.parametrize("out_s", [0.5, 3])
def test_brokers_serve_on_while_zookeeper_is_not_reachable(out_s: float) -> None:
    """Shorter and longer than a session; afterwards there is a controller again."""

    async def main(cluster: OldPlaneStage) -> None:
        await make_topics(cluster.cluster, {"t": 3})
        for node in BROKERS:
            cluster.ensemble.cut(node)
        until_s = asyncio.get_running_loop().time() + out_s
        while asyncio.get_running_loop().time() < until_s:
            await write(cluster, count=1, partitions=3)
            await asyncio.sleep(0.1)
        for node in BROKERS:
            cluster.ensemble.heal(node)
        await cluster.until("a controller", lambda: cluster.controller is not None)
        await cluster.until_in_sync("t", 3)
        async with cluster.admin() as admin:
            await topics.create(admin, "later", partitions=1, replication_factor=3)
        await cluster.until_in_sync("later")
        await assert_nothing_is_lost(cluster, partitions=3)

    OldPlaneStage(12, {}).run(main)
