"""Delayed produces of one partition are completed in the order of their offset, once each."""

import asyncio

from nodes.ids import Epoch, Offset
from nodes.replication.partition import ProduceStatus
from nodes.server.purgatory.delayed_produce import AckOf, ProducePurgatory

EPOCH = Epoch(3)


def committed(high_watermark: int) -> AckOf:
    def ack_of(epoch: Epoch, required_offset: Offset) -> ProduceStatus:
        if epoch != EPOCH:
            return ProduceStatus.NOT_LEADER
        return ProduceStatus.OK if required_offset <= high_watermark else ProduceStatus.PENDING

    return ack_of


def test_high_watermark_completes_the_produces_at_or_below_it() -> None:
    """In whatever order they came: a duplicate waits for a lower offset."""

    async def run() -> None:
        purgatory = ProducePurgatory()
        futures = {offset: purgatory.add(EPOCH, Offset(offset)) for offset in (5, 9, 2)}
        purgatory.check_and_complete(committed(5))
        assert {offset: future.done() for offset, future in futures.items()} == {
            5: True,
            9: False,
            2: True,
        }
        purgatory.check_and_complete(committed(9))
        assert futures[9].result() is ProduceStatus.OK
        assert not purgatory

    asyncio.run(run())


def test_end_of_a_leader_epoch_completes_all_its_produces() -> None:
    """No produce waits for a node that leads no more."""

    async def run() -> None:
        purgatory = ProducePurgatory()
        old = [purgatory.add(Epoch(2), Offset(offset)) for offset in (1, 7)]
        purgatory.check_and_complete(committed(0))
        assert [future.result() for future in old] == [
            ProduceStatus.NOT_LEADER,
            ProduceStatus.NOT_LEADER,
        ]

    asyncio.run(run())


def test_removed_produce_leaves_nothing_behind() -> None:
    """As after a timeout."""

    async def run() -> None:
        purgatory = ProducePurgatory()
        purgatory.remove(purgatory.add(EPOCH, Offset(5)))
        assert not purgatory

    asyncio.run(run())
