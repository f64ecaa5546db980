"""Work on several machines at the same time: it mostly waits, for kernels and connections."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")


def in_parallel(machines: Iterable[int], work: Callable[[int], R]) -> dict[int, R]:
    """Call `work` for every machine, each in a thread, and return the results by machine.

    Raises what the call for the lowest machine number raised.
    """
    todo = sorted(set(machines))
    if not todo:
        return {}
    with ThreadPoolExecutor(len(todo)) as pool:
        return dict(zip(todo, pool.map(work, todo), strict=True))
