"""Waiting without tasks of its own, and backing off: what every part of the client does."""

import asyncio
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that double from `first_s` up to `last_s`, a fifth more or less (KIP-580)."""

    first_s: float
    last_s: float

    def pause_s(self, failures: int, rng: random.Random) -> float:
        """The pause after so many failures in a row, at least one."""
        doubled_s = self.first_s * (1 << min(failures - 1, 16))
        return min(doubled_s, self.last_s) * rng.uniform(0.8, 1.2)


class Signal:
    """One task waits for it, with a bound; set before the wait counts too."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiter, now or when it comes."""
        self._is_set = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Until it is set, at most `timeout_s`; it is not set afterwards."""
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
