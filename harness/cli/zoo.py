"""`highwater zoo`: how well broken brokers are found, as the track record that a README shows.

Exit codes: 0 when every schedule caught its broken broker, and the unmodified one came through all;
1 otherwise.
"""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base import (
    Debug,
    Exit,
    Store,
    clean_up_after_the_dead,
    end_by_sigterm,
    ensure_privileges,
    warn,
)
from harness.reports import terminal

if TYPE_CHECKING:
    from harness.zoo.entry import Exhibit
    from harness.zoo.track_record import Line

TABLE_WIDTH = 200
"""At least: a file has no width, and rows that are broken cannot be searched."""


def zoo(
    names: Annotated[list[str] | None, typer.Argument(help="Some of them; all otherwise.")] = None,
    collection: Annotated[
        str, typer.Option(help="The module that has the broken brokers.")
    ] = "harness.zoo.entries",
    worlds: Annotated[int, typer.Option(min=0, help="Simulated worlds for each schedule.")] = 3,
    random: Annotated[
        int, typer.Option(min=0, help="Search each with so many random seeds at most.")
    ] = 0,
    searches: Annotated[int, typer.Option(min=1, help="Searches, of which the median counts.")] = 3,
    time_s: Annotated[float, typer.Option("--time", help="Seconds that a search may take.")] = 3600,
    real: Annotated[
        bool, typer.Option("--real", help="Play the schedules with real processes, too.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores.")] = None,
    store: Store = Path("store"),
    markdown: Annotated[
        Path | None, typer.Option(help="Write the table to this file, too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Try to find brokers with a known bug each, by schedules and by chance."""
    from harness.recording.store import write_atomic
    from harness.zoo import track_record, trials
    from harness.zoo.entry import collection as load

    end_by_sigterm()
    at_once = jobs or os.cpu_count() or 1
    lines = [track_record.Line(exhibit=exhibit) for exhibit in load(collection, names or ())]
    if worlds:
        lines = _scripted(lines, collection, worlds, at_once)
    if random:
        for n, line in enumerate(lines):
            found = trials.by_chance(
                line.exhibit,
                searches=searches,
                limit=random,
                jobs=at_once,
                time_s=time_s,
                root=store,
            )
            lines[n] = replace(line, chance=found)
            warn(f"at random: {line.exhibit.name}: {lines[n].cells()[4]}")
    if real:
        ensure_privileges()
        clean_up_after_the_dead()
        lines = [_with_real(line, store) for line in lines]
    if markdown is not None:
        write_atomic(markdown, track_record.markdown(lines))
    if as_json:
        print(json.dumps([line.as_json() for line in lines], indent=2))
    else:
        console = terminal.console(width=max(terminal.console().width, TABLE_WIDTH))
        console.print(track_record.table(lines))
        console.print(track_record.summary(lines))
    raise Exit(0 if all(line.holds for line in lines) else 1)


def _scripted(lines: "list[Line]", module: str, worlds: int, jobs: int) -> "list[Line]":
    """Each in a process of its own, since it breaks the brokers there."""
    from harness.zoo import trials

    seeds = range(1, worlds + 1)
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        asked = [
            pool.submit(trials.scripted, module, line.exhibit.name, seeds)
            if _has_schedule(line.exhibit)
            else None
            for line in lines
        ]
        found = []
        for line, each in zip(lines, asked, strict=True):
            done = line if each is None else replace(line, scripted=each.result())
            warn(f"scripted: {line.exhibit.name}: {done.cells()[3] or 'there is no schedule'}")
            found.append(done)
    return found


def _has_schedule(exhibit: "Exhibit") -> bool:
    return exhibit.script is not None or exhibit.scenario is not None


def _with_real(line: "Line", store: Path) -> "Line":
    from harness.zoo import trials

    if line.exhibit.scenario is None:
        return line
    done = replace(line, real=trials.real(line.exhibit, store))
    warn(f"real processes: {line.exhibit.name}: {done.cells()[5]}")
    return done
