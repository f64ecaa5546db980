"""Fsyncs that fail and drop what they were to write, each in turn; then everybody loses power."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from tests.harness.targets.sim.schedules.stage import TOPIC, Schedule, Stage, Unmet, disk

CONTROLLER, LEADER = 1, 2


async def _fail(stage: Stage, node: int, after: int) -> None:
    """One sync of a node's fails; whoever ends by it is started again, and goes on."""
    disk(stage.host(node)).drop_sync(after=after)
    making = asyncio.ensure_future(stage.make([2, 3, 4], flush_messages="1"))
    for _ in range(3):
        await asyncio.sleep(5)
        if not stage.host(node).running:
            stage.cluster.start(node)
    with suppress(Unmet):  # somebody else may lead
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
def test_no_sync_that_fails_costs_what_was_promised(node: int, after: int) -> None:
    """Of whatever file: what is acknowledged after a flush is there when all come back."""
    stage = Stage(Schedule(play=partial(_fail, node=node, after=after)), seed=after)
    stage.run()
    assert not disk(stage.host(node)).drops, "nothing failed"
