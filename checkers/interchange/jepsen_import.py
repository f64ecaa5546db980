"""Jepsen's operations as the rows of a history.

- A key is a partition of one topic, numbered in the order of the keys; the plan has the mapping.
- A value is unique only within its key. If two keys share a value, all values become
  `partition << value_bits | value`; the export undoes this.
- A micro-operation is an operation of the history: a send, or a poll and its records. The
  micro-operations of a transaction share a `txn`. The rows of one poll are ordered by offset, so a
  poll that goes back is written as several polls.
- A process is a client, unless the operation names its client (our own exports do).
- A final read must say where it ended. Without final reads, `as_read` derives the final log from
  the polls.
- Assignments: a key that a process keeps stays at its position, the position of a new key is
  unknown, and with `seek-to-beginning?` all keys are at the beginning. A group (`:subscribe`) may
  move its keys at any time. So no position is expected between the polls of a subscriber, and
  inside a poll none for the keys in its rebalance log (the workload's checker allows the same).
- A transaction that failed, or may have failed: its polls are kept, because their records were in
  the log, and the consumers go on from their positions before it.
- A transaction of unknown outcome was committed if one of its writes was read. Then its other
  writes are compared with the log like acknowledged writes.
- Several micro-operations, or a `:txn`, are a transaction of Kafka. If it sends, its type says how
  its commit was answered, unless its error says that the client aborted it.
- Only our own exports say what members of groups were told and what they committed. The record of
  such a member is complete if it ends with `:crash`. Jepsen's own histories say neither what was
  committed, nor from where a member went on.

Raises InterchangeError where invocations and completions do not pair.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from checkers.history.history import ABORT, COMMIT, INIT
from checkers.interchange import edn
from checkers.interchange.as_read import Marks, known
from checkers.interchange.columns import (
    NONE,
    UNSAID_COLUMNS,
    Columns,
    Entries,
    Places,
)
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import (
    BEGINNING,
    SOMEWHERE,
    SUBSCRIBED,
    Imported,
    Origin,
    Promises,
    assemble,
)
from checkers.interchange.jepsen_fields import CALLBACKS, COMMITS, NOTHING, OURS, Fields
from checkers.interchange.jepsen_lines import Event, Polled, Sent, of_operation, steps_of
from checkers.interchange.jepsen_ops import ASSIGNMENTS, CRASH, Op
from checkers.interchange.jepsen_partitions import number_partitions
from checkers.interchange.jepsen_values import Key

REBALANCED, UNSURE = "rebalanced", "a group may move it"
WENT_BACK = "went back with its transaction"
"""The `error` of an assignment that stands for what was done unseen: by a group, as a rebalance log
says, and as it must be feared between any two transactions; and by a transaction that failed."""

UNSAID = (UNSURE, WENT_BACK)
"""Those of them that the operations themselves do not say."""


_WORDS: Final = (
    "send", "poll", "assign", "final-read", "final-read-end", "ok", "fail", "info", "end",
    "offset-commit", "final-committed", COMMIT, ABORT, INIT, *CALLBACKS,
)  # fmt: skip


@dataclass(slots=True)
class _Reader:
    """Where one client is. positions: the next offset by key; None: not known. way_ns: since when
    it is on its way from the beginning, or NONE; assigned: the turn of its last assignment.
    member: its callbacks are recorded; ended: its end is, too."""

    positions: dict[Key, int | None] = field(default_factory=dict)
    subscribed: bool = False
    way_ns: int = NONE
    assigned: int = 0
    member: bool = False
    ended: bool = False


class _Turn(NamedTuple):
    """An operation as a whole: its number among the invocations, who did it, how it ended."""

    number: int
    client: int
    type: str
    invoke_ns: int
    complete_ns: int
    error: str | None
    txn: int
    abort_ok: bool | None
    fields: Fields


def to_history(
    ops: Iterable[Op], *, topic: str, promises: Promises, files: Sequence[str]
) -> Imported:
    """The operations as an import, judged by what was promised. Raises InterchangeError."""
    importer = Importer()
    importer.take(map(of_operation, ops))
    return importer.imported(topic=topic, promises=promises, files=files)


class Importer:
    """Takes events one by one, pairs them, and follows where every client is."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything."""
        self._columns = Columns(_WORDS)
        self._keys: dict[Key, int] = {}
        self._open: dict[int, tuple[int, Event]] = {}
        self._readers: dict[int, _Reader] = {}
        self._turns = 0
        self._sent_ns = 0
        self._final: set[int] = set()
        """The clients whose polls are final reads that say where they ended."""
        self._ended: set[Key] = set()
        """The keys of which some final read says where it ended."""

    def take(self, events: Iterable[Event]) -> None:
        """The next events. Raises InterchangeError where they do not pair."""
        for event in events:
            number, process, type_, f, _, _, _ = event
            if type_ == "invoke":
                self._turns += 1
                if self._open.setdefault(process, (self._turns, event))[1] is not event:
                    raise InterchangeError(
                        f"operation {number}: process {process} invokes while its operation "
                        f"{self._open[process][1][0]} is not completed; a process does one thing "
                        "at a time, and after an :info a new process takes over"
                    )
                continue
            began = self._open.pop(process, None)
            if began is None:
                raise InterchangeError(
                    f"operation {number}: process {process} completes what it never invoked; is "
                    "the start cut?"
                )
            turn, invoked = began
            if invoked[3] != f:
                raise InterchangeError(
                    f"operation {number}: process {process} completes the :{invoked[3]} of "
                    f"operation {invoked[0]} as :{f}"
                )
            self._pair(turn, invoked, event)

    def imported(self, *, topic: str, promises: Promises, files: Sequence[str]) -> Imported:
        """What all events amount to; nothing may be taken any more. Raises InterchangeError."""
        for turn, invoked in self._open.values():
            self._pair(turn, invoked, None)
        keys = sorted(self._keys, key=_in_order)
        entries = self._columns.table()
        bits = number_partitions(entries, [self._keys[key] for key in keys])
        last_ways = {client: reader.assigned for client, reader in self._readers.items()}
        final = _on_last_way(entries, last_ways, self._sent_ns)
        entries, final = _with_final_reads(entries, final, self._final)
        unread = [number for number, key in enumerate(keys) if key not in self._ended]
        further = {
            "keys": [edn.write(key) for key in keys],
            "packed": bits > 0,
            "value_bits": bits,
            "final_reads": bool(self._final),
        }
        return assemble(
            entries,
            known(entries, final),
            unread,
            Places.of(((topic, number) for number in range(len(keys))), promises.acks),
            promises,
            Origin(tool="jepsen", files=tuple(files), further=further),
            ended=sorted(c for c, reader in self._readers.items() if not reader.member),
        )

    def _pair(self, number: int, invoked: Event, completed: Event | None) -> None:
        """An operation: how it was invoked, and how it completed, if it did."""
        last = completed or invoked
        _, process, type_, f, _, _, op = last
        began = invoked[6]
        client = process if began is None or began.client is None else began.client
        reader = self._readers.get(client)
        if reader is None:
            reader = self._readers[client] = _Reader()
        turn = _Turn(
            number, client, "info" if completed is None else type_, invoked[4],
            NONE if completed is None else completed[4],
            None if completed is None or op is None else op.error, int(f == "txn"),
            None if op is None else op.abort_ok, NOTHING if op is None else op.fields,
        )  # fmt: skip
        if f in ASSIGNMENTS:
            assert op is not None
            assert began is not None
            for key in began.keys:
                self._partition(key)
            self._assigned(turn, op, reader)
            return
        if f == CRASH:
            self._crashed(turn, reader)
            return
        if f in OURS:
            self._ours(turn, f)
            return
        if turn.type == "ok" and f != "poll" and turn.complete_ns > self._sent_ns:
            self._sent_ns = turn.complete_ns
        self._transaction(turn, steps_of(last) or steps_of(invoked), op, reader)

    def _partition(self, key: Key) -> int:
        """A key's number, for now."""
        return self._keys.setdefault(key, len(self._keys))

    def _entry(
        self, turn: _Turn, step: int, f: str, count: int = 1, *, type_: str = "",
        error: str | None = None, group: str | None = None, way_ns: int = NONE, back: int = 0,
        further: tuple[int, int, int, int] = UNSAID_COLUMNS,
    ) -> None:  # fmt: skip
        """back: how many of its records are there already; the others come next. further: its
        copies, generation, isolation and transactional id."""
        columns = self._columns
        number, word = columns.words.numbers, columns.words.number
        said = error or turn.error
        columns.entries.extend(
            (
                turn.number, step, turn.client, number[f], number[type_ or turn.type],
                turn.invoke_ns, turn.complete_ns, turn.txn, NONE if group is None else word(group),
                NONE if said is None else word(said), way_ns, len(columns.values) - back, count,
                *further,
            )
        )  # fmt: skip

    def _bare(self, turn: _Turn, step: int, f: str, type_: str) -> None:
        """A row of no partition."""
        self._entry(turn, step, f, type_=type_, further=self._of_producer(turn))
        self._columns.add((NONE,), (NONE,), (NONE,))

    def _of_producer(self, turn: _Turn, copies: int = NONE) -> tuple[int, int, int, int]:
        fields = turn.fields
        if fields is NOTHING:
            return UNSAID_COLUMNS
        generation = NONE if fields.generation is None else fields.generation
        return copies, generation, NONE, self._columns.words.number(fields.transactional_id)

    def _record(self, key: Key, value: int, offset: int | None) -> None:
        self._columns.add((self._partition(key),), (value,), (NONE if offset is None else offset,))

    def _crashed(self, turn: _Turn, reader: _Reader) -> None:
        """Whose client crashed did all that it recorded."""
        if reader.member and not reader.ended:
            reader.ended = True
            self._bare(turn, 1, "end", "ok")

    def _ours(self, turn: _Turn, f: str) -> None:
        if f in COMMITS:
            self._commits(turn, 1, "offset-commit" if f == "commit" else "final-committed")
        else:
            self._bare(turn, 1, INIT, turn.type)

    def _commits(self, turn: _Turn, step: int, f: str) -> None:
        """The offsets of a group, a row for each partition."""
        fields = turn.fields
        if not fields.commits:
            return
        further = self._of_producer(turn)
        self._entry(turn, step, f, len(fields.commits), group=fields.group, further=further)
        for key, offset in fields.commits:
            self._record(key, NONE, offset)

    def _callbacks(self, turn: _Turn, reader: _Reader) -> None:
        """What a member was told of its partitions, a row for each."""
        reader.member = True
        for step, callback in enumerate(turn.fields.callbacks, 1):
            positions = dict(callback.positions)
            generation = NONE if callback.generation is None else callback.generation
            self._entry(
                turn, step, callback.type, len(callback.keys), group=turn.fields.group,
                further=(NONE, generation, NONE, NONE),
            )  # fmt: skip
            for key in callback.keys:
                self._record(key, NONE, positions.get(key))

    def _assigned(self, turn: _Turn, op: Op, reader: _Reader) -> None:
        if op.fields.group is not None:
            self._member(turn, op, reader)
            return
        group = SUBSCRIBED if op.f == "subscribe" else None
        kept = {} if group or op.from_beginning else reader.positions
        kept = kept | dict(op.positions)
        nowhere = BEGINNING if op.from_beginning else SOMEWHERE
        if op.keys:
            self._entry(turn, 1, "assign", len(op.keys), group=group)
        for key in op.keys:
            position = kept.get(key)
            self._record(key, NONE, nowhere if position is None else position)
        if turn.type == "ok":
            reader.positions = {key: kept.get(key) for key in op.keys}
            reader.subscribed = group is not None
            reader.way_ns = turn.invoke_ns if op.from_beginning else NONE
            if op.keys:
                reader.assigned = turn.number

    def _member(self, turn: _Turn, op: Op, reader: _Reader) -> None:
        """A callback of a member; its assignments follow from these alone."""
        self._callbacks(turn, reader)
        if turn.type == "ok":
            kept = reader.positions | dict(op.positions)
            reader.positions = {key: kept.get(key) for key in op.keys}
            reader.subscribed, reader.way_ns = False, NONE

    def _transaction(
        self, turn: _Turn, steps: Sequence[Sent | Polled], op: Op | None, reader: _Reader
    ) -> None:
        step, begin = 0, len(self._columns.entries)
        polled: set[Key] = set()
        sends = False
        for each in steps:
            step += 1
            if isinstance(each, tuple):
                sends = True
                self._sent(turn, step, each)
            elif each:
                step = self._polled(turn, step, each, reader, polled, op)
            else:
                self._entry(turn, step, "poll")
                self._columns.add((NONE,), (NONE,), (NONE,))
        self._commits(turn, step := step + 1, "offset-commit")
        if turn.txn or step > 2:
            if sends:
                self._bare(turn, step := step + 1, *_end_of(turn))
            self._columns.join(begin)
        if op is not None and op.ends:
            self._final_read_ends(turn, step + 1, op)
        if turn.type != "ok" and polled:
            turn = turn._replace(txn=0)
            for key in sorted(polled, key=_in_order):
                self._moved(turn, step + 1, key, WENT_BACK, reader.positions.get(key))

    def _sent(self, turn: _Turn, step: int, send: Sent) -> None:
        fields = turn.fields
        copy = next((each for each in fields.copies if each.value == send[1]), None)
        place = NONE if copy is None else len(self._columns.values) + 1
        group = None if copy is None else fields.group
        self._entry(turn, step, "send", group=group, further=self._of_producer(turn, place))
        self._record(*send)
        if copy is not None:
            self._record(copy.key, copy.source, None)

    def _final_read_ends(self, turn: _Turn, step: int, op: Op) -> None:
        self._final.add(turn.client)
        for end in op.ends:
            self._ended.add(end.key)
            error = None if end.offset is not None else "not read to its end"
            kind = "ok" if end.whole else "info"
            self._entry(turn, step, "final-read-end", type_=kind, error=error)
            self._record(end.key, NONE, end.offset)

    def _moved(
        self, turn: _Turn, step: int, key: Key, why: str, position: int | None = None
    ) -> None:
        """A consumer is at another place, whatever became of its operation."""
        self._entry(turn, step, "assign", type_="ok", error=why)
        self._record(key, NONE, SOMEWHERE if position is None else position)

    def _polled(
        self, turn: _Turn, step: int, poll: Polled, reader: _Reader, polled: set[Key],
        op: Op | None,
    ) -> int:  # fmt: skip
        """The rows of one poll; returns the last step. polled: the keys that its transaction polled
        before; no group moves them inside it but where it says so.

        What goes back by itself, or may have been moved, is an operation of its own.
        """
        columns = self._columns
        rebalanced = () if op is None else op.rebalanced
        count = 0
        for key, offsets, values in poll:
            number = self._partition(key)
            for begin, end in _runs(offsets, apart=key in rebalanced):
                moved = key in rebalanced or (reader.subscribed and key not in polled)
                if begin or moved:
                    if count:
                        self._got(turn, step, count, reader)
                        step += 1
                    count = 0
                if moved:
                    self._moved(turn, step, key, REBALANCED if key in rebalanced else UNSURE)
                    step += 1
                polled.add(key)
                many = end - begin
                columns.partitions.extend(repeat(number, many))
                columns.values.extend(values if many == len(values) else values[begin:end])
                columns.offsets.extend(offsets if many == len(offsets) else offsets[begin:end])
                count += many
            if turn.type == "ok" and offsets:
                reader.positions[key] = offsets[-1] + 1
        self._got(turn, step, count, reader)
        return step

    def _got(self, turn: _Turn, step: int, count: int, reader: _Reader) -> None:
        """A poll of the last records."""
        fields = turn.fields
        isolation = NONE if fields.isolation is None else fields.isolation
        self._entry(
            turn, step, "poll", count, group=fields.group, way_ns=reader.way_ns, back=count,
            further=(NONE, NONE, isolation, NONE),
        )  # fmt: skip


