"""The operations of Jepsen's Kafka workload (jepsen.tests.kafka), read and written.

An operation is a map, twice in a history: when it is invoked and when it completes.

    {:index 3, :time 120, :process 0, :type :ok, :f :txn,
     :value [[:send 5 [17 1]] [:poll {5 [[15 7] [16 8]]}]]}

`:send` and `:poll` have sends or polls alone, `:txn` both. A send is invoked as `[:send key value]`
and completes as `[:send key [offset value]]`, the offset nil where it is unknown; a poll is invoked
as `[:poll]` and completes with pairs of offset and value by key. `:assign` and `:subscribe` have
keys. A key stands for a partition.

Three fields are ours, and Jepsen passes them over. `:positions {1 30}` of an assignment: it reads
on there, and not where it was. `:client 7`: whose operation it is, where one client did several
things at once, which stand under processes of their own. `:final-read {1 [20 true]}`: where the
final read of a partition ended, and whether that was the log's end.

As EDN the maps stand one after the other or in one vector, plain or tagged. As JSON (what
elle-cli and other tools exchange) they are an array, or a line each, keywords are strings, and so
are the keys of a poll; a key that is a whole number is read as that.

What else is ours says more of groups and transactions (`jepsen_fields`).

A transaction has the type of its operation: `:ok` its commit was acknowledged, `:fail` it surely
did not commit, `:info` nobody knows. The `:error` of a failed one may say that the client aborted
it: `{:type :abort, :abort-ok? true}`.

Only the operations of clients are read; the nemesis's and those without effect on what clients know
(`:crash`, `:debug-topic-partitions`) are left out. What does not fit raises InterchangeError with
the number of the operation in the file, from 1.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from checkers.interchange import edn
from checkers.interchange.edn import Keyword
from checkers.interchange.errors import InterchangeError
from checkers.interchange.jepsen_fields import (
    COMMITS,
    NOTHING,
    OURS,
    Fields,
    fields_of,
    raw_fields,
)
from checkers.interchange.jepsen_values import (
    MAX_OFFSET,
    Key,
    expect,
    items,
    key_of,
    natural,
)

TYPES: Final = ("invoke", "ok", "fail", "info")
TRANSACTIONS: Final = ("send", "poll", "txn")
ASSIGNMENTS: Final = ("assign", "subscribe")
CRASH: Final = "crash"
_WITHOUT_EFFECT: Final = ("debug-topic-partitions",)
MAX_PROCESS: Final = (1 << 31) - 2
"""The last process number; one more stands for all processes together."""


class Notation(StrEnum):
    """How the operations are written down."""

    EDN = "edn"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A record to one partition; offset None: unknown."""

    key: Key
    value: int
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One of the records that a poll returned."""

    key: Key
    offset: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Records in the order in which the poll returned them, partition by partition."""

    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where the final read of a partition came to (None: not known), and whether that is all."""

    key: Key
    offset: int | None
    whole: bool


Step: TypeAlias = Send | Poll
"""A micro-operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An operation's invocation or completion.

    number: its place in the file, from 1. steps: of a transaction. keys: of an assignment;
    from_beginning: it went to the beginning of each. positions: where else it went to, by key.
    rebalanced: keys that a consumer group moved while the operation went on. client: who did it, if
    that is not the process. ends: of a final read. abort_ok: whether the abort of its transaction
    was acknowledged; None: no abort is told. fields: what else is ours.
    """

    number: int
    process: int
    type: str
    f: str
    time_ns: int
    steps: tuple[Step, ...] = ()
    keys: tuple[Key, ...] = ()
    from_beginning: bool = False
    rebalanced: tuple[Key, ...] = ()
    error: str | None = None
    positions: tuple[tuple[Key, int], ...] = ()
    client: int | None = None
    ends: tuple[End, ...] = ()
    abort_ok: bool | None = None
    fields: Fields = NOTHING


def read(text: str, notation: Notation) -> list[Op]:
    """The clients' operations in their order. Raises InterchangeError."""
    raw = raw_operations(text, notation)
    return [op for number, each in enumerate(raw, 1) if (op := operation(number, each)) is not None]


