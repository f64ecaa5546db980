"""Steps to take in order, without stopping the event loop however many there are.

A change of the metadata may concern thousands of partitions: taken at one go they would hold up
every request, heartbeat and vote of this node. So steps are taken for a bounded time at once, and
for as long in each later turn of the loop, in the order in which they were added. A step that
raises ends the backlog for good: what comes after it may rely on it. `failure` then says why, and
the node must stop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

log = logging.getLogger("nodes.backlog")

TURN_MS = 5.0
STEPS_IN_A_TURN = 64
"""The bound where time does not pass while code runs."""


class Backlog:
    """See the module; `after_turn` is called after every turn in which a step was taken."""

    def __init__(self, now_ms: Callable[[], float], after_turn: Callable[[], None]) -> None:
        self._now_ms = now_ms
        self._after_turn = after_turn
        self._steps: deque[Callable[[], None]] = deque()
        self._turning = False
        self._ended = False
        self.failure = ""

    def add(self, step: Callable[[], None]) -> None:
        """One more step; `run` takes it."""
        if not self._ended:
            self._steps.append(step)

    def run(self) -> None:
        """Take the steps that there are: a few now, unless others wait before them."""
        if not self._turning:
            self._turn()

    def end(self) -> None:
        """Take no more steps, now or later: what they would change is about to be closed."""
        self._ended = True
        self._steps.clear()

    def _turn(self) -> None:
        self._turning = False
        if self.failure or not self._steps:
            return
        try:
            until_ms = self._now_ms() + TURN_MS
            for _ in range(min(STEPS_IN_A_TURN, len(self._steps))):
                self._steps.popleft()()
                if self._now_ms() > until_ms:
                    break
            self._after_turn()
        except Exception as error:
            log.exception("a change of the metadata could not be followed")
            self.failure = f"a change of the metadata could not be followed: {error}"
            self._steps.clear()
        if self._steps:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)
