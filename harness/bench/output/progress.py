"""The progress of a benchmark on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from harness.bench.output import words
from harness.bench.points import ShowTurn, Turn
from harness.reports import terminal

LINE_INTERVAL_S: Final = 10.0


@contextmanager
def progress_display() -> Iterator[ShowTurn]:
    """Yield a function that shows each measurement as it begins."""
    console = terminal.console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        task = progress.add_task("starting", total=None)

        def show(turn: Turn, number: int, total: int) -> None:
            progress.update(task, completed=number, total=total, description=described(turn))

        yield show


def described(turn: Turn) -> str:
    """Return a measurement in words."""
    point = turn.point
    parts = (point.measure.value, words.series_label(point), words.x_label(point))
    return f"{turn.system}: {' '.join(part for part in parts if part)}"


def _lines() -> ShowTurn:
    last_s = -LINE_INTERVAL_S

    def show(turn: Turn, number: int, total: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= LINE_INTERVAL_S:
            last_s = time.monotonic()
            print(f"{number}/{total} {described(turn)}", file=sys.stderr, flush=True)

    return show
