"""How fast the checkers are, and whether they find everything, on histories of any size.

    python -m tests.tools.checker_scale --sends 10000000 --partitions 64

writes a run (as many polls and final reads as sends) with known anomalies in it, judges it with the
embedded engine (--engine spark: on Spark in a JVM of this process), compares what was found with
what was planted, and prints operations per second, seconds per detector, the peaks of memory (the
JVM's included) and of what was spilled to disk. An operation is a send, a polled
record or a record of the final read. Exits with 1 when anything was missed or made up.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from checkers.check import check
from checkers.engines.engine import Engine
from checkers.verdict import Verdict
from harness.judging import judge
from tests.support.checkers.scale_history import Size, write_run
from tests.support.process_usage import cpu_s, peak_mb

ALWAYS_THERE = ("unavailable", "recovery", "stale-read")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, judge, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sends", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--each", type=int, default=10, help="anomalies of every kind")
    parser.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb")
    parser.add_argument("--directory", type=Path, help="keep the run here, or take it from here")
    chosen = parser.parse_args(arguments)
    size = Size(
        sends=chosen.sends // chosen.partitions * chosen.partitions,
        partitions=chosen.partitions,
        each=chosen.each,
    )
    if size.sends < size.least_sends:
        parser.error(f"--sends: {size.least_sends:,} at least for that, or anomalies would overlap")
    temporary = Path(tempfile.mkdtemp(prefix="highwater-scale-"))
    try:
        run_dir = chosen.directory or temporary / "run"
        if not run_dir.exists():
            # In a process of its own: the peak of this one is the checker's.
            context = multiprocessing.get_context("spawn")
            writer = context.Process(target=_write, args=(run_dir, size))
            writer.start()
            writer.join()
        planted = json.loads((run_dir / "planted.json").read_text())
        tempfile.tempdir = str(temporary)
        with judge.open_engine(chosen.engine, run_dir) as engine:
            return _judge(engine, run_dir, size, planted, temporary)
    finally:
        shutil.rmtree(temporary)


def _write(run_dir: Path, size: Size) -> None:
    planted = write_run(run_dir, size)
    (run_dir / "planted.json").write_text(json.dumps(planted))


def _judge(
    engine: Engine, run_dir: Path, size: Size, planted: Mapping[str, int], temporary: Path
) -> int:
    before, started = cpu_s(), time.perf_counter()
    with _Spill(temporary) as spill:
        verdict = check(run_dir, engine=engine)
    wall_s, busy_s = time.perf_counter() - started, cpu_s() - before
    for result in verdict.detectors:
        print(f"{result.seconds:8.2f} s  {result.name} {result.detail}")
    operations = 3 * size.sends
    print(
        f"{operations:,} operations: {wall_s:.2f} s, {operations / wall_s:,.0f}/s; "
        f"{busy_s:.2f} s of CPU, {operations / busy_s:,.0f} per CPU second; "
        f"peak {peak_mb()} MB, spilled {spill.peak >> 20} MB"
    )
    wrong = differences(verdict, planted)
    print("\n".join(wrong) or f"all {sum(planted.values())} planted anomalies found, no other")
    return 1 if wrong else 0


def differences(verdict: Verdict, planted: Mapping[str, int]) -> list[str]:
    """Sentences on what was missed, made up, or failed."""
    found: Counter[str] = Counter()
    for anomaly in verdict.anomalies:
        if anomaly.kind not in ALWAYS_THERE:
            found[anomaly.kind] += anomaly.count
    told = [
        f"{kind}: {planted.get(kind, 0)} planted, {found[kind]} found"
        for kind in sorted({*found, *planted})
        if planted.get(kind, 0) != found[kind]
    ]
    failed = [r.detail for r in verdict.detectors if r.status.value == "crashed"]
    broken = [f"{a.name}: {a.detail}" for a in verdict.assumptions if not a.holds]
    return [*told, *failed, *broken, *verdict.extra_reasons]


class _Spill:
    """Watches how large a directory grows; peak in bytes."""

    def __init__(self, folder: Path) -> None:
        self.peak = 0
        self._folder = folder
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> "_Spill":
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            kept = sum(_size_below(engine) for engine in self._folder.glob("highwater-*"))
            self.peak = max(self.peak, kept)


def _size_below(folder: Path) -> int:
    """Not by `glob`, which fails when a directory goes away meanwhile."""
    return sum(_size(Path(at, name)) for at, _, names in os.walk(folder) for name in names)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
