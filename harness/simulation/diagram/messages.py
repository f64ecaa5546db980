"""Decodes frames as Kafka messages: requests and responses, with their names and captions.

The first bytes of a request name its kind; its correlation id finds the kind of its response. A
message that cannot be decoded is shown without a caption.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kio.schema.index import api_key_map

from harness.simulation.diagram.captions import Caption, Part, caption, topic_ids
from harness.simulation.diagram.capture import Frame, Stream, frames
from nodes.wire.codec import correlation_id_of, decode_request, decode_response
from nodes.wire.errors import WireError
from nodes.wire.frames import read_request_head
from nodes.wire.replica_log_info import GET_REPLICA_LOG_INFO

ELECTIONS: Final = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch")
CLIENTS: Final = "clients"
"""The machine on which many clients run; their client ids tell them apart."""
UNREADABLE: Final = Caption(parts=(), error="unreadable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One request or response. Times are the world's ns."""

    exchange: tuple[int, int]
    """The same for a request and its response: the client's stream, and the correlation id."""
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
        """Whether the quorum elects its leader by this message."""
        return self.api in ELECTIONS

    def about(self, topic: str, partition: int) -> list[Part]:
        """Return what the message says about a partition."""
        return [p for p in self.parts if (p.topic, p.partition) == (topic, partition)]

    @property
    def errors(self) -> tuple[str, ...]:
        """All errors of the message and its parts."""
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
    """Return all messages, in the order of their sending."""
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
    """Decode both directions of one connection."""
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
    caption_ = UNREADABLE if each.entity is None else caption(each.entity, names)
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
        parts=caption_.parts,
        error=caption_.error,
    )


def api_name(api_key: int) -> str:
    """Return the API's name as in Kafka's documentation."""
    if api_key == GET_REPLICA_LOG_INFO:
        return "GetReplicaLogInfo"
    return "".join(word.capitalize() for word in api_key_map[api_key].split("_"))
