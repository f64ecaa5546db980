"""Shows the progress of a run: a live display on a terminal, plain lines elsewhere.

The runner announces its phases and the functions that return numbers; the display calls them when
it needs them. Nothing here can fail a run. All output goes to stderr, because stdout is for
results.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.plans.plan import Plan, acks_name
from harness.reports import terminal
from harness.systems.monitoring.cluster_view import PartitionView
from nodes.ids import TopicPartition

OF_FIXED_LENGTH: Final = ("warm up", "chaos")
"""The phases that take the time that they are given."""
LINE_INTERVAL_S: Final = 5.0
REFRESH_PER_S: Final = 2

Counters = Mapping[str, Mapping[str, Any]]
"""Topic or further workload -> its counters: at_ns, sent, acked, failed, info, read, p50_ms,
p99_ms."""


class Progress(Protocol):
    """Receives the runner's announcements."""

    def phase(self, name: str, bound_s: float | None) -> None:
        """Announce a phase. It takes `bound_s` seconds at most, if that is known."""
        ...

    def note(self, text: str) -> None:
        """Show something that a person should know."""
        ...

    def watch(
        self,
        *,
        counters: Callable[[], Counters] | None = None,
        faults: Callable[[], Sequence[str]] | None = None,
        partitions: Callable[[], Mapping[TopicPartition, PartitionView]] | None = None,
    ) -> None:
        """Set where numbers come from. Each function may be called from any thread."""
        ...


class Board:
    """The state of the display, and its rendering as rich renderables and as lines."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds; only differences count."""
        self._plan = plan
        self._clock = clock
        self._phase = "set up"
        self._since_s = clock()
        self._bound_s: float | None = None
        self._counters: Callable[[], Counters] = dict
        self._faults: Callable[[], Sequence[str]] = tuple
        self._partitions: Callable[[], Mapping[TopicPartition, PartitionView]] = dict
        self._rates: dict[str, _Rate] = {}

    def phase(self, name: str, bound_s: float | None) -> None:
        """Begin a phase."""
        self._phase, self._since_s, self._bound_s = name, self._clock(), bound_s

    def watch(
        self,
        *,
        counters: Callable[[], Counters] | None = None,
        faults: Callable[[], Sequence[str]] | None = None,
        partitions: Callable[[], Mapping[TopicPartition, PartitionView]] | None = None,
    ) -> None:
        """Set where numbers come from."""
        self._counters = counters or self._counters
        self._faults = faults or self._faults
        self._partitions = partitions or self._partitions

    def head(self) -> str:
        """Return phase and times, such as `chaos 12 s, 48 s left`."""
        passed_s = self._clock() - self._since_s
        left = (
            f", {_limit(self._phase)}{max(0.0, self._bound_s - passed_s):.0f} s left"
            if self._bound_s
            else ""
        )
        return f"{self._phase} {passed_s:.0f} s{left}"

    def line(self) -> str:
        """Return everything in one line."""
        parts = [self.head()]
        for topic, (acked, errors) in self._rates_now().items():
            parts.append(f"{topic} {acked:.0f} ops/s{f' {errors:.0f} errors/s' if errors else ''}")
        parts += [f"[{fault}]" for fault in self._faults()]
        views = self._partitions().values()
        if short := sum(len(view.isr) < len(view.replicas) for view in views):
            parts.append(f"{short} of {len(views)} partitions have replicas out of sync")
        if leaderless := sum(view.leader is None for view in views):
            parts.append(f"{leaderless} have no leader")
        return " | ".join(parts)

    def __rich__(self) -> Group:
        """Return the live display."""
        title = Text.assemble(
            (f"{self._plan.name} ", "bold"), f"seed {self._plan.seed}  ", (self.head(), "cyan")
        )
        rows = Table(box=None, pad_edge=False)
        for heading in ("topic", "acks", "acked/s", "errors/s", "p50 ms", "p99 ms", "leaders"):
            rows.add_column(heading, justify="left" if heading in ("topic", "leaders") else "right")
        counters, rates, views = self._counters(), self._rates_now(), self._partitions()
        names = {topic.name: acks_name(topic.acks) for topic in self._plan.topics}
        names |= {name: "" for name in rates if name not in names}
        for name, acks in names.items():
            acked, errors = rates.get(name, (0.0, 0.0))
            seen = counters.get(name, {})
            leaders = "  ".join(
                _leader(partition, view)
                for partition, view in sorted(views.items())
                if partition.topic == name
            )
            rows.add_row(
                name,
                acks,
                f"{acked:.0f}",
                Text(f"{errors:.0f}", style="red" if errors else ""),
                _ms(seen.get("p50_ms")),
                _ms(seen.get("p99_ms")),
                leaders,
            )
        faults = self._faults()
        broken = Text("faults: " + (", ".join(faults) or "none"), style="red" if faults else "dim")
        return Group(title, rows, broken)

    def _rates_now(self) -> dict[str, tuple[float, float]]:
        rates = {}
        for topic, seen in self._counters().items():
            rate = self._rates.setdefault(topic, _Rate())
            if seen:
                rate.update(seen)
            rates[topic] = (rate.acked_per_s, rate.errors_per_s)
        return rates


