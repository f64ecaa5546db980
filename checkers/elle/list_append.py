"""A history in Elle's form: transactions that append to lists and read them.

A partition is a list. A send appends its value. A poll that returned records up to an offset read
the list up to there, because a log has all records below those that it returns. So that reads do
not repeat whole logs, a partition is cut into one list for every STRETCH records, and a poll reads
the lists that its own records are in.

- The order of a list is the version order of `edges`. Contradictions to it (two values at one
  offset, a value at two offsets) are left out here; `check` judges them.
- A send whose value was never read is the last one of a list that was never read.
- A send with acks=0 has an unknown outcome: it ended before any broker had it, so its end says
  nothing about real time.
- An operation that never completed completes at the end, as unknown: Elle knows an append only by
  its completion.
- Every transaction is a process of its own, because clients do many things at once. Real time says
  more than the order of a process.

The format is elle-cli's JSON: one array of invocations and completions, `append` and `r` with key
and value. They have no `index`: elle-cli numbers them itself (since 0.1.6), and with the numbers of
the file Elle up to 0.2.7 deadlocks on a read of a failed append.

The consistency model for Kafka is `MODEL`: writes of one partition in real-time order. Reads have
no such order, because consumers lag.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from checkers.elle.edges import Graph
from checkers.frames.frames import Frames
from checkers.history.history import TP

STRETCH: Final = 128
"""How many records of a partition form one list."""

MODEL: Final = "strong-read-committed"
"""Adya's PL-2 in real-time order: no aborted or intermediate reads, no cycles of writes and reads
of them."""

Partition: TypeAlias = tuple[str, int]
Step: TypeAlias = list[Any]


@dataclass(slots=True)
class _Txn:
    """One transaction: its times, how it ended, and its completed steps in order."""

    invoke_ns: int
    complete_ns: int | None
    type: str
    steps: list[Step] = field(default_factory=list)


def to_list_append(frames: Frames) -> str:
    """Return the sends and polls of a run as elle-cli's JSON, in the order of time."""
    return "[" + ",\n".join(json.dumps(event) for event in _events(_transactions(frames))) + "]\n"


def _transactions(frames: Frames) -> list[_Txn]:
    F = frames.engine.functions
    lists = _Lists(frames.engine.rows(Graph(frames).places.orderBy(*TP, "place")))
    rows = frames.engine.rows(
        frames.history.where(F.col("f").isin("send", "poll") & F.col("value").isNotNull()).orderBy(
            "op", *TP, "offset"
        )
    )
    found: dict[int, _Txn] = {}
    reads: dict[tuple[int, int], dict[Partition, list[int]]] = {}
    for row in rows:
        node = row["op"] if row["txn"] is None else row["txn"]
        ended = "info" if row["type"] == "ok" and row["acks"] == 0 else row["type"]
        txn = found.setdefault(node, _Txn(row["invoke_ns"], row["complete_ns"], ended))
        partition = row["topic"], row["partition"]
        if row["f"] == "send":
            txn.steps.append(["append", lists.home(partition, row["value"]), row["value"]])
            continue
        step = reads.get((node, row["op"]))
        if step is None:
            # Reserve its place among the steps; its reads are known after the last row.
            step = reads[node, row["op"]] = {}
            txn.steps.append(["poll", step, None])
        step.setdefault(partition, []).append(row["value"])
    for txn in found.values():
        txn.steps = [part for step in txn.steps for part in lists.read(step)]
    return [txn for _, txn in sorted(found.items()) if txn.steps]


class _Lists:
    """The version order of every partition, cut into lists."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._values: dict[Partition, list[int]] = defaultdict(list)
        for row in rows:
            self._values[row["topic"], row["partition"]].append(row["value"])
        self._index = {
            partition: {value: number for number, value in enumerate(values)}
            for partition, values in self._values.items()
        }

    def home(self, partition: Partition, value: int) -> str:
        """Return the list that a value is in."""
        index = self._index.get(partition, {}).get(value)
        return _name(partition, "unread" if index is None else str(index // STRETCH))

    def read(self, step: Step) -> Iterator[Step]:
        """Yield a poll as reads of the lists that its records are in; other steps unchanged."""
        if step[0] != "poll":
            yield step
            return
        for partition, values in step[1].items():
            known = self._index.get(partition, {})
            places = sorted(known[value] for value in values if value in known)
            if not places:
                continue
            for stretch in range(places[0] // STRETCH, places[-1] // STRETCH + 1):
                first = stretch * STRETCH
                within = places[bisect_right(places, first + STRETCH - 1) - 1]
                last = first + STRETCH - 1 if within < places[-1] else places[-1]
                content = self._values[partition][first : last + 1]
                yield ["r", _name(partition, str(stretch)), content]


def _name(partition: Partition, part: str) -> str:
    return f"{partition[0]}-{partition[1]}/{part}"


def _events(txns: Sequence[_Txn]) -> Iterator[dict[str, Any]]:
    """Yield invocations and completions in the order of time, a process for each transaction."""
    order: list[tuple[int, int, int, int]] = []
    end_ns = max((max(txn.invoke_ns, txn.complete_ns or 0) for txn in txns), default=0)
    for process, txn in enumerate(txns):
        order.append((txn.invoke_ns, 1, process, 0))
        if txn.complete_ns is None:
            order.append((end_ns, 2, process, 1))
        else:
            late = txn.complete_ns == txn.invoke_ns
            order.append((txn.complete_ns, int(late), process, 1))
    for at_ns, _, process, completes in sorted(order):
        txn = txns[process]
        steps = txn.steps
        if not completes or txn.type != "ok":
            steps = [[f, key, None if f == "r" else value] for f, key, value in steps]
        type_ = txn.type if completes else "invoke"
        yield {
            "time": at_ns, "process": process, "type": type_, "f": "txn", "value": steps,
        }  # fmt: skip
