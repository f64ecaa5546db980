"""What every command needs: exit codes, words on stderr, signals, and the end of dead runs.

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
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.admin.errors import BadRequest

if TYPE_CHECKING:
    from harness.targets.linux.clean import Cleaned

BAD_ARGUMENTS: Final = 254
HARNESS_FAILED: Final = 255

Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
Store = Annotated[Path, typer.Option(help="Where run directories are kept.")]
Expect = Annotated[
    list[str] | None,
    typer.Option(
        "--expect", help="What you expect: `lost.acks-all = 0`, `publish_p99_ms <= 50`; repeatable."
    ),
]
BrokerModule = Annotated[
    str | None, typer.Option(help="The module that `python -m` starts on each node.")
]

SystemName = Annotated[
    str | None,
    typer.Option("--system", help="What runs: nodes (the built-in broker), kafka, or external."),
]
KafkaHome = Annotated[
    Path | None,
    typer.Option(help="Of --system kafka: a distribution; none is what `make kafka` fetched."),
]


class EngineName(StrEnum):
    """What histories are judged on."""

    DUCKDB = "duckdb"
    SPARK = "spark"


class Exit(Exception):
    """End with this exit code; everything has been said."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def warn(text: str) -> None:
    """Say something on stderr."""
    print(f"highwater: {text}", file=sys.stderr, flush=True)


def ensure_privileges() -> None:
    """Go on where namespaces may be made; see `harness.targets.local.rootless`."""
    from harness.targets.local import rootless

    rootless.ensure_privileges()


def clean_up_after_the_dead() -> None:
    """Undo what killed runs left, and say what it was."""
    from harness.targets.clean import clean as clean_up

    for cleaned in clean_up(None):
        if cleaned.removed:
            warn(f"removed what run {cleaned.run_id} left behind: {counted(cleaned.removed)}")


def on_signals(stop: Callable[[], None]) -> None:
    """Ctrl-C and SIGTERM end in order; a second one does not wait for it."""

    def end_in_order(number: int) -> None:
        warn(f"{signal.Signals(number).name}: ending in order; once more to end at once")
        stop()

    def first(number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        # In a thread: the handler may have interrupted this one inside a print or a lock.
        threading.Thread(target=end_in_order, args=(number,), daemon=True).start()

    signal.signal(signal.SIGINT, first)
    signal.signal(signal.SIGTERM, first)


def end_by_sigterm() -> None:
    """SIGTERM ends as Ctrl-C does, so that the processes that work for this one end with it; also
    where Ctrl-C is ignored, as in what a shell runs in the background.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def counted(things: Iterable[str]) -> str:
    """Things that begin with what they are ("volume /a", "process 7"), as a count of each kind.

    The run's journal has their names.
    """
    kinds = Counter(thing.split(maxsplit=1)[0] for thing in things)
    told = [
        f"{number} {kind if number == 1 else kind + ('es' if kind.endswith('s') else 's')}"
        for kind, number in kinds.items()
    ]
    return ", ".join(told) or "nothing"


def tell_cleaned(results: "Sequence[Cleaned]", nothing: str) -> None:
    """Say what was undone, or `nothing`. Raises Exit when something could not be."""
    from harness.targets.linux.clean import Outcome

    failed = False
    for result in results:
        name = f"run {result.run_id}" if result.run_id else str(result.journal)
        match result.outcome:
            case Outcome.ALIVE:
                print(f"{name} is alive and was left alone ({result.journal.parent})")
            case Outcome.UNDONE | Outcome.FAILED:
                kept = f"what it stored stays in {result.journal.parent}"
                print(f"{name}: removed {counted(result.removed)}; {kept}")
        for problem in result.problems:
            failed = True
            warn(problem)
    if not results:
        print(nothing)
    if failed:
        raise Exit(HARNESS_FAILED)


def settings(texts: Iterable[str] | None) -> dict[str, str]:
    """What repeated `--config key=value` say. Raises BadRequest."""
    read = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise BadRequest(f"--config {text!r} is no key=value")
        read[name.strip()] = value.strip()
    return read
