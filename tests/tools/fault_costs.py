"""Print how long injections and heals took in a run: `python -m tests.tools.fault_costs RUN`.

Times are milliseconds of the run's clock, without the journal entry before and the proofs after.
"""

import sys
from pathlib import Path
from statistics import median

import pyarrow.parquet

Row = tuple[str, int, int, float, float, float, float]
"""(fault, injections, effects, median and maximum of the injection, and of the heal)"""


def costs(run: Path) -> list[Row]:
    """Return one row for each fault that was injected and healed in the run, sorted by name."""
    rows = pyarrow.parquet.read_table(run / "faults.parquet").to_pylist()
    done = [row for row in rows if row["inject_ms"] is not None and row["heal_ms"] is not None]
    found = []
    for fault in sorted({row["fault"] for row in done}):
        mine = [row for row in done if row["fault"] == fault]
        inject, heal = ([row[name] for row in mine] for name in ("inject_ms", "heal_ms"))
        took = sum(row["took_effect"] for row in mine)
        found.append((fault, len(mine), took, median(inject), max(inject), median(heal), max(heal)))
    return found


def main(run: Path) -> None:
    """Print the rows."""
    print(
        f"{'fault':28} {'n':>4} {'took':>4} {'inject ms':>10} {'max':>8} {'heal ms':>8} {'max':>8}"
    )
    for fault, count, took, inject, most, heal, most_heal in costs(run):
        print(
            f"{fault:28} {count:4} {took:4} {inject:10.1f} {most:8.1f} {heal:8.1f} {most_heal:8.1f}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
