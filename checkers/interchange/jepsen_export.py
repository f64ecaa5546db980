"""The rows of a history as Jepsen's operations: the way back of `jepsen_import`, for any run.

- A partition is a key: the one that it was imported from, else its number among all partitions.
- A Jepsen process does one thing at a time. What a client did at once, as producers do, and what it
  did after something that never ended, is spread over further processes.
- A final read becomes what Jepsen's final polls are: an assignment from the beginning and polls.
  That of an import is not written; it only repeats what its polls say.
- Records without a value of the run, corrupt or foreign, have no place in such a history.

What comes back from an import says the same, though not always in the same words: a `:txn` of sends
alone is a `:send`, a poll that went back by itself is several, crashes are gone.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from checkers.history import HistoryError
from checkers.interchange import edn
from checkers.interchange.as_read import Partition
from checkers.interchange.imported import BEGINNING, SUBSCRIBED, VALUE_BITS, Row
from checkers.interchange.jepsen_import import REBALANCED, UNSAID
from checkers.interchange.jepsen_ops import Key, Op, Poll, Record, Send, Step

_SENDS, _POLLS, _ASSIGNS = ("send",), ("poll", "final-read"), ("assign",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Operations, which key is which partition, and how many records were left out."""

    ops: Sequence[Op]
    keys: Mapping[Partition, Key]
    left_out: int


@dataclass(slots=True)
class _Act:
    """One operation before it is given a process: how it began, and how it ended."""

    client: int
    invoke_ns: int
    complete_ns: int | None
    op: Op
    process: int = -1


@dataclass(slots=True)
class _Processes:
    """Hands out process numbers: a client's own first, then new ones."""

    next_new: int
    free: dict[int, list[int]] = field(default_factory=dict)
    busy: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def take(self, client: int, at_ns: int, until_ns: int | None) -> int:
        """A process of the client that is idle from `at_ns` on; until_ns None: never again."""
        free = self.free.setdefault(client, [client])
        busy = self.busy.setdefault(client, [])
        while busy and busy[0][0] <= at_ns:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            process = heapq.heappop(free)
        else:
            process, self.next_new = self.next_new, self.next_new + 1
        if until_ns is not None:
            heapq.heappush(busy, (until_ns, process))
        return process


def to_ops(rows: Iterable[Row], plan: Mapping[str, Any]) -> Exported:
    """All operations of a history that Jepsen knows, in the order of time.

    rows: of the schema HISTORY, in any order. Raises HistoryError for a plan that names the keys of
    its import wrongly.
    """
    origin: Mapping[str, Any] = plan.get("imported") or {}
    wanted = [row for row in rows if _wanted(row, imported=bool(origin))]
    known = [row for row in wanted if not _without_value(row)]
    keys = _keys(known, origin)
    packed = bool(origin.get("packed"))
    known.sort(key=lambda row: (_unit(row), row["op"]))
    acts = [
        act
        for _, unit in groupby(known, key=_unit)
        for act in _acts(list(unit), keys, packed=packed)
    ]
    return Exported(ops=tuple(_in_time(acts)), keys=keys, left_out=len(wanted) - len(known))


def _wanted(row: Row, *, imported: bool) -> bool:
    if imported and row["f"] == "final-read":
        return False
    return row["f"] in (*_SENDS, *_POLLS, *_ASSIGNS) and row["error"] not in UNSAID


def _without_value(row: Row) -> bool:
    return row["f"] in _POLLS and row["offset"] is not None and row["value"] is None


def _unit(row: Row) -> int:
    """What the rows of one of Jepsen's operations share."""
    return int(row["op"] if row["txn"] is None else row["txn"])


def _keys(rows: Iterable[Row], origin: Mapping[str, Any]) -> dict[Partition, Key]:
    found = sorted({(row["topic"], row["partition"]) for row in rows if row["topic"] is not None})
    if origin.get("tool") != "jepsen":
        return {partition: number for number, partition in enumerate(found)}
    try:
        names = [next(iter(edn.read_all(text))) for text in origin["keys"]]
        return {partition: _name(names[partition[1]]) for partition in found}
    except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
        raise HistoryError(f"plan.json: the keys of the import are not right: {error!r}") from error


def _name(name: edn.Value) -> Key:
    if isinstance(name, int | str):
        return name
    raise TypeError(f"{name!r} is no key")


