"""What a broker writes to ZooKeeper by itself: ISR changes of its partitions, producer id blocks.

As in Kafka, a leader writes the state of its partition with the version that it knows, and leaves a
notice for the controller. A write with an old version is refused: there is another leader, or the
controller has changed the ISR, and its LeaderAndIsr will say how. The questions and answers are
those of AlterPartition and AllocateProducerIds, which brokers ask whatever the control plane is.
"""

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, Epoch, NodeId, TopicPartition
from nodes.metadata.image import ClusterImage
from nodes.server.zookeeper.client import ZooKeeper, again, gathered
from nodes.server.zookeeper.reading import ClusterReader
from nodes.wire.errors import ConnectFailed, Disconnected
from nodes.wire.versions import respond
from nodes.zookeeper import paths, znodes
from nodes.zookeeper.operations import (
    BadVersion,
    ConnectionLost,
    NodeExists,
    NoNode,
    SessionExpired,
    Stat,
    ZooKeeperError,
)
from nodes.zookeeper.znodes import PRODUCER_ID_BLOCK, StateZnode

Row = dict[str, Any]


class LeaderWrites:
    """See the module. `image` is the cluster as this broker knows it."""

    def __init__(
        self,
        node_id: NodeId,
        zookeeper: ZooKeeper,
        image: Callable[[], ClusterImage],
        controller_epoch: Callable[[], int],
    ) -> None:
        self._node_id = node_id
        self._zookeeper = zookeeper
        self._reader = ClusterReader(zookeeper)
        self._image = image
        self._controller_epoch = controller_epoch

    async def alter_partition(self, request: Any) -> Any:
        """Write ISR changes; return the result of each. Raises ChannelError."""
        try:
            return await self._alter(request)
        except ConnectionLost as error:
            raise Disconnected("the connection to ZooKeeper ended") from error
        except SessionExpired as error:
            raise ConnectFailed("the session with ZooKeeper has expired") from error

    async def _alter(self, request: Any) -> Any:
        image = self._image()
        topics = []
        changed: list[TopicPartition] = []
        for topic in request.topics:
            known = image.topics.get(topic.topic_id)
            if known is None:
                rows = [_refused(row, ErrorCode.unknown_topic_id) for row in topic.partitions]
            else:
                writes = [self._write(known.name, row) for row in topic.partitions]
                rows = []
                for row, result in zip(
                    topic.partitions, await gathered(writes, (BadVersion, NoNode)), strict=True
                ):
                    rows.append(self._row(row, result))
                    if not isinstance(result, ZooKeeperError):
                        changed.append(TopicPartition(known.name, row.partition_index))
            topics.append({"topic_id": topic.topic_id, "partitions": rows})
        if changed:
            notice = znodes.isr_changes(changed)
            prefix = f"{paths.ISR_CHANGES}/isr_change_"
            await again(lambda: self._zookeeper.create(prefix, notice, sequence=True))
        return respond(request, topics=topics)

    async def _write(self, topic: str, row: Any) -> Stat:
        """Write one state. Raises BadVersion, NoNode, ConnectionLost, SessionExpired."""
        wanted = StateZnode(
            leader=self._node_id,
            leader_epoch=Epoch(row.leader_epoch),
            isr=tuple(NodeId(member.broker_id) for member in row.new_isr_with_epochs),
            controller_epoch=self._controller_epoch(),
        )
        path = paths.state(topic, row.partition_index)
        try:
            return await self._zookeeper.set(path, znodes.state(wanted), known_version(row))
        except BadVersion:
            # An earlier attempt may have been made although its answer was lost.
            data, stat = await self._zookeeper.get(path)
            found = znodes.read_state(data)
            same = (found.leader, found.leader_epoch) == (wanted.leader, wanted.leader_epoch)
            if same and found.isr == wanted.isr:
                return stat
            raise

    def _row(self, row: Any, result: Stat | ZooKeeperError) -> Row:
        if isinstance(result, BadVersion):
            return _refused(row, ErrorCode.invalid_update_version)
        if isinstance(result, ZooKeeperError):
            return _refused(row, ErrorCode.unknown_topic_or_partition)
        return {
            "partition_index": row.partition_index,
            "leader_id": self._node_id,
            "leader_epoch": row.leader_epoch,
            "isr": [member.broker_id for member in row.new_isr_with_epochs],
            "partition_epoch": result.version,
        }

    async def allocate_producer_ids(self, request: Any) -> Any:
        """Take the next block of producer ids. Raises ChannelError."""
        path = paths.PRODUCER_IDS
        try:
            while True:
                found = await self._reader.read(path)
                start = 0 if found is None else znodes.read_producer_ids(found[0]).stop
                block = range(start, start + PRODUCER_ID_BLOCK)
                data = znodes.producer_ids(self._node_id, block)
                try:
                    if found is None:
                        await self._zookeeper.create(path, data)
                    else:
                        await self._zookeeper.set(path, data, found[1].version)
                except (BadVersion, NodeExists, NoNode, ConnectionLost):
                    continue  # a block that may have been taken for nobody is lost
                return respond(request, producer_id_start=start, producer_id_len=len(block))
        except SessionExpired as error:
            raise ConnectFailed("the session with ZooKeeper has expired") from error


def known_version(row: Any) -> int:
    """The version of the state that an ISR change was decided on."""
    return int(row.partition_epoch)


def _refused(row: Any, code: ErrorCode) -> Row:
    return {"partition_index": row.partition_index, "error_code": code, "leader_id": NO_NODE}
