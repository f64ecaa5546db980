"""The producer ids of a broker: in blocks, each id once."""

import asyncio
from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.ids import NodeId
from nodes.server.coordinators.producer_ids import ProducerIds


class Controller:
    """Allocates blocks of two ids, if it can."""

    def __init__(self) -> None:
        self.asked = 0
        self.can = True

    async def forward(self, request: Any, *, timeout_s: float) -> Any:
        self.asked += 1
        start = 10 * self.asked
        await asyncio.sleep(0.01)
        error = ErrorCode.none if self.can else ErrorCode.not_controller
        return SimpleNamespace(error_code=error, producer_id_start=start, producer_id_len=2)


def of(controller: Controller) -> ProducerIds:
    """The ids of node 1."""
    registration: Any = SimpleNamespace(broker_epoch=5)
    return ProducerIds(NodeId(1), controller, registration)  # type: ignore[arg-type]


def test_ids_are_given_once_and_blocks_asked_for_once() -> None:
    """Also to several who ask at one time."""

    async def test() -> None:
        controller = Controller()
        ids = of(controller)
        assert await asyncio.gather(*(ids.next_id() for _ in range(3))) == [10, 11, 20]
        assert controller.asked == 2
        assert await ids.next_id() == 21

    asyncio.run(test())


def test_taking_does_not_wait_but_asks() -> None:
    """So that the next one finds an id."""

    async def test() -> None:
        controller = Controller()
        ids = of(controller)
        assert ids.take() is None
        assert ids.take() is None
        await asyncio.sleep(0.05)
        assert (ids.take(), ids.take()) == (10, 11)
        assert controller.asked == 1

    asyncio.run(test())


def test_reserved_ids_are_taken_without_waiting() -> None:
    """A coordinator takes one in the middle of a decision."""

    async def test() -> None:
        ids = of(Controller())
        await ids.reserve()
        await ids.reserve()
        assert ids.take() == 10

    asyncio.run(test())


def test_a_controller_that_refuses_gives_none() -> None:
    """And is asked again the next time."""

    async def test() -> None:
        controller = Controller()
        ids = of(controller)
        controller.can = False
        assert await ids.next_id() is None
        controller.can = True
        assert await ids.next_id() == 20

    asyncio.run(test())
