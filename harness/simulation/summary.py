"""What a campaign says of itself: seeds in, lines out, exit codes. Pure but for the display."""

import hashlib
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.plans.plan import PlanError
from harness.reports import terminal
from harness.simulation.campaign import FAILED, IDLE, INVALID, UNKNOWN, UNMET, VALID, Result

LINE_INTERVAL_S: Final = 5.0
ENDLESS: Final = 1 << 31
EXIT_CODES: Final = {INVALID: 1, UNMET: 1, FAILED: 255, UNKNOWN: 2, VALID: 0, IDLE: 2}
"""The gravest outcome decides, in this order; seeds that are idle only where all are."""


def seeds(text: str) -> range:
    """`7`, `1..100`, or `1..` for all from 1 on. Raises PlanError."""
    first, dots, last = text.partition("..")
    try:
        begin = int(first)
        end = begin if not dots else int(last) if last else ENDLESS
    except ValueError:
        begin, end = 0, -1
    if not 0 <= begin <= end <= ENDLESS:
        raise PlanError(f"--seeds {text!r}: write A..B with A no more than B, one number, or A..")
    return range(begin, end + 1)


@dataclass(slots=True)
class Sum:
    """What came of the seeds so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    digests: dict[int, str] = field(default_factory=dict)
    screened: int = 0
    acked: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    began_s: float = field(default_factory=time.monotonic)

    def add(self, result: Result) -> None:
        """One more seed."""
        self.outcomes[result.outcome] += 1
        self.met += result.met
        self.digests[result.seed] = result.digest
        self.screened += result.screened
        self.acked += result.acked
        self.simulated_s += result.simulated_s
        self.cpu_s += result.cpu_s

    @property
    def exit_code(self) -> int:
        """Of the gravest outcome."""
        return next((code for name, code in EXIT_CODES.items() if self.outcomes[name]), 2)

    @property
    def digest(self) -> str:
        """Of all seeds' digests in their order: equal campaigns, equal digests."""
        text = "".join(f"{seed} {self.digests[seed]}\n" for seed in sorted(self.digests))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def line(self) -> str:
        """All of it in one line."""
        told = [f"{self.outcomes[name]} {name}" for name in EXIT_CODES if self.outcomes[name]]
        seeds, passed_s = len(self.digests), time.monotonic() - self.began_s
        speed = self.simulated_s / self.cpu_s if self.cpu_s else 0.0
        return (
            f"{seeds:,} seeds, {self.simulated_s / 60:,.1f} simulated minutes, {self.acked:,} "
            f"sends acknowledged: {', '.join(told) or 'none ended yet'} ({self.screened} by the "
            f"screen alone); {passed_s:.0f} s, {speed:.0f} simulated s a processor s"
        )


def failure(result: Result, replay: Sequence[str]) -> str:
    """A seed that is not valid, and the command that shows it again."""
    why = result.reasons[0] if result.reasons else "no reason was given"
    lines = [f"seed {result.seed} {result.outcome}: {why}"]
    if result.drawn:
        lines.append(f"  drawn   {result.drawn}")
    if result.run is not None:
        lines.append(f"  run     {result.run}")
    return "\n".join([*lines, f"  replay  {' '.join(replay)}"])


def coverage(met: Counter[str]) -> str:
    """Situations and how often they were met, the rarest first."""
    told = sorted(met.items(), key=lambda item: (item[1], item[0]))
    return "\n".join(["met, the rarest first:", *(f"  {count:9,}  {name}" for name, count in told)])


@contextmanager
def shown(total: Sum) -> Iterator["Display"]:
    """Show the sum on stderr while it grows."""
    console = terminal.console(stderr=True)
    if not console.is_terminal:
        yield Display(total)
        return
    live = Live(get_renderable=lambda: Text(total.line()), console=console, transient=True)
    with live:
        yield Display(total, console)


class Display:
    """A line that is redrawn on a terminal, one now and then elsewhere."""

    def __init__(self, total: Sum, console: Console | None = None) -> None:
        self._total = total
        self._console = console
        self._next_s = time.monotonic() + LINE_INTERVAL_S

    def moved(self) -> None:
        """Something has changed."""
        if self._console is None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + LINE_INTERVAL_S
            print(self._total.line(), file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a result, above the line if there is one."""
        if self._console is None:
            print(text, flush=True)
        else:
            self._console.print(Text(text), soft_wrap=True)
