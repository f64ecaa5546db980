"""Exit codes, messages on stderr, signals and clean-up, shared by all commands.

    0    VALID, or done             254  bad arguments, plan or run directory
    1    INVALID                    255  the harness itself failed
    2    UNKNOWN

Results go to stdout, everything else to stderr.
"""

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from checkers.check import OnDetector
    from harness.targets.linux.clean import CleanedRun

BAD_ARGUMENTS: Final = 254
HARNESS_FAILED: Final = 255


class Exit(Exception):
    """End the command with this exit code; every message has been printed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def warn(text: str) -> None:
    """Print a message on stderr."""
    print(f"highwater: {text}", file=sys.stderr, flush=True)


def spark_progress(run: str, *, spark: bool) -> "OnDetector":
    """Print a line for each detector that begins; nothing on DuckDB, which takes seconds."""
    from checkers.check import unobserved

    def print_detector(name: str, number: int, of: int) -> None:
        warn(f"{run}: detector {number} of {of}: {name}")

    return print_detector if spark else unobserved


def ensure_privileges() -> None:
    """Return in a process that may make namespaces; see `harness.targets.local.rootless`."""
    from harness.targets.local import rootless

    rootless.ensure_privileges()


def clean_up_killed_runs() -> None:
    """Remove what killed runs left running, and print a message for each."""
    from harness.targets.clean import clean as clean_up

    for cleaned in clean_up(None):
        if cleaned.removed:
            removed = count_by_kind(cleaned.removed)
            warn(f"removed what run {cleaned.run_id} left behind: {removed}")


def on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on the first Ctrl-C or SIGTERM; a second one ends the process at once."""

    def stop_in_order(number: int) -> None:
        warn(f"{signal.Signals(number).name}: stopping in order; press Ctrl-C again to end at once")
        stop()

    def first(number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        # In a thread: the handler may have interrupted this one inside a print or a lock.
        threading.Thread(target=stop_in_order, args=(number,), daemon=True).start()

    signal.signal(signal.SIGINT, first)
    signal.signal(signal.SIGTERM, first)


def end_on_sigterm() -> None:
    """Let SIGTERM end the command as Ctrl-C does, so that its worker processes end too.

    This also holds where Ctrl-C is ignored, as in a shell's background jobs.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def count_by_kind(things: Iterable[str]) -> str:
    """Return a count of each kind of thing: "2 processes, 1 volume".

    The first word of a thing is its kind ("volume /a", "process 7"). The run's journal has the
    names.
    """
    kinds = Counter(thing.split(maxsplit=1)[0] for thing in things)
    counts = [
        f"{number} {kind if number == 1 else kind + ('es' if kind.endswith('s') else 's')}"
        for kind, number in kinds.items()
    ]
    return ", ".join(counts) or "nothing"


def print_cleaned(results: "Sequence[CleanedRun]", nothing: str) -> None:
    """Print what was removed of each run, or `nothing` without a run.

    Raises Exit when something could not be removed.
    """
    from harness.targets.linux.clean import CleanOutcome

    failed = False
    for result in results:
        name = f"run {result.run_id}" if result.run_id else str(result.journal)
        match result.outcome:
            case CleanOutcome.ALIVE:
                print(f"{name} is still running and was left alone ({result.journal.parent})")
            case CleanOutcome.UNDONE | CleanOutcome.FAILED:
                removed = count_by_kind(result.removed)
                print(f"{name}: removed {removed}; its files stay in {result.journal.parent}")
        for problem in result.problems:
            failed = True
            warn(problem)
    if not results:
        print(nothing)
    if failed:
        raise Exit(HARNESS_FAILED)
