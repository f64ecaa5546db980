"""Whole quorum members that take and fetch snapshots, lose their disks, change their voters."""

import asyncio
import inspect
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest

from nodes.ids import NodeId, Offset
from nodes.raft.roles import Role
from nodes.raft.snapshot import file_name, read
from nodes.server.quorum.quorum_node import DIRECTORY, QuorumNode
from nodes.server.quorum.snapshot_writer import SnapshotLimits
from nodes.wire.versions import fill
from tests.support.nodes.quorum_cluster import CONTEXT, Cluster, SlowDisk
from tests.support.nodes.virtual_time import run

ALL = (1, 2, 3, 4)
OFTEN = SnapshotLimits(record_bytes=1000, interval_ms=0)


async def commit(cluster: Cluster, *records: bytes) -> None:
    """Append one batch at the leader and wait for its commit."""
    leader = await cluster.elected()
    await leader.committed(leader.append(records), leader.epoch)


async def fill_log(cluster: Cluster, written: list[bytes], count: int = 60) -> None:
    """Commit so many records, enough for several snapshots."""
    for _ in range(count):
        written.append(b"%d" % len(written) * 20)
        await commit(cluster, written[-1])
    await asyncio.sleep(0.5)


def wipe(cluster: Cluster, number: int) -> None:
    """The node comes back with an empty disk: with another directory, therefore."""
    node = NodeId(number)
    cluster.kill(node)
    cluster.disks[node] = SlowDisk()
    cluster.directories[node] = UUID(int=100 + number)


async def call(node: QuorumNode, request: Any) -> Any:
    """The node's answer to a request."""
    answer = node.apis()[int(request.__api_key__)].handler(request, CONTEXT)
    return await answer if inspect.isawaitable(answer) else answer


def test_every_node_deletes_the_log_before_its_snapshots() -> None:
    """Leader, follower and observer keep two snapshots and the log after the older one."""

    async def main() -> None:
        cluster = Cluster(limits=OFTEN)
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written)
        await cluster.agree(written)
        for number, node in cluster.running.items():
            assert node.log.start_offset > 0
            assert len(node.log.snapshots.ids) == 2
            newest = node.log.snapshots.ids[-1]
            file = cluster.disks[number].read(f"{DIRECTORY}/{file_name(newest)}")
            snapshot = read(newest, file)
            assert list(snapshot.records) == written[: len(snapshot.records)]
            assert snapshot.voters == node.log.voters
        await cluster.stop()

    run(main())


def test_restart_begins_with_the_snapshot() -> None:
    """After a power loss of all nodes the state is the same, and only the rest of the log is
    delivered."""

    async def main() -> None:
        cluster = Cluster(limits=OFTEN)
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written)
        await cluster.agree(written)
        for node in ALL:
            cluster.kill(NodeId(node), power_loss=True)
        await cluster.start(*ALL)
        await cluster.elected()
        await cluster.agree(written)
        for recorder in cluster.recorders.values():
            assert len(recorder.restored) == 1
            assert len(recorder.batches) < 30
        await cluster.stop()

    run(main())


def test_replica_below_the_log_start_fetches_the_snapshot() -> None:
    """A follower that was away, and an observer that lost everything, in parts of a few bytes."""

    async def main() -> None:
        cluster = Cluster(limits=OFTEN)
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written, 5)
        leader = await cluster.elected()
        away = next(v for v in cluster.voters if v != leader.node_id)
        cluster.kill(away)
        await fill_log(cluster, written)
        wipe(cluster, 4)
        await cluster.start(away, 4)
        await cluster.agree(written)
        for number in (away, NodeId(4)):
            assert cluster.recorders[number].restored, "it could not have come from the log"
        await fill_log(cluster, written, 3)
        await cluster.agree(written)
        await cluster.stop()

    run(main())


def test_interrupted_snapshot_fetch_starts_again() -> None:
    """Isolated, killed, restarted: nothing of the first attempt is used."""

    async def main() -> None:
        cluster = Cluster(limits=OFTEN)
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written)
        wipe(cluster, 4)
        leader = await cluster.elected()
        whole = leader.log.snapshots.part
        leader.log.snapshots.part = (  # type: ignore[method-assign]
            lambda snapshot_id, position, max_bytes: whole(snapshot_id, position, 50)
        )
        await cluster.start(4)
        disk = cluster.disks[NodeId(4)]

        def under_way() -> bool:
            return any(name.endswith(".part") for name in disk.listdir(DIRECTORY))

        await cluster.until(under_way)
        cluster.kill(NodeId(4))
        assert under_way()
        await cluster.start(4)
        await cluster.agree(written)
        assert not under_way()
        await cluster.stop()

    run(main())


def test_fetch_snapshot_refuses_unknown_snapshots_and_positions() -> None:
    """With Kafka's errors, and with the leader's id if a follower is asked."""

    async def main() -> None:
        cluster = Cluster(limits=OFTEN)
        await cluster.start(*ALL)
        await fill_log(cluster, [])
        leader = await cluster.elected()
        offset, epoch = leader.log.snapshots.ids[-1]

        async def ask(node: QuorumNode, **change: object) -> Any:
            partition = {
                "partition": 0,
                "current_leader_epoch": leader.epoch,
                "snapshot_id": {"end_offset": offset, "epoch": epoch},
                "position": 0,
                **change,
            }
            topics = [{"name": "__cluster_metadata", "partitions": [partition]}]
            request = fill(
                FetchSnapshotRequest, cluster_id="c", replica_id=9, max_bytes=64, topics=topics
            )
            return (await call(node, request)).topics[0].partitions[0]

        good = await ask(leader)
        assert (good.error_code, len(good.unaligned_records)) == (ErrorCode.none, 64)
        gone = await ask(leader, snapshot_id={"end_offset": 1, "epoch": 1})
        assert gone.error_code is ErrorCode.snapshot_not_found
        beyond = await ask(leader, position=good.size)
        assert beyond.error_code is ErrorCode.position_out_of_range
        stale = await ask(leader, current_leader_epoch=0)
        assert stale.error_code is ErrorCode.fenced_leader_epoch
        follower = next(n for v, n in cluster.running.items() if v != leader.node_id)
        refused = await ask(follower)
        assert refused.error_code is ErrorCode.not_leader_or_follower
        assert refused.current_leader.leader_id == leader.node_id
        await cluster.stop()

    run(main())


