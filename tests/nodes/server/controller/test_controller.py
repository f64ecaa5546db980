"""QuorumController: responds only after the commit, and refuses when it does not lead."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller import controller as decisions
from nodes.controller import elections
from nodes.ids import NodeId, Offset
from nodes.server.controller import controller as quorum_controller
from nodes.server.controller.controller import TICK_MS
from tests.support.nodes.controller_node import ME, OTHER, Node, in_loop


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@in_loop
async def test_registered_broker_is_unfenced_after_a_heartbeat(node: Node) -> None:
    """The broker epoch is the offset of the registration in the log."""
    answer = await node.register(1)
    assert answer.error_code is ErrorCode.none
    assert answer.broker_epoch == node.publisher.image.offset
    answer = await node.beat(1, answer.broker_epoch)
    assert answer.error_code is ErrorCode.none
    assert (answer.is_fenced, answer.is_caught_up) == (False, True)
    assert node.publisher.image.active(ME)
    assert node.publisher.image == node.controller.image


@in_loop
async def test_broker_epoch_counts_the_control_records_of_the_quorum(node: Node) -> None:
    """A smaller epoch would let the broker act before it knows what its registration changed."""
    for _ in range(3):
        node.quorum.change_voters()
    answer = await node.register(1)
    assert answer.broker_epoch == node.publisher.image.offset == node.quorum.end_offset - 1
    assert node.publisher.image.brokers[ME].epoch == answer.broker_epoch


@in_loop
async def test_controller_responds_only_after_the_commit(node: Node) -> None:
    """This holds also for later requests that were decided on it: an unchanged repetition, a
    refusal."""
    node.quorum.auto_commit = False
    first = asyncio.ensure_future(node.register(1))
    await _settle()
    again = asyncio.ensure_future(node.register(1))
    other = asyncio.ensure_future(node.register(1, incarnation=9))
    await _settle()
    assert not first.done()
    assert not again.done()
    assert not other.done()
    assert len(node.quorum.uncommitted) == 1
    assert node.publisher.image.brokers == {}
    node.quorum.commit()
    assert (await first).broker_epoch == (await again).broker_epoch > 0
    assert (await other).error_code is ErrorCode.duplicate_broker_registration


@in_loop
async def test_lost_leadership_fails_requests_that_wait(node: Node) -> None:
    """With NOT_CONTROLLER; the next leadership does not have their records either."""
    node.quorum.auto_commit = False
    waiting = [asyncio.ensure_future(node.register(number)) for number in (1, 2, 3)]
    await _settle()
    node.quorum.follow(OTHER)
    for answer in waiting:
        assert (await answer).error_code is ErrorCode.not_controller
    assert not node.controller.active
    node.quorum.lead()
    assert node.controller.image.brokers == {}
    assert (await node.beat(1, 1)).error_code is ErrorCode.stale_broker_epoch
    node.quorum.auto_commit = True
    assert (await node.register(1)).error_code is ErrorCode.none


@in_loop
async def test_every_request_is_refused_while_another_node_leads(node: Node) -> None:
    """With NOT_CONTROLLER, wherever the response has a field for it."""
    node.quorum.follow(OTHER)
    refused = ErrorCode.not_controller
    assert (await node.register(1)).error_code is refused
    assert (await node.beat(1, 1)).error_code is refused
    assert (await node.create()).error_code is refused
    assert (await node.ask(56, 3, broker_id=1, broker_epoch=1)).error_code is refused
    assert (await node.ask(64, 0, broker_id=1)).error_code is refused
    assert (await node.ask(67, 0, broker_id=1, broker_epoch=1)).error_code is refused


@in_loop
async def test_append_after_an_unnoticed_leadership_loss_is_refused(node: Node) -> None:
    """The quorum knows first, and refuses to append."""
    node.quorum.leader_id = OTHER
    assert (await node.register(1)).error_code is ErrorCode.not_controller
    assert node.controller.image.brokers == {}


@in_loop
async def test_topics_are_created_in_every_version(node: Node) -> None:
    """Each version gets the fields it has."""
    await node.brokers(2)
    for version in range(2, 8):
        topic = await node.create(
            version,
            name=f"t{version}",
            num_partitions=3,
            replication_factor=2,
            configs=[{"name": "retention.ms", "value": "5"}],
        )
        assert topic.error_code is ErrorCode.none
        if version >= 5:
            assert (topic.num_partitions, topic.replication_factor) == (3, 2)
            configs = {config.name: config for config in topic.configs}
            assert configs["retention.ms"].value == "5"
            assert configs["retention.ms"].config_source == 1
            assert configs["segment.bytes"].config_source == 5
        if version >= 7:
            assert topic.topic_id == node.publisher.image.topic_ids[f"t{version}"]
    assert len(node.publisher.image.topics) == 6
    taken = await node.create(name="t2")
    assert taken.error_code is ErrorCode.topic_already_exists
    assert "t2" in taken.error_message
    placed = {"num_partitions": -1, "replication_factor": -1}
    by_hand = await node.create(
        name="hand", assignments=[{"partition_index": 0, "broker_ids": [2, 1]}], **placed
    )
    assert by_hand.error_code is ErrorCode.none
    partition = node.publisher.image.partition("hand", 0)
    assert partition is not None
    assert partition.replicas == (2, 1)


@in_loop
async def test_create_topics_times_out_when_the_commit_takes_too_long(node: Node) -> None:
    """The topic may still be created later."""
    await node.brokers(1)
    node.quorum.auto_commit = False
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
    answer = await node.ask(19, 7, topics=topics, timeout=timedelta(milliseconds=10))
    assert answer.topics[0].error_code is ErrorCode.request_timed_out
    node.quorum.commit()
    assert node.publisher.image.topic("t") is not None


@in_loop
async def test_alter_partition_changes_the_isr(node: Node) -> None:
    """AlterPartition: one result for each partition, in the order of the request."""
    epochs = await node.brokers(2)
    await node.create(replication_factor=2)
    partition = node.publisher.image.partition("t", 0)
    assert partition is not None
    topic_id = node.publisher.image.topic_ids["t"]
    leader = partition.leader

    def change(number: int, topic: UUID = topic_id) -> dict[str, Any]:
        data = {
            "partition_index": number,
            "leader_epoch": 0,
            "partition_epoch": 0,
            "new_isr_with_epochs": [{"broker_id": leader, "broker_epoch": epochs[leader - 1]}],
        }
        return {"topic_id": topic, "partitions": [data]}

    request = {"broker_id": leader, "broker_epoch": epochs[leader - 1]}
    answer = await node.ask(56, 3, **request, topics=[change(5), change(0), change(0, UUID(int=9))])
    assert answer.error_code is ErrorCode.none
    rows = [topic.partitions[0] for topic in answer.topics]
    assert [row.error_code for row in rows] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
        ErrorCode.unknown_topic_id,
    ]
    assert (rows[1].leader_id, rows[1].isr, rows[1].partition_epoch) == (leader, (leader,), 1)
    assert [topic.topic_id for topic in answer.topics] == [topic_id, topic_id, UUID(int=9)]
    stale = await node.ask(56, 3, broker_id=leader, broker_epoch=0, topics=[])
    assert stale.error_code is ErrorCode.stale_broker_epoch


@in_loop
async def test_producer_ids_and_unregistration(node: Node) -> None:
    """The small requests and their refusals."""
    (epoch,) = await node.brokers(1)
    block = await node.ask(67, 0, broker_id=1, broker_epoch=epoch)
    assert (block.producer_id_start, block.producer_id_len) == (0, 1000)
    block = await node.ask(67, 0, broker_id=1, broker_epoch=epoch)
    assert block.producer_id_start == 1000
    assert (await node.ask(64, 0, broker_id=1)).error_code is ErrorCode.none
    gone = await node.ask(64, 0, broker_id=1)
    assert gone.error_code is ErrorCode.broker_id_not_registered
    assert "not registered" in gone.error_message
    stale = await node.ask(67, 0, broker_id=1, broker_epoch=epoch)
    assert stale.error_code is ErrorCode.stale_broker_epoch


@in_loop
async def test_heartbeats_carry_out_a_controlled_shutdown(node: Node) -> None:
    """The broker asks, its leaderships are moved, and it may stop."""
    epochs = await node.brokers(2)
    await node.create(replication_factor=2)
    partition = node.publisher.image.partition("t", 0)
    assert partition is not None
    leader = partition.leader
    other = 3 - leader
    answer = await node.beat(leader, epochs[leader - 1], want_shut_down=True)
    assert not answer.should_shut_down
    changed = node.publisher.image.partition("t", 0)
    assert changed is not None
    assert changed.leader == other
    await node.beat(other, epochs[other - 1])
    answer = await node.beat(leader, epochs[leader - 1], want_shut_down=True)
    assert answer.should_shut_down


@in_loop
async def test_a_batch_too_large_for_the_log_is_refused(node: Node) -> None:
    """Nothing was written: the controller's image is as it was."""
    await node.brokers(1)
    before = node.controller.image
    node.quorum.too_large = True
    assert (await node.create()).error_code is ErrorCode.policy_violation
    assert node.controller.image is before


