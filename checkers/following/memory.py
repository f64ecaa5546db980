"""The rows of the cluster and of faults that are kept to judge a run while it goes on.

Before the end it is unknown where leader epochs start in the final log. So no election and no state
loss explains anything by its offset yet, and the contract leaves open what they may explain. It
needs only
- the nodes that were ever in sync with a partition: leader rows that add a node;
- the leaders of internal topics, because a coordinator that lost records explains what it has
  forgotten: all their rows;
- how far ahead and behind faults set each node's clock: the rows with the least and the greatest;
- the voters of the metadata quorum over time: the first and last row of every stretch of equal
  voters;
- the faults that may have destroyed state, those that changed settings, and those that may have
  made requests late: their rows.
The nodes, clocks and voters are bounded by the size of the cluster and the changes of its voters.
Leaders and faults grow with the faults of the run, not with its history; they are kept until the
run ends, because what they did may show at any time. Faults that only end processes are not kept.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.history import arrow
from checkers.history.history import CLUSTER, FAULTS
from checkers.history.recorded_faults import may_delay, may_lose_state
from checkers.history.settings import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, read_changes

Row = dict[str, Any]

_COLUMNS = (
    "at_ns", "kind", "node", "topic", "partition", "leader", "leader_epoch", "isr", "ahead_ms",
)  # fmt: skip

INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


class ClusterMemory:
    """The kept rows; rows are added in the order in which they were recorded."""

    def __init__(self) -> None:
        self._leaders: list[Row] = []
        self._in_sync: dict[tuple[str, int], frozenset[int]] = {}
        self._quorum: list[Row] = []
        self._clocks: dict[int, list[Row]] = {}
        self._faults: list[Row] = []

    def size(self) -> int:
        """The number of kept rows, of all kinds."""
        clocks = sum(map(len, self._clocks.values()))
        return len(self._leaders) + len(self._quorum) + clocks + len(self._faults)

    def take_cluster(self, rows: pa.Table) -> None:
        """Add rows (schema CLUSTER)."""
        for row in _with(rows, "leader", "isr"):
            at = (row["topic"], row["partition"])
            known = self._in_sync.get(at, frozenset())
            if row["topic"] in INTERNAL_TOPICS or not known.issuperset(row["isr"]):
                self._in_sync[at] = known | frozenset(row["isr"])
                self._leaders.append(row)
        for row in _with(rows, "quorum", "isr"):
            voters = [each["isr"] for each in self._quorum[-2:]]
            if voters == [row["isr"]] * 2:
                self._quorum.pop()
            self._quorum.append(row)
        for row in _with(rows, "clock", "ahead_ms"):
            both = sorted([*self._clocks.get(row["node"], ()), row], key=lambda r: r["ahead_ms"])
            self._clocks[row["node"]] = [both[0], both[-1]] if len(both) > 1 else both

    def take_faults(self, rows: pa.Table) -> None:
        """Add rows (schema FAULTS) of faults that are over."""
        self._faults += [
            row
            for row in rows.to_pylist()
            if may_lose_state(row) or may_delay(row) or read_changes([row])
        ]

    def cluster(self) -> pa.Table:
        """Return the kept rows of schema CLUSTER."""
        clocks = (row for rows in self._clocks.values() for row in rows)
        return _table([*self._leaders, *self._quorum, *clocks], CLUSTER)

    def faults(self) -> pa.Table:
        """Return the kept rows of schema FAULTS."""
        return _table(self._faults, FAULTS)


def _with(rows: pa.Table, kind: str, column: str) -> list[Row]:
    # Streams have a batch for every few rows: one combined batch is processed faster.
    told = rows.select(_COLUMNS).combine_chunks()
    told = told.filter(pc.and_(pc.equal(told["kind"], kind), pc.is_valid(told[column])))
    found: list[Row] = told.to_pylist()
    return found


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema) if rows else arrow.no_rows(schema)
