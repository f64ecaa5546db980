"""This broker's registration: the ephemeral /brokers/ids/N of its session."""

import asyncio
import logging

from nodes.ids import BrokerEpoch, NodeId
from nodes.server.zookeeper.client import ZooKeeper, again
from nodes.zookeeper import paths
from nodes.zookeeper.operations import NodeExists

log = logging.getLogger("nodes.zookeeper")


async def register(zookeeper: ZooKeeper, node_id: NodeId, content: bytes) -> BrokerEpoch:
    """Register, and return the broker epoch: the transaction that made the znode (KIP-380).

    The znode of an earlier session may still be there, as after a kill. Kafka's broker gives up
    then. This one waits for the end of that session. Raises SessionExpired.
    """
    path = paths.broker(node_id)
    waited = False
    while True:
        try:
            stat = await again(lambda: zookeeper.create(path, content, ephemeral=True))
            return BrokerEpoch(stat.czxid)
        except NodeExists:
            changed = asyncio.Event()
            found = await again(lambda watch=changed.set: zookeeper.exists(path, watch))  # type: ignore[misc]
            if found is None:
                continue
            if found.owner == zookeeper.session_id:
                return BrokerEpoch(found.czxid)  # the answer to the creation was lost
            if not waited:
                log.info("an earlier session holds %s: waiting for its end", path)
            waited = True
            await changed.wait()
