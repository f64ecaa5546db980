"""The final log of a foreign history without final reads.

Every record that a consumer got was in the log. If consumers finally went to the beginning and read
as far as records are known to exist, the final log is what they read then. Else it is everything
that was ever read. A write that was read once, but not by the final polls, is lost only in the
first case.

A write that was acknowledged below the last read offset, and was not read, is lost. If no write was
acknowledged beyond that offset, the partition was read *whole*; else the rest is unknown.
(jepsen.tests.kafka draws the same line between `lost-write` and `unseen`.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.interchange.columns import NONE, Entries, Numbers

Marks = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was read and acknowledged, as columns.

    partition, offset, value of each record that a consumer was given, final: on its last way from
    the beginning. acked_partition, acked_value, acked_offset (NONE: not known) of each record that
    must be there; its offset may be a bound.
    """

    partition: Numbers
    offset: Numbers
    value: Numbers
    final: Marks
    acked_partition: Numbers
    acked_value: Numbers
    acked_offset: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A partition as it was read: offsets and values in order, its end, and whether that is all."""

    partition: int
    offsets: Numbers
    values: Numbers
    end: int
    whole: bool


def known(entries: Entries, final: Marks) -> Known:
    """What was read, and what must be there: what was acknowledged, and what is of a transaction of
    unknown outcome of which something was read. final: the polls that say how the log was at last.
    """
    owner, place = entries.owners(np.flatnonzero(entries.are(f="poll")))
    read = entries.records["value"][place] != NONE
    owner, place = owner[read], place[read]
    sends = np.flatnonzero(entries.are(f="send"))
    sent = entries["first"][sends]
    partition, value, offset = (entries.records[name] for name in ("partition", "value", "offset"))
    # The first place where each value was read.
    values, firsts = np.unique(value[place], return_index=True)
    at = np.searchsorted(values, value[sent])
    seen = np.zeros(len(sent), dtype=np.bool_)
    seen[at < len(values)] = values[at[at < len(values)]] == value[sent][at < len(values)]
    where = offset[sent].copy()
    where[seen] = offset[place[firsts[at[seen]]]]
    turn, inside = entries["turn"][sends], entries["txn"][sends] == 1
    written = np.isin(turn, turn[seen & inside]) & inside & entries.are(type="info")[sends]
    owed = entries.are(type="ok")[sends] | written
    bound = np.where(offset[sent] != NONE, offset[sent], _next_places(turn, partition[sent], where))
    return Known(
        partition=partition[place],
        offset=offset[place],
        value=value[place],
        final=final[owner],
        acked_partition=partition[sent][owed],
        acked_value=value[sent][owed],
        acked_offset=bound[owed],
    )


def _next_places(turn: Numbers, partition: Numbers, where: Numbers) -> Numbers:
    """Of each send the place of the next one of its transaction to its partition whose place is
    known, or NONE: a producer writes in order."""
    if not len(where):
        return where
    order = np.lexsort((partition, turn))
    turn, partition, where = turn[order], partition[order], where[order]
    nobody = len(order)
    known_at = np.where(where != NONE, np.arange(nobody), nobody)
    following = np.minimum.accumulate(known_at[::-1])[::-1]
    following = np.append(following[1:], nobody)
    last = np.minimum(following, nobody - 1)
    same = (following < nobody) & (turn[last] == turn) & (partition[last] == partition)
    found = np.empty(nobody, np.int64)
    found[order] = np.where(same, where[last], NONE)
    return found


def logs(known: Known, partitions: Numbers) -> Iterator[Log]:
    """The log of each of some partitions in the end."""
    reads = _by_partition(known.partition)
    acked = _by_partition(known.acked_partition)
    nothing = np.empty(0, np.int64)
    for partition in partitions.tolist():
        mine = reads.get(partition, nothing)
        owed = acked.get(partition, nothing)
        offset, value, final = known.offset[mine], known.value[mine], known.final[mine]
        bounds, values = known.acked_offset[owed], known.acked_value[owed]
        last = int(offset.max(initial=-1))
        furthest = max(last, int(bounds[bounds != NONE].max(initial=-1)))
        missing = bounds[~np.isin(values, value)]
        if final.any() and offset[final].max() >= furthest:
            offset, value = offset[final], value[final]
        order = np.lexsort((value, offset))
        offset, value = offset[order], value[order]
        again = (offset[1:] == offset[:-1]) & (value[1:] == value[:-1])
        once = np.append(np.ones(len(order[:1]), np.bool_), ~again)
        yield Log(
            partition=partition,
            offsets=offset[once],
            values=value[once],
            end=last + 1,
            whole=bool(np.all((missing != NONE) & (missing <= last))),
        )


def _by_partition(partition: Numbers) -> dict[int, Numbers]:
    """The places of each partition's rows."""
    order = np.argsort(partition, kind="stable")
    if not len(partition):
        return {}
    numbers, begins = np.unique(partition[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, begins[1:]), strict=True))
