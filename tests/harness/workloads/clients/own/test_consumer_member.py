"""A member by ConsumerGroupHeartbeat leaves by its id, if it was told one."""

import asyncio
import random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.consumer_member import ConsumerMember
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.group_member import GroupSettings
from nodes.wire.errors import Disconnected

JOINED = SimpleNamespace(error_code=ErrorCode.none, member_id="a", member_epoch=1, assignment=None)


class Broker:
    """The only broker, as a Cluster: it answers heartbeats while it is up."""

    topic = "t"
    nodes = (1,)

    def __init__(self) -> None:
        self.rng = random.Random(0)
        self.up = True
        self.heard: list[tuple[str, int]] = []
        """The member id and member epoch of each heartbeat."""

    def connection(self, node: int) -> Any:
        async def start(api: str, **values: Any) -> Any:
            if api == "find_coordinator":
                return SimpleNamespace(error_code=ErrorCode.none, node_id=1)
            self.heard.append((values["member_id"], values["member_epoch"]))
            if not self.up:
                raise Disconnected("down")
            return JOINED

        return SimpleNamespace(start=start)


def member_of(broker: Broker) -> ConsumerMember:
    settings = GroupSettings(group="g", partitions={"t": 1}, session_s=1, rebalance_s=1)
    return ConsumerMember(broker, settings, {UUID(int=1): "t"})  # type: ignore[arg-type]


def test_member_leaves_by_its_id() -> None:
    """It has one after the first answer."""
    broker = Broker()
    member = member_of(broker)

    async def live() -> None:
        assert await member.join() is ErrorCode.none
        assert await member.leave() is ErrorCode.none

    asyncio.run(live())
    assert broker.heard == [("", 0), ("a", -1)]


def test_member_whose_join_got_no_answer_asks_nothing() -> None:
    """Kafka refuses a leave without a member id (INVALID_REQUEST); the session ends instead."""
    broker = Broker()
    member = member_of(broker)

    async def live() -> None:
        broker.up = False
        with pytest.raises(Unavailable):
            await member.join()
        broker.up = True
        assert await member.leave() is ErrorCode.none

    asyncio.run(live())
    assert broker.heard == [("", 0)]
