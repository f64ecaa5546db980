"""Channels to the other members of the quorum, made when first needed, kept while the address is.

Where a node is, its own messages say best; then the configuration, which the operator may have
changed since the voters were recorded; then the voter set. A node that knows no voter yet asks at
`controller.quorum.bootstrap.servers`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nodes.ids import NodeId
from nodes.raft.voters import VoterSet

Address = tuple[str, int]


class Peer(Protocol):
    """A connection to a voter; `nodes.wire.client.Channel` is one."""

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Raises ChannelError."""

    def close(self) -> None:
        """Idempotent."""


class Peers:
    """Two connections to each: answers come in order, and a vote must not wait for a long poll.

    `configured` are the addresses in the configuration; `addresses` those known now.
    """

    def __init__(
        self, configured: Mapping[NodeId, Address], connect: Callable[[str, int], Peer]
    ) -> None:
        self.addresses: dict[NodeId, Address] = dict(configured)
        self._configured = frozenset(configured)
        self._voters = VoterSet()
        self._connect = connect
        self._channels: dict[tuple[str, Address], Peer] = {}

    def learn(self, node: NodeId, address: Address) -> None:
        """Somebody said where a node is."""
        self.addresses[node] = address

    def learn_voters(self, voters: VoterSet) -> None:
        """A voter set names its members' addresses."""
        if voters is not self._voters:
            self._voters = voters
            for voter in voters.voters:
                if voter.node_id not in self._configured and voter.endpoints:
                    endpoint = voter.endpoints[0]
                    self.learn(voter.node_id, (endpoint.host, endpoint.port))

    def voting(self, node: NodeId) -> Peer | None:
        """The channel for votes and announcements; None while nobody said where the node is."""
        address = self.addresses.get(node)
        return None if address is None else self._channel("vote", address)

    def fetching(self, address: Address) -> Peer:
        """The channel for fetches."""
        return self._channel("fetch", address)

    def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            channel.close()

    def _channel(self, purpose: str, address: Address) -> Peer:
        channel = self._channels.get((purpose, address))
        if channel is None:
            channel = self._channels[purpose, address] = self._connect(*address)
        return channel
