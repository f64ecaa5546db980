"""The metadata changes that this broker has still to apply, as steps in order.

A change of the metadata may concern thousands of partitions. All steps at once would delay every
request, heartbeat and vote of this node. So the steps run for a bounded time in each turn of the
event loop, in the order in which they were added. A step that raises ends the backlog for good,
because later steps may rely on it. `failure` then says why, and the node must stop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

log = logging.getLogger("nodes.backlog")

TURN_MS = 5.0
STEPS_PER_TURN = 64
"""A second bound, for simulated clocks that stand still while code runs."""


class Backlog:
    """See the module; `after_turn` is called after every turn in which a step ran."""

    def __init__(self, now_ms: Callable[[], float], after_turn: Callable[[], None]) -> None:
        self._now_ms = now_ms
        self._after_turn = after_turn
        self._steps: deque[Callable[[], None]] = deque()
        self._turning = False
        self._ended = False
        self.failure = ""

    def add(self, step: Callable[[], None]) -> None:
        """Add a step; `run` runs it."""
        if not self._ended:
            self._steps.append(step)

    def run(self) -> None:
        """Start to run the steps: some of them now, unless a later turn is scheduled already."""
        if not self._turning:
            self._turn()

    def end(self) -> None:
        """Run no more steps: the logs that they would change are about to be closed."""
        self._ended = True
        self._steps.clear()

    def _turn(self) -> None:
        self._turning = False
        if self.failure or not self._steps:
            return
        try:
            until_ms = self._now_ms() + TURN_MS
            for _ in range(min(STEPS_PER_TURN, len(self._steps))):
                self._steps.popleft()()
                if self._now_ms() > until_ms:
                    break
            self._after_turn()
        except Exception as error:
            log.exception("a metadata change could not be applied")
            self.failure = f"a metadata change could not be applied: {error}"
            self._steps.clear()
        if self._steps:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._turn)
