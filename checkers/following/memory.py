"""What is remembered of the cluster and of faults while a run goes on, so that it can be judged.

Before the end nobody knows where leader epochs begin in the final log, so no election and no loss
of state explains anything by its offset yet: the contract leaves open what they may explain. It
asks only
- who was ever in sync with a partition: rows of its leader that add somebody;
- who voted in the metadata quorum when: the first and last row of every stretch of equal voters;
- which faults may have taken something for good, and which changed what is promised: their rows.
The first two are bounded by the cluster's size and the changes of its voters. The faults are kept
as long as the run goes on, since what they took may be missed at any time; those that end when they
are healed (kills, pauses, cuts) are not kept.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from checkers.history import arrow
from checkers.history.history import CLUSTER, FAULTS
from checkers.history.recorded_faults import may_lose_state
from checkers.history.settings import read_changes

Row = dict[str, Any]

_COLUMNS = ("at_ns", "kind", "node", "topic", "partition", "leader", "leader_epoch", "isr")


class Remembered:
    """The state; rows are taken in the order in which they were recorded."""

    def __init__(self) -> None:
        self._leaders: list[Row] = []
        self._in_sync: dict[tuple[str, int], frozenset[int]] = {}
        self._quorum: list[Row] = []
        self._faults: list[Row] = []

    def size(self) -> int:
        """Rows kept, of all kinds."""
        return len(self._leaders) + len(self._quorum) + len(self._faults)

    def take_cluster(self, rows: pa.Table) -> None:
        """Go on with these rows (schema CLUSTER)."""
        for row in _of_kind(rows, "leader"):
            at = (row["topic"], row["partition"])
            known = self._in_sync.get(at, frozenset())
            if not known.issuperset(row["isr"]):
                self._in_sync[at] = known | frozenset(row["isr"])
                self._leaders.append(row)
        for row in _of_kind(rows, "quorum"):
            voters = [each["isr"] for each in self._quorum[-2:]]
            if voters == [row["isr"]] * 2:
                self._quorum.pop()
            self._quorum.append(row)

    def take_faults(self, rows: pa.Table) -> None:
        """Go on with these rows (schema FAULTS) of faults that are over."""
        self._faults += [
            row for row in rows.to_pylist() if may_lose_state(row) or read_changes([row])
        ]

    def cluster(self) -> pa.Table:
        """What is remembered, of schema CLUSTER."""
        return _table([*self._leaders, *self._quorum], CLUSTER)

    def faults(self) -> pa.Table:
        """What is remembered, of schema FAULTS."""
        return _table(self._faults, FAULTS)


def _of_kind(rows: pa.Table, kind: str) -> list[Row]:
    # Streams have a batch for every few rows: together they are gone through faster.
    told = rows.select(_COLUMNS).combine_chunks()
    told = told.filter(pc.and_(pc.equal(told["kind"], kind), pc.is_valid(told["isr"])))
    found: list[Row] = told.to_pylist()
    return found


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema) if rows else arrow.no_rows(schema)
