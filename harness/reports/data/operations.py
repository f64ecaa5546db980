"""Every send and poll of a run as columns that the page draws and filters by itself.

A row is one operation on one partition. Rows are sorted by client, partition, kind and time, so
that they pack well. Up to MAX_OPERATIONS, each operation is one row. Above that, operations of one
client, partition and outcome that are close in time and latency share a row with a `weight`: no
operation disappears, the rows become coarser, and the page says how coarse.

    client partition   indices into the lists of names
    kind               0 send, 1 poll
    acks               -1, 0, 1; 2 for polls
    type               0 ok, 1 fail, 2 info
    invoke latency     µs since the run began, µs; latency -1: never completed
    writer counter     together the number of the operation: writer << 40 | counter
    sender sequence    together the value of a send; -1: none
    offset node epoch  from the answer; the first offset of a poll; -1: not known
    error              index into the list of errors; 0: none
    weight records     how many operations the row stands for; records of a poll
    final_read         for a send: 0: the final reads did not reach the end of its partition;
                       1: they have its value; 2: they do not have it
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.reports.packing import Column, pack
from harness.reports.redaction import redacted

MAX_OPERATIONS = 1_000_000
FINEST_CELLS = 1 << 14
"""The number of time spans to start with when operations share rows; divided by 4 until the rows
are few enough."""
LATENCY_CELLS = 40
"""Steps of latency per decade."""

NAMES = (
    "client", "partition", "kind", "acks", "type", "invoke", "latency", "writer", "counter",
    "sender", "sequence", "offset", "node", "epoch", "error", "weight", "records", "final_read",
)  # fmt: skip
STEADY = frozenset({"client", "partition", "invoke", "writer", "counter", "sequence", "offset"})

_GATHER = """
CREATE TEMP TABLE gathered AS
WITH ended AS (SELECT DISTINCT topic, partition FROM history
               WHERE f = 'final-read-end' AND type = 'ok'),
final AS (SELECT DISTINCT topic, partition, value FROM history
          WHERE f = 'final-read' AND value IS NOT NULL)
SELECT h.client, coalesce(h.topic, '') AS topic, coalesce(h.partition, -1) AS partition, 0 AS kind,
  h.acks, h.type, h.invoke_ns, h.complete_ns, h.op, h.value, h.offset, h.node, h.leader_epoch,
  h.error, 1 AS records,
  CASE WHEN e.topic IS NULL OR h.value IS NULL THEN 0 WHEN f.value IS NOT NULL THEN 1 ELSE 2
  END AS final_read
FROM history h LEFT JOIN ended e USING (topic, partition)
LEFT JOIN final f USING (topic, partition, value)
WHERE h.f = 'send' AND h.acks IS NOT NULL
UNION ALL
SELECT client, coalesce(topic, ''), coalesce(partition, -1), 1, 2, any_value(type),
  min(invoke_ns), max(complete_ns), op, NULL, min("offset"), any_value(node),
  max(leader_epoch), any_value(error), count(*), 0
FROM history WHERE f = 'poll' GROUP BY op, client, topic, partition
"""

_COARSEN = """
CREATE OR REPLACE TEMP TABLE coarse AS
SELECT arg_min(g, invoke_ns) AS g, count(*) AS weight FROM gathered g
GROUP BY client, topic, partition, kind, acks, type, error, final_read, invoke_ns // {cell_ns},
  CASE WHEN complete_ns IS NULL THEN -1
  ELSE floor(log10(greatest(complete_ns - invoke_ns, 1)) * {latency_cells}) END
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """A packed block. cell_s: the time span within which operations share a row; None: each has its
    own."""

    block: str
    operations: int
    rows: int
    cell_s: float | None


