"""A reassignment from start to end: start, throttle, wait, verify, cancel.

It combines the requests of `reassignments` and `configs` as kafka-reassign-partitions does. A
reassignment goes on when nobody watches it. Its throttles stay until `clear_throttles`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.admin import configs, inspection, reassignments, throttles, topics
from harness.admin.balance import Assignment
from harness.admin.client import AdminClient
from harness.admin.errors import BadRequest, Unreachable
from harness.admin.reassignments import PartitionError
from nodes.ids import TopicPartition

POLL_S: Final = 0.25
SEEN_S: Final = 10.0
"""How long brokers may take to learn of the controller's decision."""
BATCH: Final = 1000
"""Partitions in one request: the controller writes a record for each, and limits their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStatus:
    """One partition of a reassignment: wanted replicas, present replicas, whether it moves."""

    wanted: tuple[int, ...]
    replicas: tuple[int, ...]
    moving: bool


async def assignment(
    admin: AdminClient, names: Sequence[str] | None = None
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of the partitions of these topics, or of all topics.

    For a moving partition they are the replicas after the move.
    """
    ongoing = await reassignments.ongoing(admin)
    return {
        each.name: ongoing[each.name].target if each.name in ongoing else each.replicas
        for topic in await topics.describe(admin, names)
        for each in topic.partitions
    }


async def sizes(admin: AdminClient, brokers: Sequence[int]) -> dict[TopicPartition, int]:
    """Return the bytes of each partition: its largest replica that these brokers report."""
    found: dict[TopicPartition, int] = {}
    if not await admin.serves("describe_log_dirs"):
        return found
    for broker in brokers:
        for directory in await inspection.log_dirs(admin, broker):
            for name, replica in directory.replicas.items():
                if not replica.future:
                    found[name] = max(found.get(name, 0), replica.size_bytes)
    return found


