"""The history of a cluster's znodes as rows of CLUSTER: what the controller and leaders decided.

It is to ZooKeeper what `harness.systems.replica_files.metadata_rows` is to a metadata log.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from checkers.history.history import METADATA_LOG
from harness.systems.ensemble import znodes
from harness.systems.ensemble.transactions import Change, Transaction, read_log
from harness.systems.monitoring.quorum_times import QuorumTimes, Stamp
from nodes.ids import TopicPartition

ZOOKEEPER: Final = "zookeeper"
"""The source of rows that name the active controller."""


def read_directory(directory: Path) -> Iterator[Transaction]:
    """Yield the transactions of one stopped server, by its directory of logs. Raises OSError,
    TransactionLogError."""
    for path in sorted(directory.glob("log.*"), key=lambda path: int(path.suffix[1:], 16)):
        yield from read_log(path.read_bytes())


def decisions(
    transactions: Sequence[Transaction], started_wall_ns: int, times: QuorumTimes
) -> list[dict[str, Any]]:
    """Return the rows of CLUSTER in the order of the transactions.

    `transactions` has those of all servers, by zxid. Their times count from `started_wall_ns` if
    `times` says that they are plausible. Of topics with one name only the last one has rows. Raises
    ZnodeError.
    """
    stamps = (
        Stamp(each.zxid, each.epoch, each.at_ms * 1_000_000 - started_wall_ns)
        for each in transactions
    )
    placed = times.place(stamps)
    image = _Image()
    rows: list[dict[str, Any]] = []
    for transaction, at_ns in zip(transactions, placed, strict=True):
        origin = {"at_ns": at_ns, "log_offset": transaction.zxid}
        for change in image.effects(transaction):
            if change.created and (topic := znodes.topic_of(change.path)) is not None:
                rows = [row for row in rows if row.get("topic") != topic]
            if (row := image.apply(change)) is not None:
                rows.append({"source": METADATA_LOG, **origin, **row})
        if (row := image.new_controller()) is not None:
            rows.append({**origin, **row})
    return rows


class _Image:
    """The znodes that later changes depend on."""

    def __init__(self) -> None:
        self._ephemeral: dict[str, int] = {}
        """Path -> the session that it ends with."""
        self._assigned: dict[str, Mapping[int, tuple[int, ...]]] = {}
        self._controller: int | None = None
        self._epoch = -1
        self._announced: tuple[int, int] | None = None

    def effects(self, transaction: Transaction) -> list[Change]:
        """Return what a transaction changes, with the ephemeral znodes that end with a session."""
        if not transaction.closes_session:
            for change in transaction.changes:
                if change.ephemeral:
                    self._ephemeral[change.path] = transaction.session
                elif change.data is None:
                    self._ephemeral.pop(change.path, None)
            return list(transaction.changes)
        ended = [path for path, owner in self._ephemeral.items() if owner == transaction.session]
        for path in ended:
            del self._ephemeral[path]
        return [Change(path=path, data=None) for path in ended]

    def apply(self, change: Change) -> dict[str, Any] | None:
        """Apply a change; return the row that it makes, without its time. Raises ZnodeError."""
        path, data = change.path, change.data
        if (topic := znodes.topic_of(path)) is not None:
            self._assigned[topic] = {} if data is None else znodes.read_assignment(path, data)
        elif (broker := znodes.broker_of(path)) is not None:
            # A znode that changes, as after an end of a session, is a registration, too.
            return {"kind": "fenced" if data is None else "unfenced", "node": broker}
        elif path == znodes.CONTROLLER:
            self._controller = None if data is None else znodes.read_controller(data)
        elif path == znodes.CONTROLLER_EPOCH and data is not None:
            self._epoch = znodes.read_controller_epoch(data)
        elif data is not None and (partition := znodes.partition_of(path)) is not None:
            return self._leader_row(partition, change, znodes.read_state(path, data))
        return None

    def new_controller(self) -> dict[str, Any] | None:
        """Return a row when a transaction made another broker the active controller."""
        if self._controller is None or self._announced == (self._controller, self._epoch):
            return None
        self._announced = self._controller, self._epoch
        node = self._controller
        return {
            "kind": "quorum",
            "node": node,
            "leader": node,
            "leader_epoch": self._epoch,
            "source": ZOOKEEPER,
        }

    def _leader_row(
        self, partition: TopicPartition, change: Change, state: znodes.PartitionZnode
    ) -> dict[str, Any]:
        replicas = self._assigned.get(partition.topic, {}).get(partition.partition)
        return {
            "kind": "leader",
            "topic": partition.topic,
            "partition": partition.partition,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "partition_epoch": change.version,
            "isr": list(state.isr),
            "elr": [],
            "replicas": None if replicas is None else list(replicas),
        }
