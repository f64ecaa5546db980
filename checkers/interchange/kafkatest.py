"""What Kafka's VerifiableProducer and VerifiableConsumer print, as the rows of a history.

Each text is the output of one process: JSON, a line per event, between lines of a logger, which do
not begin with a brace and are left out.

- A producer says of each record what became of it (`producer_send_success`, `producer_send_error`)
  and prints increasing numbers, with `--value-prefix` a number and a dot before them. The order of
  the numbers is the order of sending.
- A consumer says what each poll returned, record by record with `--verbose` (`record_data`, and
  then `records_consumed`), and what it was assigned. A group may move partitions between polls only
  where it says so.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checkers.interchange.as_read import LogAsRead, Partition
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import (
    SOMEWHERE,
    SUBSCRIBED,
    VALUE_BITS,
    Imported,
    Origin,
    Promises,
    Row,
    assemble,
)

_VALUE: Final = re.compile(r"(?:(?P<prefix>[0-9]{1,9})\.)?(?P<number>[0-9]{1,9})")
_PRODUCING: Final = ("producer_send_success", "producer_send_error")
_CONSUMING: Final = ("record_data", "records_consumed", "partitions_assigned")
CLIENT_BITS: Final = 40
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
    """One text: the client's number, its events, whether it ended in order."""

    client: int
    name: str
    events: list[Event]
    ended: bool
    prefix: int | None = None

    @property
    def produces(self) -> bool:
        return any(event.name in _PRODUCING for event in self.events)


@dataclass(slots=True)
class _Values:
    """Which value a printed one is: its producer's number before it, as in all histories."""

    producers: Mapping[int | None, int] = field(default_factory=dict)

    def of(self, event: Event) -> int:
        """The value of a record. One of an unknown producer is nobody's."""
        prefix, number = _printed(event)
        return self.producers.get(prefix, (1 << 31) - 1) << VALUE_BITS | number


def to_history(texts: Mapping[str, str], *, promises: Promises) -> Imported:
    """Everything that producers and consumers printed, as an import. texts: by file name.

    Raises InterchangeError.
    """
    processes = [_read(n, name, text) for n, (name, text) in enumerate(texts.items(), 1)]
    values = _Values(_by_prefix(process for process in processes if process.produces))
    consumed = [row for p in processes if not p.produces for row in _consumed(p, values)]
    if any(p for p in processes if not p.produces) and not consumed:
        raise InterchangeError(
            "no consumer printed a record; run VerifiableConsumer with --verbose, since offsets "
            "alone do not say which records were read"
        )
    homes = {row["value"]: (row["topic"], row["partition"]) for row in consumed if "value" in row}
    sent = [row for p in processes if p.produces for row in _sent(p, values, homes, promises.acks)]
    rows = [*sent, *consumed]
    topics = _topics(rows)
    log = LogAsRead(
        tuple((topic, each) for topic, many in sorted(topics.items()) for each in range(many))
    )
    for row in rows:
        if row["f"] == "poll":
            log.read((row["topic"], row["partition"]), row["offset"], row["value"], finally_=False)
        elif row["type"] == "ok" and row["f"] == "send":
            log.acknowledged((row["topic"], row["partition"]), row["value"], row["offset"])
    origin = Origin(tool="kafkatest", files=tuple(texts))
    ended = [process.client for process in processes if process.ended]
    return assemble(_from_zero(rows), log, topics, promises, origin, ended=ended)


