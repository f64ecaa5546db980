"""A run at an address is what it is in a directory."""

from pathlib import Path
from typing import Any

import pytest

from checkers.history import load_run
from checkers.remote import UNTOLD, load_remote_run
from harness.record import store
from tests.harness.commands.test_analyze import stored
from tests.histories.story import healthy


class OverConnect:
    """A session that has no JVM of its own."""

    def __init__(self, session: Any) -> None:
        self.read = session.read


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
