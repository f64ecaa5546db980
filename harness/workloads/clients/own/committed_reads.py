"""Reads a partition as a consumer with isolation.level=read_committed does (KIP-98)."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.records import Aborted
from nodes.log.batch import (
    Record,
    iter_batches,
)
from nodes.log.recompression import decoded
from nodes.wire.errors import ChannelError

READ_COMMITTED: Final = 1
CONSUMER: Final = -1
FETCH_BYTES: Final = 1 << 20


class Stable(NamedTuple):
    """What a read found, the offset to go on from, and how far the partition's log goes."""

    records: list[Record]
    next_offset: int
    last_stable_offset: int
    high_watermark: int


def visible(
    data: bytes, aborted: Iterable[tuple[int, int]], offset: int
) -> tuple[list[Record], int]:
    """Return the records of committed transactions from `offset` on, and the next offset.

    `aborted` has producer id and first offset of each aborted transaction in the range.
    """
    filtered = Aborted(aborted)
    found: list[Record] = []
    for at, header in iter_batches(data):
        if not filtered.hides(data, at, header):
            found += [each for each in decoded(data, at) if each.offset >= offset]
        offset = max(offset, header.next_offset)
    return found, offset


async def read_on(cluster: Cluster, partition: int, offset: int, *, wait_s: float = 0.0) -> Stable:
    """Read once from `offset`; the leader waits at most `wait_s` for something to read.

    Raises Unavailable if the leader gave no answer.
    """
    leader = cluster.leader(partition)
    connection = None if leader is None else cluster.connection(leader.node)
    if leader is None or connection is None:
        raise Unavailable("LEADER_NOT_AVAILABLE")
    wanted = {
        "partition": partition,
        "current_leader_epoch": leader.epoch,
        "fetch_offset": offset,
        "partition_max_bytes": FETCH_BYTES,
    }
    try:
        answer = await connection.start(
            "fetch",
            replica_id=CONSUMER,
            max_wait=timedelta(seconds=wait_s),
            min_bytes=1 if wait_s else 0,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            topics=({"topic": cluster.topic, "partitions": (wanted,)},),
        )
    except ChannelError as error:
        cluster.refresh()
        raise Unavailable(type(error).__name__) from error
    row: Any = answer.responses[0].partitions[0]
    if row.error_code is not ErrorCode.none:
        cluster.refresh()
        raise Unavailable(row.error_code.name.upper())
    aborted = [(int(a.producer_id), int(a.first_offset)) for a in row.aborted_transactions or ()]
    records, next_offset = visible(bytes(row.records or b""), aborted, offset)
    return Stable(records, next_offset, int(row.last_stable_offset), int(row.high_watermark))
