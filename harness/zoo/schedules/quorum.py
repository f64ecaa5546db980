"""Schedules about the metadata quorum."""

import asyncio
from functools import partial

from harness.admin import topics
from harness.admin.client import AdminClient
from harness.systems.brokers import CONTROLLER_PORT
from harness.zoo.schedules.stage import ExpectationFailed, Stage, both_ways, disk
from nemesis.hosts import Cut
from nodes.raft.roles import Role


async def _settled(stage: Stage) -> int:
    """Return the quorum's leader, once a topic exists and so all nodes follow that leader."""
    await stage.make_topic(list(stage.brokers))
    await stage.send()
    return stage.quorum_leader()


def _others(stage: Stage, leader: int) -> list[int]:
    return [node for node in stage.cluster.layout.controllers if node != leader]


async def _make_another(stage: Stage, node: int) -> None:
    async with AdminClient([stage.cluster.brokers[node]]) as admin:
        await topics.create(admin, "another", partitions=1, replication_factor=1)


async def lost_tail(stage: Stage) -> None:
    """A leader loses a record that the others have, and is alone when it comes back."""
    leader = await _settled(stage)
    others = _others(stage, leader)
    disk(stage.host(leader)).limit(bytes_per_s=0, operations_per_s=1)

    def only_there() -> bool:
        own = stage.metadata(leader)
        return own.flushed < own.end and all(stage.metadata(n).end == own.end for n in others)

    await stage.until("the others have what it has not flushed", only_there)
    for node in others:
        stage.cluster.kill(node)
    stage.lose_power(leader)
    disk(stage.host(leader)).unlimit()
    stage.cluster.start(leader)
    await asyncio.sleep(5)


async def first_election(stage: Stage) -> None:
    """The first election."""
    await _settled(stage)


async def leader_dies_before_hearing_of_commit(stage: Stage) -> None:
    """A leader dies when the others have its last record, before it has learnt that they do."""
    leader = await _settled(stage)
    others = _others(stage, leader)
    member = stage.checker(leader).member
    assert member is not None
    end = stage.metadata(leader).end
    await stage.until("one more is committed", lambda: member.quorum.high_watermark > end)
    await asyncio.sleep(0.05)  # so that the others ask for the next record
    stage.cut(*(Cut(node, leader, CONTROLLER_PORT) for node in others))
    end = member.quorum.high_watermark
    making = asyncio.ensure_future(_make_another(stage, leader))
    await stage.until(
        "the others have one more",
        lambda: all(stage.metadata(node).flushed > end for node in others),
    )
    making.cancel()
    stage.cluster.kill(leader)
    stage.heal()
    await asyncio.sleep(5)


async def minority_leads(stage: Stage) -> None:
    """A leader is cut off from the other voters, but not from the brokers."""
    leader = await _settled(stage)
    for node in _others(stage, leader):
        stage.cut(*both_ways(leader, node))
    await asyncio.sleep(10)
    member = stage.checker(leader).member
    assert member is not None
    if member.quorum.role is Role.LEADER:
        raise ExpectationFailed(f"node {leader} still leads, without a majority for 10 s")


async def voter_comes_back(stage: Stage) -> None:
    """A voter that was cut off for a while comes back."""
    leader = await _settled(stage)
    member = stage.checker(leader).member
    assert member is not None
    epoch = member.quorum.epoch
    away, other = _others(stage, leader)
    stage.cut(*both_ways(away, leader), *both_ways(away, other))
    await asyncio.sleep(10)
    stage.heal()
    await asyncio.sleep(5)
    if (stage.quorum_leader(), member.quorum.epoch) != (leader, epoch):
        raise ExpectationFailed(
            f"node {away} came back, and epoch {epoch} became {member.quorum.epoch}"
        )


async def empty_voter(stage: Stage) -> None:
    """Two of three voters commit; one of them comes back with an empty disk, together with the
    third voter only.
    """
    leader = await _settled(stage)
    away, other = _others(stage, leader)
    for node in stage.invariants.node_checkers:
        await stage.until("the voters are recorded", partial(stage.voters_are_recorded, node))
    stage.cluster.kill(away)
    await asyncio.sleep(5)
    stage.cluster.kill(leader)
    stage.cluster.kill(other)
    stage.wipe(other)
    stage.cluster.start(other, away)
    await asyncio.sleep(8)
