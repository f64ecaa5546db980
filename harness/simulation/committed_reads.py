"""What clients ask of the healed cluster in the end, above all whole partitions, as a reader of
committed records."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from harness.simulation.invariants.broken import InvariantBroken
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.committed_reads import read_on
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.offsets import LATEST, BoundsUnknown, find
from nodes.log.batch import Record

PATIENCE_S: Final = 60.0
"""How long after the healing of all faults the last transaction may take to end."""
RETRY_S: Final = 0.05

R = TypeVar("R")


class StaysOpen(InvariantBroken):
    """A transaction stays open, so a reader of committed records waits forever."""


async def answered_in_time(
    step: Callable[[], Awaitable[R]], refusal: type[Exception] = Unavailable
) -> R | None:
    """Repeat a step after each refusal; None if it is refused for PATIENCE_S."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PATIENCE_S
    while loop.time() < deadline_s:
        try:
            return await step()
        except refusal:
            await asyncio.sleep(RETRY_S)
    return None


async def read_committed(cluster: Cluster, partition: int) -> list[Record]:
    """Return all records of a partition of the cluster's topic, from offset 0 on.

    A new leader may not know yet all that is committed. It does not tell where the log ends before
    it does (KIP-207). Raises StaysOpen; InvariantBroken if the leader does not answer.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PATIENCE_S
    records: list[Record] = []
    offset, end, why = 0, -1, "no answer"
    broken: type[InvariantBroken] = InvariantBroken
    while loop.time() < deadline_s:
        try:
            if end < 0:
                end = (await find(cluster, partition, LATEST)).offset
            read = await read_on(cluster, partition, offset)
        except (BoundsUnknown, Unavailable) as error:
            broken, why = InvariantBroken, str(error)
            await asyncio.sleep(RETRY_S)
            continue
        records += read.records
        offset = read.next_offset
        committed = max(end, read.high_watermark)
        if offset >= committed:
            return records
        if offset >= read.last_stable_offset:
            broken = StaysOpen
            why = f"the last stable offset is {offset}, the high watermark {committed}"
            await asyncio.sleep(RETRY_S)
    raise broken(
        "transactions-end",
        f"{cluster.topic}-{partition}, {PATIENCE_S:g} s after all was healed: {why}",
    )
