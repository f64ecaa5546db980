"""Convert the rows of any run to Jepsen's operations, as the reverse of `jepsen_import`.

- A partition is a key: the key that it was imported from, else its number among all partitions.
- A Jepsen process does one thing at a time. Operations that a client did at the same time, or after
  an operation that never ended, go to further processes and name their client.
- An operation that never completed completes as `:info` at the end, because Jepsen requires a
  completion.
- In Jepsen an assignment names all assigned keys, and a key that was assigned before keeps its
  position. So a jump becomes two operations: an assignment without the keys that jumped, then one
  with them. A field of our own gives their positions.
- A final read becomes Jepsen's final polls: an assignment from the beginning, and polls. A field of
  our own says where it ended. The final read of an import without one is not written, because it
  only repeats the polls.
- Records without a value of the run (corrupt or foreign) are left out.
- A transaction whose end is recorded is a `:txn`, as long as all of it.
- A member of a group subscribes to all partitions that its group was ever assigned. After that each
  rebalance callback is an assignment with Jepsen's `:rebalance-log`. At its end the member crashes.

An import that is exported again says the same, but not always in the same form: a `:txn` of sends
only becomes a `:send`, a poll that went back becomes several polls, crashes are gone.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from checkers.history.history import ABORT, COMMIT, INIT, HistoryError
from checkers.interchange import edn
from checkers.interchange.columns import Partition
from checkers.interchange.imported import BEGINNING, SUBSCRIBED, VALUE_BITS, Row
from checkers.interchange.jepsen_fields import CALLBACKS, NOTHING, Callback, Copy, Fields
from checkers.interchange.jepsen_import import REBALANCED, UNSAID
from checkers.interchange.jepsen_ops import ASSIGNMENTS, CRASH, End, Op, Poll, Record, Send, Step
from checkers.interchange.jepsen_values import Key

_SENDS, _STEPS = ("send",), ("send", "poll")
_ASSIGNS, _FINAL = ("assign", *CALLBACKS), ("final-read", "final-read-end")
_ALONE = {"offset-commit": "commit", "final-committed": "committed", INIT: INIT, "end": CRASH}
"""Operations by the `f` of their rows, where these are of no transaction."""


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
    wanted = [row for row in rows if _wanted(row, origin)]
    members = _members(wanted)
    wanted = [row for row in wanted if row["f"] != "end" or row["client"] in members]
    known = [row for row in wanted if not _without_value(row)]
    keys = _keys(known, origin)
    bits = origin.get("value_bits", VALUE_BITS) if origin.get("packed") else 0
    writer = _Writer(
        keys, value_bits=int(bits), jepsens=origin.get("tool") == "jepsen", groups=members,
        assigned=_assigned_to(known, keys), sources=_copied_from(known, keys),
    )  # fmt: skip
    known.sort(key=lambda row: (_unit(row), row["op"]))
    final = [row for row in known if row["f"] in _FINAL]
    rest = (row for row in known if row["f"] not in _FINAL)
    acts = [act for _, unit in groupby(rest, key=_unit) for act in writer.acts(list(unit))]
    final.sort(key=lambda row: row["client"])
    for _, mine in groupby(final, key=lambda row: row["client"]):
        acts += writer.final_read(list(mine))
    return Exported(ops=tuple(_in_time(acts)), keys=keys, left_out=len(wanted) - len(known))


def _wanted(row: Row, origin: Mapping[str, Any]) -> bool:
    if row["f"] in _FINAL:
        return not origin or bool(origin.get("final_reads"))
    if row["f"] in _ASSIGNS and row["partition"] is None:
        return False
    known = row["f"] in (*_STEPS, *_ASSIGNS, COMMIT, ABORT, *_ALONE)
    return known and row["error"] not in UNSAID


def _without_value(row: Row) -> bool:
    return row["f"] in ("poll", "final-read") and row["offset"] is not None and row["value"] is None


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


def _members(rows: Iterable[Row]) -> dict[int, str]:
    """The members of groups whose callbacks are recorded, and their group."""
    told = (row for row in rows if row["f"] in CALLBACKS and row["group"] is not None)
    return {row["client"]: row["group"] for row in told}


def _assigned_to(rows: Iterable[Row], keys: Mapping[Partition, Key]) -> dict[str, tuple[Key, ...]]:
    """What the members of each group were assigned."""
    found: dict[str, dict[Key, None]] = {}
    for row in rows:
        if row["f"] in CALLBACKS and row["group"] is not None:
            found.setdefault(row["group"], {})[keys[row["topic"], row["partition"]]] = None
    return {group: tuple(assigned) for group, assigned in found.items()}


def _copied_from(rows: Iterable[Row], keys: Mapping[Partition, Key]) -> dict[int, Key]:
    """The keys of the values that were copied."""
    listed = [row for row in rows if row["f"] in (*_STEPS, "final-read")]
    copied = {row["copies"] for row in listed if row["copies"] is not None}
    found = (row for row in listed if row["value"] in copied)
    return {row["value"]: keys[row["topic"], row["partition"]] for row in found}


class _Writer:
    """Turns rows into operations, and follows what every client is assigned, and where it is.

    groups: the group of each member. assigned: what members of a group were assigned. sources: the
    key of each value that was copied.
    """

    def __init__(
        self, keys: Mapping[Partition, Key], *, value_bits: int, jepsens: bool,
        groups: Mapping[int, str], assigned: Mapping[str, tuple[Key, ...]],
        sources: Mapping[int, Key],
    ) -> None:  # fmt: skip
        self._groups, self._assigned_to, self._sources = groups, assigned, sources
        self._subscribers: set[int] = set()
        self._keys = keys
        self._mask = (1 << value_bits) - 1 if value_bits else -1
        self._jepsens = jepsens
        self._held: dict[int, dict[Key, int | None]] = {}

    def acts(self, unit: Sequence[Row]) -> Iterator[_Act]:
        """The operations that the rows of one unit are; of a jump two."""
        if all(row["f"] in _ASSIGNS for row in unit):
            yield from self._subscription(unit[0])
            yield from self._assigned(unit)
            return
        first = next(row for row in unit if row["f"] not in _ASSIGNS)
        if first["txn"] is None and first["f"] in _ALONE:
            yield self._alone(unit, first)
            return
        steps = tuple(self._steps(unit))
        kinds = {type(step) for step in steps}
        ended = any(row["f"] not in (*_STEPS, *_ASSIGNS) for row in unit)
        # Jepsen's own :send may have several sends; its end was derived from its type.
        transaction = ended and not (self._jepsens and len(steps) > 1)
        f = "txn" if len(kinds) > 1 or transaction else "send" if Send in kinds else "poll"
        moved = [row for row in unit if row["f"] in _ASSIGNS and row["error"] == REBALANCED]
        rebalanced = dict.fromkeys(self._key(row) for row in moved)
        yield _act(
            unit, first, f=f, steps=steps, rebalanced=tuple(rebalanced), abort_ok=_aborted(unit),
            fields=self._fields(unit),
        )  # fmt: skip
        held = self._held.setdefault(first["client"], {})
        if first["type"] == "ok":
            polled = (step for step in steps if isinstance(step, Poll))
            held |= {each.key: each.offset + 1 for step in polled for each in step.records}

    def _alone(self, unit: Sequence[Row], first: Row) -> _Act:
        """What Jepsen does not know, and the end of a member."""
        if first["f"] == "end":
            fields = Fields(group=self._groups[first["client"]])
            return _act(unit, {**first, "type": "info"}, f=CRASH, fields=fields)
        return _act(unit, first, f=_ALONE[first["f"]], fields=self._fields(unit))

    def _fields(self, unit: Sequence[Row]) -> Fields:
        """What the rows of an operation say beyond Jepsen's form."""
        copies = (row for row in unit if row["copies"] in self._sources)
        committed = (row for row in unit if row["f"] in ("offset-commit", "final-committed"))
        fields = Fields(
            group=_first(unit, "group"),
            generation=_first(unit, "generation"),
            transactional_id=_first(unit, "transactional_id"),
            isolation=_first(unit, "isolation"),
            copies=tuple(
                Copy(
                    value=row["value"] & self._mask,
                    key=self._sources[row["copies"]],
                    source=row["copies"] & self._mask,
                )
                for row in copies
            ),
            commits=tuple((self._key(row), row["offset"]) for row in committed),
        )
        return NOTHING if fields == NOTHING else fields

    def _subscription(self, row: Row) -> Iterator[_Act]:
        """Before its first callback a member subscribes."""
        group, client = row["group"], row["client"]
        if row["f"] in CALLBACKS and group is not None and client not in self._subscribers:
            self._subscribers.add(client)
            keys = self._assigned_to[group]
            row = {**row, "complete_ns": row["invoke_ns"], "type": "ok", "error": None}
            yield _act([row], row, f="subscribe", keys=keys, fields=Fields(group=group))

    def _assigned(self, unit: Sequence[Row]) -> Iterator[_Act]:
        """Jepsen's own assignments name all that is assigned, others what jumped."""
        first = unit[0]
        before = self._held.get(first["client"], {})
        subscribed = self._jepsens and first["group"] == SUBSCRIBED
        offsets = {self._key(row): row["offset"] for row in unit}
        known = ((key, at) for key, at in offsets.items() if at is not None and at >= 0)
        to = dict.fromkeys(offsets) | dict(known)
        callback = _callback(first, to)
        whose = Fields(group=first["group"]) if callback else NOTHING
        after = to if self._jepsens and not callback else before | to
        if callback and callback.type != "assigned":
            after, to = {key: at for key, at in before.items() if key not in to}, {}
        beginning = self._jepsens and set(offsets.values()) == {BEGINNING}
        # What a group moves, and a seek to the beginning, Jepsen understands by itself.
        plain = subscribed or beginning
        jumped = {
            key
            for key, offset in to.items()
            if key in before and (before[key] is not None) and before[key] != offset and not plain
        }
        if jumped:
            stay = tuple(key for key in after if key not in jumped)
            yield _act(unit, first, f="assign", keys=stay, fields=whose)
        if first["type"] == "ok":
            self._held[first["client"]] = dict(after)
        new = {
            key: offset
            for key, offset in to.items()
            if offset is not None and (key in jumped or before.get(key) != offset)
        }
        yield _act(
            unit, first, f="subscribe" if subscribed else "assign", keys=tuple(after),
            from_beginning=beginning, positions=tuple(new.items()),
            fields=replace(whose, callbacks=(callback,)) if callback else NOTHING,
        )  # fmt: skip

    def final_read(self, rows: Sequence[Row]) -> Iterator[_Act]:
        """One client's: an assignment from the beginning, a poll, and where it ended. Its rows are
        in no order but that of offsets."""
        held = dict.fromkeys(self._key(row) for row in rows)
        ok = {"type": "ok", "error": None}
        begin = min(rows, key=lambda row: int(row["invoke_ns"]))
        begin = {**begin, "complete_ns": begin["invoke_ns"], **ok}
        yield _act([begin], begin, f="assign", keys=tuple(held), from_beginning=True)
        read = [row for row in rows if row["f"] == "final-read"]
        if read:
            records = tuple(sorted(map(self._record, read), key=lambda each: each.offset))
            fields = self._fields(read)
            yield _act(read, read[0], f="poll", steps=(Poll(records=records),), fields=fields)
        ended = [row for row in rows if row["f"] == "final-read-end"]
        if ended:
            last = {**max(ended, key=lambda row: int(row["complete_ns"])), **ok}
            ends = tuple(self._end(row) for row in ended)
            yield _act([last], last, f="poll", steps=(Poll(),), ends=ends)

    def _end(self, row: Row) -> End:
        offset = row["offset"] if row["error"] is None else None
        return End(key=self._key(row), offset=offset, whole=row["type"] == "ok")

    def _key(self, row: Row) -> Key:
        return self._keys[row["topic"], row["partition"]]

    def _record(self, row: Row) -> Record:
        value = row["value"] & self._mask
        return Record(key=self._key(row), value=value, offset=row["offset"])

    def _steps(self, unit: Sequence[Row]) -> Iterator[Step]:
        sent_or_read = (row for row in unit if row["f"] in _STEPS)
        for _, step in groupby(sent_or_read, key=lambda row: row["op"]):
            records = []
            for row in step:
                if row["f"] not in _SENDS and row["offset"] is None:
                    continue
                if row["f"] in _SENDS:
                    value = row["value"] & self._mask
                    yield Send(key=self._key(row), value=value, offset=row["offset"])
                    break
                records.append(self._record(row))
            else:
                records.sort(key=lambda record: record.offset)
                yield Poll(records=tuple(records))


