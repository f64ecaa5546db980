"""Frames as messages of Kafka's: requests and responses with their names and what they say.

A request's first bytes name its kind, and its correlation id finds the kind of its response. What
cannot be decoded is shown by what could be.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kio.schema.index import api_key_map

from harness.simulation.diagram.captions import METADATA, Part, Said, said, topic_ids
from harness.simulation.diagram.capture import Frame, Stream, frames
from nodes.wire.codec import correlation_id_of, decode_request, decode_response
from nodes.wire.errors import WireError
from nodes.wire.frames import read_request_head
from nodes.wire.replica_log_info import GET_REPLICA_LOG_INFO

ELECTIONS: Final = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch")
CLIENTS: Final = "clients"
"""The machine on which many clients run, told apart by their names."""
UNREADABLE: Final = Said(parts=(), error="unreadable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One request or response. Times are the world's ns."""

    exchange: tuple[int, int]
    """What a request and its response have in common: the client's stream, the correlation id."""
    api: str
    response: bool
    sender: str
    receiver: str
    sent_ns: int
    arrived_ns: int | None
    held_up_ns: int | None
    parts: tuple[Part, ...]
    error: str = ""

    @property
    def is_election(self) -> bool:
        """Whether the quorum's members choose their leader by it."""
        return self.api in ELECTIONS

    def about(self, topic: str, partition: int) -> list[Part]:
        """What it says of a partition."""
        return [p for p in self.parts if (p.topic, p.partition) == (topic, partition)]

    @property
    def errors(self) -> tuple[str, ...]:
        """What is wrong, by whoever answers."""
        return tuple(e for e in (self.error, *(part.error for part in self.parts)) if e)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoded:
    frame: Frame
    exchange: tuple[int, int]
    api_key: int
    entity: Any
    stream: Stream
    client: str


def messages(streams: Mapping[int, Stream]) -> list[Message]:
    """All messages, in the order of their sending."""
    decoded: list[_Decoded] = []
    for stream in streams.values():
        if stream.by_client:
            decoded += _exchanges(stream, streams.get(stream.back))
    names: dict[UUID, str] = {}
    for each in decoded:
        if each.entity is not None:
            names.update(topic_ids(each.entity))
    made = [_message(each, names) for each in decoded]
    return sorted(made, key=lambda message: (message.sent_ns, message.exchange, message.response))


def _exchanges(out: Stream, back: Stream | None) -> Iterator[_Decoded]:
    """Both directions of one connection."""
    kinds: dict[int, tuple[int, int]] = {}
    client = out.sender
    for frame in frames(out):
        head = read_request_head(frame.body)
        kinds[head.correlation_id] = head.api_key, head.api_version
        if out.sender == CLIENTS and head.client_id:
            client = head.client_id
        exchange = out.number, head.correlation_id
        try:
            entity = decode_request(frame.body, head).entity
        except WireError:
            entity = None
        yield _Decoded(
            frame=frame,
            exchange=exchange,
            api_key=head.api_key,
            entity=entity,
            stream=out,
            client=client,
        )
    if back is None:
        return
    for frame in frames(back):
        number = correlation_id_of(frame.body)
        if number not in kinds:
            continue
        try:
            entity = decode_response(frame.body, *kinds[number])
        except WireError:
            entity = None
        yield _Decoded(
            frame=frame,
            exchange=(out.number, number),
            api_key=kinds[number][0],
            entity=entity,
            stream=back,
            client=client,
        )


def _message(each: _Decoded, names: Mapping[UUID, str]) -> Message:
    frame, stream = each.frame, each.stream
    told = UNREADABLE if each.entity is None else said(each.entity, names)
    by_client = stream.by_client
    return Message(
        exchange=each.exchange,
        api=api_name(each.api_key),
        response=not by_client,
        sender=each.client if by_client else stream.sender,
        receiver=stream.receiver if by_client else each.client,
        sent_ns=frame.sent_ns,
        arrived_ns=frame.arrived_ns,
        held_up_ns=frame.held_up_ns,
        parts=told.parts,
        error=told.error,
    )


def api_name(api_key: int) -> str:
    """As Kafka's documents write it."""
    if api_key == GET_REPLICA_LOG_INFO:
        return "GetReplicaLogInfo"
    return "".join(word.capitalize() for word in api_key_map[api_key].split("_"))


def is_metadata(message: Message) -> bool:
    """Whether it carries the metadata log from one quorum member to another."""
    return any(part.topic == METADATA for part in message.parts)
