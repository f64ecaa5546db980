"""Reads the logs of stopped ZooKeeper servers into a run's tables."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from harness.recording.store import Run
from harness.systems.ensemble.comparison import compare
from harness.systems.ensemble.history import decisions, read_directory
from harness.systems.monitoring.quorum_times import QuorumTimes
from harness.systems.monitoring.watcher import Rows

READ_KEY: Final = "zookeeper_logs"
"""The key of run.json with the nodes whose logs were read: the verdict needs every server's."""
LOST_KEY: Final = "zookeeper_lost"
"""The key of run.json with the transactions that ZooKeeper lost, a sentence each."""
DISCARDED_KEY: Final = "zookeeper_discarded"
"""The same of transactions that were discarded, whether or not they had been committed."""
_OTHER_DATA: Final = "First digest mismatch on txn"
"""A server of ZooKeeper 3.9 says so when its data are not those that the leader has."""


def collect_znodes(
    run: Run,
    cluster: Rows,
    directories: Mapping[int, Path],
    times: QuorumTimes,
    *,
    until_ns: int,
) -> None:
    """Write what the znodes' history says into `cluster`, up to `until_ns`.

    `directories` has each server's logs, by node. Raises TransactionLogError, ZnodeError.
    """
    logs = {node: list(read_directory(path)) for node, path in directories.items()}
    found = compare(list(logs.values()), times.read)
    for row in decisions(found.transactions, run.started_wall_ns, times):
        if row["at_ns"] <= until_ns:
            cluster.append_named(**row)
    cluster.flush()
    read = [node for node, log in logs.items() if log]
    lost = [*found.lost, *_of_other_data(run.path, directories)]
    run.update(**{READ_KEY: read, LOST_KEY: lost, DISCARDED_KEY: found.discarded})


def _of_other_data(run: Path, nodes: Iterable[int]) -> Iterator[str]:
    """A sentence for each server that went on with other data than the leader's."""
    for node in nodes:
        path = run / "nodes" / str(node) / "node.log"
        with suppress(FileNotFoundError), path.open(errors="replace") as lines:
            if any(_OTHER_DATA in line for line in lines):
                yield f"server {node} served other data than the leader's: {_OTHER_DATA} (its log)"
