"""A fast reader for the lines of a `history.edn`: one regular expression reads the usual forms.

Jepsen writes one map on each line, and nearly all lines have the same form: the same fields in the
same order, whole numbers, sends and polls. Such a line becomes an event without an `Op`. Every
other line is parsed in full (`edn`, `jepsen_ops`), with the same result. A text with maps across
lines is parsed in full as a whole.

An event is (number, process, type, f, time_ns, steps, op). Its steps are parsed only when they are
needed (`steps_of`); the steps of an invocation that completed are not. A step that is a tuple is a
send: key, value, offset (None: unknown). A step that is a list is a poll: for each key the offsets
and the values, in the order in which they were returned. op: the parsed operation, if the line has
more fields.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from checkers.interchange import edn
from checkers.interchange.errors import EdnError
from checkers.interchange.jepsen_ops import Notation, Op, Send, operation, read
from checkers.interchange.jepsen_values import Key

Sent: TypeAlias = tuple[Key, int, int | None]
Polled: TypeAlias = list[tuple[Key, list[int], list[int]]]
Step: TypeAlias = Sent | Polled
Event: TypeAlias = tuple[int, int, str, str, int, "tuple[Step, ...] | str", Op | None]

_FIRST_LINES: Final = 100
"""By them it is known in which order a file has its fields."""

_INT: Final = r"(?:0|[1-9][0-9]{0,17})"
_PAIR: Final = rf"\[{_INT} {_INT}\]"
_OF_KEY: Final = rf"-?{_INT} \[(?:{_PAIR}(?: {_PAIR})*)?\]"
_SEND: Final = rf"\[:send -?{_INT} (?:{_INT}|\[(?:nil|{_INT}) {_INT}\])\]"
_POLL: Final = rf"\[:poll(?: \{{(?:{_OF_KEY}(?:, {_OF_KEY})*)?\}})?\]"
_FIELDS: Final = {
    "index": rf":index {_INT}",
    "time": rf":time (?P<time>{_INT})",
    "type": ":type :(?P<type>invoke|ok|fail|info)",
    "process": ":process (?P<process>0|[1-9][0-9]{0,8})",
    "f": ":f :(?P<f>send|poll|txn)",
    "value": rf":value \[(?P<steps>(?:{_SEND}|{_POLL})(?: (?:{_SEND}|{_POLL}))*)\]",
}
_TAG: Final = r"(?:#jepsen\.history\.Op)?"
_KEY: Final = re.compile(r"[{ ]:([a-z-]+\??) (?=[0-9:\[])")
_SPACED: Final = str.maketrans("[]{},", "     ")


class NotByLine(Exception):
    """Some line is no whole map: the text has to be parsed as a whole."""


def events(
    chunks: Callable[[], Iterable[str]], notation: Notation, restart: Callable[[], None]
) -> Iterator[Event]:
    """The events of the clients, in the order of the text.

    chunks: the text from its beginning, in pieces of whole lines. restart: called where what was
    given so far is to be forgotten, and the whole comes anew. Raises InterchangeError.
    """
    if notation is Notation.EDN:
        try:
            yield from _by_line(chunks())
            return
        except NotByLine:
            restart()
    yield from map(of_operation, read("".join(chunks()), notation))


def of_operation(op: Op) -> Event:
    """An operation as an event."""
    steps: list[Step] = []
    for step in op.steps:
        if isinstance(step, Send):
            steps.append((step.key, step.value, step.offset))
            continue
        polled: dict[Key, tuple[list[int], list[int]]] = {}
        for record in step.records:
            offsets, values = polled.setdefault(record.key, ([], []))
            offsets.append(record.offset)
            values.append(record.value)
        steps.append([(key, *columns) for key, columns in polled.items()])
    return op.number, op.process, op.type, op.f, op.time_ns, tuple(steps), op


def _by_line(chunks: Iterable[str]) -> Iterator[Event]:
    pattern: re.Pattern[str] | None = None
    order: tuple[int, ...] = ()
    number = 0
    for chunk in chunks:
        if pattern is None:
            pattern = _pattern(chunk)
            order = tuple(pattern.groupindex[name] - 1 for name in _GROUPS)
        time, type_, process, f, steps, other = order
        for found in pattern.findall(chunk):
            if text := found[other]:
                for raw in _values(text):
                    number += 1
                    if (op := operation(number, raw)) is not None:
                        yield of_operation(op)
                continue
            number += 1
            yield (
                number, int(found[process]), found[type_], found[f], int(found[time]),
                found[steps], None,
            )  # fmt: skip


_GROUPS: Final = ("time", "type", "process", "f", "steps", "other")


def _pattern(text: str) -> re.Pattern[str]:
    """Of the lines whose fields are in the order of the first that has all of them."""
    order = list(_FIELDS)
    for line in text.split("\n", _FIRST_LINES)[:_FIRST_LINES]:
        found = [name for name in _KEY.findall(line) if name in _FIELDS]
        if sorted(found) == sorted(_FIELDS):
            order = found
            break
    fields = ", ".join(_FIELDS[name] for name in order)
    return re.compile(rf"^{_TAG}\{{{fields}\}}$|^(?P<other>.*\S.*)$", re.MULTILINE)


def _values(line: str) -> list[Mapping[Any, Any]]:
    """The maps of one line. Raises NotByLine."""
    try:
        values = list(edn.read_all(line))
    except EdnError:
        raise NotByLine from None
    if not all(isinstance(value, Mapping) for value in values):
        raise NotByLine
    return values  # type: ignore[return-value]  # as was just asked


def steps_of(event: Event) -> Sequence[Step]:
    """What an event did."""
    text = event[5]
    if not isinstance(text, str):
        return text
    steps: list[Step] = []
    for step in text[2:-1].split("] [:"):
        if step[0] == "s":
            _, key, *numbers = step.translate(_SPACED).split()
            known = len(numbers) > 1 and numbers[0] != "nil"
            steps.append((int(key), int(numbers[-1]), int(numbers[0]) if known else None))
        else:
            steps.append(_polled(step[6:-1]))
    return steps


def _polled(text: str) -> Polled:
    polled: Polled = []
    for of_key in text.split("], ") if text else ():
        key, *numbers = map(int, of_key.translate(_SPACED).split())
        if numbers:
            polled.append((key, numbers[::2], numbers[1::2]))
    return polled
