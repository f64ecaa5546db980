"""Jepsen's operations as the rows of a history.

- A key is a partition of one topic, numbered in the order of the keys; the plan remembers which is
  which.
- A value is unique for its key only; where two keys share one, all values become
  `partition << value_bits | value`, which the way back undoes.
- A micro-operation is an operation of the history: a send, or a poll and its records. Those of a
  transaction share a `txn`. Rows of one poll are in the order of their offsets by definition, so a
  poll that goes back by itself is written as several.
- A process is a client, unless the operation names its client (an export of ours does).
- A final read that says where it ended is one; else the log in the end is what `as_read` makes of
  the polls.
- Assignments: a key that a process keeps stays where it was read to, a new one is somewhere, and
  with `seek-to-beginning?` all are at the beginning. What a group assigns (`:subscribe`) it may
  move at any time, so between polls of a subscriber nothing is expected, and inside one nothing of
  what its rebalance log names (the workload's checker allows the same).
- A transaction that failed, or may have: its polls are kept as what they are, and consumers go on
  from where they were before. What they returned was in the log all the same.
- A transaction of unknown outcome took place where one of its writes was read: its other writes
  are held against the log as acknowledged ones are.

Raises InterchangeError where invocations and completions do not pair.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.interchange import edn
from checkers.interchange.as_read import LogAsRead, Partition
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import (
    BEGINNING,
    SOMEWHERE,
    SUBSCRIBED,
    VALUE_BITS,
    Imported,
    Origin,
    Promises,
    Row,
    assemble,
)
from checkers.interchange.jepsen_ops import (
    ASSIGNMENTS,
    TRANSACTIONS,
    End,
    Key,
    Op,
    Poll,
    Record,
    Send,
    Step,
)

REBALANCED, UNSURE = "rebalanced", "a group may move it"
WENT_BACK = "went back with its transaction"
"""The `error` of an assignment that stands for what was done unseen: by a group, as a rebalance log
says, and as it must be feared between any two transactions; and by a transaction that failed."""

UNSAID = (UNSURE, WENT_BACK)
"""Those of them that the operations themselves do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An operation: how it was invoked, and how it completed, if it did."""

    invoked: Op
    completed: Op | None

    @property
    def type(self) -> str:
        """ok, fail or info."""
        return "info" if self.completed is None else self.completed.type

    @property
    def client(self) -> int:
        """Who did it."""
        return self.invoked.process if self.invoked.client is None else self.invoked.client

    @property
    def last(self) -> Op:
        """What says most of the operation."""
        return self.completed or self.invoked


@dataclass(slots=True)
class _Reader:
    """Where one process is. positions: the next offset by key; None: not known."""

    positions: dict[Key, int | None] = field(default_factory=dict)
    subscribed: bool = False
    finally_: bool = False


def to_history(
    ops: Sequence[Op], *, topic: str, promises: Promises, files: Sequence[str]
) -> Imported:
    """The operations as an import, judged by what was promised. Raises InterchangeError."""
    paired = list(pairs(ops))
    keys = _keys(paired)
    writer = _Writer(
        topic, keys, promises.acks, value_bits=_value_bits(paired, len(keys)),
        sent_ns=_last_sent_ns(paired),
        final={pair.client: pair.last.ends for pair in paired if pair.last.ends},
    )  # fmt: skip
    rows = [row for pair in paired for row in writer.rows(pair)]
    log = _log(writer, rows)
    written = [edn.write(key) for key in keys]
    further = {
        "keys": written,
        "packed": writer.value_bits > 0,
        "value_bits": writer.value_bits,
        "final_reads": bool(writer.final),
    }
    origin = Origin(tool="jepsen", files=tuple(files), further=further)
    clients = sorted({pair.client for pair in paired})
    return assemble(rows, log, {topic: len(keys)}, promises, origin, ended=clients)


def pairs(ops: Sequence[Op]) -> Iterator[Pair]:
    """Invocations with their completions, in the order of the invocations."""
    open_: dict[int, int] = {}
    completed: dict[int, Op] = {}
    for place, op in enumerate(ops):
        where = f"operation {op.number}: process {op.process}"
        if op.type == "invoke":
            if op.process in open_:
                first = ops[open_[op.process]].number
                raise InterchangeError(
                    f"{where} invokes while its operation {first} is not completed; a process does "
                    "one thing at a time, and after an :info a new process takes over"
                )
            open_[op.process] = place
            continue
        began = open_.pop(op.process, None)
        if began is None:
            raise InterchangeError(f"{where} completes what it never invoked; is the start cut?")
        if ops[began].f != op.f:
            invoked = f"the :{ops[began].f} of operation {ops[began].number}"
            raise InterchangeError(f"{where} completes {invoked} as :{op.f}")
        completed[began] = op
    for place, op in enumerate(ops):
        if op.type == "invoke":
            yield Pair(invoked=op, completed=completed.get(place))


def _keys(paired: Iterable[Pair]) -> list[Key]:
    found: dict[Key, None] = {}
    for pair in paired:
        for op in (pair.invoked, pair.last):
            found.update(dict.fromkeys((*op.keys, *(end.key for end in op.ends))))
            found.update(dict.fromkeys(each.key for each in _records(op)))
    return sorted(found, key=lambda key: (isinstance(key, str), key))


def _records(op: Op) -> Iterator[Send | Record]:
    """Everything that an operation sent or read."""
    for step in op.steps:
        match step:
            case Send():
                yield step
            case Poll():
                yield from step.records


def _value_bits(paired: Iterable[Pair], keys: int) -> int:
    """How many bits values have below their partition's number, where two keys have one value; 0
    where none do. Raises InterchangeError where they could not be told apart."""
    home: dict[int, Key] = {}
    shared, greatest = False, 0
    for pair in paired:
        for each in _records(pair.last):
            shared |= home.setdefault(each.value, each.key) != each.key
            greatest = max(greatest, each.value)
    if not shared:
        return 0
    most = 63 - (keys - 1).bit_length()
    if greatest >= 1 << most:
        raise InterchangeError(
            f"two keys share a value, and there is the value {greatest}; values must be below "
            f"2^{most}, or each be sent to one key only"
        )
    return VALUE_BITS if greatest < 1 << VALUE_BITS else most


def _last_sent_ns(paired: Iterable[Pair]) -> int:
    """When the last send was acknowledged: final polls begin later."""
    sent = (p.last.time_ns for p in paired if p.type == "ok" and p.last.f in ("send", "txn"))
    return max(sent, default=0)


class _Writer:
    """Turns operations into rows, and follows where every process is. One import's state."""

    def __init__(
        self,
        topic: str,
        keys: Sequence[Key],
        acks: int,
        *,
        value_bits: int,
        sent_ns: int,
        final: Mapping[int, Sequence[End]],
    ) -> None:
        self._topic = topic
        self._partitions: Mapping[Key, int] = {key: n for n, key in enumerate(keys)}
        self._acks = acks
        self._sent_ns = sent_ns
        self.value_bits = value_bits
        self.final = final
        """The clients whose polls are final reads that say where they ended, and where."""
        self._readers: dict[int, _Reader] = {}
        self._op = 0
        self.finally_: set[int] = set()
        """The operations that read on a process's last way from the beginning."""

    def partition(self, key: Key) -> Partition:
        """A key's topic and partition."""
        return self._topic, self._partitions[key]

    @property
    def unread(self) -> tuple[Partition, ...]:
        """Every partition, in order, of which no final read says where it ended."""
        read = {end.key for ends in self.final.values() for end in ends}
        return tuple(self.partition(key) for key in self._partitions if key not in read)

    def rows(self, pair: Pair) -> Iterator[Row]:
        """The rows of one operation."""
        reader = self._readers.setdefault(pair.client, _Reader())
        if pair.client in self.final:
            yield from self._finally_read(pair)
        elif pair.invoked.f in ASSIGNMENTS:
            yield from self._assigned(pair, reader)
        else:
            assert pair.invoked.f in TRANSACTIONS
            yield from self._transaction(pair, reader)

    def _finally_read(self, pair: Pair) -> Iterator[Row]:
        self._op += 1
        for record in _records(pair.last):
            value = self._value(record.key, record.value)
            place = self._place(record.key)
            yield self._row(pair, "final-read", **place, offset=record.offset, value=value)
        for end in pair.last.ends:
            error = None if end.offset is not None else "not read to its end"
            kind, place = "ok" if end.whole else "info", self._place(end.key)
            yield self._row(
                pair, "final-read-end", **place, type=kind, offset=end.offset, error=error
            )

    def _row(self, pair: Pair, f: str, **columns: object) -> Row:
        completed = pair.completed
        return {
            "op": self._op,
            "client": pair.client,
            "f": f,
            "type": pair.type,
            "invoke_ns": pair.invoked.time_ns,
            "complete_ns": None if completed is None else completed.time_ns,
            "error": None if completed is None else completed.error,
        } | columns

    def _place(self, key: Key) -> Row:
        topic, partition = self.partition(key)
        return {"topic": topic, "partition": partition}

    def _value(self, key: Key, value: int) -> int:
        return self._partitions[key] << self.value_bits | value if self.value_bits else value

    def _assigned(self, pair: Pair, reader: _Reader) -> Iterator[Row]:
        op = pair.last
        self._op += 1
        group = SUBSCRIBED if op.f == "subscribe" else None
        kept = {} if group or op.from_beginning else reader.positions
        kept = kept | dict(op.positions)
        nowhere = BEGINNING if op.from_beginning else SOMEWHERE
        for key in op.keys:
            position = kept.get(key)
            offset = nowhere if position is None else position
            yield self._row(pair, "assign", **self._place(key), offset=offset, group=group)
        if pair.type == "ok":
            reader.positions = {key: kept.get(key) for key in op.keys}
            reader.subscribed = group is not None
            reader.finally_ = op.from_beginning and pair.invoked.time_ns >= self._sent_ns

    def _transaction(self, pair: Pair, reader: _Reader) -> Iterator[Row]:
        op = pair.last
        steps = op.steps or pair.invoked.steps
        known: set[Key] = set()
        rows = [row for step in steps for row in self._step(pair, step, reader, known)]
        if len({row["op"] for row in rows}) > 1 or op.f == "txn":
            for row in rows:
                row["txn"] = rows[0]["op"]
        yield from rows
        if pair.type != "ok" and known:
            self._op += 1
            for key in sorted(known, key=self._partitions.__getitem__):
                yield self._moved(pair, key, WENT_BACK, reader.positions.get(key))

    def _moved(self, pair: Pair, key: Key, why: str, position: int | None = None) -> Row:
        """A consumer is at another place, whatever became of its operation."""
        offset = SOMEWHERE if position is None else position
        columns = {"type": "ok", "offset": offset, "error": why}
        return self._row(pair, "assign", **self._place(key), **columns)

    def _step(self, pair: Pair, step: Step, reader: _Reader, known: set[Key]) -> Iterator[Row]:
        self._op += 1
        match step:
            case Send():
                yield self._row(
                    pair,
                    "send",
                    **self._place(step.key),
                    value=self._value(step.key, step.value),
                    offset=step.offset,
                    acks=self._acks,
                )
            case Poll(records=()):
                yield self._row(pair, "poll")
            case Poll():
                yield from self._polled(pair, step, reader, known)

    def _polled(self, pair: Pair, poll: Poll, reader: _Reader, known: set[Key]) -> Iterator[Row]:
        """known: the keys that its transaction polled before; no group moves them inside it but
        where it says so."""
        moved = set(pair.last.rebalanced)
        last: dict[Key, int] = {}
        for record in poll.records:
            key, offset = record.key, record.offset
            if offset <= last.get(key, -1):
                self._op += 1  # it goes back by itself: another operation
            if key in moved or (reader.subscribed and key not in known):
                why = REBALANCED if key in moved else UNSURE
                self._op += 1
                yield self._moved(pair, key, why)
                self._op += 1
            known.add(key)
            last[key] = offset
            if pair.type == "ok":
                reader.positions[key] = offset + 1
            if reader.finally_:
                self.finally_.add(self._op)
            value = self._value(key, record.value)
            place = self._place(key)
            yield self._row(pair, "poll", **place, value=value, offset=offset)


