"""A history is judged in slices as it is as a whole, and every row is in one of them."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from checkers.check import check
from checkers.detectors import real_time
from checkers.engines.engine import DuckDbEngine
from checkers.frames import slices
from checkers.frames.slices import OFFSETS, cuts
from checkers.history.history import HISTORY, Source, table
from checkers.verdict import Verdict
from tests.support.checkers.generated import generate
from tests.support.histories.multiplex import multiplex


def rows_at(offsets: list[int | None]) -> pa.Table:
    """Sends at these offsets."""
    send = {"client": 1, "f": "send", "type": "ok", "invoke_ns": 0, "topic": "t", "partition": 0}
    return table(HISTORY, [send | {"op": n, "offset": at} for n, at in enumerate(offsets)])


def written(path: Path, rows: pa.Table, group: int) -> Path:
    """A file with so many rows in a group."""
    pyarrow.parquet.write_table(rows, path, row_group_size=group)
    return path


@pytest.fixture
def growing(tmp_path: Path) -> Path:
    """Ten groups of rows, at twice as many buckets of offsets, and rows without any among them."""
    offsets = [None if n % 7 == 0 else n * OFFSETS // 50 for n in range(1000)]
    return written(tmp_path / "growing.parquet", rows_at(offsets), 100)


@pytest.mark.parametrize("room", [1000, 999, 500, 334, 100, 1])
def test_slices_have_at_most_the_rows_that_fit(growing: Path, room: int) -> None:
    """Give or take a group of rows."""
    found = cuts([growing], room)
    assert len(found) == min(-(-1000 // room) - 1, 9)
    assert all(cut % OFFSETS == 0 and cut > 0 for cut in found)
    assert all(one < other for one, other in pairwise(found))


def test_cuts_need_files_offsets_and_bucket_borders(tmp_path: Path) -> None:
    """Neither what is in memory already, nor what lies nowhere, nor what begins no bucket."""
    nowhere = written(tmp_path / "nowhere.parquet", rows_at([None] * 10), 5)
    low = written(tmp_path / "low.parquet", rows_at(list(range(10))), 5)
    sources: tuple[Source, ...] = (nowhere, low, rows_at([OFFSETS * n for n in range(10)]))
    assert cuts(sources, 1) == ()
    assert cuts((), 1) == ()


def test_every_row_is_in_one_slice(growing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those without an offset, too."""
    monkeypatch.setattr(DuckDbEngine, "rows_at_once", 250)
    engine = DuckDbEngine()
    rows = engine.load([growing], HISTORY)
    found = [engine.rows(here(rows)) for here in slices.slices(engine, [growing])]
    engine.close()
    assert len(found) == 5
    assert sorted(row["op"] for part in found for row in part) == list(range(1000))
    assert max(len(part) for part in found) < 500


@pytest.mark.slow
def test_sliced_history_has_the_verdict_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of stories with everything in them that may go wrong, cut at every other offset."""
    monkeypatch.setattr(slices, "OFFSETS", 2)
    monkeypatch.setattr(real_time, "BUCKET_OFFSETS", 2)
    together = multiplex([generate(seed)[0] for seed in range(60)])
    sources = together.sources()
    ordered = pa.concat_tables(sources.history).sort_by(
        [("f", "ascending"), ("offset", "ascending")]
    )
    path = written(tmp_path / "history.parquet", ordered, 100)

    def told() -> Any:
        verdict = check(replace(sources, history=(path,)), together.plan)
        return without_times(verdict)

    whole = told()
    monkeypatch.setattr(DuckDbEngine, "rows_at_once", 100)
    assert len(cuts([path], 100)) >= 5
    assert told() == whole
    assert {"duplicate", "lost-write", "reordered-ack"} <= {a["kind"] for a in whole["anomalies"]}


def without_times(verdict: Verdict) -> dict[str, Any]:
    """All but how long it took, and when."""
    found = verdict.as_json()
    for detector in found["detectors"]:
        del detector["seconds"]
    del found["checked_at"]
    return found