def _read(client: int, name: str, text: str) -> _Process:
    events = [
        _event(f"{name}, line {number}", line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.startswith("{")
    ]
    if not events:
        raise InterchangeError(f"{name}: has no line of a verifiable producer or consumer")
    names = {event.name for event in events}
    if names & set(_PRODUCING) and names & set(_CONSUMING):
        raise InterchangeError(
            f"{name}: is of a producer and a consumer; give what each process printed by itself"
        )
    ended = "shutdown_complete" in names and _counted_all(events)
    return _Process(client, name, events, ended)


def _event(where: str, line: str) -> Event:
    try:
        said = json.loads(line)
        return Event(where=where, name=said["name"], said=said)
    except ValueError as error:
        raise InterchangeError(f"{where}: is no JSON, or cut short: {error}") from error
    except KeyError as error:
        raise InterchangeError(f"{where}: has no 'name'; is it a verifiable client's?") from error


def _counted_all(events: Iterable[Event]) -> bool:
    """Whether a producer's own count of acknowledgements, where it gives one, is that of its
    lines: else some are missing."""
    acked = sum(event.name == "producer_send_success" for event in events)
    counts = [event.take("acked", int) for event in events if event.name == "tool_data"]
    return all(count == acked for count in counts)


def _by_prefix(producers: Iterable[_Process]) -> dict[int | None, int]:
    """The client that prints each prefix. Raises InterchangeError where two print the same."""
    found: dict[int | None, _Process] = {}
    for process in producers:
        prefixes = {_printed(event)[0] for event in process.events if event.name in _PRODUCING}
        for prefix in sorted(prefixes, key=lambda each: -1 if each is None else each):
            other = found.setdefault(prefix, process)
            if other is not process:
                raise InterchangeError(
                    f"{other.name} and {process.name} print the same values; give each producer a "
                    "--value-prefix of its own"
                )
    return {prefix: process.client for prefix, process in found.items()}


def _printed(event: Event) -> tuple[int | None, int]:
    """Prefix and number of a printed value."""
    text = event.take("value", str)
    match = _VALUE.fullmatch(text)
    if match is None:
        raise InterchangeError(
            f"{event.where}: the value {text!r} is no verifiable producer's; expected a number, or "
            "a prefix, a dot and a number"
        )
    prefix = match.group("prefix")
    return None if prefix is None else int(prefix), int(match.group("number"))


def _sent(
    process: _Process, values: _Values, homes: Mapping[int, Partition], acks: int
) -> Iterator[Row]:
    """A producer's sends, numbered in the order of their values."""
    known = [e.partition for e in process.events if e.name == "producer_send_success"]
    # Nothing depends on the partition of a send that nobody knows to be written.
    elsewhere = min(known, default=None)
    for event in process.events:
        if event.name not in _PRODUCING:
            continue
        value = values.of(event)
        ok = event.name == "producer_send_success"
        home = event.partition if ok else homes.get(value, elsewhere)
        topic, partition = home or (event.take("topic", str), 0)
        offset = event.offset if ok else None
        yield _row(
            process, event, value % (1 << VALUE_BITS), "send",
            type="ok" if ok else "info", topic=topic, partition=partition, value=value, acks=acks,
            offset=None if offset is None or offset < 0 else offset,
            error=None if ok else str(event.said.get("exception"))[:200],
        )  # fmt: skip


def _consumed(process: _Process, values: _Values) -> Iterator[Row]:
    """A consumer's polls and assignments. A poll ends with `records_consumed`."""
    op = 0
    for event in process.events:
        if event.name == "record_data":
            topic, partition = event.partition
            yield _row(
                process, event, op, "poll", topic=topic, partition=partition,
                value=values.of(event), offset=event.number("offset", 0, MAX_OFFSET),
            )  # fmt: skip
        elif event.name == "records_consumed":
            op += 1
        elif event.name == "partitions_assigned":
            op += 1
            for each in event.take("partitions", list):
                place = Event(where=event.where, name=event.name, said=each).partition
                yield _row(
                    process, event, op, "assign", topic=place[0], partition=place[1],
                    offset=SOMEWHERE, group=SUBSCRIBED,
                )  # fmt: skip
            op += 1


def _row(process: _Process, event: Event, op: int, f: str, **columns: Any) -> Row:
    """A row of a process. It was printed when it was over, and begun since the process began."""
    return {
        "op": process.client << CLIENT_BITS | op,
        "client": process.client,
        "f": f,
        "type": "ok",
        "invoke_ns": process.events[0].at_ns,
        "complete_ns": event.at_ns,
    } | columns


def _from_zero(rows: Sequence[Row]) -> list[Row]:
    """The rows with their times from the first on."""
    first_ns = min((row["invoke_ns"] for row in rows), default=0)
    times = ("invoke_ns", "complete_ns")
    return [row | {name: max(0, row[name] - first_ns) for name in times} for row in rows]


def _topics(rows: Iterable[Row]) -> dict[str, int]:
    """How many partitions of each topic are known."""
    found: dict[str, int] = {}
    for row in rows:
        found[row["topic"]] = max(found.get(row["topic"], 0), row["partition"] + 1)
    return found
