"""Which brokers have been heard from lately. Pure; monotonic milliseconds are handed in.

Kept only by the active controller, in memory: a session says nothing about the past, so a new
controller starts them afresh. A broker has a session from its registration or heartbeat until
`timeout_ms` of silence, or until the controller ends it.
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
        """The broker was heard from; `metadata_offset` is how far it has followed the metadata."""
        self._sessions[node] = _Session(now_ms, metadata_offset)

    def end(self, node: NodeId) -> None:
        """The broker is gone, by its own word or by ours."""
        self._sessions.pop(node, None)

    def live(self, node: NodeId, now_ms: float) -> bool:
        """Whether the broker has a session that has not run out."""
        session = self._sessions.get(node)
        return session is not None and now_ms - session.last_contact_ms < self._timeout_ms

    def metadata_offset(self, node: NodeId) -> Offset:
        """How far the broker had followed the metadata when last heard from; -1 if unknown."""
        session = self._sessions.get(node)
        return NO_OFFSET if session is None else session.metadata_offset

    def expired(self, now_ms: float) -> list[NodeId]:
        """The brokers whose sessions have run out, the longest silent first."""
        silent = sorted(
            (session.last_contact_ms, node)
            for node, session in self._sessions.items()
            if now_ms - session.last_contact_ms >= self._timeout_ms
        )
        return [node for _, node in silent]

    def extend_all(self, stall_ms: float, now_ms: float) -> None:
        """Take a silence in which the controller itself did not run off every broker's account."""
        for session in self._sessions.values():
            session.last_contact_ms = min(now_ms, session.last_contact_ms + stall_ms)
