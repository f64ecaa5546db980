"""What Kafka's verifiable clients and its TransactionalMessageCopier print, as rows of a history.

Each text is the output of one process: JSON, a line per event, between lines of a logger, which do
not begin with a brace and are left out.

- A producer says of each record what became of it (`producer_send_success`, `producer_send_error`)
  and prints increasing numbers, with `--value-prefix` a number and a dot before them. The order of
  the numbers is the order of sending.
- A consumer says what each poll returned, record by record with `--verbose` (`record_data`, and
  then `records_consumed`), and what it was assigned. A group may move partitions between polls only
  where it says so.

- A TransactionalMessageCopier says how many records it has copied (`copier`).

What they do not print cannot be judged: when anything was invoked (latencies and the order in real
time; each operation counts as begun when its process was), the partition of a send that failed (it
is looked up among the records that were read, where the record was written all the same), what
happened to a record that was in flight when its producer was killed (a producer that prints no
`shutdown_complete` has no end). An error is never a sure failure. The log in the end is all that
consumers read (`as_read`).

Raises InterchangeError with the file and line of what does not fit.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np

from checkers.history.settings import EXACTLY_ONCE
from checkers.interchange import copier
from checkers.interchange.as_read import known
from checkers.interchange.columns import (
    ENTRY,
    NONE,
    UNSAID_COLUMNS,
    Columns,
    Entries,
    Numbers,
    Partition,
    Places,
)
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import (
    SOMEWHERE,
    SUBSCRIBED,
    VALUE_BITS,
    Imported,
    Origin,
    Promises,
    assemble,
)

_LINE: Final = re.compile(
    r'^\{"timestamp": ?(0|[1-9][0-9]{0,12}), ?"name": ?"(record_data|producer_send_success)", ?'
    r'"key": ?null, ?"value": ?"(?:([0-9]{1,9})\.)?([0-9]{1,9})", ?"topic": ?"([A-Za-z0-9._-]+)", ?'
    r'"partition": ?(0|[1-9][0-9]{0,4}), ?"offset": ?(0|[1-9][0-9]{0,17})\}$'
    r"|^(\{.*)$|^[^{].*$|^$",
    re.MULTILINE,
)
"""A line: of the common shape, of another one, or a logger's."""

_VALUE: Final = re.compile(r"(?:(?P<prefix>[0-9]{1,9})\.)?(?P<number>[0-9]{1,9})")
_PRODUCING: Final = ("producer_send_success", "producer_send_error")
_CONSUMING: Final = ("record_data", "records_consumed", "partitions_assigned")
_MAX_COUNT: Final = (1 << 63) - 1
NS_PER_MS: Final = 1_000_000
MAX_TIME_MS: Final = 1 << 43
"""Beyond the year 2200, nanoseconds since 1970 do not fit."""
MAX_OFFSET: Final = (1 << 63) - 2
MAX_PARTITION: Final = 99_999
"""No topic has more partitions; all up to the greatest that is named are the plan's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A line: its number, and what it says."""

    where: str
    name: str
    said: Mapping[str, Any]

    def take(self, field_: str, kind: type) -> Any:
        """A field that has to be there. Raises InterchangeError."""
        value = self.said.get(field_)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InterchangeError(
                f"{self.where}: {self.name} has {value!r} as {field_!r}; expected {_WORDS[kind]}"
            )
        return value

    @property
    def at_ns(self) -> int:
        """When it was printed, since 1970; 0 for early versions, which do not say."""
        at_ms = self.said.get("timestamp")
        if isinstance(at_ms, int) and 0 <= at_ms <= MAX_TIME_MS:
            return at_ms * NS_PER_MS
        return 0

    def number(self, field_: str, least: int, most: int) -> int:
        """A field that has to be a number of this range. Raises InterchangeError."""
        value = int(self.take(field_, int))
        if least <= value <= most:
            return value
        raise InterchangeError(
            f"{self.where}: {self.name} has {value} as {field_!r}; expected {least} to {most}"
        )

    @property
    def partition(self) -> Partition:
        """Topic and partition."""
        return self.take("topic", str), self.number("partition", 0, MAX_PARTITION)

    @property
    def offset(self) -> int:
        """Negative where a producer was not told."""
        return self.number("offset", -1, MAX_OFFSET)


_WORDS: Final[Mapping[type, str]] = {int: "a whole number", str: "a text", list: "a list"}


