"""Requests about many groups."""

import asyncio

import pytest

from nodes.server.requests.groups.many import SLICE, side_by_side


def test_other_work_is_done_between_two_slices() -> None:
    """And the results are in order."""
    turns: list[str] = []

    async def job(number: int) -> int:
        turns.append("job")
        return number

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        loop.call_soon(turns.append, "first")
        waiting = asyncio.ensure_future(side_by_side(job(number) for number in range(3 * SLICE)))
        await asyncio.sleep(0)
        loop.call_soon(turns.append, "other")
        return await waiting

    assert asyncio.run(main()) == list(range(3 * SLICE))
    assert turns.index("other") <= SLICE + 1


def test_a_cancelled_request_cancels_its_jobs() -> None:
    """Nothing goes on when the connection is lost."""
    ended: list[int] = []

    async def job(number: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(number)

    async def main() -> None:
        waiting = asyncio.ensure_future(side_by_side(job(number) for number in range(3)))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert sorted(ended) == [0, 1, 2]
