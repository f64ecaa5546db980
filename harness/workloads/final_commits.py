"""Asks the coordinators of the plan's groups which offsets are committed, after the run.

Each partition that a group reads gets a `final-committed` row: ok with the offset (none: nothing is
committed), or info with the reason why the coordinator gave no answer. An answer is stable: no
transaction that commits offsets is open.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from harness.recording.history import OperationWriter
from harness.workloads.clients.own.coordinator import GROUP, Coordinator, Unavailable
from harness.workloads.clients.own.group_member import GroupOffsets, GroupSettings
from harness.workloads.environment import ClientEnvironment
from nodes.ids import TopicPartition

FINAL_COMMITTED: Final = "final-committed"
RETRY_S: Final = 0.1


async def record_committed(
    bootstrap: str,
    groups: Mapping[str, Sequence[TopicPartition]],
    *,
    client: int,
    writer: OperationWriter,
    world: ClientEnvironment,
    patience_s: float,
) -> bool:
    """Record the offsets of each group in the partitions that it reads, as operations of `client`;
    return whether all coordinators answered."""
    complete = True
    for group, partitions in groups.items():
        op, begun_ns = writer.next_op(), writer.now_ns()
        cluster = world.connect(bootstrap, partitions[0].topic, client)
        settings = GroupSettings(group=group, partitions={}, session_s=0, rebalance_s=0)
        offsets = GroupOffsets(settings, Coordinator(cluster, group, GROUP))
        found, why = await _ask(offsets, partitions, patience_s)
        await cluster.close()
        for place in partitions:
            offset = None if found is None else found.get(place)
            writer.record(
                op, client, FINAL_COMMITTED, "info" if found is None else "ok", begun_ns,
                writer.now_ns(), *place, None, offset, error=why, group=group,
            )  # fmt: skip
        complete = complete and found is not None
    return complete


async def _ask(
    offsets: GroupOffsets, partitions: Sequence[TopicPartition], patience_s: float
) -> tuple[Mapping[TopicPartition, int] | None, str | None]:
    """Return the answer, or None and why there was none."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + patience_s
    while True:
        try:
            return await offsets.committed(partitions), None
        except Unavailable as error:
            if loop.time() > deadline_s:
                return None, str(error)
        await asyncio.sleep(RETRY_S)
