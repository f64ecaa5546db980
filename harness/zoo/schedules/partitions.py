"""Schedules about one partition's replicas: brokers 2, 3 and 4, controller 1."""

import asyncio

from harness.admin import configs
from harness.admin.client import AdminClient
from harness.zoo.schedules.stage import (
    TOPIC,
    ExpectationFailed,
    Stage,
    both_ways,
    disk,
    fetch_answers,
)
from nemesis.hosts import LinkQuality
from nodes.replication.partition import Role


async def follower_in_old_epoch(stage: Stage) -> None:
    """A follower that missed an epoch fetches from its old leader, which leads again.

    Node 4 has a record of epoch 0 that no other node has by then; the others have another record at
    its offset.
    """
    await stage.make_topic([2, 3, 4])
    await stage.send(count=3)
    await stage.await_replication()
    stage.cut(fetch_answers(2, 3))
    stage.block_metadata(4, 1)
    await stage.send(acks=1)
    await stage.until("node 4 has it", lambda: stage.copy(4).end == stage.copy(2).end)
    stage.cluster.kill(2)
    await stage.until("node 3 leads", lambda: stage.replica(3).state.leader == 3)
    await stage.send(acks=1)
    stage.heal_cuts()
    stage.cluster.start(2)
    await stage.until("node 2 is in sync again", lambda: 2 in stage.partition.isr)
    await stage.elect_preferred()
    await asyncio.sleep(5)
    stage.heal()
    await stage.until("node 4 follows again", lambda: stage.replica(4).state.leader_epoch == 2)
    await asyncio.sleep(1)


async def late_follower(stage: Stage) -> None:
    """A new leader's high watermark is stale, and a replica that ends there asks for the rest."""
    await stage.make_topic([2, 3, 4])
    await stage.send(count=3)
    await stage.await_replication()
    stage.cut(fetch_answers(2, 4))
    sending = stage.send_soon()
    await stage.until("node 4 has left the ISR", lambda: 4 not in stage.partition.isr)
    if not await sending:
        raise ExpectationFailed("a record was refused with two replicas in sync")
    stage.cut(fetch_answers(3, 4))
    stage.cluster.kill(2)
    await stage.until("node 3 leads", lambda: stage.replica(3).state.leader == 3)
    await asyncio.sleep(5)


async def late_fetch(stage: Stage) -> None:
    """A fetch arrives after its follower lost power, came back with less, and is in sync again.

    Node 3 is in sync without the newest records, so they are not committed, and node 4 is in sync
    again before it has them. Each answer has one of them.
    """
    await stage.make_topic([2, 3, 4])
    await stage.send(count=3)
    await stage.await_replication()
    stage.cut(fetch_answers(2, 3))
    await stage.send(acks=1, count=30)
    await stage.until("node 4 has them", lambda: stage.copy(4).end == stage.copy(2).end)
    stage.links.degrade([(4, 2)], LinkQuality(delay_ms=15_000), "schedule")
    sending, before = stage.send_soon(), stage.copy(4).end
    await stage.until("node 4 has it", lambda: stage.copy(4).end > before)
    stage.lose_power(4)
    stage.links.restore([(4, 2)], "schedule")
    await stage.until("node 4 has left the ISR", lambda: 4 not in stage.partition.isr)
    stage.links.degrade([(2, 4)], LinkQuality(delay_ms=700), "slowly")
    stage.cluster.start(4)
    await stage.until("node 4 is in sync again", lambda: 4 in stage.partition.isr)
    stage.uncut(fetch_answers(2, 3))
    await asyncio.sleep(15)
    stage.links.restore([(2, 4)], "slowly")
    await sending


async def late_request(stage: Stage) -> None:
    """A request to add a follower to the ISR is late: by then the follower is back without its log.

    It has its disk still. On another one its log directory would change, and the partition epoch
    with it: then the late request is refused for its partition epoch.
    """
    await stage.make_topic([2, 3, 4])
    await stage.send(count=3)
    stage.cut(fetch_answers(2, 4))
    sending = stage.send_soon()
    await stage.until("node 4 has left the ISR", lambda: 4 not in stage.partition.isr)
    await sending
    stage.links.degrade([(2, 1)], LinkQuality(delay_ms=4000), "schedule")
    await asyncio.sleep(5)
    stage.heal()
    await stage.until("node 2 asks for it", lambda: stage.replica(2).state.proposal is not None)
    stage.host(4).terminate()
    await stage.until("node 4 has ended", lambda: not stage.host(4).running)
    stage.remove_log(4)
    stage.cut(fetch_answers(2, 4), fetch_answers(3, 4))
    stage.cluster.start(4)
    await asyncio.sleep(15)
    stage.links.restore([(2, 1)], "schedule")


