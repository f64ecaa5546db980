"""Whole quorum members: elections, commits to listeners, failover, truncation, restarts."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest as DescribeV0
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest as DescribeV2
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchRequest

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.batch import decode_records, iter_batches
from nodes.raft.election_state import decode
from nodes.raft.errors import NotLeader, RaftError
from nodes.raft.messages import BeginEpochRequest, VoteRequest
from nodes.server.quorum import translation
from nodes.server.quorum.quorum_node import DIRECTORY, QuorumNode
from nodes.wire.versions import fill
from tests.support.nodes.quorum_cluster import CONTEXT, Cluster
from tests.support.nodes.virtual_time import run

ALL = (1, 2, 3, 4)


async def commit(leader: QuorumNode, *records: bytes) -> Offset:
    """Append one batch and wait for its commit."""
    offset = leader.append(records)
    await leader.committed(offset, leader.epoch)
    return offset


def call(node: QuorumNode, request: Any) -> Any:
    """The node's answer to a request; an awaitable of it for a fetch that waits."""
    return node.apis()[int(request.__api_key__)].handler(request, CONTEXT)


def test_commits_reach_every_listener() -> None:
    """Voters and observers get the same batches, at once rather than at the end of a long poll."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3)
        began = loop.time()
        assert await commit(leader, b"a", b"b") == 4, "after the leader's record and the voters"
        await cluster.agree([b"a", b"b"])
        assert loop.time() - began < 0.05, "virtual seconds: a few message delays"
        batches = cluster.recorders[NodeId(4)].batches
        assert [(b.base_offset, b.last_offset, b.epoch) for b in batches] == [
            (0, 0, 1),
            (1, 2, 1),
            (3, 4, 1),
        ]
        assert batches[2].timestamp_ms == 1_700_000_000_000
        assert all(node.leader_id == leader.node_id for node in cluster.running.values())
        await cluster.stop()

    run(main())


def test_node_0_leads_as_any_other() -> None:
    """Kafka's first node is often number 0."""

    async def main() -> None:
        leaders = set()
        for seed in range(6):
            cluster = Cluster(seed, first=0)
            await cluster.start(0, 1, 2)
            leader = await cluster.elected()
            leaders.add(leader.node_id)
            await commit(leader, b"a")
            await cluster.agree([b"a"])
            await cluster.stop()
        assert NodeId(0) in leaders

    run(main())


def test_killed_leader_is_replaced_and_truncates_after_its_restart() -> None:
    """Records that only it had are discarded and were never delivered; committed records stay."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        old = await cluster.elected()
        await commit(old, b"committed")
        cluster.isolate(old.node_id)
        old.append([b"lost"])
        await asyncio.sleep(0.01)
        cluster.kill(old.node_id)
        new = await cluster.elected(other_than=old.node_id)
        assert new.epoch > old.epoch
        await commit(new, b"after")
        cluster.heal()
        await cluster.start(old.node_id)
        await cluster.agree([b"committed", b"after"])
        back = cluster.running[old.node_id]
        data = [node.log.read(Offset(0), 1 << 20, node.log.end_offset) for node in (back, new)]
        assert data[0] == data[1]
        await cluster.stop()

    run(main())


def test_isolated_leader_resigns_and_fails_its_waiting_appends() -> None:
    """It stops being active before it hears of its successor."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        old = await cluster.elected()
        epoch = old.epoch
        cluster.isolate(old.node_id)
        offset = old.append([b"lost"])
        with pytest.raises(NotLeader):
            await old.committed(offset, epoch)
        assert not old.is_active
        with pytest.raises(NotLeader):
            old.append([b"too late"])
        assert cluster.recorders[old.node_id].active == [("active", epoch), ("inactive", epoch)]
        new = await cluster.elected(other_than=old.node_id)
        await commit(new, b"after")
        cluster.heal()
        await cluster.agree([b"after"])
        await cluster.stop()

    run(main())


def test_observers_leave_a_leader_that_cannot_reach_the_voters() -> None:
    """Such a leader must not keep the brokers (KAFKA-15489)."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        old = await cluster.elected()
        cluster.isolate(old.node_id, *(v for v in cluster.voters if v != old.node_id))
        new = await cluster.elected(other_than=old.node_id)
        await commit(new, b"after")
        await cluster.until(lambda: cluster.recorders[NodeId(4)].records == [b"after"])
        assert cluster.running[NodeId(4)].leader_id == new.node_id
        await cluster.stop()

    run(main())


def test_clean_stop_causes_an_election_at_once() -> None:
    """Because of EndQuorumEpoch the others do not wait for the fetch timeout."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        old = await cluster.elected()
        await commit(old, b"a")
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        began = loop.time()
        stopping = cluster.running[old.node_id]
        await stopping.stop()
        del cluster.running[old.node_id]
        await cluster.elected(other_than=old.node_id)
        assert loop.time() - began < 0.3, "virtual seconds: half the fetch timeout"
        await stopping.stop()
        await cluster.stop()

    run(main())


