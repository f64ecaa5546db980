"""What the logs of ZooKeeper's servers say for run.json."""

import json
from pathlib import Path
from typing import Any

from harness.recording import store
from harness.recording.store import Run
from harness.systems.ensemble.collect import LOST_KEY, collect_znodes
from harness.systems.monitoring.quorum_times import QuorumTimes

MISMATCH = """\
[2026-11-29 05:00:01,674] WARN  Message:Digests are not matching. Value is Zxid. (DataTree)
[2026-11-29 05:00:01,674] ERROR First digest mismatch on txn: 216173978199654401,15,21474836487
"""


class NoRows:
    """Takes none: the transaction logs are empty."""

    def append_named(self, **columns: Any) -> None:
        raise AssertionError(columns)

    def flush(self) -> None:
        """There is nothing."""


def lost(run: Run, tmp_path: Path) -> list[str]:
    """What is written into run.json of servers 101 to 103, whose transaction logs are empty."""
    directories = {node: tmp_path / str(node) for node in (101, 102, 103)}
    for path in directories.values():
        path.mkdir(exist_ok=True)
    collect_znodes(run, NoRows(), directories, QuorumTimes(), until_ns=0)
    found: list[str] = json.loads((run.path / store.RUN_FILE).read_text())[LOST_KEY]
    return found


def test_a_server_with_other_data_is_named(tmp_path: Path) -> None:
    """By its log; a server without a log says nothing."""
    run = store.create(tmp_path / "store", "plan", versions={}, commit=None)
    logs = {node: run.path / "nodes" / str(node) / "node.log" for node in (101, 102)}
    for log in logs.values():
        log.parent.mkdir(parents=True)
        log.write_text("[2026-11-29 04:58:20,474] INFO  zookeeper.digest.enabled = true\n")
    assert lost(run, tmp_path) == []
    logs[102].write_text(MISMATCH)
    (told,) = lost(run, tmp_path)
    assert told.startswith("server 102 served other data than the leader's")