async def start(
    admin: AdminClient,
    targets: Assignment,
    *,
    throttle: int | None = None,
    additional: bool = False,
    report: Callable[[str], None],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Start to move partitions to `targets`; return their replicas before the move.

    `throttle` is in bytes/s. Raises BadRequest, before any change, when a broker or partition is
    unknown, or when other partitions move already (unless `additional`). Raises BadRequest also
    when the cluster refuses some partitions; the moves of the others have started then.
    """
    ongoing = await reassignments.ongoing(admin)
    if ongoing and not additional:
        raise BadRequest(
            f"{len(ongoing)} partitions are moving already: wait for them, cancel them, or use "
            "--additional"
        )
    known = {broker.node_id for broker in (await topics.cluster(admin)).brokers}
    for name, replicas in targets.items():
        if unknown := [node for node in replicas if node not in known]:
            raise BadRequest(
                f"{name}: broker {unknown[0]} is unknown; the brokers are {sorted(known)}"
            )
    current = {
        each.name: each.replicas
        for topic in await topics.describe(admin, sorted({name.topic for name in targets}))
        for each in topic.partitions
    }
    if absent := [name for name in targets if name not in current]:
        raise BadRequest(f"partition {absent[0]} does not exist")
    if throttle is not None:
        await _set_throttles(admin, throttles.moves(targets, current, ongoing), throttle)
        report(f"The inter-broker throttle limit was set to {throttle} B/s")
    failed = await request_moves(admin, targets)
    if failed:
        raise BadRequest(f"not all partitions could be moved: {describe_failures(failed)}")
    return {name: current[name] for name in targets}


async def request_moves(
    admin: AdminClient, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, PartitionError]:
    """Call `reassignments.alter` with at most BATCH partitions at a time."""
    names = sorted(targets)
    failed: dict[TopicPartition, PartitionError] = {}
    for at in range(0, len(names), BATCH):
        some = {name: targets[name] for name in names[at : at + BATCH]}
        failed |= await reassignments.alter(admin, some)
    return failed


def describe_failures(failed: Mapping[TopicPartition, PartitionError]) -> str:
    """Return the cluster's errors about partitions in one line."""
    shown = [f"{name}: {text or code.name.upper()}" for name, (code, text) in failed.items()]
    more = f" (and {len(shown) - 10} more)" if len(shown) > 10 else ""
    return "; ".join(shown[:10]) + more


async def status(admin: AdminClient, targets: Assignment) -> dict[TopicPartition, MoveStatus]:
    """Return the progress of the partitions. A partition that does not exist has no replicas."""
    ongoing = await reassignments.ongoing(admin)
    known = set(await topics.names(admin))
    current = {
        each.name: each.replicas
        for topic in await topics.describe(
            admin, sorted({name.topic for name in targets if name.topic in known})
        )
        for each in topic.partitions
    }
    return {
        name: MoveStatus(
            wanted=tuple(replicas),
            replicas=current.get(name, ()),
            moving=name in ongoing,
        )
        for name, replicas in sorted(targets.items())
    }


async def finish(
    admin: AdminClient,
    targets: Assignment,
    *,
    give_up_s: float,
    progress: Callable[[int, int], None],
) -> None:
    """Wait until no partition of `targets` moves; `progress` gets (moving, all).

    It also waits for a cluster that does not answer. Raises BadRequest when a partition ended on
    other replicas (its move was cancelled), or when no move ended for `give_up_s`.
    """
    loop = asyncio.get_running_loop()
    last, since = -1, loop.time()
    while True:
        try:
            ongoing = await reassignments.ongoing(admin)
            waiting = [name for name in targets if name in ongoing]
            if not waiting:
                break
        except Unreachable:
            if loop.time() - since > give_up_s:
                raise
            continue
        if len(waiting) != last:
            last, since = len(waiting), loop.time()
            progress(last, len(targets))
        if loop.time() - since > give_up_s:
            raise BadRequest(
                f"the moves of {len(waiting)} partitions made no progress for {give_up_s:g} s, for "
                f"example {waiting[0]}: is a broker down? The moves go on; `reassign list` shows "
                "them"
            )
        await asyncio.sleep(POLL_S)
    progress(0, len(targets))
    # The controller has ended the moves. The brokers, which report the replicas, learn it later.
    deadline = loop.time() + SEEN_S
    while True:
        elsewhere = {
            name: each
            for name, each in (await status(admin, targets)).items()
            if set(each.wanted) != set(each.replicas)
        }
        if not elsewhere:
            return
        if loop.time() > deadline:
            name, each = next(iter(elsewhere.items()))
            raise BadRequest(
                f"{name} is on {list(each.replicas)} and not on {list(each.wanted)}: its move was "
                "cancelled or changed"
            )
        await asyncio.sleep(POLL_S)


async def cancel(
    admin: AdminClient, names: Sequence[TopicPartition]
) -> tuple[list[TopicPartition], dict[TopicPartition, PartitionError]]:
    """Cancel the moves of these partitions; return those that moved, and the errors."""
    ongoing = await reassignments.ongoing(admin, names)
    moving = [name for name in sorted(names) if name in ongoing]
    return moving, await request_moves(admin, dict.fromkeys(moving))


async def _set_throttles(
    admin: AdminClient, moving: Mapping[TopicPartition, throttles.MovingPartition], rate: int
) -> None:
    await configs.alter(
        admin,
        {configs.topic(name): limits for name, limits in throttles.topic_limits(moving).items()},
    )
    await configs.alter(
        admin,
        {
            configs.broker(node): limits
            for node, limits in throttles.broker_limits(moving, rate).items()
        },
    )


async def clear_throttles(admin: AdminClient, targets: Assignment) -> tuple[list[int], list[str]]:
    """Remove the throttles of a reassignment of `targets` from all brokers in service and topics.

    Returns these brokers and topics. A broker that is down keeps its rates. They have no effect
    once the topics name no throttled replicas.
    """
    brokers = [broker.node_id for broker in (await topics.cluster(admin)).live]
    known = set(await topics.names(admin))
    names = sorted({name.topic for name in targets} & known)
    await configs.alter(
        admin, {configs.topic(name): dict(throttles.CLEARED_TOPIC) for name in names}
    )
    await configs.alter(
        admin, {configs.broker(node): dict(throttles.CLEARED_BROKER) for node in brokers}
    )
    return brokers, names
