"""The next request of a producer waits while its transaction is being ended, for a short time."""

import asyncio
from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.transactions.state import State
from nodes.server.coordinators.completions import WAIT_S, Completions
from nodes.server.coordinators.errors import CoordinatorError
from tests.support.nodes.coordinator_shard import run


class Coordinators:
    """The state of each transactional id that this broker coordinates."""

    def __init__(self, **states: State) -> None:
        self.states = states

    def find(self, name: str) -> Any:
        if name not in self.states:
            raise CoordinatorError(ErrorCode.not_coordinator)
        known = {each: SimpleNamespace(state=state) for each, state in self.states.items()}
        known = {each: found for each, found in known.items() if found.state is not State.DEAD}
        return SimpleNamespace(machine=SimpleNamespace(transactions=known))


async def waited_s(completions: Completions, name: str) -> float:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    await completions.wait(name)
    return loop.time() - begun_s


def test_requests_wait_for_the_end_of_their_transaction_and_go_on_in_order() -> None:
    """As soon as it is complete; those of another transaction go on waiting."""

    async def test() -> None:
        completions = Completions(Coordinators(a=State.PREPARE_COMMIT, b=State.PREPARE_ABORT))  # type: ignore[arg-type]
        done: list[str] = []

        async def ask(name: str, text: str) -> None:
            await completions.wait(name)
            done.append(text)

        asked = [asyncio.ensure_future(ask(n, t)) for n, t in (("a", "1"), ("b", "2"), ("a", "3"))]
        await asyncio.sleep(0)
        assert done == []
        completions.completed("c")
        completions.completed("a")
        await asyncio.sleep(WAIT_S / 10)
        assert done == ["1", "3"]
        await asyncio.gather(*asked)
        assert done == ["1", "3", "2"]

    run(test())


def test_nothing_is_waited_for_longer_than_a_broker_pauses() -> None:
    """A partition without a leader may keep a transaction from being complete for long."""

    async def test() -> None:
        completions = Completions(Coordinators(a=State.PREPARE_COMMIT))  # type: ignore[arg-type]
        assert WAIT_S <= await waited_s(completions, "a") < 2 * WAIT_S
        assert completions._waiting == {}

    run(test())


def test_what_is_not_being_ended_is_not_waited_for() -> None:
    """Open, complete and unknown transactions, and those of another broker."""

    async def test() -> None:
        known = {"open": State.ONGOING, "complete": State.COMPLETE_COMMIT, "unknown": State.DEAD}
        completions = Completions(Coordinators(**known))  # type: ignore[arg-type]
        assert [await waited_s(completions, name) for name in (*known, "elsewhere")] == [0.0] * 4

    run(test())


def test_a_request_that_is_given_up_is_forgotten() -> None:
    """Its connection was lost."""

    async def test() -> None:
        completions = Completions(Coordinators(a=State.PREPARE_COMMIT))  # type: ignore[arg-type]
        asked = asyncio.ensure_future(completions.wait("a"))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        assert completions._waiting == {}

    run(test())
