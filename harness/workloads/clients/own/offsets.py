"""Offsets of a partition, from its leader (ListOffsets): the first, the last, and by time."""

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.connection import BrokerConnection
from nodes.wire.errors import ChannelError

EARLIEST: Final = -2
LATEST: Final = -1
CONSUMER: Final = -1


MAX_TIMESTAMP: Final = -3


class BoundsUnknown(Exception):
    """The offset is unknown; the message is the name of an error code or of an exception."""


class Bounds(NamedTuple):
    """The first offset, and the high watermark."""

    low: int
    high: int


class Found(NamedTuple):
    """An offset, and its record's timestamp in milliseconds since 1970; -1 for none."""

    offset: int
    timestamp_ms: int


async def bounds(cluster: Cluster, partition: int) -> Bounds:
    """Ask the leader once. Raises BoundsUnknown; then metadata is requested."""
    low, high = await _find(cluster, partition, EARLIEST, LATEST)
    return Bounds(low.offset, high.offset)


async def find(cluster: Cluster, partition: int, wanted_ms: int) -> Found:
    """Ask the leader once for the first record at or after a time, or for a special timestamp.

    Raises BoundsUnknown; then metadata is requested.
    """
    (found,) = await _find(cluster, partition, wanted_ms)
    return found


async def _find(cluster: Cluster, partition: int, *wanted_ms: int) -> list[Found]:
    leader = cluster.leader(partition)
    connection = None if leader is None else cluster.connection(leader.node)
    if leader is None or connection is None:
        raise BoundsUnknown("LEADER_NOT_AVAILABLE")
    try:
        return [await _ask(cluster, connection, partition, leader.epoch, ms) for ms in wanted_ms]
    except (BoundsUnknown, ChannelError) as error:
        cluster.refresh()
        if isinstance(error, BoundsUnknown):
            raise
        raise BoundsUnknown(type(error).__name__) from error


async def _ask(
    cluster: Cluster, connection: BrokerConnection, partition: int, epoch: int, wanted_ms: int
) -> Found:
    wanted = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": wanted_ms}
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
    return Found(int(row.offset), int(row.timestamp))
