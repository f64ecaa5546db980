"""The first and last offset of a partition, from its leader (ListOffsets)."""

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.connection import BrokerConnection
from nodes.wire.errors import ChannelError

EARLIEST: Final = -2
LATEST: Final = -1
CONSUMER: Final = -1


class BoundsUnknown(Exception):
    """The bounds are unknown; the message is the name of an error code or of an exception."""


class Bounds(NamedTuple):
    """The first offset, and the high watermark."""

    low: int
    high: int


async def bounds(cluster: Cluster, partition: int) -> Bounds:
    """Ask the leader once. Raises BoundsUnknown; then metadata is requested."""
    leader = cluster.leader(partition)
    connection = None if leader is None else cluster.connection(leader.node)
    if leader is None or connection is None:
        raise BoundsUnknown("LEADER_NOT_AVAILABLE")
    try:
        low = await _offset(cluster, connection, partition, leader.epoch, EARLIEST)
        return Bounds(low, await _offset(cluster, connection, partition, leader.epoch, LATEST))
    except (BoundsUnknown, ChannelError) as error:
        cluster.refresh()
        if isinstance(error, BoundsUnknown):
            raise
        raise BoundsUnknown(type(error).__name__) from error


async def _offset(
    cluster: Cluster, connection: BrokerConnection, partition: int, epoch: int, when: int
) -> int:
    wanted = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": when}
    answer = await connection.start(
        "list_offsets",
        replica_id=CONSUMER,
        isolation_level=0,
        topics=({"name": cluster.topic, "partitions": (wanted,)},),
    )
    row = answer.topics[0].partitions[0]
    if row.error_code is not ErrorCode.none:
        cluster.hint(partition, answer, row)
        raise BoundsUnknown(row.error_code.name.upper())
    return int(row.offset)
