"""The protocol of client programs: one line of JSON is one message. Pure.

highwater writes commands. The program answers each command except `send`, by its `id`, and writes
events of a client. Commands of one client are done in order; clients do not wait for each other.
docs/clients-protocol.md describes every message.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from harness.workloads.clients.reads import Read
from nodes.ids import TopicPartition

VERSION: Final = 3
"""The latest version, which highwater names in `hello`. A program answers with the version that it
speaks, and that one is spoken."""
KEYS_SINCE: Final = 2
"""From this version on a record may have a key, and no payload."""
TOPICS_SINCE: Final = 3
"""From this version on a member of a group may have several topics."""
COMPACTED: Final = "compacted"
"""The kind of workload that needs keys."""
LONGEST_SHOWN: Final = 200
"""How much of a wrong line an error shows, in characters."""
THEN: Final = ("retry", "abort", "close")

Values = Mapping[str, Any]
Record = tuple[int, int, bytes | None, bytes | None]
"""A send: its number, the partition, the payload (None: a tombstone), and the key."""


class ProtocolError(Exception):
    """The program wrote something else than the protocol has. The message shows the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a command, or a send, was not done.

    name: Kafka's name of the error, or the library's. code: Kafka's error code. definite: it surely
    did not happen, and never will. then: what the client can do next: try again, abort the
    transaction, or nothing but close.
    """

    name: str
    code: int | None = None
    definite: bool = False
    then: str = "close"
    partitions: tuple[int, ...] = ()
    """The partitions that the error concerns, if it does not concern all."""
    topic: str | None = None
    """Their topic, if the client has several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a command: its values, or a failure."""

    id: int
    values: Values = field(default_factory=dict)
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Outcomes of sends by their numbers: the offset (None: nobody knows it), or the failure."""

    client: int
    acked: Sequence[tuple[int, int | None]] = ()
    failed: Sequence[tuple[int, Failure]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A member got partitions, and goes on from {partition: position}. None: it does not know.

    topic, here and below: of the partitions, if the member has several.
    """

    client: int
    positions: Mapping[int, int | None]
    generation: int
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """A member gives up partitions. It may commit until highwater has written `resume`."""

    client: int
    partitions: Sequence[int]
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A member has lost partitions: another member may have them already."""

    client: int
    partitions: Sequence[int]
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """An error of a client that belongs to no command."""

    client: int
    error: str


Event = Sent | Assigned | Revoked | Lost | Noted
Message = Answer | Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a program says of itself: the version of the protocol, name and version of its library,
    what it can do."""

    protocol: int = 1
    name: str
    version: str
    kinds: tuple[str, ...]
    group_protocols: tuple[str, ...] = ("classic",)


def encode(number: int, client: int | None, do: str, values: Values) -> bytes:
    """Return the line of a command."""
    whose = {} if client is None else {"client": client}
    return json.dumps({"id": number, **whose, "do": do, **values}).encode() + b"\n"


def encode_records(records: Sequence[Record]) -> list[tuple[int | str | None, ...]]:
    """Return the records of a `send`: number, partition, payload, and the key if there is one."""
    return [
        (number, part, _encoded(load)) + (() if key is None else (_encoded(key),))
        for number, part, load, key in records
    ]


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Return {partition: offset} of each topic: a command is about one topic."""
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[partition] = offset
    return found


def decode(line: bytes) -> Message:
    """Return the message of a line. Raises ProtocolError."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        _refuse(line, "it is not JSON")
    if not isinstance(raw, dict):
        _refuse(line, "it is not an object")
    try:
        if "event" not in raw:
            return _answer(raw)
        if raw["event"] not in _EVENTS:
            raise ValueError(f"there is no event {raw['event']!r}")
        return _EVENTS[raw["event"]](raw)
    except KeyError as error:
        _refuse(line, f"{error.args[0]} is missing")
    except (ValueError, TypeError, AttributeError) as error:
        _refuse(line, str(error))


def introduction_of(answer: Answer) -> Introduction:
    """Return what the answer to `hello` says. Raises ProtocolError."""
    values = answer.values
    if answer.failure is not None:
        raise ProtocolError(f"the client program refused `hello`: {answer.failure.name}")
    protocol = values.get("protocol")
    if type(protocol) is not int or not 1 <= protocol <= VERSION:
        raise ProtocolError(
            f"the client program speaks protocol {protocol!r}, and this highwater "
            f"speaks 1 to {VERSION}: its answer to `hello` must have one of these as protocol"
        )
    names = ("name", "version", "kinds")
    if missing := [name for name in names if name not in values]:
        raise ProtocolError(f"the client program's answer to `hello` has no {missing[0]}")
    kinds = tuple(map(str, values["kinds"]))
    if COMPACTED in kinds and protocol < KEYS_SINCE:
        raise ProtocolError(
            f"the client program can do {COMPACTED}, and speaks protocol {protocol}, which has no "
            f"keys: its answer to `hello` must have protocol {KEYS_SINCE}"
        )
    return Introduction(
        protocol=protocol,
        name=str(values["name"]),
        version=str(values["version"]),
        kinds=kinds,
        group_protocols=tuple(map(str, values.get("group_protocols", ("classic",)))),
    )


def records_of(answer: Answer) -> list[tuple[str | None, Read]]:
    """Return the records in the answer to a `poll`, with their topics (None: the client has one).
    Raises ProtocolError."""
    try:
        return [
            (
                str(topic[0]) if topic else None,
                Read(
                    _number(partition),
                    _number(offset),
                    None if epoch is None else _number(epoch),
                    None if load is None else base64.b64decode(load, validate=True),
                ),
            )
            for partition, offset, epoch, load, *topic in answer.values.get("records", ())
        ]
    except (ValueError, TypeError) as error:
        raise ProtocolError(
            "the client program's answer to `poll` is wrong: a record is [partition, offset, "
            f"leader epoch or null, payload in base64 or null]: {error}"
        ) from error


def offsets_of(answer: Answer) -> dict[int, int | None]:
    """Return {partition: offset or None} in the answer to a `committed`. Raises ProtocolError."""
    try:
        return _positions(answer.values["offsets"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ProtocolError(
            "the client program's answer to `committed` is wrong: `offsets` has an offset or null "
            f"by partition: {error}"
        ) from error


def number_in(answer: Answer, name: str) -> int:
    """Return a number in an answer. Raises ProtocolError."""
    try:
        return _number(answer.values[name])
    except (KeyError, TypeError) as error:
        raise ProtocolError(f"the client program's answer has no number {name}") from error


def _refuse(line: bytes, why: str) -> NoReturn:
    shown = line.decode(errors="replace").rstrip("\n")
    if len(shown) > LONGEST_SHOWN:
        shown = f"{shown[:LONGEST_SHOWN]}..."
    raise ProtocolError(
        f"the client program wrote a line that the protocol does not have: {why}: {shown} (what is "
        "no message belongs on the standard error)"
    )


def _answer(raw: Values) -> Answer:
    values = {name: value for name, value in raw.items() if name not in ("id", "error")}
    failure = _failure(raw["error"]) if raw.get("error") is not None else None
    return Answer(id=_number(raw["id"]), values=values, failure=failure)


def _failure(raw: Values) -> Failure:
    then = raw.get("then", "close")
    if then not in THEN:
        raise ValueError(f"an error's `then` is one of {', '.join(THEN)}, not {then!r}")
    code = raw.get("code")
    return Failure(
        name=str(raw["name"]),
        code=None if code is None else _number(code),
        definite=raw.get("definite", False) is True,
        then=then,
        partitions=tuple(map(_number, raw.get("partitions", ()))),
        topic=_topic(raw),
    )


def _sent(raw: Values) -> Sent:
    return Sent(
        client=_number(raw["client"]),
        acked=[
            (_number(number), None if offset is None else _number(offset))
            for number, offset in raw.get("acked", ())
        ],
        failed=[(_number(number), _failure(error)) for number, error in raw.get("failed", ())],
    )


def _assigned(raw: Values) -> Assigned:
    return Assigned(
        client=_number(raw["client"]),
        positions=_positions(raw["positions"]),
        generation=_number(raw["generation"]),
        topic=_topic(raw),
    )


def _revoked(raw: Values) -> Revoked:
    partitions = [*map(_number, raw["partitions"])]
    return Revoked(client=_number(raw["client"]), partitions=partitions, topic=_topic(raw))


def _lost(raw: Values) -> Lost:
    partitions = [*map(_number, raw["partitions"])]
    return Lost(client=_number(raw["client"]), partitions=partitions, topic=_topic(raw))


def _topic(raw: Values) -> str | None:
    topic = raw.get("topic")
    return None if topic is None else str(topic)


def _noted(raw: Values) -> Noted:
    return Noted(client=_number(raw["client"]), error=str(raw["error"]))


def _positions(raw: Mapping[str, Any]) -> dict[int, int | None]:
    return {int(p): None if offset is None else _number(offset) for p, offset in raw.items()}


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{json.dumps(value, default=str)} is not a whole number")
    return value


_EVENTS: Final[Mapping[str, Callable[[Values], Event]]] = {
    "sent": _sent,
    "assigned": _assigned,
    "revoked": _revoked,
    "lost": _lost,
    "error": _noted,
}
