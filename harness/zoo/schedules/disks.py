"""Schedules about a leader's disk: brokers 2, 3 and 4, controller 1."""

import asyncio
from functools import partial

from harness.zoo.schedules.stage import TOPIC, ExpectationFailed, Stage, disk


async def failing_disk(stage: Stage) -> None:
    """The leader's disk fails for a while."""
    await stage.make_topic([2, 3, 4])
    await stage.send()
    disk(stage.host(2)).fail()
    stage.client.leaders[TOPIC] = 2
    await stage.client.send(*TOPIC, 1)
    disk(stage.host(2)).repair()
    await asyncio.sleep(5)
    if stage.host(2).running:
        raise ExpectationFailed("node 2 still uses a log without knowing what is on the disk")


async def hanging_disk(stage: Stage) -> None:
    """An fsync of the leader hangs, while the topic requires one."""
    await stage.make_topic([2, 3, 4], flush_messages="1")
    await stage.send()
    disk(stage.host(2)).limit(bytes_per_s=5, operations_per_s=0)
    stage.send_soon()
    await stage.until("somebody else leads", lambda: stage.partition.leader in (3, 4), 15)


async def flushed_first(stage: Stage) -> None:
    """The topic requires a flush before each acknowledgement."""
    await stage.make_topic([2, 3, 4], flush_messages="1")
    await stage.send(count=3)


async def failed_sync(stage: Stage) -> None:
    """An fsync of the leader fails; the leader ends, restarts, leads again, and loses power."""
    await stage.make_topic([2, 3, 4], flush_messages="1", min_insync_replicas="1")
    await stage.send(count=3)
    for follower in (3, 4):
        stage.cluster.kill(follower)
        await stage.until(f"node {follower} is out of sync", partial(_out_of_sync, stage, follower))
    await asyncio.sleep(1)  # so that the next sync is that of the record
    disk(stage.host(2)).fail_next_sync()
    stage.send_soon()
    await stage.until("node 2 ends", lambda: not stage.host(2).running)
    stage.cluster.start(2)
    await stage.until("node 2 leads again", lambda: stage.partition.leader == 2)
    await stage.client.send_until_acked(*TOPIC)
    stage.lose_power(2)
    await asyncio.sleep(1)


def _out_of_sync(stage: Stage, node: int) -> bool:
    return node not in stage.partition.isr
