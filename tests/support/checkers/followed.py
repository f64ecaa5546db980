"""Follows a story's history that is written piece by piece."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet

from checkers.following.follow import Follower
from checkers.history.history import HISTORY, RunSources, load_run, table
from checkers.verdict import Anomaly
from tests.support.histories.story import Row, Story


def in_time(story: Story) -> None:
    """Number the operations by when they began, as clients do; some stories do not."""
    began = {row["op"]: row["invoke_ns"] for row in story.history}
    numbers = {op: n for n, op in enumerate(sorted(began, key=lambda op: (began[op], op)))}
    for row in story.history:
        row["op"] = numbers[row["op"]]


def recorded(story: Story, *, but: tuple[str, ...] = ("final",)) -> list[Row]:
    """The rows in the order in which clients record them, but those whose `f` begins with one of
    these words.
    """
    rows = [row for row in story.history if not row["f"].startswith(but)]
    return sorted(rows, key=lambda row: row["complete_ns"] or row["invoke_ns"])


def follow(folder: Path, story: Story, pieces: Iterable[Sequence[Row]]) -> tuple[Anomaly, ...]:
    """Write these rows of a story, and look after each piece; the first alarm."""
    history = folder / "history"
    history.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")

    def live() -> RunSources:
        told = story.sources()
        return replace(load_run(folder), cluster=told.cluster, faults=told.faults)

    follower = Follower(plan=story.plan, live=live)
    for number, rows in enumerate(pieces):
        part = history / f"all-{number:06d}.parquet"
        pyarrow.parquet.write_table(table(HISTORY, rows), part)
        if found := follower.look(history):
            return found
    return follower.finish()
