"""Every mutant against its scripted schedule, and the same schedule against the broker as it is.

`python -m tests.harness.zoo [MUTANT...] [--store DIR]` runs them on this machine with real
processes and prints a table; it ends with 1 when a mutant was not caught, or a sound broker was not
VALID. The runs stay in the store, to be looked at. Needs root and network namespaces, and most need
disks of the run's own.

A mutant is caught when the verdict is INVALID by a kind of anomaly that the mutant is said to show.
The time is from the schedule's first fault to the first operation that shows it; of what has no
time, such as replicas that differ at the end, to the end of the run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tests import mutants
from tests.scenarios import path_of

RUN_TIMEOUT_S: Final = 280
"""Five times what a run takes on a quiet machine."""
SOUND: Final = "nodes"
TABLE_WIDTH: Final = 190
"""At least: a file has no width, and rows that are broken cannot be searched."""

SCENARIO_OF: Final[Mapping[str, str]] = {
    "truncate_to_high_watermark": "zoo/truncation-to-high-watermark",
    "never_compares_epochs": "zoo/shorter-log-leads",
    "skips_unknown_epochs": "zoo/fast-failover",
    "same_leader_skips_truncation": "zoo/missed-epoch",
    "serves_zombies": "zoo/missed-epoch",
    "commits_by_proposed_isr": "zoo/leader-on-its-own",
    "readds_the_fenced": "zoo/fenced-member",
    "last_replica_standing": "zoo/last-replica-standing",
    "acknowledges_before_flush": "zoo/correlated-power-loss",
    "elects_who_lags": "zoo/unclean-election",
    "isr_of_one": "zoo/isr-of-one",
    "commits_below_min_isr": "zoo/high-watermark-below-min-isr",
    "forgets_sequences": "zoo/answers-lost",
    "votes_by_node_id": "zoo/voter-returns-empty",
    "sessions_by_wall_clock": "zoo/clock-set-back",
    "metadata_in_page_cache": "zoo/page-cache-trusted",
    "ack_before_replication": "zoo/leader-on-its-own",
}
"""Mutant -> the scenario that catches it with real processes. What needs the control of single
messages, or of when a disk loses what, is not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a run ended."""

    verdict: str
    forbidden: tuple[str, ...]
    """The kinds of anomalies that the contract forbids."""
    seconds: float | None
    """From the first fault to the first operation that shows a forbidden one."""
    text: str
    """What the verdict says, or what went wrong."""
    path: str


def run(scenario: str, broker_module: str, store: Path) -> Run:
    """Run a scenario on a broker, bounded. An error of the harness is the verdict ERROR."""
    command = [sys.executable, "-m", "harness.cli", "run", str(path_of(scenario)), "--json"]
    options = ["--no-report", "--broker-module", broker_module, "--store", str(store)]
    try:
        done = subprocess.run(
            [*command, *options],
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        verdict = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return Run(verdict="ERROR", forbidden=(), seconds=None, text="not in time", path="")
    except ValueError:
        text = done.stderr.strip()[-300:]
        return Run(verdict="ERROR", forbidden=(), seconds=None, text=text, path="")
    found = [each for each in verdict["anomalies"] if each["judgement"] == "forbidden"]
    return Run(
        verdict=verdict["verdict"],
        forbidden=tuple(sorted({each["kind"] for each in found})),
        seconds=_first_s(Path(verdict["run"]), found),
        text="; ".join(verdict["reasons"]),
        path=verdict["run"],
    )


def _first_s(run_dir: Path, found: Sequence[Mapping[str, Any]]) -> float | None:
    """From the first fault to the first operation, or (without any) to the end of the run."""
    faults = pq.read_table(run_dir / "faults.parquet").to_pylist()
    began_ns = min((row["started_ns"] for row in faults if row["started_ns"]), default=None)
    if began_ns is None or not found:
        return None
    rows = (row for each in found for row in each["examples"])
    ends = (row.get("complete_ns") or row.get("invoke_ns") for row in rows)
    shown_ns = min((end for end in ends if end is not None and end > began_ns), default=None)
    if shown_ns is None:
        shown_ns = max(row["healed_ns"] or row["started_ns"] or 0 for row in faults)
    return float(shown_ns - began_ns) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One mutant's line of the table."""

    mutant: mutants.Mutant
    scenario: str
    broken: Run
    sound: Run

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The anomalies that show what the mutant is said to show."""
        return tuple(kind for kind in self.broken.forbidden if kind in self.mutant.shows)

    @property
    def holds(self) -> bool:
        """Whether the mutant is caught and the sound broker is not."""
        return bool(self.caught_by) and self.sound.verdict == "VALID"


def rows(names: Sequence[str], store: Path, console: Console) -> list[Row]:
    """Run each mutant, and each of their scenarios once on the sound broker."""
    sound: dict[str, Run] = {}
    found = []
    for name in names:
        mutant, scenario = mutants.load(name), SCENARIO_OF[name]
        broken = run(scenario, mutant.module, store)
        console.print(f"{name}: {broken.verdict} {', '.join(broken.forbidden)} {broken.path}")
        if scenario not in sound:
            sound[scenario] = run(scenario, SOUND, store)
            console.print(f"{SOUND}, {scenario}: {sound[scenario].verdict} {sound[scenario].path}")
        found.append(Row(mutant=mutant, scenario=scenario, broken=broken, sound=sound[scenario]))
    return found


def table(found: Sequence[Row]) -> Table:
    """The track record."""
    drawn = Table(box=None, pad_edge=False)
    for heading in ("bug", "source", "mutant", "scenario", "caught by", "seconds", "as it is"):
        drawn.add_column(heading, justify="right" if heading == "seconds" else "left")
    for row in found:
        seconds = "-" if row.broken.seconds is None else f"{row.broken.seconds:.1f}"
        drawn.add_row(
            row.mutant.bug,
            ", ".join(row.mutant.sources),
            row.mutant.name,
            row.scenario.removeprefix("zoo/"),
            ", ".join(row.caught_by) or f"not caught ({row.broken.verdict}: {row.broken.text})",
            seconds,
            row.sound.verdict,
        )
    return drawn


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness.zoo")
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", help="default: all")
    parser.add_argument("--store", type=Path, help="where the runs are kept")
    given = parser.parse_args()
    if unknown := [name for name in given.mutants if name not in SCENARIO_OF]:
        parser.error(f"no scenario for {', '.join(unknown)}; there are {', '.join(SCENARIO_OF)}")
    console = Console(width=max(Console().width, TABLE_WIDTH))
    store = given.store or Path(tempfile.mkdtemp(prefix="zoo-"))
    found = rows(given.mutants or tuple(SCENARIO_OF), store, console)
    console.print(table(found))
    return 0 if all(row.holds for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
