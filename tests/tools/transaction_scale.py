"""How fast transactions are judged, and whether every planted anomaly is found, by their number.

    python -m tests.tools.transaction_scale --transactions 100000,1000000

writes runs with known anomalies (G0, G1a, G1b, G1c, torn, zombie writes and others), judges each
run in a process of its own with the detectors of transactions and the dependency graph, and prints
a table: seconds by the clock, seconds of all processors (user and system), the peak of memory, and
the transactions a second by the clock. It also follows each run as `analyze --follow` does, but
goes on after an alarm: at once (`following`), and in pieces that arrive one after the other
(`--pieces`), with all suspects judged (`in pieces`) and without (`state`, which is all that a run
without suspects costs). Following is not part of the sum. Reading the files is included, starting
Python is not. Exits with 1 when an anomaly was missed or made up.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from checkers.detectors.durability import aborted_reads
from checkers.detectors.transactions import false_aborts, torn_transactions, zombie_writes
from checkers.elle.graph import check_graph
from checkers.following.follow import Follower
from checkers.following.state import HistoryState
from checkers.frames.frames import Detect, Frames
from checkers.history import arrow
from checkers.history.history import HISTORY, conform, load_plan, load_run
from harness.judging import judge
from tests.support.checkers.transaction_history import Size, write_run
from tests.support.process_usage import cpu_s, peak_mb

T = TypeVar("T")

DETECTORS: Final[tuple[Detect, ...]] = (
    aborted_reads, torn_transactions, false_aborts, zombie_writes,
)  # fmt: skip
TIMEOUT_S: Final = 600.0
PLANTED: Final = "planted.json"
FOLLOWING: Final = ("following", "in pieces", "state")


@dataclass(slots=True)
class Measured:
    """What one run took. seconds: by step, by the clock and of the processors."""

    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)
    peak_mb: int = 0

    def step(self, name: str, work: Callable[[], None]) -> None:
        """Do something, and note how long it took."""
        began, used = time.perf_counter(), cpu_s()
        work()
        self.seconds[name] = time.perf_counter() - began, cpu_s() - used

    @property
    def whole(self) -> tuple[float, float]:
        """Both kinds of seconds, of all steps but the following."""
        judged = (taken for name, taken in self.seconds.items() if name not in FOLLOWING)
        clock, used = zip(*judged, strict=True)
        return sum(clock), sum(used)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, judge, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transactions", default="100000,1000000", help="how many, with commas")
    parser.add_argument("--each", type=int, default=10, help="anomalies of every kind")
    parser.add_argument("--pieces", type=int, default=10, help="how many looks follow a run")
    parser.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb")
    chosen = parser.parse_args(arguments)
    sizes = [Size(transactions=int(n), each=chosen.each) for n in chosen.transactions.split(",")]
    for size in sizes:
        if size.transactions < size.least:
            parser.error(f"--transactions: {size.least:,} at least, or anomalies would overlap")
    print(
        f"{'transactions':>12} {'step':<10} {'seconds':>8} {'CPU s':>8} {'a second':>10} {'MB':>6}"
    )
    wrong: list[str] = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="highwater-transactions-") as folder:
            run_dir = Path(folder, "run")
            _apart(write, run_dir, size)
            measured = _apart(measure, run_dir, chosen.engine, chosen.pieces)
            _print(size, measured)
            wrong += differences(run_dir, measured)
    print("\n".join(wrong) or "all planted anomalies found, no other")
    return 1 if wrong else 0


def write(run_dir: Path, size: Size) -> None:
    """Write a run, and beside it what was planted."""
    (run_dir.parent / PLANTED).write_text(json.dumps(write_run(run_dir, size)))


def measure(run_dir: Path, engine_name: judge.EngineName, pieces: int) -> Measured:
    """Judge a run, and follow it."""
    measured = Measured()
    with judge.open_engine(engine_name, run_dir) as engine:
        frames = Frames(engine, load_run(run_dir), load_plan(run_dir))
        measured.step("detectors", lambda: _detect(frames, measured))
        measured.step("graph", lambda: _search(frames, measured))
        measured.peak_mb = peak_mb()
    whole, in_pieces = [run_dir / "history"], cut(run_dir, pieces)
    measured.step("following", lambda: _follow(run_dir, whole))
    measured.step("in pieces", lambda: _follow(run_dir, in_pieces))
    measured.step("state", lambda: _take(in_pieces))
    return measured


def cut(run_dir: Path, pieces: int) -> list[Path]:
    """Write the rows that are recorded while a run goes on as so many segments of each writer; the
    folders of the segments, in order."""
    folders = [run_dir.parent / f"piece-{number}" for number in range(pieces)]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    for path in (run_dir / "history").glob("*.parquet"):
        rows = pyarrow.parquet.read_table(path)
        rows = rows.filter(pc.invert(pc.starts_with(rows["f"], "final")))
        over_ns = rows["complete_ns"].to_numpy()
        last = np.searchsorted(np.linspace(0, over_ns.max(initial=0), pieces), over_ns)
        for number, folder in enumerate(folders):
            mine = rows.filter(pa.array(last == number))
            name = f"{path.stem}-{number:06d}.parquet"
            pyarrow.parquet.write_table(mine, folder / name, compression="zstd")
    return folders


def _follow(run_dir: Path, looks: Sequence[Path]) -> None:
    follower = Follower(plan=load_plan(run_dir), live=lambda: load_run(run_dir))
    for folder in looks:
        follower.look(folder)
    follower.finish()


def _take(looks: Sequence[Path]) -> None:
    state = HistoryState()
    for folder in looks:
        for path in sorted(folder.iterdir()):
            list(state.take(conform(arrow.read(path), HISTORY)))
        list(state.settle())


def _detect(frames: Frames, measured: Measured) -> None:
    F = frames.engine.functions
    for detect in DETECTORS:
        for evidence in detect(frames):
            counts = evidence.groupBy("kind").agg(F.count(F.lit(1)).alias("count"))
            for row in frames.engine.rows(counts):
                measured.found[row["kind"]] += row["count"]


def _search(frames: Frames, measured: Measured) -> None:
    verdict = check_graph(frames, timeout_s=TIMEOUT_S)
    for anomaly in verdict.anomalies:
        measured.found[anomaly.name] += anomaly.count
    if verdict.outcome.value == "UNKNOWN":
        measured.trouble += verdict.reasons


def differences(run_dir: Path, measured: Measured) -> list[str]:
    """Sentences on what was missed, made up, or failed."""
    planted = json.loads((run_dir.parent / PLANTED).read_text())
    found = measured.found
    told = [
        f"{kind}: {planted.get(kind, 0)} planted, {found[kind]} found"
        for kind in sorted({*found, *planted})
        if planted.get(kind, 0) != found[kind]
    ]
    return [*told, *measured.trouble]


def _apart(work: Callable[..., T], *arguments: object) -> T:
    """The result of a function in a process of its own: its peak of memory is not ours."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def _print(size: Size, measured: Measured) -> None:
    steps = {**measured.seconds, "both": measured.whole}
    for name, (clock_s, busy_s) in steps.items():
        memory = f"{measured.peak_mb:>6}" if name == "both" else ""
        print(
            f"{size.transactions:>12,} {name:<10} {clock_s:>8.2f} {busy_s:>8.2f} "
            f"{size.transactions / clock_s:>10,.0f} {memory}",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