def pack_operations(db: Any, span_s: float, limit: int = MAX_OPERATIONS) -> Operations:
    """Pack the sends and polls of the view `history`."""
    db.execute(_GATHER)
    operations = db.execute("SELECT count(*) FROM gathered").fetchone()[0]
    cell_s = None
    if operations > limit:
        cell_s = _coarsen(db, span_s, limit)
        db.execute("CREATE TEMP VIEW drawn AS SELECT UNNEST(g), weight FROM coarse")
    else:
        db.execute("CREATE TEMP VIEW drawn AS SELECT *, 1 AS weight FROM gathered")
    names, errors = _name_lists(db)
    columns = _columns(db)
    head: dict[str, Any] = {
        "clients": names["client"],
        "partitions": names["partition"],
        "errors": errors,
    }
    head["cell"] = cell_s
    return Operations(
        block=pack(head, columns),
        operations=operations,
        rows=len(columns["client"].numbers),
        cell_s=cell_s,
    )


def _coarsen(db: Any, span_s: float, limit: int) -> float:
    """Create the table `coarse` with at most `limit` rows, or with one time span for all."""
    cells = FINEST_CELLS
    while True:
        cell_ns = max(1, round(span_s * 1e9 / cells))
        db.execute(_COARSEN.format(cell_ns=cell_ns, latency_cells=LATENCY_CELLS))
        rows = db.execute("SELECT count(*) FROM coarse").fetchone()[0]
        if rows <= limit or cells <= 1:
            return cell_ns / 1e9
        cells //= 4


def _name_lists(db: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the lists of names that columns index, and create them as tables to join with."""
    db.execute(
        "CREATE TEMP TABLE client_names AS SELECT client, row_number() OVER (ORDER BY client) - 1"
        " AS place FROM (SELECT DISTINCT client FROM drawn)"
    )
    db.execute(
        "CREATE TEMP TABLE partition_names AS SELECT topic, partition, row_number() OVER"
        " (ORDER BY topic, partition) - 1 AS place"
        " FROM (SELECT DISTINCT topic, partition FROM drawn)"
    )
    db.execute(
        "CREATE TEMP TABLE error_names AS SELECT error, row_number() OVER (ORDER BY error) AS place"
        " FROM (SELECT DISTINCT error FROM drawn WHERE error IS NOT NULL)"
    )
    clients = db.execute("SELECT client FROM client_names ORDER BY place").fetchall()
    partitions = db.execute(
        "SELECT topic, partition FROM partition_names ORDER BY place"
    ).fetchall()
    errors = db.execute("SELECT error FROM error_names ORDER BY place").fetchall()
    return (
        {"client": [row[0] for row in clients], "partition": [list(row) for row in partitions]},
        ["", *(redacted(row[0]) for row in errors)],
    )


def _columns(db: Any) -> dict[str, Column]:
    found = db.execute(
        "SELECT c.place AS client, p.place AS partition, kind, acks,"
        " CASE type WHEN 'ok' THEN 0 WHEN 'fail' THEN 1 ELSE 2 END AS type,"
        " invoke_ns // 1000 AS invoke,"
        " coalesce((complete_ns - invoke_ns) // 1000, -1) AS latency,"
        " op >> 40 AS writer, op & ((1::BIGINT << 40) - 1) AS counter,"
        " coalesce(value >> 32, -1) AS sender,"
        " coalesce(value & ((1::BIGINT << 32) - 1), -1) AS sequence,"
        ' coalesce("offset", -1) AS "offset", coalesce(node, -1) AS node,'
        " coalesce(leader_epoch, -1) AS epoch, coalesce(e.place, 0) AS error,"
        " weight, records, final_read"
        " FROM drawn JOIN client_names c USING (client)"
        " JOIN partition_names p USING (topic, partition)"
        " LEFT JOIN error_names e USING (error)"
        " ORDER BY client, partition, kind, invoke, counter"
    ).fetchnumpy()
    return {
        name: Column(numbers=np.asarray(found[name]).astype(np.int64), steady=name in STEADY)
        for name in NAMES
    }