async def unknown_epochs(stage: Stage) -> None:
    """A follower's tail is of two epochs that no other node has, and shorter than the leader's log.

    The follower truncates in two steps; the last epoch that both have is the first one.
    """
    await stage.make_topic([4, 3, 2])
    await stage.send(count=3)
    await stage.await_replication()
    stage.cut(fetch_answers(4, 3), fetch_answers(3, 2))
    await stage.send(acks=1, count=2)
    await stage.until("node 2 has them", lambda: stage.copy(2).end == stage.copy(4).end)
    stage.cut(*both_ways(4, 1))
    await stage.until("node 3 leads", lambda: stage.partition.leader == 3)
    await stage.until("and knows it", lambda: stage.replica(3).state.role is Role.LEADER)
    await stage.send(acks=1, to=3, count=6)
    stage.cut(*both_ways(3, 1))
    await stage.until("node 2 leads", lambda: stage.replica(2).state.role is Role.LEADER)
    await stage.send(acks=1, to=2, count=2)
    stage.cut(*both_ways(2, 1))
    await stage.until("nobody leads", lambda: stage.partition.leader == -1)
    stage.uncut(*both_ways(3, 1))
    await stage.until("node 3 leads again", lambda: stage.partition.leader == 3)
    stage.uncut(*both_ways(4, 1), fetch_answers(4, 3))
    await stage.until("node 4 is in sync", lambda: 4 in stage.replica(3).state.isr)
    await stage.send(to=3, count=5)


async def leader_dies(stage: Stage) -> None:
    """A leader is killed; the other replicas do not know that its last record is committed."""
    await stage.make_topic([2, 3, 4])
    await stage.send(count=3)
    stage.cluster.kill(2)
    await stage.until("node 3 leads", lambda: stage.partition.leader == 3)
    await asyncio.sleep(2)


async def leader_alone(stage: Stage) -> None:
    """A leader that is cut off from its followers continues, and dies."""
    await stage.make_topic([2, 3, 4])
    await stage.send()
    stage.cut(fetch_answers(2, 3), fetch_answers(2, 4))
    for acks in (-1, 1, -1, 1):
        await stage.try_to_send(acks)
    await stage.until("node 2 is alone", lambda: stage.partition.isr == (2,))
    await stage.try_to_send(1)
    stage.cluster.kill(2)
    await stage.until("another one leads", lambda: stage.partition.leader in (3, 4))


async def leader_dies_first(stage: Stage) -> None:
    """A leader dies whose followers have not fetched for a moment."""
    await stage.make_topic([2, 3, 4])
    await stage.send()
    stage.cut(fetch_answers(2, 3), fetch_answers(2, 4))
    await stage.try_to_send(-1)
    stage.cluster.kill(2)
    await stage.until("another one leads", lambda: stage.partition.leader in (3, 4))


async def follower_without_controller(stage: Stage) -> None:
    """A follower is cut off from the controller, and keeps fetching."""
    await stage.make_topic([2, 3, 4])
    stage.cut(*both_ways(4, 1))
    await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
    await asyncio.sleep(2)


async def only_lagging_replica_left(stage: Stage) -> None:
    """Only one replica is left, which has not been in sync for a while."""
    await stage.make_topic([2, 3, 4])
    stage.cut(fetch_answers(2, 4))
    await stage.try_to_send(-1)
    await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
    await stage.send(count=3)
    stage.cluster.kill(2)
    stage.cluster.kill(3)
    stage.heal()
    await asyncio.sleep(8)


async def last_in_sync_replica_loses_power(stage: Stage) -> None:
    """Both followers fall behind, one after the other; then the leader loses power."""
    await stage.make_topic([2, 3, 4])
    stage.cut(fetch_answers(2, 4))
    await stage.try_to_send(-1)
    await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
    await stage.send(count=3)
    stage.cut(fetch_answers(2, 3))
    await stage.try_to_send(-1)
    await stage.until("node 3 is out", lambda: 3 not in stage.partition.isr)
    stage.lose_power(2)
    await stage.until("nobody leads, or node 3", lambda: stage.partition.leader != 2)
    stage.cluster.start(2)
    await asyncio.sleep(3)


