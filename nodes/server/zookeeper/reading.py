"""Reads the cluster from ZooKeeper: brokers with their epochs, and topics."""

import asyncio
import logging
from collections.abc import Sequence

from nodes.ids import BrokerEpoch, NodeId
from nodes.metadata.broker import BrokerImage
from nodes.server.zookeeper.client import Watch, ZooKeeper, again
from nodes.server.zookeeper.commits import IN_FLIGHT
from nodes.zookeeper import paths, znodes
from nodes.zookeeper.operations import NoNode, Stat

log = logging.getLogger("nodes.controller")

Found = tuple[bytes, Stat] | None


class ClusterReader:
    """See the module. Every method waits for a connection."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    async def children(self, path: str, watch: Watch) -> list[str]:
        """The names below a path; the watch is called when they change."""
        return await again(lambda: self._zookeeper.children(path, watch))

    async def read(self, path: str) -> Found:
        """A znode; None if it does not exist."""
        try:
            return await again(lambda: self._zookeeper.get(path))
        except NoNode:
            return None

    async def read_all(self, found: Sequence[str]) -> list[Found]:
        """Many znodes at a time, in order."""
        results: list[Found] = []
        for start in range(0, len(found), IN_FLIGHT):
            chunk = found[start : start + IN_FLIGHT]
            results += await asyncio.gather(*(self.read(path) for path in chunk))
        return results

    async def brokers(self, watch: Watch) -> dict[NodeId, BrokerImage]:
        """The registered brokers; the watch is called when some come or go."""
        nodes = [NodeId(int(name)) for name in await self.children(paths.BROKER_IDS, watch)]
        found = {}
        results = await self.read_all([paths.broker(node) for node in nodes])
        for node, result in zip(nodes, results, strict=True):
            if result is None:
                continue
            data, stat = result
            znode = znodes.read_broker(data)
            found[node] = BrokerImage(
                node_id=node,
                epoch=BrokerEpoch(stat.czxid),
                incarnation_id=None,
                endpoints=znode.endpoints,
                rack=znode.rack,
                fenced=False,
            )
        return found

    async def topics(self, names: Sequence[str]) -> dict[str, znodes.TopicZnode]:
        """The topics of these names that exist; one that cannot be read is left out."""
        found = {}
        results = await self.read_all([paths.topic(name) for name in names])
        for name, result in zip(names, results, strict=True):
            if result is None:
                continue
            try:
                found[name] = znodes.read_topic(result[0])
            except znodes.ZnodeError as error:
                log.warning("topic %s is left out: %s", name, error)
        return found