@dataclass(slots=True)
class _Process:
    """One text: the client's number, its name, and what its lines say all together."""

    client: int
    name: str
    begun_ns: int | None = None
    names: set[str] = field(default_factory=set)
    prefixes: set[int] = field(default_factory=set)
    acked: int = 0
    counted: list[int] = field(default_factory=list)
    polls: int = 0
    topics: set[str] = field(default_factory=set)
    """The topics that a producer wrote to."""
    elsewhere: Partition | None = None
    """The least partition of a write that was acknowledged."""

    @property
    def produces(self) -> bool:
        """Whether it is a producer."""
        return not self.names.isdisjoint(_PRODUCING)

    @property
    def copies(self) -> bool:
        """Whether it is a copier."""
        return copier.LINE in self.names

    @property
    def ended(self) -> bool:
        """Whether it ended in order, and a producer's own count of acknowledgements, where it
        gives one, is that of its lines: else some are missing."""
        counted = all(count == self.acked for count in self.counted)
        return "shutdown_complete" in self.names and counted


@dataclass(frozen=True, slots=True)
class _Lost:
    """A send that failed: the place of its record, who sent it, and to which topic."""

    place: int
    process: _Process
    topic: str


def to_history(texts: Mapping[str, Callable[[], Iterable[str]]], *, promises: Promises) -> Imported:
    """Everything that producers and consumers printed, as an import. texts: by file name, each in
    pieces of whole lines.

    Raises InterchangeError.
    """
    importer = _Importer()
    for client, (name, chunks) in enumerate(texts.items(), 1):
        importer.take(_Process(client, name), chunks())
    return importer.imported(files=tuple(texts), promises=promises)