def test_wiped_voter_is_an_observer() -> None:
    """Its vote does not count, and no committed record is lost."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written, 3)
        leader = await cluster.elected()
        assert not leader.log.voters.is_static
        lost, other = (v for v in cluster.voters if v != leader.node_id)
        wipe(cluster, lost)
        await cluster.start(lost)
        await cluster.agree(written)
        wiped = cluster.running[lost]
        assert wiped.quorum.role is Role.OBSERVER
        cluster.kill(other)
        offset = leader.append([b"waits"])
        await asyncio.sleep(0.3)
        assert leader.high_watermark <= offset, "the wiped voter's log counts for nothing"
        await cluster.start(other)
        await cluster.until(lambda: leader.high_watermark > offset or not leader.is_active)
        await cluster.stop()

    run(main())


async def change(cluster: Cluster, request: Any) -> ErrorCode:
    """The leader's answer to a change of the voters."""
    response = await call(await cluster.elected(), request)
    return ErrorCode(response.error_code)


def add(cluster: Cluster, number: int) -> Any:
    """AddRaftVoter for a running node."""
    return fill(
        AddRaftVoterRequest,
        cluster_id="c",
        timeout=timedelta(seconds=5),
        voter_id=number,
        voter_directory_id=cluster.directories[NodeId(number)],
        listeners=[{"name": "CONTROLLER", "host": "node", "port": number}],
        ack_when_committed=True,
    )


def remove(number: int, directory: UUID) -> Any:
    """RemoveRaftVoter."""
    return fill(
        RemoveRaftVoterRequest, cluster_id="c", voter_id=number, voter_directory_id=directory
    )


def test_wiped_voter_is_added_again_with_its_new_directory() -> None:
    """Its old directory is removed, its new one added, and then it counts again."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written, 3)
        leader = await cluster.elected()
        lost, other = (v for v in cluster.voters if v != leader.node_id)
        old = cluster.directories[lost]
        wipe(cluster, lost)
        await cluster.start(lost)
        await cluster.agree(written)
        assert await change(cluster, add(cluster, lost)) is ErrorCode.duplicate_voter
        new = cluster.directories[lost]
        assert await change(cluster, remove(lost, new)) is ErrorCode.voter_not_found
        assert await change(cluster, remove(lost, old)) is ErrorCode.none
        assert await change(cluster, add(cluster, lost)) is ErrorCode.none
        await cluster.until(lambda: cluster.running[lost].quorum.is_voter)
        cluster.kill(other)
        await fill_log(cluster, written, 2)
        await cluster.agree(written)
        await cluster.stop()

    run(main())


def test_leader_can_remove_itself_from_the_voters() -> None:
    """It leads until that is committed; then it follows the others."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written, 2)
        old = await cluster.elected()
        mine = cluster.directories[old.node_id]
        assert await change(cluster, remove(old.node_id, mine)) is ErrorCode.none
        new = await cluster.elected(other_than=old.node_id)
        assert old.node_id not in new.log.voters.ids
        await fill_log(cluster, written, 2)
        await cluster.agree(written)
        assert old.quorum.role is Role.OBSERVER
        await cluster.stop()

    run(main())


def test_observer_that_became_a_voter_is_reached_at_its_endpoint() -> None:
    """With four voters, two of the first three may fail if the fourth counts."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written, 2)
        assert await change(cluster, add(cluster, 4)) is ErrorCode.none
        await fill_log(cluster, written, 1)
        await cluster.agree(written)
        leader = await cluster.elected()
        assert leader.voters[NodeId(4)] == ("node", 4)
        cluster.kill(leader.node_id)
        new = await cluster.elected(other_than=leader.node_id)
        await fill_log(cluster, written, 1)
        await cluster.agree(written)
        assert new.log.voters.ids == (1, 2, 3, 4)
        assert new.high_watermark == Offset(new.log.end_offset)
        await cluster.stop()

    run(main())


def test_voter_with_a_new_address_updates_its_record() -> None:
    """It sends UpdateRaftVoter to the leader once it fetches; the quorum continues meanwhile."""

    async def main() -> None:
        cluster = Cluster()
        await cluster.start(*ALL)
        written: list[bytes] = []
        await fill_log(cluster, written, 2)
        leader = await cluster.elected()
        moved = next(v for v in cluster.voters if v != leader.node_id)
        cluster.kill(moved)
        cluster.hosts[moved] = "elsewhere"
        await cluster.start(moved)

        def recorded() -> bool:
            voter = leader.log.voters.get(moved)
            return voter is not None and voter.endpoints[0].host == "elsewhere"

        await cluster.until(recorded)
        assert leader.log.voters.ids == (1, 2, 3)
        await fill_log(cluster, written, 1)
        await cluster.agree(written)
        await cluster.stop()

    run(main())
