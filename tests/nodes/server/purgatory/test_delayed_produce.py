"""Who waits for an offset is answered in its order, once, and not longer than it listens."""

import asyncio

from nodes.ids import Epoch, Offset
from nodes.replication.partition import Ack
from nodes.server.purgatory.delayed_produce import Acks, Judge

EPOCH = Epoch(3)


def committed(high_watermark: int) -> Judge:
    def judge(epoch: Epoch, required: Offset) -> Ack:
        if epoch != EPOCH:
            return Ack.NOT_LEADER
        return Ack.DONE if required <= high_watermark else Ack.WAIT

    return judge


def test_an_advance_answers_those_at_or_below_it() -> None:
    """Whatever the order in which they came: a duplicate waits for a lower offset."""

    async def run() -> None:
        acks = Acks()
        waiting = {offset: acks.wait(EPOCH, Offset(offset)) for offset in (5, 9, 2)}
        acks.settle(committed(5))
        assert {offset: future.done() for offset, future in waiting.items()} == {
            5: True,
            9: False,
            2: True,
        }
        acks.settle(committed(9))
        assert waiting[9].result() is Ack.DONE
        assert not acks

    asyncio.run(run())


def test_the_end_of_an_epoch_answers_everyone_of_it() -> None:
    """Nobody waits for a leader that is none any more."""

    async def run() -> None:
        acks = Acks()
        old = [acks.wait(Epoch(2), Offset(offset)) for offset in (1, 7)]
        acks.settle(committed(0))
        assert [future.result() for future in old] == [Ack.NOT_LEADER, Ack.NOT_LEADER]

    asyncio.run(run())


def test_who_gave_up_is_forgotten() -> None:
    """A timed-out request leaves nothing behind."""

    async def run() -> None:
        acks = Acks()
        acks.forget(acks.wait(EPOCH, Offset(5)))
        assert not acks

    asyncio.run(run())
