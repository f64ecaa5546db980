"""`highwater zoo`: check that the checkers catch brokers that are broken on purpose.

Exit code 0: each schedule caught its broken broker, and the unmodified broker passed all schedules.
Exit code 1 otherwise.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base import (
    Exit,
    clean_up_killed_runs,
    end_on_sigterm,
    ensure_privileges,
    warn,
)
from harness.cli.options import AsJson, Debug, Jobs, Store

if TYPE_CHECKING:
    from rich.console import Console

    from harness.zoo.entry import Entry
    from harness.zoo.track_record import TrackRecordRow
    from harness.zoo.trials import RandomTrial

TABLE_WIDTH = 200
"""The least width of a table. A file has no width, and broken rows cannot be searched."""


def zoo(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of broken brokers. Default: all.")
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the broken brokers and run nothing.")
    ] = False,
    collection: Annotated[
        str, typer.Option(help="The Python module with the broken brokers.")
    ] = "harness.zoo.entries",
    worlds: Annotated[
        int, typer.Option(min=0, help="Simulated worlds in which to play each schedule.")
    ] = 3,
    random: Annotated[
        int, typer.Option(min=0, help="Search for each bug with at most this many random seeds.")
    ] = 0,
    searches: Annotated[
        int, typer.Option(min=1, help="Random searches per bug; their median is reported.")
    ] = 3,
    time_limit: Annotated[
        str, typer.Option("--time", help="Time limit of one random search: 90, 90s, 10m, 12h.")
    ] = "1h",
    real: Annotated[
        bool, typer.Option("--real", help="Run the scenarios with real processes too.")
    ] = False,
    jobs: Jobs = None,
    store: Store = Path("store"),
    markdown: Annotated[
        Path | None, typer.Option(help="Write the table to this Markdown file too.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check that the checkers catch deliberately broken brokers."""
    from harness.plans.durations import seconds
    from harness.recording.store import write_atomic
    from nodes.sources import use_sources

    use_sources()
    from harness.zoo import track_record, trials
    from harness.zoo.entry import load_entries

    time_s = seconds(time_limit)
    entries = load_entries(collection, names or ())
    if list_only:
        _print_list(entries, as_json=as_json)
        return
    end_on_sigterm()
    processes = jobs or os.cpu_count() or 1
    rows = [track_record.TrackRecordRow(entry=entry) for entry in entries]
    if worlds:
        rows = _play_schedules(rows, collection, worlds, processes)
    if random:
        search = partial(
            trials.try_random,
            searches=searches,
            limit=random,
            jobs=processes,
            time_s=time_s,
            root=store,
        )
        rows = [_search(row, search) for row in rows]
    if real:
        ensure_privileges()
        clean_up_killed_runs()
        rows = [_run_scenario(row, store) for row in rows]
    if markdown is not None:
        write_atomic(markdown, track_record.markdown(rows))
    _print_track_record(rows, as_json=as_json)
    raise Exit(0 if all(row.holds for row in rows) else 1)


def _print_list(entries: "Sequence[Entry]", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([entry.as_json() for entry in entries], indent=2))
        return
    from harness.zoo import track_record

    _wide_console().print(track_record.list_table(entries))


def _print_track_record(rows: "Sequence[TrackRecordRow]", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([row.as_json() for row in rows], indent=2))
        return
    from harness.zoo import track_record

    console = _wide_console()
    console.print(track_record.table(rows))
    console.print(track_record.summary(rows))


def _wide_console() -> "Console":
    from harness.reports import terminal

    return terminal.console(width=max(terminal.console().width, TABLE_WIDTH))


def _play_schedules(
    rows: "list[TrackRecordRow]", module: str, worlds: int, jobs: int
) -> "list[TrackRecordRow]":
    """Play each schedule in a process of its own, because a mutant patches its process."""
    from harness.simulation import workers
    from harness.zoo import trials

    seeds = range(1, worlds + 1)
    with workers.pool(jobs, tasks_each=1) as pool:
        futures = [
            pool.submit(trials.try_schedule, module, row.entry.name, seeds)
            if _has_schedule(row.entry)
            else None
            for row in rows
        ]
        results = []
        for row, future in zip(rows, futures, strict=True):
            done = row if future is None else replace(row, by_schedule=future.result())
            warn(f"by schedule: {row.entry.name}: {done.schedule_result or 'it has no schedule'}")
            results.append(done)
    return results


def _search(row: "TrackRecordRow", search: "Callable[[Entry], RandomTrial]") -> "TrackRecordRow":
    done = replace(row, at_random=search(row.entry))
    warn(f"at random: {row.entry.name}: {done.random_result}")
    return done


def _has_schedule(entry: "Entry") -> bool:
    return entry.script is not None or entry.scenario is not None


def _run_scenario(row: "TrackRecordRow", store: Path) -> "TrackRecordRow":
    from harness.zoo import trials

    if row.entry.scenario is None:
        return row
    done = replace(row, real=trials.try_real(row.entry, store))
    warn(f"real processes: {row.entry.name}: {done.real_result}")
    return done