def _end_of(turn: _Turn) -> tuple[str, str]:
    """The request that ended a transaction, and how it was answered."""
    if turn.abort_ok is None:
        return COMMIT, turn.type
    return ABORT, "ok" if turn.abort_ok else "info"


def _runs(offsets: Sequence[int], *, apart: bool) -> Iterator[tuple[int, int]]:
    """Where offsets go up, from and to; apart: each alone."""
    if not apart and offsets and offsets == list(range(offsets[0], offsets[0] + len(offsets))):
        yield 0, len(offsets)
        return
    begin = 0
    for at in range(1, len(offsets)):
        if apart or offsets[at] <= offsets[at - 1]:
            yield begin, at
            begin = at
    if offsets:
        yield begin, len(offsets)


def _in_order(key: Key) -> tuple[bool, Key]:
    return isinstance(key, str), key


def _on_last_way(entries: Entries, assigned: Mapping[int, int], sent_ns: int) -> Marks:
    """The entries that read on their client's last way from the beginning, once all was sent.

    assigned: the turn of each client's last assignment.
    """
    clients = np.array(sorted(assigned), np.int64)
    last = np.array([assigned[client] for client in clients.tolist()], np.int64)
    later = entries["turn"] > last[np.searchsorted(clients, entries["client"])]
    way_ns = entries["way_ns"]
    found: Marks = np.logical_and.reduce((way_ns != NONE, way_ns >= sent_ns, later))
    return found


def _with_final_reads(
    entries: Entries, final: Marks, clients: Iterable[int]
) -> tuple[Entries, Marks]:
    """The polls of some clients as final reads, of which nothing else is told. What a client does
    as a member of a group is no final read."""
    mine = np.isin(entries["client"], np.array([*clients], np.int64)) & (entries["group"] == NONE)
    if not mine.any():
        return entries, final
    polls = mine & entries.are(f="poll")
    entries["f"][polls] = entries.words.number("final-read")
    empty = entries.records["value"][entries["first"]] == NONE
    keep = ~(mine & (entries.are(f="assign") | (polls & empty)))
    return entries.keep(keep), final[keep]
