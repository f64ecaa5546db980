"""Requests of Kafka's protocol as network faults see them: which one to hold, and what arrived.

This module is imported by processes that must start fast, so it imports nothing of the project.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

APIS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "Produce": 0,
        "Fetch": 1,
        "Metadata": 3,
        "OffsetCommit": 8,
        "OffsetFetch": 9,
        "FindCoordinator": 10,
        "JoinGroup": 11,
        "Heartbeat": 12,
        "LeaveGroup": 13,
        "SyncGroup": 14,
        "InitProducerId": 22,
        "AddPartitionsToTxn": 24,
        "AddOffsetsToTxn": 25,
        "EndTxn": 26,
        "WriteTxnMarkers": 27,
        "TxnOffsetCommit": 28,
        "ConsumerGroupHeartbeat": 68,
    }
)
"""The APIs whose requests can be held: name -> API key."""


class RequestFilter(NamedTuple):
    """The requests that are meant: those of one API; an empty text matches any."""

    api_key: int
    client_id: str = ""
    name: str = ""
    """The transactional id or the group that the request names."""

    def matches(self, api_key: int, client_id: str, name: str) -> bool:
        """Whether a request with these properties is meant."""
        return (
            api_key == self.api_key
            and self.client_id in ("", client_id)
            and self.name in ("", name)
        )


class SeenRequest(NamedTuple):
    """A request that arrived at a machine."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    name: str
    """The transactional id or the group that it names; empty if it names none."""
    connection: str
    """The sender's address and TCP port."""
    age_ms: float
    """How long ago it arrived, when this was asked."""


class WatchedRequests(NamedTuple):
    """What a watch of one link has seen so far."""

    held: SeenRequest | None
    """The request that is held, or was."""
    held_ms: float | None
    """How long it was held, once it was let go; None while it is held."""
    noted: Sequence[SeenRequest]
    """The last requests that the watch was to note, in order of arrival."""
