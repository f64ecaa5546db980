"""Broker sessions: which brokers sent heartbeats lately. Pure; times are monotonic milliseconds.

Only the active controller has sessions, in memory; a new controller starts new ones. A broker has a
session from its registration or heartbeat until `timeout_ms` of silence, or until the controller
ends it.
"""

from dataclasses import dataclass

from nodes.ids import NO_OFFSET, NodeId, Offset


@dataclass(slots=True)
class _Session:
    last_contact_ms: float
    metadata_offset: Offset


class BrokerSessions:
    """The sessions of the brokers, by node."""

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[NodeId, _Session] = {}

    def touch(self, node: NodeId, now_ms: float, metadata_offset: Offset = NO_OFFSET) -> None:
        """The broker sent a request; `metadata_offset` is how far it has read the metadata log."""
        self._sessions[node] = _Session(now_ms, metadata_offset)

    def end(self, node: NodeId) -> None:
        """End the broker's session."""
        self._sessions.pop(node, None)

    def live(self, node: NodeId, now_ms: float) -> bool:
        """Whether the broker has a session that has not expired."""
        session = self._sessions.get(node)
        return session is not None and now_ms - session.last_contact_ms < self._timeout_ms

    def metadata_offset(self, node: NodeId) -> Offset:
        """The metadata offset of the broker's last request; -1 if unknown."""
        session = self._sessions.get(node)
        return NO_OFFSET if session is None else session.metadata_offset

    def expired(self, now_ms: float) -> list[NodeId]:
        """The brokers whose sessions have expired, the longest silent first."""
        silent = sorted(
            (session.last_contact_ms, node)
            for node, session in self._sessions.items()
            if now_ms - session.last_contact_ms >= self._timeout_ms
        )
        return [node for _, node in silent]

    def extend_all(self, stall_ms: float, now_ms: float) -> None:
        """Extend every session by a time in which the controller itself did not run."""
        for session in self._sessions.values():
            session.last_contact_ms = min(now_ms, session.last_contact_ms + stall_ms)
