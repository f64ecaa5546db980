"""A run at an address is what it is in a directory."""

from pathlib import Path
from typing import Any

import pytest

from checkers.engines.engine import SparkEngine
from checkers.engines.remote import UNTOLD, load_remote_run
from checkers.history.history import SCHEMAS, HistoryError, load_run, load_table, read_sources
from harness.recording import store
from tests.harness.cli.test_analyze import stored
from tests.support.histories.story import healthy
from tests.system.test_rotation import segmented


class OverConnect:
    """A session that has no JVM of its own."""

    def __init__(self, session: Any) -> None:
        self.read = session.read


@pytest.mark.slow
def test_segments_are_one_table(tmp_path: Path, spark: Any) -> None:
    """Of the cluster and of faults as of a history; one that is missing is told."""
    run_dir = segmented(tmp_path, healthy())
    address = f"file://{run_dir}"
    found, _ = load_remote_run(spark, address)
    engine = SparkEngine(spark)
    for name, sources in (("cluster", found.cluster), ("faults", found.faults)):
        known = read_sources(load_table(run_dir, name), SCHEMAS[name]).num_rows
        assert len(engine.rows(engine.load(sources, SCHEMAS[name]))) == known > 0
    (run_dir / "cluster" / "cluster-000002.parquet").unlink()
    with pytest.raises(HistoryError, match=r"cluster/cluster-000002\.parquet: is missing"):
        load_remote_run(spark, address)


@pytest.mark.slow
def test_streams_that_were_cut_are_known(tmp_path: Path, spark: Any) -> None:
    """As in the directory itself; over Spark Connect nobody can say, and that is said."""
    run_dir = Path(stored(tmp_path, healthy()))
    assert load_remote_run(spark, f"file://{run_dir}")[0].cut == load_run(run_dir).cut == ()
    (run_dir / "history" / "torn.arrows").write_bytes(b"torn" * 99)
    store.seal(run_dir)
    found, plan = load_remote_run(spark, f"file://{run_dir}")
    assert found.cut == load_run(run_dir).cut == ("torn.arrows",)
    assert plan["name"] == healthy().plan["name"]
    assert load_remote_run(OverConnect(spark), f"file://{run_dir}")[0].cut == (UNTOLD,)