async def damaged_log(stage: Stage) -> None:
    """The last in-sync replica comes back with a flipped bit in the middle of its log."""
    await stage.make_topic([2, 3, 4], min_insync_replicas="1")
    stage.cut(fetch_answers(2, 3), fetch_answers(2, 4))
    sending = stage.send_soon()
    await stage.until("node 2 is alone", lambda: stage.partition.isr == (2,))
    await sending
    await stage.send(count=9)
    stage.cluster.kill(2)
    await stage.until("nobody leads", lambda: stage.partition.leader == -1)
    disk(stage.host(2)).content.corrupt(f"{TOPIC}/00000000000000000000.log", 300)
    stage.invariants.damaged(2)
    stage.heal()
    stage.cluster.start(2)
    await asyncio.sleep(10)
    if any(stage.replica(node).state.role is Role.LEADER for node in (2, 3, 4)):
        raise ExpectationFailed("a replica leads without acknowledged records")


async def emptied_log_of_a_lost_epoch(stage: Stage) -> None:
    """Retention empties the log of a leader that is killed then. A replica that lacks its last
    records leads, as the topic permits, and writes beyond where that log ends. The first leader is
    in sync again, and leads."""
    await stage.make_topic([2, 3, 4], unclean_leader_election_enable="true")
    await stage.send(count=3)
    await stage.await_replication()
    stage.cut(fetch_answers(2, 4), fetch_answers(3, 4))
    await stage.try_to_send(-1)
    await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
    await stage.send(count=3)
    end = stage.copy(2).end
    await stage.until("node 3 has all", lambda: stage.replica(3).state.high_watermark == end)
    stage.cluster.kill(2)
    await stage.until("node 3 leads", lambda: stage.partition.leader == 3)
    await _empty(stage, 3)
    stage.cluster.kill(3)
    await stage.until("node 4 leads", lambda: stage.partition.leader == 4)
    common = stage.copy(4).end
    stage.heal_cuts()
    stage.cluster.start(2)
    await stage.until("node 2 is in sync again", lambda: 2 in stage.partition.isr)
    while stage.copy(4).end <= end:
        await stage.send()
    stage.cluster.start(3)
    await stage.until("node 3 is in sync again", lambda: 3 in stage.partition.isr)
    stage.cluster.kill(2)
    stage.cluster.kill(4)
    await stage.until("node 3 leads again", lambda: stage.partition.leader == 3)
    if stage.replica(3).log.start_offset > common:
        raise ExpectationFailed("a replica leads without acknowledged records")


async def _empty(stage: Stage, leader: int) -> None:
    """Let retention remove all records that the leader has now, and none of later ones."""
    end = stage.copy(leader).end
    async with AdminClient([stage.cluster.brokers[leader]]) as admin:
        await configs.alter(admin, {configs.topic(TOPIC.topic): {"retention.ms": "1000"}})
        await stage.until("its log is empty", lambda: stage.replica(leader).log.start_offset == end)
        await configs.alter(admin, {configs.topic(TOPIC.topic): {"retention.ms": "-1"}})


async def emptied_log(stage: Stage) -> None:
    """Of two replicas that were last in sync, one loses the end of its log on a bad disk. Retention
    empties the log of the other one, which is then killed."""
    await stage.make_topic([2, 3, 4])
    stage.cut(fetch_answers(2, 4), fetch_answers(3, 4))
    await stage.try_to_send(-1)
    await stage.until("node 4 is out", lambda: 4 not in stage.partition.isr)
    await stage.send(count=3)
    end = stage.copy(2).end
    await stage.until(
        "node 3 knows that all is committed", lambda: stage.replica(3).state.high_watermark == end
    )
    stage.cluster.kill(2)
    await stage.until("node 3 leads", lambda: stage.partition.leader == 3)
    await _empty(stage, 3)
    stage.cluster.kill(3)
    await stage.until("nobody leads", lambda: stage.partition.leader == -1)
    damaged = disk(stage.host(2)).content.open(f"{TOPIC}/00000000000000000000.log")
    damaged.truncate(damaged.size() - 1)
    stage.invariants.damaged(2)
    stage.cluster.start(2)
    stage.cluster.start(3)
    await stage.until("somebody leads", lambda: stage.partition.leader != -1)
    if stage.partition.leader == 2:
        raise ExpectationFailed("a replica leads without acknowledged records")