def _first(unit: Sequence[Row], column: str) -> Any:
    """What the first row says that says anything."""
    return next((row[column] for row in unit if row[column] is not None), None)


def _aborted(unit: Sequence[Row]) -> bool | None:
    """Whether the abort of a transaction was acknowledged; None: nobody aborted it."""
    answers = [row["type"] == "ok" for row in unit if row["f"] == ABORT]
    return any(answers) if answers else None


def _callback(row: Row, to: Mapping[Key, int | None]) -> Callback | None:
    """What a member of a group was told. to: its new positions."""
    if row["f"] not in CALLBACKS or row["group"] is None:
        return None
    known = tuple((key, at) for key, at in to.items() if at is not None)
    return Callback(type=row["f"], keys=tuple(to), positions=known, generation=row["generation"])


def _act(unit: Sequence[Row], first: Row, **fields: Any) -> _Act:
    """An operation as long as its rows; `first` says whose it is and how it ended. Jepsen knows no
    time before a test, and none that ends before it begins."""
    ends = [row["complete_ns"] for row in unit]
    begun_ns = max(0, min(row["invoke_ns"] for row in unit))
    op = Op(
        number=0, process=0, type=first["type"], error=first["error"], time_ns=begun_ns, **fields
    )
    return _Act(first["client"], begun_ns, None if None in ends else max(*ends, begun_ns), op)


