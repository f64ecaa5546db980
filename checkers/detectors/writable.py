"""The longest time for which a partition could be written to, as its leader and ISR tell.

That needs a leader, and for acks=all min.insync.replicas in-sync replicas. A client cannot get on
before its partition does, and a partition that recovers slowly does recover. The rows that tell a
partition's leaders are few, so this is plain Python.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from checkers.history.settings import FOREVER_NS


def longest_writable(
    rows: Sequence[Mapping[str, Any]], least: int, from_ns: int, until_ns: int
) -> tuple[int, int]:
    """Return the longest span between from_ns and until_ns in which a partition could be written
    to; an empty one if there was none.

    rows: those of the cluster's table of kind leader of one partition, in the order of time. least:
    how many in-sync replicas a write needs, 0 for any number. All of the time counts if no row
    tells, and if the partition cannot be written to in the last row: it never recovered.
    """
    known = [
        (row["at_ns"], _writable(row, least))
        for row in rows
        if least == 0 or row["isr"] is not None
    ]
    if not known or not known[-1][1]:
        return from_ns, until_ns
    spans = [(max(since, from_ns), min(until, until_ns)) for since, until in _spans(known)]
    return max(spans, key=lambda span: span[1] - span[0])


def _writable(row: Mapping[str, Any], least: int) -> bool:
    led = row["leader"] is not None and row["leader"] >= 0
    return led and (least == 0 or len(row["isr"]) >= least)


def _spans(known: Sequence[tuple[int, bool]]) -> Iterator[tuple[int, int]]:
    """Yield since_ns, until_ns of each span in which a partition was writable. Before its first row
    it may have been.
    """
    changes = [next(rows) for _, rows in groupby([(0, True), *known], key=itemgetter(1))]
    for (since_ns, writable), (until_ns, _) in pairwise([*changes, (FOREVER_NS, False)]):
        if writable:
            yield since_ns, until_ns
