"""The log lines of simulated nodes: kept by node, or discarded; never on the terminal."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from harness.simulation.world.world import NS, World

LOGGERS: Final = ("nodes", "asyncio")
MAX_LINES: Final = 200_000
"""The most lines that are kept of one node."""


class _NodeLogHandler(logging.Handler):
    def __init__(self, world: World, logs: dict[int, list[str]]) -> None:
        super().__init__()
        self._world = world
        self._logs = logs

    def emit(self, record: logging.LogRecord) -> None:
        owner = self._world.current
        lines = self._logs.setdefault(0 if owner is None else owner.number - 1, [])
        if len(lines) < MAX_LINES:
            at_s = self._world.now_ns / NS
            error = record.exc_info[1] if record.exc_info else None
            why = "" if error is None else f" ({type(error).__name__}: {error})"
            text = record.getMessage()
            lines.append(f"{at_s:.6f} {record.levelname} {record.name}: {text}{why}")


@contextmanager
def captured(world: World, logs: dict[int, list[str]] | None) -> Iterator[None]:
    """Keep log lines in `logs`, by node; discard them all if `logs` is None."""
    handler = logging.NullHandler() if logs is None else _NodeLogHandler(world, logs)
    level = logging.CRITICAL if logs is None else logging.INFO
    speakers = [logging.getLogger(name) for name in LOGGERS]
    before = [(each.level, each.propagate) for each in speakers]
    for each in speakers:
        each.addHandler(handler)
        each.setLevel(level)
        each.propagate = False
    try:
        yield
    finally:
        for each, (level, propagate) in zip(speakers, before, strict=True):
            each.removeHandler(handler)
            each.setLevel(level)
            each.propagate = propagate
