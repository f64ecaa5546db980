"""The logs in which recorded faults changed bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from checkers.engines.engine import Column, Engine
from checkers.frames.holders import Holders
from checkers.history.recorded_faults import LOGS, OTHER_BYTES, kind_of_file, read_fault


@dataclass(frozen=True, slots=True)
class ChangedLogs:
    """Logs with bytes that no node wrote there. nodes: those of which any log may have some. named:
    the others, as node/topic-partition."""

    nodes: frozenset[int] = frozenset()
    named: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.nodes or self.named)

    def has(self, node: int, topic: str, partition: int) -> bool:
        """Whether the node's log of the partition is one of them."""
        return node in self.nodes or _log_of(node, topic, partition) in self.named

    def partitions(self, holders: Holders) -> frozenset[tuple[str, int]]:
        """Return the partitions of which a node that ever held them has one of these logs."""
        return frozenset(
            partition
            for partition, nodes in holders.items()
            if any(self.has(node, *partition) for node in nodes)
        )

    def condition(self, engine: Engine, node: str = "node") -> Column:
        """The same as a column of a frame with topic, partition and `node`."""
        F = engine.functions
        topic, partition = F.col("topic"), F.col("partition").cast("string")
        name = F.concat(F.col(node).cast("string"), F.lit("/"), topic, F.lit("-"), partition)
        return F.col(node).isin(*sorted(self.nodes)) | name.isin(*sorted(self.named))


def _log_of(node: int, topic: str, partition: int) -> str:
    return f"{node}/{topic}-{partition}"


def with_changed_bytes(rows: Iterable[Mapping[str, Any]], file: str = LOGS) -> ChangedLogs:
    """Return the logs of this kind in which a recorded fault flipped bits or put bytes from
    elsewhere. Any reader may have read these bytes."""
    struck = [row for row in rows if row["fault"] in OTHER_BYTES]
    struck = [row for row in struck if kind_of_file(row["targets"]) == file]
    nodes: set[int] = set()
    named: set[str] = set()
    for fault in filter(None, map(read_fault, struck)):
        nodes |= fault.aimed - fault.damaged.keys()
        named |= {_log_of(node, *log) for node in fault.damaged for log in fault.damaged[node]}
    return ChangedLogs(frozenset(nodes), frozenset(named))