def test_everything_is_delivered_again_after_a_restart() -> None:
    """Listeners start from nothing, so the log is replayed from offset 0."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        written = [b"%d" % n for n in range(50)]
        for record in written:
            await commit(leader, record)
        await cluster.agree(written)
        for node in ALL:
            cluster.kill(NodeId(node), power_loss=True)
        await cluster.start(*ALL)
        again = await cluster.elected()
        assert again.epoch > leader.epoch
        await cluster.agree(written)
        await cluster.stop()

    run(main())


def test_power_loss_of_all_nodes_keeps_committed_records() -> None:
    """A commit waits for a majority of the voters' disks, and never for an observer's."""

    async def main() -> None:
        cluster = Cluster(seed=5)
        await cluster.start(*ALL)
        expected: list[bytes] = []
        for round_ in range(4):
            leader = await cluster.elected()
            for n in range(5):
                record = b"%d-%d" % (round_, n)
                await commit(leader, record)
                expected.append(record)
            for node in ALL:
                cluster.kill(NodeId(node), power_loss=True)
            await cluster.start(*ALL)
        await cluster.elected()
        await cluster.agree(expected)
        await cluster.stop()

    run(main())


def test_leader_with_a_hanging_disk_commits_by_the_others() -> None:
    """Its own disk is one vote; a follower with a hanging disk does not fetch, and so does not
    count."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        cluster.disks[leader.node_id].running.clear()
        flushed = leader.log.flushed_offset
        await commit(leader, b"a")
        assert leader.log.flushed_offset == flushed
        follower = next(v for v in cluster.voters if v != leader.node_id)
        cluster.disks[follower].running.clear()
        offset = leader.append([b"b"])
        await asyncio.sleep(0.4)
        assert leader.high_watermark <= offset
        cluster.disks[follower].running.set()
        await leader.committed(offset, leader.epoch)
        cluster.disks[leader.node_id].running.set()
        await cluster.agree([b"a", b"b"])
        await cluster.stop()

    run(main())


def test_appends_share_flushes() -> None:
    """A hundred appends in one turn of the loop are not a hundred syncs."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        syncs = 0
        disk = cluster.disks[leader.node_id]
        sync = disk.sync

        async def counting(target: Any) -> None:
            nonlocal syncs
            syncs += 1
            await sync(target)

        disk.sync = counting  # type: ignore[method-assign]
        last = [leader.append([b"%d" % n]) for n in range(100)][-1]
        await leader.committed(last, leader.epoch)
        await cluster.until(lambda: leader.log.flushed_offset > last)
        assert syncs <= 4
        await cluster.stop()

    run(main())


def test_failing_disk_halts_the_member() -> None:
    """It no longer knows what it has promised, so it sends nothing more; the others continue."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        disk = cluster.disks[leader.node_id]

        async def broken(target: Any) -> None:
            raise OSError(5, "Input/output error")

        disk.sync = broken  # type: ignore[method-assign]
        leader.append([b"a"])
        halted: list[Exception] = []
        leader.on_halt = halted.append
        await cluster.until(lambda: leader.halted is not None)
        assert halted == [leader.halted]
        assert leader.leader_id is None
        assert not leader.is_active
        with pytest.raises(RaftError):
            leader.quorum.tick(0)
        with pytest.raises(NotLeader):
            leader.append([b"b"])
        del cluster.running[leader.node_id]
        await commit(await cluster.elected(), b"c")
        await leader.stop()
        await cluster.stop()

    run(main())


def test_failing_listener_halts_the_member() -> None:
    """A node with a wrong image must not continue with it."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        observer = cluster.running[NodeId(4)]

        class Failing:
            def on_snapshot(self, snapshot: object) -> None: ...

            def on_commit(self, batches: object) -> None:
                raise ValueError("cannot be applied")

            def on_active(self, epoch: Epoch) -> None: ...

            def on_inactive(self, epoch: Epoch) -> None: ...

        observer.listeners.append(Failing())
        await commit(leader, b"a")
        await cluster.until(lambda: isinstance(observer.halted, ValueError))
        await cluster.stop()

    run(main())


def test_vote_is_on_disk_before_the_response() -> None:
    """In the file format that Kafka's tools read."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(1)
        node = cluster.running[NodeId(1)]
        message = VoteRequest(
            epoch=Epoch(7),
            candidate_id=NodeId(2),
            last_epoch=Epoch(-1),
            end_offset=Offset(0),
            pre_vote=False,
        )
        request = translation.write_request(message, "c", NodeId(1))
        response = call(node, request)
        assert response.topics[0].partitions[0].vote_granted
        cluster.disks[NodeId(1)].crash()
        state = decode(cluster.disks[NodeId(1)].read(f"{DIRECTORY}/quorum-state"))
        assert (state.epoch, state.voted_for) == (7, 2)
        assert node.last_contact_ms[NodeId(2)] == 0
        await cluster.stop()

    run(main())


