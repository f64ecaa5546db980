"""The metadata quorum as the control plane of a broker.

The controller is the leader of the quorum. The broker registers there and sends heartbeats
(`lifecycle`). Images come from the metadata log, which this node follows by itself
(`metadata_publisher`).
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any
from uuid import UUID

from nodes.config import NodeConfig
from nodes.ids import BrokerEpoch, NodeId
from nodes.server.controller_link import ControllerLink
from nodes.server.quorum.lifecycle import BrokerLifecycle
from nodes.server.quorum.quorum_node import QuorumNode
from nodes.server.replicas.manager import ReplicaManager
from nodes.storage.disk import Disk
from nodes.wire.client import Channel
from nodes.wire.server import Api


class QuorumControlPlane(ControllerLink):
    """A ControlPlane. `connect` makes a channel to a controller's listener."""

    def __init__(
        self,
        config: NodeConfig,
        raft: QuorumNode,
        replicas: ReplicaManager,
        disk: Disk,
        *,
        directory_id: UUID,
        incarnation_id: UUID,
        now_ms: Callable[[], float],
        connect: Callable[[str, int], Channel],
    ) -> None:
        super().__init__(raft, raft.voters, connect)
        self._raft = raft
        self._lifecycle = BrokerLifecycle(
            config, replicas, self, disk, directory_id, incarnation_id, now_ms, connect
        )

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The current broker epoch; -1 while the broker is not registered."""
        return self._lifecycle.broker_epoch

    @property
    def controller_id(self) -> NodeId | None:
        """The quorum's leader as this node knows it."""
        return self._raft.leader_id

    def served(self, apis: Mapping[int, Api]) -> dict[int, Api]:
        """The broker's apis as they are: the quorum has a listener of its own."""
        return dict(apis)

    def recovered(self, previous_epoch: BrokerEpoch | None) -> None:
        """The registration will name `previous_epoch`."""
        if previous_epoch is not None:
            self._lifecycle.previous_broker_epoch = previous_epoch

    def jobs(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Registration and heartbeats."""
        yield self._lifecycle.run()

    def metadata_advanced(self) -> None:
        """Activate the replicas once the image holds this broker's registration."""
        self._lifecycle.metadata_advanced()

    async def leave(self, timeout_ms: float) -> bool:
        """Controlled shutdown: true if every leadership was moved to another broker."""
        return await self._lifecycle.stop(timeout_ms)