def raw_operations(text: str, notation: Notation) -> Iterable[Any]:
    """The maps of a text, whatever they say. Raises InterchangeError."""
    return _edn_maps(text) if notation is Notation.EDN else _json_maps(text)


def _edn_maps(text: str) -> Iterable[Any]:
    values = list(edn.read_all(text))
    if len(values) == 1 and isinstance(values[0], tuple):
        return values[0]
    return values


def _json_maps(text: str) -> Iterable[Any]:
    try:
        if text.lstrip().startswith("["):
            found: list[Any] = json.loads(text)
            return found
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise InterchangeError(f"this is no JSON, or cut short: {error}") from error


def operation(number: int, raw: Any) -> Op | None:
    """An operation of a client; None for what has no effect on what clients know. Raises
    InterchangeError."""
    try:
        return _parsed(number, raw)
    except InterchangeError as error:
        raise InterchangeError(f"operation {number}: {error}") from None


def _parsed(number: int, raw: Any) -> Op | None:
    if not isinstance(raw, Mapping):
        raise InterchangeError(f"expected a map such as {{:type :ok, :f :send, …}}, not {raw!r}")
    process, f, type_ = raw.get("process"), raw.get("f"), raw.get("type")
    if isinstance(process, str) and process == "nemesis":
        return None
    expect(isinstance(f, str), "its :f", "a keyword", f)
    if f in _WITHOUT_EFFECT or (f == CRASH and raw.get("group") is None):
        return None
    if type_ not in TYPES:
        raise InterchangeError(f"its :type is {type_!r}; expected one of {', '.join(TYPES)}")
    value = raw.get("value")
    steps: tuple[Step, ...] = ()
    keys: tuple[Key, ...] = ()
    if f in TRANSACTIONS:
        steps = tuple(_steps(value))
    elif f in ASSIGNMENTS:
        keys = tuple(map(key_of, items(value, f"the keys of its :{f}")))
    elif f not in (CRASH, *OURS):
        known = ", ".join((*TRANSACTIONS, *ASSIGNMENTS, CRASH, *_WITHOUT_EFFECT))
        raise InterchangeError(f"its :f is {f!r}; Jepsen's Kafka workload knows {known}")
    error, client = raw.get("error"), raw.get("client")
    abort_ok, fields = _abort_ok(error), fields_of(raw)
    return Op(
        number=number,
        process=natural(process, "its :process", MAX_PROCESS),
        type=str(type_),
        f=str(f),
        time_ns=natural(raw.get("time"), "its :time, in nanoseconds,"),
        steps=steps,
        keys=keys,
        from_beginning=raw.get("seek-to-beginning?") is True,
        rebalanced=() if fields.callbacks else tuple(_rebalanced(raw.get("rebalance-log"))),
        error=None if error is None or error == _raw_aborted(abort_ok, str) else str(error)[:200],
        positions=tuple(_positions(raw.get("positions"))),
        client=None if client is None else natural(client, "its :client", MAX_PROCESS),
        ends=tuple(_ends(raw.get("final-read"))),
        abort_ok=abort_ok,
        fields=fields,
    )


def _abort_ok(error: Any) -> bool | None:
    if isinstance(error, Mapping) and error.get("type") == "abort":
        return error.get("abort-ok?") is True
    return None


def _raw_aborted(abort_ok: bool | None, word: type[str]) -> dict[str, Any] | None:
    """The error that says that a transaction was aborted, and nothing else."""
    if abort_ok is None:
        return None
    return {word("type"): word("abort"), word("abort-ok?"): abort_ok}


def _steps(value: Any) -> Iterator[Step]:
    for step in items(value, "its :value"):
        parts = items(step, "a micro-operation")
        match list(parts):
            case ["send", key, [offset, sent]]:
                known = None if offset is None else natural(offset, "a send's offset", MAX_OFFSET)
                yield Send(key=key_of(key), value=natural(sent, "a sent value"), offset=known)
            case ["send", key, sent]:
                yield Send(key=key_of(key), value=natural(sent, "a sent value"))
            case ["poll"]:
                yield Poll()
            case ["poll", Mapping() as polled]:
                yield Poll(records=tuple(_records(polled)))
            case _:
                raise InterchangeError(
                    f"{step!r} is no micro-operation; expected [:send key value], "
                    "[:send key [offset value]], [:poll] or [:poll {key [[offset value] …]}]"
                )