def test_lost_quorum_state_does_not_lower_the_epoch() -> None:
    """The epochs of the log are a lower bound."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        await commit(leader, b"a")
        await cluster.agree([b"a"])
        await cluster.stop()
        cluster.running.clear()
        cluster.disks[NodeId(1)].unlink(f"{DIRECTORY}/quorum-state")
        await cluster.start(1)
        assert cluster.running[NodeId(1)].epoch == leader.epoch
        await cluster.stop()

    run(main())


def fetch(**partition: object) -> Any:
    """A fetch request of replica 2."""
    values = {
        "partition": 0,
        "current_leader_epoch": 1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "partition_max_bytes": 1 << 20,
        **partition,
    }
    return fill(
        FetchRequest,
        cluster_id="c",
        replica_state={"replica_id": 9, "replica_epoch": -1},
        topics=[{"topic_id": UUID(int=1), "partitions": [values]}],
    )


def test_log_begins_with_kafkas_leader_change_record() -> None:
    """A LeaderChangeMessage, as Kafka's tools expect it; a fetch returns its bytes unchanged."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        response = call(leader, fetch())
        records = response.responses[0].partitions[0].records
        (position, header), *_ = iter_batches(records)
        assert header.is_control
        (record,) = decode_records(records, position)
        assert record.key == bytes([0, 0, 0, 2])
        assert record.value is not None
        assert int.from_bytes(record.value[2:6]) == leader.node_id
        await cluster.stop()

    run(main())


def test_requests_of_other_clusters_are_refused() -> None:
    """Two clusters that share an address by mistake must not vote for each other."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        other = translation.write_request(
            BeginEpochRequest(epoch=Epoch(50), leader_id=NodeId(2)), "other", leader.node_id
        )
        refused = call(leader, other)
        assert refused.error_code is ErrorCode.inconsistent_cluster_id
        response = call(leader, replace(fetch(), cluster_id="other"))
        assert response.error_code is ErrorCode.inconsistent_cluster_id
        assert leader.is_active
        await cluster.stop()

    run(main())


def test_fetch_errors_name_the_leader() -> None:
    """A fetcher that asks the wrong node, or in a stale epoch, learns the leader."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        await asyncio.sleep(1)
        follower = next(n for v, n in cluster.running.items() if v != leader.node_id)
        cases = [
            (leader, {"current_leader_epoch": 0}, ErrorCode.fenced_leader_epoch),
            (leader, {"current_leader_epoch": 9}, ErrorCode.unknown_leader_epoch),
            (follower, {}, ErrorCode.not_leader_or_follower),
        ]
        for node, change, error in cases:
            response = call(node, fetch(**change))
            partition = response.responses[0].partitions[0]
            assert partition.error_code is error
            assert partition.current_leader.leader_id == leader.node_id
            assert partition.current_leader.leader_epoch == leader.epoch
        await cluster.stop()

    run(main())


@pytest.mark.parametrize("request_class", [DescribeV0, DescribeV2])
def test_describes_the_quorum(request_class: type[Any]) -> None:
    """Voters and observers with their ends; other topics are unknown; followers refer to the
    leader."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        leader = await cluster.elected()
        await commit(leader, b"a")
        await asyncio.sleep(1)
        request = fill(
            request_class,
            topics=[
                {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]},
                {"topic_name": "other", "partitions": [{"partition_index": 0}]},
            ],
        )
        response = call(leader, request)
        mine, other = (topic.partitions[0] for topic in response.topics)
        assert [r.replica_id for r in mine.current_voters] == [1, 2, 3]
        assert [r.log_end_offset for r in mine.current_voters] == [4, 4, 4]
        assert [(r.replica_id, r.log_end_offset) for r in mine.observers] == [(4, 4)]
        assert (mine.leader_id, mine.high_watermark) == (leader.node_id, 4)
        assert other.error_code is ErrorCode.unknown_topic_or_partition
        follower = next(n for v, n in cluster.running.items() if v != leader.node_id)
        refused = call(follower, request).topics[0].partitions[0]
        assert refused.error_code is ErrorCode.not_leader_or_follower
        assert refused.leader_id == leader.node_id
        await cluster.stop()

    run(main())
