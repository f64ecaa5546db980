"""Fsyncs that fail and drop their pages, each in turn; then all nodes lose power."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from harness.zoo.schedules.stage import TOPIC, ExpectationFailed, MessageSchedule, Stage, disk

CONTROLLER, LEADER = 1, 2


async def _fail(stage: Stage, node: int, after: int) -> None:
    """One sync of a node's fails; whoever ends by it is started again, and goes on."""
    disk(stage.host(node)).fail_next_sync(after=after)
    making = asyncio.ensure_future(stage.make_topic([2, 3, 4], flush_messages="1"))
    for _ in range(3):
        await asyncio.sleep(5)
        if not stage.host(node).running:
            stage.cluster.start(node)
    with suppress(ExpectationFailed):  # somebody else may lead
        await making
    await stage.client.send_until_acked(*TOPIC)
    for _ in range(10):
        await stage.client.send(*TOPIC, -1)
    await asyncio.sleep(5)
    if not stage.host(node).running:
        stage.cluster.start(node)
        await stage.client.send_until_acked(*TOPIC)
    for each in stage.cluster.nodes:
        stage.lose_power(each)
    await asyncio.sleep(1)


@pytest.mark.parametrize("node", [CONTROLLER, LEADER])
@pytest.mark.parametrize("after", range(0, 20, 3))
def test_failed_sync_loses_no_acknowledged_record(node: int, after: int) -> None:
    """For each file: what is acknowledged after a flush is there when all nodes are back."""
    stage = Stage(MessageSchedule(play=partial(_fail, node=node, after=after)), seed=after)
    stage.run()
    assert not disk(stage.host(node)).sync_failure_pending, "nothing failed"


async def _unheard(stage: Stage, *, stopping: bool) -> None:
    """A sync of the controller's fails when it is about to stop, or is held up and killed before it
    hears of it; then it runs again, and loses its power."""
    await stage.make_topic([2, 3, 4])
    controller = stage.host(CONTROLLER)
    disk(controller).limit(bytes_per_s=0, operations_per_s=2)  # one is under way all the time
    await asyncio.sleep(2)
    disk(controller).fail_next_sync()
    if stopping:
        controller.terminate()
    else:
        controller.pause()
    await stage.until("a sync has failed", lambda: not disk(controller).sync_failure_pending)
    if not stopping:
        stage.cluster.kill(CONTROLLER)
    await stage.until("the controller has ended", lambda: not controller.running)
    disk(controller).unlimit()
    stage.cluster.start(CONTROLLER)
    await asyncio.sleep(5)
    stage.lose_power(CONTROLLER)
    await asyncio.sleep(1)


@pytest.mark.parametrize("stopping", [True, False])
def test_unnoticed_sync_failure_loses_nothing_after_a_restart(stopping: bool) -> None:
    """The process that is started next does not take for flushed what is not (the invariants look),
    whether the one before left a clean mark or nothing at all."""
    Stage(MessageSchedule(play=partial(_unheard, stopping=stopping)), seed=1).run()