class _Importer:
    """Takes texts line by line. A value is its printed number below its prefix, until it is known
    whose prefix that is."""

    def __init__(self) -> None:
        self._columns = Columns(("send", "poll", "assign", "ok", "info"))
        self._places: dict[Partition, int] = {}
        self._processes: list[_Process] = []
        self._lost: list[_Lost] = []
        self._read = False
        self._copiers = copier.Copiers()

    def take(self, process: _Process, chunks: Iterable[str]) -> None:
        """One text. Raises InterchangeError."""
        self._processes.append(process)
        number, first = 0, len(self._columns.values)
        for chunk in chunks:
            for name, alike in groupby(_LINE.findall(chunk.removesuffix("\n")), itemgetter(1)):
                lines = list(alike)
                if name:
                    number += len(lines)
                    self._plain(process, name, lines)
                    continue
                for *_, text in lines:
                    number += 1
                    if text:
                        self._event(process, _event(f"{process.name}, line {number}", text))
        if process.begun_ns is None:
            raise InterchangeError(
                f"{process.name}: has no line of a verifiable producer or consumer, or of a copier"
            )
        if process.produces and process.names & set(_CONSUMING):
            raise InterchangeError(
                f"{process.name}: is of a producer and a consumer; give what each process printed "
                "by itself"
            )
        self._read |= not process.produces and len(self._columns.values) > first

    def imported(self, *, files: Sequence[str], promises: Promises) -> Imported:
        """What all texts amount to; nothing may be taken any more. Raises InterchangeError."""
        consumers = (each for each in self._processes if not each.produces and not each.copies)
        if not self._read and any(True for _ in consumers):
            raise InterchangeError(
                "no consumer printed a record; run VerifiableConsumer with --verbose, since "
                "offsets alone do not say which records were read"
            )
        clients = _by_prefix(process for process in self._processes if process.produces)
        ended = [each.client for each in self._processes if each.ended and not each.copies]
        if self._copiers.known:
            copying = clients[copier.PREFIX] = len(self._processes) + 1
            ended += [copying] if self._copied(copying) else []
            processing = promises.processing or EXACTLY_ONCE
            promises = replace(promises, processing=processing)
        entries = self._columns.table()
        _find_the_lost(entries, self._lost, self._places)
        topics: dict[str, int] = {}
        for topic, partition in self._places:
            topics[topic] = max(topics.get(topic, 0), partition + 1)
        partitions = [(name, each) for name, many in sorted(topics.items()) for each in range(many)]
        numbers = {partition: number for number, partition in enumerate(partitions)}
        moved = np.array([numbers[place] for place in self._places], np.int64)
        records = entries.records
        records["partition"] = moved[records["partition"]]
        records["value"] = _values(records["value"], clients)
        began = int(entries["invoke_ns"].min()) if len(entries["turn"]) else 0
        for name in ("invoke_ns", "complete_ns"):
            entries.columns[name] = np.maximum(entries[name] - began, 0)
        return assemble(
            entries,
            known(entries, np.zeros(len(entries["turn"]), np.bool_)),
            range(len(partitions)),
            Places.of(partitions, promises.acks),
            promises,
            Origin(tool="kafkatest", files=tuple(files)),
            ended=ended,
        )

    def _copied(self, client: int) -> bool:
        """The copies, and what the copiers committed; whether they copied all. Raises
        InterchangeError where nobody read their output."""
        inputs = {topic for process in self._processes for topic in process.topics}
        outputs = {topic for topic, _ in self._places} - inputs
        if not outputs:
            raise InterchangeError(
                "no consumer read what the copiers wrote; give the output of a VerifiableConsumer "
                "of their output topic, too"
            )
        began = (each.begun_ns or 0 for each in self._processes if not each.copies)
        from_ns = min(began, default=0)
        written = [at for (topic, _), at in self._places.items() if topic in outputs]
        copier.add_copies(self._columns, written, client, from_ns)
        finished = self._copiers.finished(sum(process.acked for process in self._processes))
        ends = dict(self._ends(inputs)) if finished else {}
        copier.add_commits(self._columns, ends, client, from_ns)
        return finished

    def _ends(self, inputs: set[str]) -> Iterator[tuple[int, int]]:
        """Behind the last record of each input partition that was acknowledged or read."""
        columns = self._columns
        partition, offset = np.array(columns.partitions), np.array(columns.offsets)
        for (topic, _), place in self._places.items():
            if topic in inputs:
                yield place, int(offset[partition == place].max(initial=-1)) + 1

    def _plain(self, process: _Process, name: str, lines: Sequence[tuple[str, ...]]) -> None:
        """Lines of the common shape and of one name, one after the other: column by column, as
        `_said` does it for one."""
        many, columns = len(lines), self._columns
        at_ms, _, prefixes, numbers, topics, partitions, offsets, _ = zip(*lines, strict=True)
        at_ns = np.fromiter(map(int, at_ms), np.int64, many) * NS_PER_MS
        number = np.fromiter(map(int, numbers), np.int64, many)
        prefix = np.fromiter((int(p) + 1 if p else 0 for p in prefixes), np.int64, many)
        places = list(zip(topics, map(int, partitions), strict=True))
        for place in dict.fromkeys(places):
            self._places.setdefault(place, len(self._places))
        process.names.add(name)
        if process.begun_ns is None:
            process.begun_ns = int(at_ns[0])
        step, f = number, "send"
        if name == "record_data":
            step, f = np.full(many, process.polls), "poll"
        else:
            process.acked += many
            process.prefixes.update(prefix.tolist())
            process.topics.update(topics)
            process.elsewhere = min(filter(None, (process.elsewhere, min(places))))
        known = columns.words.numbers
        entries = np.empty((many, len(ENTRY)), np.int64)
        entries[:] = (
            process.client, 0, process.client, known[f], known["ok"], process.begun_ns, 0, 0,
            NONE, NONE, NONE, 0, 1, *UNSAID_COLUMNS,
        )  # fmt: skip
        entries[:, ENTRY.index("step")] = step
        entries[:, ENTRY.index("complete_ns")] = at_ns
        entries[:, ENTRY.index("first")] = np.arange(many) + len(columns.values)
        columns.entries.frombytes(entries.tobytes())
        columns.partitions.extend(map(self._places.__getitem__, places))
        columns.values.frombytes((prefix << VALUE_BITS | number).tobytes())
        columns.offsets.extend(map(int, offsets))

    def _event(self, process: _Process, event: Event) -> None:
        process.names.add(event.name)
        if process.begun_ns is None:
            process.begun_ns = event.at_ns
        match event.name:
            case "record_data":
                raw, place = _printed(event), event.partition
                offset = event.number("offset", 0, MAX_OFFSET)
                self._said(process, event.name, event.at_ns, raw, place, offset)
            case "producer_send_success":
                raw, place = _printed(event), event.partition
                self._said(process, event.name, event.at_ns, raw, place, event.offset)
            case "producer_send_error":
                self._failed(process, event)
            case "records_consumed":
                process.polls += 1
            case "partitions_assigned":
                process.polls += 1
                for each in event.take("partitions", list):
                    place = Event(where=event.where, name=event.name, said=each).partition
                    self._entry(process, process.polls, "assign", event.at_ns, group=SUBSCRIBED)
                    self._record(place, NONE, SOMEWHERE)
                process.polls += 1
            case "tool_data":
                process.counted.append(event.take("acked", int))
            case copier.LINE:
                self._copiers.took(
                    process.client,
                    event.take(copier.id_of(event.said) or "", str),
                    event.said,
                    total=event.number("totalProcessed", 0, _MAX_COUNT),
                    left=event.number("remaining", -_MAX_COUNT, _MAX_COUNT),
                )

    def _said(
        self, process: _Process, name: str, at_ns: int, raw: int, place: Partition, offset: int
    ) -> None:
        """A record that was read, or acknowledged."""
        process.names.add(name)
        if process.begun_ns is None:
            process.begun_ns = at_ns
        if name == "record_data":
            self._entry(process, process.polls, "poll", at_ns)
        else:
            process.acked += 1
            process.prefixes.add(raw >> VALUE_BITS)
            process.topics.add(place[0])
            if process.elsewhere is None or place < process.elsewhere:
                process.elsewhere = place
            self._entry(process, raw % (1 << VALUE_BITS), "send", at_ns)
        self._record(place, raw, offset if offset >= 0 else NONE)

    def _failed(self, process: _Process, event: Event) -> None:
        raw = _printed(event)
        process.prefixes.add(raw >> VALUE_BITS)
        error = str(event.said.get("exception"))[:200]
        number = raw % (1 << VALUE_BITS)
        self._entry(process, number, "send", event.at_ns, type_="info", error=error)
        process.topics.add(event.take("topic", str))
        self._lost.append(_Lost(len(self._columns.values), process, event.take("topic", str)))
        self._columns.add((0,), (raw,), (NONE,))

    def _entry(
        self, process: _Process, step: int, f: str, at_ns: int, *, type_: str = "ok",
        group: str | None = None, error: str | None = None,
    ) -> None:  # fmt: skip
        """It was printed when it was over, and begun since the process began."""
        word, known = self._columns.words.number, self._columns.words.numbers
        self._columns.entries.extend(
            (
                process.client, step, process.client, known[f], known[type_], process.begun_ns or 0,
                at_ns, 0, NONE if group is None else word(group),
                NONE if error is None else word(error), NONE, len(self._columns.values), 1,
                *UNSAID_COLUMNS,
            )
        )  # fmt: skip

    def _record(self, place: Partition, value: int, offset: int) -> None:
        columns = self._columns
        columns.partitions.append(self._places.setdefault(place, len(self._places)))
        columns.values.append(value)
        columns.offsets.append(offset)


