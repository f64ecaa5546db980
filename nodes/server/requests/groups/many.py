"""A request about many groups: each group is served by itself, and other requests in between."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

T = TypeVar("T")

SLICE: Final = 100
"""So many groups are begun in one turn of the event loop: about five milliseconds."""


async def side_by_side(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the jobs side by side; return their results in order.

    Raises the first error of a job. If the caller is cancelled, so are the jobs.
    """
    tasks: list[asyncio.Task[T]] = []
    loop = asyncio.get_running_loop()
    try:
        for number, job in enumerate(jobs, start=1):
            tasks.append(loop.create_task(job))
            if number % SLICE == 0:
                await asyncio.sleep(0)
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
