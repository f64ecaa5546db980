"""Backoff, and a signal for waiting without a task."""

import asyncio
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double from `first_s` up to `last_s`, a fifth more or less (KIP-580)."""

    first_s: float
    last_s: float

    def pause_s(self, failures: int, rng: random.Random) -> float:
        """Return the pause after `failures` failures in a row, at least one."""
        doubled_s = self.first_s * (1 << min(failures - 1, 16))
        return min(doubled_s, self.last_s) * rng.uniform(0.8, 1.2)


class Signal:
    """One task waits for it, with a time limit. A `set` before the wait counts too."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiting task, or the next one that waits."""
        self._is_set = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait until it is set, at most `timeout_s`, and clear it."""
        if not self._is_set and timeout_s > 0:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(timeout_s, self._wake)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        self._is_set = False
