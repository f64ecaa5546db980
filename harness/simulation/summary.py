"""The summary of a campaign: seeds in, lines out, exit codes. Pure except for the display."""

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
from harness.simulation.decisions.reached import Reached

LINE_INTERVAL_S: Final = 5.0
MORE_REASONS: Final = 4
"""How many reasons of a seed are printed after the first."""
ENDLESS: Final = 1 << 31
EXIT_CODES: Final = {INVALID: 1, UNMET: 1, FAILED: 255, UNKNOWN: 2, VALID: 0, IDLE: 2}
"""The gravest outcome decides, in this order; IDLE decides only if all seeds are idle."""


def seeds(text: str) -> range:
    """Parse `7`, `1..100`, or `1..` (all from 1 on). Raises PlanError."""
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
class CampaignSummary:
    """The outcomes of all seeds so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    reached: Reached = field(default_factory=Reached)
    digests: dict[int, str] = field(default_factory=dict)
    screened: int = 0
    acked: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    began_s: float = field(default_factory=time.monotonic)

    def add(self, result: Result) -> None:
        """Add one seed."""
        self.outcomes[result.outcome] += 1
        self.met += result.met
        self.reached.add(result.states)
        self.digests[result.seed] = result.digest
        self.screened += result.screened
        self.acked += result.acked
        self.simulated_s += result.simulated_s
        self.cpu_s += result.cpu_s

    @property
    def exit_code(self) -> int:
        """The exit code of the gravest outcome."""
        return next((code for name, code in EXIT_CODES.items() if self.outcomes[name]), 2)

    @property
    def digest(self) -> str:
        """The hash of all seeds' digests in order: equal campaigns have equal digests."""
        text = "".join(f"{seed} {self.digests[seed]}\n" for seed in sorted(self.digests))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def line(self) -> str:
        """Return the summary as one line."""
        counts = [f"{self.outcomes[name]} {name}" for name in EXIT_CODES if self.outcomes[name]]
        seeds, passed_s = len(self.digests), time.monotonic() - self.began_s
        speed = self.simulated_s / self.cpu_s if self.cpu_s else 0.0
        return (
            f"{seeds:,} seeds, {self.simulated_s / 60:,.1f} simulated minutes, {self.acked:,} "
            f"sends acknowledged: {', '.join(counts) or 'none ended yet'} ({self.screened} by the "
            f"screen alone); {passed_s:.0f} s, {speed:.0f} simulated s per CPU s{self._states}"
        )

    @property
    def _states(self) -> str:
        states = len(self.reached.runs)
        return f", {states:,} states of decisions reached" if states else ""


def failure(result: Result, replay: Sequence[str]) -> str:
    """Return the lines for a seed that is not VALID, with the command that repeats it."""
    why, *others = result.reasons or ("without a reason",)
    lines = [f"seed {result.seed} {result.outcome}: {why}"]
    lines += [f"  also    {each}" for each in others[:MORE_REASONS]]
    if len(others) > MORE_REASONS:
        lines.append(f"  also    {len(others) - MORE_REASONS} more reasons: see --json")
    if result.drawn:
        lines.append(f"  drawn   {result.drawn}")
    if result.run is not None:
        lines.append(f"  run     {result.run}")
    return "\n".join([*lines, f"  replay  {' '.join(replay)}"])


def situations(met: Counter[str]) -> str:
    """Return the situations and how often they were reached, the rarest first."""
    counts = sorted(met.items(), key=lambda item: (item[1], item[0]))
    lines = (f"  {count:9,}  {name}" for name, count in counts)
    return "\n".join(["situations reached, the rarest first:", *lines])


@contextmanager
def live_display(total: CampaignSummary) -> Iterator["Display"]:
    """Show the summary on stderr while the campaign runs."""
    console = terminal.console(stderr=True)
    if not console.is_terminal:
        yield Display(total)
        return
    live = Live(get_renderable=lambda: Text(total.line()), console=console, transient=True)
    with live:
        yield Display(total, console)


class Display:
    """One line that is redrawn on a terminal, and printed now and then elsewhere."""

    def __init__(self, total: CampaignSummary, console: Console | None = None) -> None:
        self._total = total
        self._console = console
        self._next_s = time.monotonic() + LINE_INTERVAL_S

    def refresh(self) -> None:
        """Show the summary again; elsewhere than on a terminal, at most every LINE_INTERVAL_S."""
        if self._console is None and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + LINE_INTERVAL_S
            print(self._total.line(), file=sys.stderr, flush=True)

    def print(self, text: str) -> None:
        """Print a result above the line."""
        if self._console is None:
            print(text, flush=True)
        else:
            self._console.print(Text(text), soft_wrap=True)