def test_ticks_fence_silent_brokers() -> None:
    """The controller fences by the loop's clock, as long as it leads, until it is stopped."""

    async def main() -> None:
        node = Node(session_timeout_ms=4 * TICK_MS)
        node.quorum_controller.start()
        node.quorum.lead()
        await node.brokers(1)
        fenced = asyncio.Event()
        node.publisher.subscribe(lambda image, _: None if image.active(ME) else fenced.set())
        await asyncio.wait_for(fenced.wait(), 20)
        await node.quorum_controller.stop()
        await node.quorum_controller.stop()
        assert node.publisher.image.features["metadata.version"] == 23

    asyncio.run(main())


def test_a_tick_with_many_changes_is_followed_by_another_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have left some: here the partitions that a silent broker leads, one for each tick."""
    for module in (decisions, elections, quorum_controller):
        monkeypatch.setattr(module, "CHANGES_AT_ONCE", 1)
    monkeypatch.setattr(quorum_controller, "TICK_MS", 3_600_000)

    async def main() -> None:
        node = Node(session_timeout_ms=0.0)
        node.quorum.lead()
        await node.brokers(2)
        by_hand = [{"partition_index": i, "broker_ids": [1, 2]} for i in range(5)]
        await node.create(assignments=by_hand, num_partitions=-1, replication_factor=-1)
        node.quorum_controller.start()
        fenced = asyncio.Event()
        node.publisher.subscribe(lambda image, _: None if image.active(ME) else fenced.set())
        await asyncio.wait_for(fenced.wait(), 20)
        await node.quorum_controller.stop()

    asyncio.run(main())


def test_ticks_continue_after_a_tick_failed(caplog: pytest.LogCaptureFixture) -> None:
    """A controller that stops fencing would be worse than one with errors in its log."""

    async def main() -> None:
        node = Node()
        ticks = []
        enough = asyncio.Event()

        def fail() -> None:
            ticks.append(1)
            if len(ticks) > 1:
                enough.set()
            raise RuntimeError("broken")

        node.quorum_controller.tick = fail  # type: ignore[method-assign]
        node.quorum_controller.start()
        await asyncio.wait_for(enough.wait(), 20)
        await node.quorum_controller.stop()

    asyncio.run(main())
    assert "a tick of the controller failed" in caplog.text


@pytest.mark.parametrize(("heard_ago_ms", "fenced"), [(9_500, True), (8_000, False)])
def test_session_of_the_previous_leader_starts_at_its_last_message(
    heard_ago_ms: float, fenced: bool
) -> None:
    """Only that of the previous leader, not of another voter that was silent for as long."""

    async def main() -> None:
        node = Node()
        node.quorum.lead()
        await node.brokers(3)
        node.quorum.follow(OTHER)
        node.quorum_controller.tick()
        node.quorum.leader_id = None
        node.quorum_controller.tick()
        heard_ms = asyncio.get_running_loop().time() * 1000 - heard_ago_ms
        node.quorum.last_contact_ms = {OTHER: heard_ms, NodeId(3): heard_ms}
        node.quorum.lead()
        node.quorum_controller.tick()
        node.quorum_controller.tick()
        await _settle()
        image = node.publisher.image
        assert image.active(OTHER) is not fenced
        assert image.active(ME)
        assert image.active(NodeId(3))

    asyncio.run(main())


def test_change_that_is_not_atomic_is_split_into_batches() -> None:
    """A shutdown of many leaderships comes in several batches, in order; if only the first of them
    is in the log of the next controller, that one hands over the rest. A topic is one batch.
    """

    async def main() -> None:
        node = Node(max_batch_records=4)
        node.quorum.lead()
        epochs = await node.brokers(2)
        node.quorum.auto_commit = False
        by_hand = [{"partition_index": i, "broker_ids": [1, 2]} for i in range(10)]
        topic: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
        creating = asyncio.ensure_future(node.create(assignments=by_hand, **topic))
        await _settle()
        assert [len(batch.records) for batch in node.quorum.uncommitted] == [11]
        node.quorum.commit()
        assert (await creating).error_code is ErrorCode.none
        stopping = asyncio.ensure_future(node.beat(1, epochs[0], want_shut_down=True))
        await _settle()
        assert [len(batch.records) for batch in node.quorum.uncommitted] == [4, 4, 3]
        del node.quorum.uncommitted[1:]
        node.quorum.end_offset = Offset(node.quorum.uncommitted[0].last_offset + 1)
        node.quorum.auto_commit = True
        node.quorum.high_watermark = node.quorum.end_offset
        node.publisher.on_commit(node.quorum.uncommitted)
        node.quorum.follow(OTHER)
        assert (await stopping).error_code is ErrorCode.not_controller
        assert [p.leader for _, p in node.publisher.image.partitions()] == [2] * 3 + [1] * 7
        node.quorum.lead()
        assert not (await node.beat(1, epochs[0], want_shut_down=True)).should_shut_down
        assert all(p.leader == 2 for _, p in node.publisher.image.partitions())
        await node.beat(2, epochs[1])
        assert (await node.beat(1, epochs[0], want_shut_down=True)).should_shut_down

    asyncio.run(main())


def test_log_lines_about_refusals_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    """A client may be refused again and again with long strings, and still cause few lines."""

    async def main() -> None:
        node = Node()
        node.quorum.lead()
        for _ in range(300):
            answer = await node.ask(62, 4, broker_id=1, cluster_id="x" * 5000)
            assert answer.error_code is ErrorCode.inconsistent_cluster_id

    with caplog.at_level("INFO", "nodes.controller"):
        asyncio.run(main())
    refusals = [record.getMessage() for record in caplog.records if "refused" in record.msg]
    assert 200 <= len(refusals) < 300
    assert max(map(len, refusals)) < 400
