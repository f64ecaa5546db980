"""Finds what only a garbage collection can free: the cycles that code leaves behind."""

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType

import nodes

SOURCES = nodes.__path__[0]


@contextmanager
def collected() -> Iterator[list[str]]:
    """What the block leaves to the collector, known when it has ended: the frames of `nodes` and
    the objects of its types, by name. What is under way at the end, and its answers, is no garbage.
    """
    found: list[str] = []
    _collect_what_was_before()
    gc.disable()
    logging.disable()  # pytest keeps what was logged, errors with their frames too
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += [name for name in map(_ours, gc.garbage) if name]
    finally:
        logging.disable(logging.NOTSET)
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _collect_what_was_before() -> None:
    """Finalisers let go of more, which only the next collection finds."""
    for _ in range(10):
        if not gc.collect():
            return


def _ours(thing: object) -> str:
    if isinstance(thing, FrameType):
        ours = thing.f_code.co_filename.startswith(SOURCES)
        return f"frame of {thing.f_code.co_qualname}" if ours else ""
    if isinstance(thing, type | FunctionType):  # made once, when a version is first met
        return ""
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__.startswith("nodes.") else ""
