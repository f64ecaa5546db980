"""Numbers that are too large are drawn at the bound; missing numbers are not drawn."""

from pathlib import Path

import pyarrow.parquet

from checkers.history.history import HISTORY, table
from harness.reports.data.loading import load
from harness.reports.data.tables import FARTHEST_NS, connect
from tests.support.reports.lossy_run import lossy_run


def test_send_without_an_answer_has_no_end(tmp_path: Path) -> None:
    """A send that may have happened ends nowhere, not at the end of all time."""
    run = tmp_path / "run"
    lossy_run(run)
    path = run / "history" / "clients-1.parquet"
    rows = pyarrow.parquet.read_table(path).to_pylist()
    rows[0]["complete_ns"], rows[1]["complete_ns"] = None, (1 << 63) - 1
    pyarrow.parquet.write_table(table(HISTORY, rows), path)
    with connect(load(run)) as db:
        drawn = dict(db.execute("SELECT op, complete_ns FROM history").fetchall())
    assert drawn[rows[0]["op"]] is None
    assert drawn[rows[1]["op"]] == FARTHEST_NS