def _log(writer: _Writer, rows: Sequence[Row]) -> LogAsRead:
    log = LogAsRead(writer.unread)
    _forget_all_but_last_ways(writer, rows)
    sends = [row for row in rows if row["f"] == "send"]
    places: dict[int, int] = {}
    for row in rows:
        if row["f"] == "poll" and row.get("value") is not None:
            partition = row["topic"], row["partition"]
            places.setdefault(row["value"], row["offset"])
            log.read(partition, row["offset"], row["value"], finally_=row["op"] in writer.finally_)
    written = {row.get("txn") for row in sends if row["value"] in places}
    next_places: dict[tuple[object, Partition], int] = {}
    for row in reversed(sends):
        partition, txn = (row["topic"], row["partition"]), row.get("txn")
        place = places.get(row["value"], row["offset"])
        if row["type"] == "ok" or (row["type"] == "info" and txn is not None and txn in written):
            # A producer writes in order: without a place of its own, a write lies before the next.
            bound = next_places.get((txn, partition)) if row["offset"] is None else row["offset"]
            log.acknowledged(partition, row["value"], bound)
        if place is not None and txn is not None:
            next_places[txn, partition] = place
    return log


def _forget_all_but_last_ways(writer: _Writer, rows: Iterable[Row]) -> None:
    """Of the ways from the beginning, only a process's last one tells how the log was in the
    end."""
    began: dict[int, int] = {}
    for row in rows:
        if row["f"] == "assign" and row["type"] == "ok" and row["error"] is None:
            began[row["client"]] = row["op"]
    for row in rows:
        if row["op"] < began.get(row["client"], 0):
            writer.finally_.discard(row["op"])
