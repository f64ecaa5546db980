"""The quorum as clients see it, through any broker, and on nodes that join it."""

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.log.checkpoints import MetaProperties
from nodes.raft.election_state import directory_of
from nodes.raft.roles import Role
from nodes.server.quorum.quorum_node import QuorumNode
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.cluster import Cluster, eventually

DESCRIBE_QUORUM = 55
ADD_RAFT_VOTER = 80
REMOVE_RAFT_VOTER = 81
METADATA = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}


def controller_port(raft: QuorumNode) -> int:
    """Where the other controllers reach this one."""
    return raft.config.endpoints[0].port


async def quorum_of(cluster: Cluster, node: int) -> Any:
    """DescribeQuorum, asked of one broker."""
    return await cluster.ask(node, DESCRIBE_QUORUM, 2, topics=[METADATA])


def directory(cluster: Cluster, node: int) -> UUID | None:
    """The directory id in a node's meta.properties."""
    properties = MetaProperties.read(cluster.disks[node])
    assert properties is not None
    assert properties.directory_id is not None
    return directory_of(properties.directory_id)


def test_every_broker_describes_the_quorum() -> None:
    """The leader's response: voters by directory, their endpoints and log ends."""

    async def main() -> None:
        cluster = Cluster(3)
        for node in cluster.ids:
            await cluster.start(node)
        await cluster.in_service(3)

        async def recorded() -> bool:
            row = (await quorum_of(cluster, 1)).topics[0].partitions[0]
            return all(v.replica_directory_id is not None for v in row.current_voters)

        await eventually(recorded)
        for node in cluster.ids:
            response = await quorum_of(cluster, node)
            row = response.topics[0].partitions[0]
            assert row.error_code is ErrorCode.none
            assert [v.replica_id for v in row.current_voters] == cluster.ids
            for voter in row.current_voters:
                assert voter.replica_directory_id == directory(cluster, voter.replica_id)
                assert voter.last_caught_up_timestamp > 0
                assert voter.last_fetch_timestamp > 0
            assert [n.node_id for n in response.nodes] == cluster.ids
            assert all(n.listeners[0].name == "CONTROLLER" for n in response.nodes)
        disk = cluster.disks[1]
        state = json.loads(disk.read("__cluster_metadata-0/quorum-state"))
        assert state["data_version"] in (0, 1)
        await cluster.close()

    asyncio.run(main())


def test_wiped_voter_is_replaced_through_any_broker() -> None:
    """RemoveRaftVoter for the old directory, AddRaftVoter for the new one."""

    async def main() -> None:
        cluster = Cluster(3)
        for node in cluster.ids:
            await cluster.start(node)
        await cluster.in_service(3)
        instance = cluster.nodes[3]
        assert instance is not None
        assert instance.raft is not None
        raft = instance.raft

        async def recorded() -> bool:
            return not raft.log.voters.is_static

        await eventually(recorded)
        old = directory(cluster, 3)
        await cluster.stop(3)
        cluster.disks[3] = MemoryDisk()
        await cluster.start(3)
        instance = cluster.nodes[3]
        assert instance is not None
        assert instance.raft is not None
        wiped = instance.raft

        async def observes() -> bool:
            return wiped.quorum.role is Role.OBSERVER and wiped.leader_id is not None

        await eventually(observes)
        removed = await cluster.ask(
            1, REMOVE_RAFT_VOTER, 0, cluster_id=None, voter_id=3, voter_directory_id=old
        )
        assert removed.error_code is ErrorCode.none, removed
        place = {"name": "CONTROLLER", "host": "127.0.0.1", "port": controller_port(wiped)}

        async def added() -> bool:
            answer = await cluster.ask(
                2,
                ADD_RAFT_VOTER,
                0,
                cluster_id=None,
                timeout=timedelta(seconds=5),
                voter_id=3,
                voter_directory_id=directory(cluster, 3),
                listeners=[place],
            )
            return answer.error_code in (ErrorCode.none, ErrorCode.duplicate_voter)

        await eventually(added)

        async def votes() -> bool:
            return wiped.quorum.is_voter

        await eventually(votes)
        await cluster.close()

    asyncio.run(main())


class Joining(Cluster):
    """Nodes 1 to 3 are the configured voters; node 4 is told only whom to ask."""

    def _properties(self, node: int) -> dict[str, str]:
        properties = super()._properties(node)
        voters = properties.pop("controller.quorum.voters").split(",")[:3]
        if node == 4:
            places = ",".join(voter.partition("@")[2] for voter in voters)
            return properties | {"controller.quorum.bootstrap.servers": places}
        return properties | {"controller.quorum.voters": ",".join(voters)}


def test_controller_joins_by_bootstrap_servers() -> None:
    """It finds the leader, follows as an observer, is added, and then its vote is needed."""

    async def main() -> None:
        cluster = Joining(4)
        for node in cluster.ids:
            await cluster.start(node)
        await cluster.in_service(4)
        joining = cluster.nodes[4]
        assert joining is not None
        assert joining.raft is not None
        raft = joining.raft
        assert raft.quorum.role is Role.OBSERVER
        place = {"name": "CONTROLLER", "host": "127.0.0.1", "port": controller_port(raft)}

        async def added() -> bool:
            answer = await cluster.ask(
                1,
                ADD_RAFT_VOTER,
                1,
                cluster_id=None,
                timeout=timedelta(seconds=5),
                voter_id=4,
                voter_directory_id=directory(cluster, 4),
                listeners=[place],
                ack_when_committed=True,
            )
            return answer.error_code in (ErrorCode.none, ErrorCode.duplicate_voter)

        await eventually(added)
        await cluster.stop(3)
        await cluster.create_topic("t", num_partitions=1, replication_factor=1)
        row = (await quorum_of(cluster, 4)).topics[0].partitions[0]
        assert [voter.replica_id for voter in row.current_voters] == [1, 2, 3, 4]
        await cluster.close()

    asyncio.run(main())
