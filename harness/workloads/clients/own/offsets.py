"""Where a partition begins and ends, as its leader says (ListOffsets)."""

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.connection import Link
from nodes.wire.errors import ChannelError

EARLIEST: Final = -2
LATEST: Final = -1
CONSUMER: Final = -1


class NoAnswer(Exception):
    """Nobody said; the message is an error code's name, or that of what went wrong."""


class Bounds(NamedTuple):
    """The first offset, and the one after the last that is committed."""

    low: int
    high: int


async def bounds(cluster: Cluster, partition: int) -> Bounds:
    """Asked once. Raises NoAnswer; then metadata will be asked for."""
    leader = cluster.leader(partition)
    link = None if leader is None else cluster.link(leader.node)
    if leader is None or link is None:
        raise NoAnswer("LEADER_NOT_AVAILABLE")
    try:
        low = await _offset(cluster, link, partition, leader.epoch, EARLIEST)
        return Bounds(low, await _offset(cluster, link, partition, leader.epoch, LATEST))
    except (NoAnswer, ChannelError) as error:
        cluster.refresh()
        if isinstance(error, NoAnswer):
            raise
        raise NoAnswer(type(error).__name__) from error


async def _offset(cluster: Cluster, link: Link, partition: int, epoch: int, when: int) -> int:
    wanted = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": when}
    answer = await link.start(
        "list_offsets",
        replica_id=CONSUMER,
        isolation_level=0,
        topics=({"name": cluster.topic, "partitions": (wanted,)},),
    )
    row = answer.topics[0].partitions[0]
    if row.error_code is not ErrorCode.none:
        cluster.hint(partition, answer, row)
        raise NoAnswer(row.error_code.name.upper())
    return int(row.offset)
