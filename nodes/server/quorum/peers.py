"""Channels to the other members of the quorum, and their addresses.

A channel is created when it is first needed, and kept while the address stays the same. The best
source of a node's address is the node's own messages; then the configuration, which the operator
may have changed since the voters were recorded; then the voter set. A node that knows no voter yet
asks the `controller.quorum.bootstrap.servers`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nodes.ids import NodeId
from nodes.raft.voters import VoterSet

Address = tuple[str, int]


class PeerChannel(Protocol):
    """A connection to a voter; `nodes.wire.client.Channel` is one."""

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Raises ChannelError."""

    def close(self) -> None:
        """Idempotent."""


class PeerChannels:
    """Two connections to each node, because responses come in order and a vote must not wait for a
    fetch.

    `configured` are the addresses of the configuration; `addresses` are those known now.
    """

    def __init__(
        self, configured: Mapping[NodeId, Address], connect: Callable[[str, int], PeerChannel]
    ) -> None:
        self.addresses: dict[NodeId, Address] = dict(configured)
        self._configured = frozenset(configured)
        self._voters = VoterSet()
        self._connect = connect
        self._channels: dict[tuple[str, Address], PeerChannel] = {}

    def set_address(self, node: NodeId, address: Address) -> None:
        """Set the address of a node."""
        self.addresses[node] = address

    def set_voters(self, voters: VoterSet) -> None:
        """Take over the addresses of a voter set, except for configured nodes."""
        if voters is not self._voters:
            self._voters = voters
            for voter in voters.voters:
                if voter.node_id not in self._configured and voter.endpoints:
                    endpoint = voter.endpoints[0]
                    self.set_address(voter.node_id, (endpoint.host, endpoint.port))

    def vote_channel(self, node: NodeId) -> PeerChannel | None:
        """The channel for votes and epoch changes; None while the node's address is unknown."""
        address = self.addresses.get(node)
        return None if address is None else self._channel("vote", address)

    def fetch_channel(self, address: Address) -> PeerChannel:
        """The channel for fetches."""
        return self._channel("fetch", address)

    def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            channel.close()

    def _channel(self, purpose: str, address: Address) -> PeerChannel:
        channel = self._channels.get((purpose, address))
        if channel is None:
            channel = self._channels[purpose, address] = self._connect(*address)
        return channel
