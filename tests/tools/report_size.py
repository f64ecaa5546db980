"""Measures the pages of large runs: `python -m tests.tools.report_size`.

Writes the report of a run with a million operations and of a run with ten thousand anomalies, and
opens each in Chromium several times. Prints the size of the file and the medians, in s: from the
navigation until the page is usable, of a zoom, of a filter, of a jump to the first error, and the
processor time of the page's process for all of this.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet
from playwright.sync_api import Page, sync_playwright

from harness.reports.page import write_report
from tests.support.reports.synthetic_run import CAUSES, Shape, judged_run

EVIDENCE = ("op", "client", "value", "offset", "invoke_ns", "complete_ns")


def many_operations(run_dir: Path, operations: int) -> Path:
    """Write a run with this many sends. Return its report."""
    return write_report(judged_run(run_dir, "INVALID", Shape(sends=operations)))


def many_anomalies(run_dir: Path, anomalies: int) -> Path:
    """Write a run with this many anomalies, each in its own group. Return its report."""
    judged_run(run_dir, "INVALID", Shape(sends=anomalies * 10))
    path = run_dir / "verdict.json"
    verdict = json.loads(path.read_text())
    history = pyarrow.parquet.read_table(run_dir / "history" / "clients-1.parquet")
    grave = verdict["anomalies"][0]
    verdict["anomalies"][:1] = [
        grave
        | {name: row[name] for name in ("topic", "partition", "acks")}
        | {"count": 1, "examples": [{name: row[name] for name in EVIDENCE}]}
        | {"cause": CAUSES[number % 2]}
        for number, row in enumerate(history.slice(0, anomalies).to_pylist())
    ]
    path.write_text(json.dumps(verdict))
    return write_report(run_dir)


def look(page: Page, address: str) -> dict[str, float]:
    """Return the seconds that it takes to open a report and to use it."""
    took: dict[str, float] = {}

    def step(name: str, script: str) -> None:
        began = time.perf_counter()
        page.evaluate(f"async () => {{ {script}; await new Promise(requestAnimationFrame); }}")
        took[name] = time.perf_counter() - began

    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    began = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("html[data-ready]", timeout=120_000)
    took["ready"] = time.perf_counter() - began
    step("zoom", "document.getElementById('zoom-in').click()")
    step(
        "filter",
        "const s = document.getElementById('filter-partition'); s.selectedIndex = 1;"
        " s.dispatchEvent(new Event('change'))",
    )
    step("first error", "document.querySelector('[data-first-error]').click()")
    metrics = session.send("Performance.getMetrics")["metrics"]
    took["processor"] = next(m["value"] for m in metrics if m["name"] == "ProcessTime")
    return took


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--anomalies", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        reports = {
            f"{given.operations:,} operations": many_operations(
                Path(folder) / "operations", given.operations
            ),
            f"{given.anomalies:,} anomalies": many_anomalies(
                Path(folder) / "anomalies", given.anomalies
            ),
        }
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, report in reports.items():
            address = f"file://{quote(str(report))}"
            rounds = []
            for _ in range(given.rounds):
                page = browser.new_page()
                rounds.append(look(page, address))
                page.close()
            said = ", ".join(
                f"{step} {statistics.median(took[step] for took in rounds):.2f} s"
                for step in rounds[0]
            )
            print(f"{name}: {report.stat().st_size / 1e6:.2f} MB; {said}")
        browser.close()


if __name__ == "__main__":
    main()