class _Rate:
    """Operations per second between the last two sets of counters of one topic, or reads if its
    clients have sent nothing."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] | None = None
        self.acked_per_s = 0.0
        self.errors_per_s = 0.0

    def update(self, seen: Mapping[str, Any]) -> None:
        last, self._last = self._last, seen
        if last is None or seen["at_ns"] <= last["at_ns"]:
            self._last = last or seen
            return
        seconds = (seen["at_ns"] - last["at_ns"]) / 1e9
        self.acked_per_s = (_done(seen) - _done(last)) / seconds
        errors = seen["failed"] + seen["info"] - last["failed"] - last["info"]
        self.errors_per_s = errors / seconds


def _done(seen: Mapping[str, Any]) -> int:
    return int(seen["acked"] if seen.get("sent", 1) else seen.get("read", 0))


def _leader(partition: TopicPartition, view: PartitionView) -> str:
    isr = ",".join("-" if node not in view.isr else str(node) for node in sorted(view.replicas))
    return f"{partition.partition}: {view.leader if view.leader is not None else '?'} [{isr}]"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


class LiveProgress:
    """The board on a terminal, redrawn in place; notes scroll by above it."""

    def __init__(self, plan: Plan, console: Console) -> None:
        """Draw on `console`, which must be a terminal."""
        self._board = Board(plan)
        self.watch = self._board.watch
        self._console = console
        self._live = Live(
            get_renderable=lambda: self._board,
            console=console,
            refresh_per_second=REFRESH_PER_S,
            transient=True,
        )

    def phase(self, name: str, bound_s: float | None) -> None:
        """Show the phase."""
        self._board.phase(name, bound_s)

    def note(self, text: str) -> None:
        """Print above the board."""
        self._console.print(Text(text, style="yellow"))

    def __enter__(self) -> "LiveProgress":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()


class LineProgress:
    """One line per phase, and one line every LINE_INTERVAL_S in long phases."""

    def __init__(self, plan: Plan, write: Callable[[str], None] | None = None) -> None:
        """`write` takes a line without its end; by default it goes to stderr."""
        self._board = Board(plan)
        self.watch = self._board.watch
        self._write = write or _to_stderr
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)
        self._began_s = time.monotonic()

    def phase(self, name: str, bound_s: float | None) -> None:
        """Print that a phase begins."""
        self._board.phase(name, bound_s)
        self._print(name + (f" ({_limit(name)}{bound_s:.0f} s)" if bound_s else ""))

    def note(self, text: str) -> None:
        """Print it."""
        self._print(text)

    def _print(self, text: str) -> None:
        self._write(f"{time.monotonic() - self._began_s:6.1f}s  {text}")

    def _tick(self) -> None:
        while not self._done.wait(LINE_INTERVAL_S):
            self._print(self._board.line())

    def __enter__(self) -> "LineProgress":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()


def _limit(phase: str) -> str:
    """How a phase's time is said: most phases end as soon as they can."""
    return "" if phase in OF_FIXED_LENGTH else "at most "


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def for_terminal(plan: Plan) -> LiveProgress | LineProgress:
    """Return a live display if stderr is a terminal, else lines. A context manager."""
    console = terminal.console(stderr=True)
    return LiveProgress(plan, console) if console.is_terminal else LineProgress(plan)
