"""ListGroups and DeleteGroups over all coordinators of a cluster."""

import asyncio

from kio.schema.errors import ErrorCode

from nodes.server.apis import DELETE_GROUPS, LIST_GROUPS
from tests.support.nodes.cluster import running
from tests.support.nodes.group_requests import commit, coordinator_of

GROUPS = [f"group-{number}" for number in range(6)]


def test_every_broker_lists_the_groups_that_it_coordinates() -> None:
    """In every version; and it deletes only those."""

    async def main() -> None:
        async with running(2) as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=2)
            coordinators = {}
            for group in GROUPS:
                await commit(cluster, group, 1)
                coordinators[group] = await coordinator_of(cluster, group)
            assert set(coordinators.values()) == {1, 2}
            for node in (1, 2):
                own = {group for group, each in coordinators.items() if each == node}
                for version in range(6):
                    answer = await cluster.ask(node, LIST_GROUPS, version)
                    assert {row.group_id for row in answer.groups} == own
                stable = await cluster.ask(node, LIST_GROUPS, 4, states_filter=["Stable"])
                assert not stable.groups
                deleted = await cluster.ask(node, DELETE_GROUPS, 2, groups_names=[*GROUPS, "none"])
                codes = {row.group_id: row.error_code for row in deleted.results}
                assert {group for group, code in codes.items() if code is ErrorCode.none} == own
                assert codes["none"] in (ErrorCode.group_id_not_found, ErrorCode.not_coordinator)
                assert not (await cluster.ask(node, LIST_GROUPS, 5)).groups

    asyncio.run(main())
