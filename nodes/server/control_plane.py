"""What a broker needs of its control plane, whichever it is.

A control plane registers the broker, tells it who leads which partition, carries out the ISR
changes that its leaders propose, and serves administrative requests. The metadata quorum
(`nodes.server.quorum.control_plane`) is one. A broker gets a ControlPlane and knows nothing more.
"""

from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, Protocol

from nodes.ids import BrokerEpoch, NodeId
from nodes.wire.server import Api


class NoControlPlane(Exception):
    """A control plane cannot be opened; the message says why and what to do."""


class ControllerClient(Protocol):
    """Sends requests to the controller. The entities are Kafka's, whatever the control plane.

    AlterPartition is a leader's question for an ISR change (KIP-497), and AllocateProducerIds asks
    for a block of producer ids. All others are clients' administrative requests.
    """

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Send a request once. Raises ChannelError; ConnectFailed also without a controller."""
        ...

    async def forward(self, entity: Any, *, timeout_s: float) -> Any | None:
        """Send a request until a controller accepts it; None if `timeout_s` passes before.

        It may be carried out twice.
        """
        ...


class Registration(Protocol):
    """This broker's registration with the controller."""

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The current broker epoch; -1 before the first registration."""
        ...


class ControlPlane(ControllerClient, Registration, Protocol):
    """See the module. It passes images of the cluster to `Broker.on_metadata_update`.

    It calls `ReplicaManager.activate` once the image holds this broker's own registration and all
    its partitions.
    """

    @property
    def controller_id(self) -> NodeId | None:
        """The node of the active controller, if it is known."""
        ...

    def served(self, apis: Mapping[int, Api]) -> dict[int, Api]:
        """The apis of the broker's listeners, made from those that every broker has."""
        ...

    def recovered(self, previous_epoch: BrokerEpoch | None) -> None:
        """The logs are open.

        `previous_epoch` is the broker epoch of the last run, if that closed all its logs. Called
        before the jobs begin.
        """
        ...

    def jobs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """The jobs that run until the broker stops. They register the broker."""
        ...

    def metadata_advanced(self) -> None:
        """The broker has taken a new image."""
        ...

    async def leave(self, timeout_ms: float) -> bool:
        """Ask for a controlled shutdown; true if every leadership was moved to another broker."""
        ...

    def close(self) -> None:
        """Release the connections."""
        ...
