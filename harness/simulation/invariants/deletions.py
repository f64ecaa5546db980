"""What a leader answers to DeleteRecords holds for its log, and a power loss does not undo it.

An answer without an error says that no replica in service has a record below the low watermark any
more (KIP-107). So the low watermark is the offset that was asked for or a later one, and the
leader's log does not start below it. The leader's disk must know the start as well: otherwise the
records would be back after a power loss. The answer is checked when the leader makes it, which
adds no event to the run.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.durable import durable_content
from harness.simulation.world.disk import SimDisk
from nodes.ids import Offset, TopicPartition
from nodes.log.checkpoints import LOG_START_OFFSETS
from nodes.server.replicas.replica import Replica
from nodes.server.requests.log_admin import HIGH_WATERMARK, LogAdminHandler

NAME = "deletions-stay"


def watch_deletions(
    handler: LogAdminHandler, judge: Callable[[Replica, Offset, Offset], None]
) -> None:
    """Call `judge` with the replica, the offset that was asked for and the low watermark, for each
    answer without an error from now on.
    """
    delete = handler._delete

    def watched(partition: TopicPartition, offset: Offset) -> Any:
        replica = handler._replicas.find(partition)
        if replica is not None and offset == HIGH_WATERMARK:
            offset_asked = replica.state.high_watermark
        else:
            offset_asked = offset
        deletion = delete(partition, offset)
        row = deletion.row

        def watched_row(replicas: Any) -> Mapping[str, Any]:
            answer = row(replicas)
            replica = replicas.find(partition)
            if replica is not None and answer["error_code"] is ErrorCode.none:
                judge(replica, offset_asked, answer["low_watermark"])
            return answer

        vars(deletion)["row"] = watched_row
        return deletion

    vars(handler)["_delete"] = watched


def check_deletion(replica: Replica, node: int, asked: Offset, low: Offset, disk: SimDisk) -> None:
    """Raise InvariantBroken unless the leader's log starts at `low` or later, and so will the log
    that its disk has after a power loss; `low` is at or above `asked`.
    """
    start = replica.log.start_offset
    durable = max(_durable_start(disk, replica.partition), replica.log._segments.all[0].base_offset)
    what = f"{replica.partition}: node {node} answers that its records below {low} are deleted"
    if low < asked:
        raise InvariantBroken(NAME, f"{what}, but {asked} was asked for")
    if start < low:
        raise InvariantBroken(NAME, f"{what}, but its log starts at {start}")
    if durable < asked:
        raise InvariantBroken(
            NAME, f"{what}, but after a power loss its log would start at {durable}"
        )


def _durable_start(disk: SimDisk, partition: TopicPartition) -> int:
    """Return the start of a partition's log in the checkpoint that survives a power loss."""
    lines = (durable_content(disk, LOG_START_OFFSETS) or b"").decode().splitlines()
    starts = (line.rsplit(" ", 2) for line in lines[2:])
    wanted = [partition.topic, str(partition.partition)]
    return next((int(start) for *place, start in starts if place == wanted), 0)