def _find_the_lost(entries: Entries, lost: Sequence[_Lost], places: dict[Partition, int]) -> None:
    """Where the value of a send that failed was read all the same, it was written there; nothing
    depends on the partition of one that nobody knows to be written."""
    if not lost:
        return
    records = entries.records
    _, read = entries.owners(np.flatnonzero(entries.are(f="poll")))
    values, firsts = np.unique(records["value"][read], return_index=True)
    for each in lost:
        value = records["value"][each.place]
        at = int(np.searchsorted(values, value))
        found = at < len(values) and values[at] == value
        if found:
            records["partition"][each.place] = records["partition"][read[firsts[at]]]
            continue
        elsewhere = each.process.elsewhere or (each.topic, 0)
        records["partition"][each.place] = places.setdefault(elsewhere, len(places))


def _values(raw: Numbers, clients: Mapping[int, int]) -> Numbers:
    """Whose value each is: its producer's number before it, as in all histories. One of an unknown
    producer is nobody's."""
    prefixes, of = np.unique(raw >> VALUE_BITS, return_inverse=True)
    mine = np.array([clients.get(int(p), (1 << 31) - 1) for p in prefixes.tolist()], np.int64)
    made = mine[of] << VALUE_BITS | (raw & ((1 << VALUE_BITS) - 1))
    return np.where(raw == NONE, NONE, made)


def _event(where: str, line: str) -> Event:
    try:
        said = json.loads(line)
        name = said["name"] if copier.id_of(said) is None else copier.LINE
        return Event(where=where, name=name, said=said)
    except (ValueError, RecursionError) as error:
        raise InterchangeError(f"{where}: is no JSON, or cut short: {error}") from error
    except KeyError as error:
        raise InterchangeError(f"{where}: has no 'name'; is it a verifiable client's?") from error


def _by_prefix(producers: Iterable[_Process]) -> dict[int, int]:
    """The client that prints each prefix. Raises InterchangeError where two print the same."""
    found: dict[int, _Process] = {}
    for process in producers:
        for prefix in sorted(process.prefixes):
            other = found.setdefault(prefix, process)
            if other is not process:
                raise InterchangeError(
                    f"{other.name} and {process.name} print the same values; give each producer a "
                    "--value-prefix of its own"
                )
    return {prefix: process.client for prefix, process in found.items()}


def _printed(event: Event) -> int:
    """A printed value: its number, below its prefix and one, or 0 without a prefix."""
    text = event.take("value", str)
    match = _VALUE.fullmatch(text)
    if match is None:
        raise InterchangeError(
            f"{event.where}: the value {text!r} is no verifiable producer's; expected a number, or "
            "a prefix, a dot and a number"
        )
    prefix = match.group("prefix")
    return (0 if prefix is None else int(prefix) + 1) << VALUE_BITS | int(match.group("number"))