def _records(polled: Mapping[Any, Any]) -> Iterator[Record]:
    for key, pairs in polled.items():
        for pair in items(pairs, f"what was polled of key {key!r}"):
            match list(items(pair, "a polled record")):
                case [offset, value]:
                    yield Record(
                        key=key_of(key),
                        offset=natural(offset, "a polled offset", MAX_OFFSET),
                        value=natural(value, "a polled value"),
                    )
                case _:
                    raise InterchangeError(f"a polled record is {pair!r}; expected [offset value]")


def _rebalanced(log: Any) -> Iterator[Key]:
    for event in items(log or (), "its :rebalance-log"):
        if isinstance(event, Mapping):
            yield from map(key_of, items(event.get("keys") or (), "a rebalance's :keys"))


def _positions(by_key: Any) -> Iterator[tuple[Key, int]]:
    if isinstance(by_key, Mapping):
        for key, offset in by_key.items():
            yield key_of(key), natural(offset, "a position", MAX_OFFSET)


def _ends(by_key: Any) -> Iterator[End]:
    if isinstance(by_key, Mapping):
        for key, end in by_key.items():
            match list(items(end, "a :final-read")):
                case [offset, bool() as whole]:
                    known = (
                        None
                        if offset is None
                        else natural(offset, "a :final-read's offset", MAX_OFFSET)
                    )
                    yield End(key=key_of(key), offset=known, whole=whole)
                case _:
                    raise InterchangeError(f"a :final-read is {end!r}; expected [offset whole?]")


def write(ops: Iterable[Op], notation: Notation) -> str:
    """The operations as a text that `read` understands: EDN, or JSON as one array."""
    if notation is Notation.EDN:
        return "".join(f"{edn.write(_raw(op, Keyword))}\n" for op in ops)
    lines = (json.dumps(_raw(op, str), ensure_ascii=False) for op in ops)
    return "[" + ",\n".join(lines) + "]\n"


def _raw(op: Op, word: type[str]) -> dict[Any, Any]:
    """The map of an operation; `word` makes what EDN calls a keyword."""
    value: Any = op.keys
    if op.f in TRANSACTIONS:
        value = tuple(_raw_step(step, op.type, word) for step in op.steps)
    elif op.f in COMMITS:
        value = dict(op.fields.commits)
    elif op.f not in ASSIGNMENTS:
        value = None
    made = {
        "index": op.number - 1,
        "time": op.time_ns,
        "process": op.process,
        "type": word(op.type),
        "f": word(op.f),
        "value": value,
    }
    optional = {
        "seek-to-beginning?": op.from_beginning or None,
        "rebalance-log": ({word("keys"): op.rebalanced},) if op.rebalanced else None,
        "error": _raw_aborted(op.abort_ok, word) if op.error is None else op.error,
        "positions": dict(op.positions) or None,
        "client": op.client,
        "final-read": {end.key: (end.offset, end.whole) for end in op.ends} or None,
    }
    made |= {name: each for name, each in optional.items() if each is not None}
    made |= raw_fields(op.f, op.fields, word)
    return {word(name): each for name, each in made.items()}


def _raw_step(step: Step, type_: str, word: type[str]) -> tuple[Any, ...]:
    match step:
        case Send():
            sent = type_ == "ok" or step.offset is not None
            return (word("send"), step.key, (step.offset, step.value) if sent else step.value)
        case Poll():
            polled: dict[Key, tuple[tuple[int, int], ...]] = {}
            for record in step.records:
                pair = (record.offset, record.value)
                polled[record.key] = (*polled.get(record.key, ()), pair)
            empty = not polled and type_ != "ok"
            return (word("poll"),) if empty else (word("poll"), polled)