def _in_time(acts: list[_Act]) -> Iterator[Op]:
    """Invocations and completions in the order of time, each with a process of its own time."""
    _let_readers_wait(acts)
    acts.sort(key=lambda act: act.invoke_ns)
    last_ns = max((act.complete_ns or act.invoke_ns for act in acts), default=0)
    processes = _Processes(next_new=max((act.client for act in acts), default=0) + 1)
    events: list[tuple[int, int, int, int, Op]] = []
    for number, act in enumerate(acts):
        goes_on = act.op.type != "info"
        until_ns = act.complete_ns if goes_on else None
        process = processes.take(act.client, act.invoke_ns, until_ns)
        whose = None if process == act.client else act.client
        bare = replace(
            act.op, process=process, client=whose, type="invoke", error=None, rebalanced=(),
            steps=tuple(_as_invoked(step) for step in act.op.steps), ends=(), abort_ok=None,
        )  # fmt: skip
        bare = replace(bare, time_ns=act.invoke_ns)
        events.append((act.invoke_ns, 1, number, 0, bare))
        if act.complete_ns is None:
            op = replace(act.op, process=process, client=whose, time_ns=last_ns, type="info")
            events.append((last_ns, 2, number, 1, op))
            continue
        # Of what is at one moment, what began earlier ends before anything new begins.
        late = act.complete_ns == act.invoke_ns
        op = replace(act.op, process=process, client=whose, time_ns=act.complete_ns)
        events.append((act.complete_ns, int(late), number, 1, op))
    events.sort(key=lambda event: event[:4])
    for place, (*_, op) in enumerate(events, 1):
        yield replace(op, number=place)


def _let_readers_wait(acts: Iterable[_Act]) -> None:
    """A consumer does one thing after the other: what overlaps begins when the other has ended."""
    free_ns: dict[int, int] = {}
    for act in acts:
        reads = act.op.f in ASSIGNMENTS or any(isinstance(each, Poll) for each in act.op.steps)
        if not reads or act.complete_ns is None:
            continue
        act.invoke_ns = max(act.invoke_ns, free_ns.get(act.client, 0))
        act.complete_ns = max(act.complete_ns, act.invoke_ns)
        free_ns[act.client] = act.complete_ns


def _as_invoked(step: Step) -> Step:
    match step:
        case Send():
            return replace(step, offset=None)
        case Poll():
            return Poll()
