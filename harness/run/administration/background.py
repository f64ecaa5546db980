"""Work that a cluster under faults lets nobody do at once: done in the background, step by step.

An errand is tried again, whatever goes wrong, until it is done or dropped; one strand does them in
turn, so that no two are at work at the same moment. What is not done when time is up is named.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.concurrency import Strand, Strands, Threads

POLL_S: Final = 0.2
"""How often each errand is tried."""

Step = Callable[[], bool]
"""Does the next thing; true when everything is done. May raise: then it is tried again."""


@dataclass(slots=True, kw_only=True, eq=False)
class Errand:
    """One piece of work, for a layer of changes."""

    layer: str
    text: str
    step: Step
    trouble: str = ""

    def try_it(self) -> bool:
        """Whether it is done now; why not is in `trouble`."""
        try:
            return self.step()
        except Exception as error:
            self.trouble = str(error) or type(error).__name__
            return False

    def __str__(self) -> str:
        return f"{self.text} ({self.trouble})" if self.trouble else self.text


class Errands:
    """All errands of a run, and the strand that does them. Any strand may call."""

    def __init__(self, strands: Strands | None = None) -> None:
        self._strands = strands or Threads()
        self._mutex = self._strands.mutex()
        self._at_work = self._strands.mutex()
        self._open: list[Errand] = []
        self._ended = False
        self._strand: Strand | None = None

    def add(self, errand: Errand) -> None:
        """Do it from now on."""
        with self._mutex:
            self._open.append(errand)
            if self._strand is None:
                self._strand = self._strands.spawn(self._run, "errands")

    def drop(self, layer: str) -> None:
        """Let a layer's errands be; none of them is at work any more when this returns."""
        with self._at_work, self._mutex:
            self._open = [each for each in self._open if each.layer != layer]

    def owed(self, layer: str | None = None) -> Sequence[str]:
        """What is not done yet, of a layer or of all, and why."""
        with self._mutex:
            return [str(each) for each in self._open if layer in (None, each.layer)]

    def finish(self, timeout_s: float) -> Sequence[str]:
        """Wait until everything is done, or nothing more was for so long; returns what is not."""
        last_s, before = self._strands.now_s(), len(self.owed())
        while (left := self.owed()) and self._strands.now_s() < last_s + timeout_s:
            if len(left) < before:
                last_s, before = self._strands.now_s(), len(left)
            self._strands.sleep(POLL_S)
        return left

    def close(self) -> None:
        """Begin nothing more, and wait for what is at work."""
        self._ended = True
        if self._strand is not None:
            self._strand.wait()

    def _run(self) -> None:
        while not self._ended:
            self._strands.sleep(POLL_S)
            with self._mutex:
                waiting = list(self._open)
            for errand in waiting:
                with self._at_work:
                    with self._mutex:
                        dropped = errand not in self._open
                    if not dropped and not self._ended and errand.try_it():
                        with self._mutex:
                            self._open.remove(errand)