def _acts(unit: Sequence[Row], keys: Mapping[Partition, Key], *, packed: bool) -> Iterator[_Act]:
    """The operation that the rows of one unit are; a final read is two."""
    first = next((row for row in unit if row["f"] not in _ASSIGNS), unit[0])
    ends = [row["complete_ns"] for row in unit]
    begun_ns = min(row["invoke_ns"] for row in unit)
    ended_ns = None if None in ends else max(ends)
    common = {"number": 0, "process": 0, "type": first["type"], "error": first["error"]}
    if all(row["f"] in _ASSIGNS for row in unit):
        assigned = _assignment(unit, keys)
        op = replace(assigned, **common, time_ns=begun_ns)
        yield _Act(first["client"], begun_ns, ended_ns, op)
        return
    if first["f"] == "final-read":
        held = {(row["topic"], row["partition"]): None for row in unit}
        op = Op(
            **common, f="assign", time_ns=begun_ns, from_beginning=True,
            keys=tuple(keys[each] for each in held),
        )  # fmt: skip
        yield _Act(first["client"], begun_ns, begun_ns, op)
    steps = tuple(_steps(unit, keys, packed=packed))
    kinds = {type(step) for step in steps}
    f = "txn" if len(kinds) > 1 else "send" if Send in kinds else "poll"
    moved = [row for row in unit if row["f"] in _ASSIGNS and row["error"] == REBALANCED]
    rebalanced = dict.fromkeys(keys[row["topic"], row["partition"]] for row in moved)
    op = Op(**common, f=f, time_ns=begun_ns, steps=steps, rebalanced=tuple(rebalanced))
    yield _Act(first["client"], begun_ns, ended_ns, op)


def _assignment(unit: Sequence[Row], keys: Mapping[Partition, Key]) -> Op:
    offsets = [row["offset"] for row in unit]
    return Op(
        number=0,
        process=0,
        type="ok",
        f="subscribe" if unit[0]["group"] == SUBSCRIBED else "assign",
        time_ns=0,
        keys=tuple(keys[row["topic"], row["partition"]] for row in unit),
        # In our own histories the beginning is offset 0, as long as nothing was deleted.
        from_beginning=all(offset in (0, BEGINNING) for offset in offsets),
    )


def _steps(unit: Sequence[Row], keys: Mapping[Partition, Key], *, packed: bool) -> Iterator[Step]:
    low = (1 << VALUE_BITS) - 1
    sent_or_read = (row for row in unit if row["f"] not in _ASSIGNS)
    for _, step in groupby(sent_or_read, key=lambda row: row["op"]):
        records = []
        for row in step:
            if row["f"] in _POLLS and row["offset"] is None:
                continue
            key = keys[row["topic"], row["partition"]]
            value = row["value"] & low if packed else row["value"]
            if row["f"] in _SENDS:
                yield Send(key=key, value=value, offset=row["offset"])
                break
            records.append(Record(key=key, value=value, offset=row["offset"]))
        else:
            records.sort(key=lambda record: record.offset)
            yield Poll(records=tuple(records))


def _in_time(acts: list[_Act]) -> Iterator[Op]:
    """Invocations and completions in the order of time, each with a process of its own time."""
    acts.sort(key=lambda act: act.invoke_ns)
    processes = _Processes(next_new=max((act.client for act in acts), default=0) + 1)
    events: list[tuple[int, int, int, int, Op]] = []
    for number, act in enumerate(acts):
        goes_on = act.op.type != "info"
        until_ns = act.complete_ns if goes_on else None
        process = processes.take(act.client, act.invoke_ns, until_ns)
        bare = replace(
            act.op, process=process, type="invoke", error=None, rebalanced=(),
            steps=tuple(_as_invoked(step) for step in act.op.steps),
        )  # fmt: skip
        events.append((act.invoke_ns, 1, number, 0, bare))
        if act.complete_ns is not None:
            # Of what is at one moment, what began earlier ends before anything new begins.
            late = act.complete_ns == act.invoke_ns
            op = replace(act.op, process=process, time_ns=act.complete_ns)
            events.append((act.complete_ns, int(late), number, 1, op))
    events.sort(key=lambda event: event[:4])
    for place, (*_, op) in enumerate(events, 1):
        yield replace(op, number=place)


def _as_invoked(step: Step) -> Step:
    match step:
        case Send():
            return replace(step, offset=None)
        case Poll():
            return Poll()
