"""Writes a report for every anomaly into a folder, from the golden histories.

    python -m tests.tools.anomaly_reports DIR

The documentation links to them: what a reader would see if a broker showed this anomaly.
"""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow.parquet

from harness.judging import judge
from harness.recording import store
from tests.support.histories.golden import ALL_GOLDEN, Golden

RANK: Final = {"forbidden": 0, "unknown": 1, "permitted": 2, "informational": 3}
"""A history in which the anomaly is forbidden shows it best."""


def examples() -> Iterator[tuple[str, Golden]]:
    """(anomaly, the golden history that shows it best), by name of the anomaly."""
    best: dict[str, tuple[tuple[int, int], Golden]] = {}
    for golden in ALL_GOLDEN.values():
        for (kind, _), (judgement, _count) in golden.expect.items():
            rank = (RANK[judgement], len(golden.expect))
            if kind not in best or rank < best[kind][0]:
                best[kind] = (rank, golden)
    for kind in sorted(best):
        yield kind, best[kind][1]


def write_run(root: Path, golden: Golden) -> Path:
    """Store the golden history as a run directory."""
    story = golden.story()
    run = store.create(root, golden.name.replace("_", "-")[:60], versions={}, commit=None)
    run.write_json("plan.json", story.plan)
    for name, rows in story.tables().items():
        folder = run.history_dir if name == "history" else run.path
        pyarrow.parquet.write_table(rows, folder / f"{name}.parquet")
    run.update(**asdict(story.run_file))
    return run.path


def main(out: Path) -> None:
    """Write `out`/ANOMALY.html for every anomaly."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="highwater-anomalies-") as scratch:
        for kind, golden in examples():
            run_dir = write_run(Path(scratch), golden)
            judge.check(run_dir)
            (out / f"{kind}.html").write_text(judge.write_report(run_dir).read_text())
            print(f"{kind}: {golden.name}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
