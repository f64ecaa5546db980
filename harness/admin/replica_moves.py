"""Reassignments from beginning to end: started, limited, watched, verified, cancelled.

Puts the requests of `reassignments` and `configs` together as kafka-reassign-partitions does. A
reassignment goes on whoever watches it; limits stay until somebody verifies that it is over.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.admin import configs, inspection, reassignments, throttles, topics
from harness.admin.balance import Assignment
from harness.admin.client import AdminClient
from harness.admin.errors import BadRequest, Unreachable
from harness.admin.reassignments import Failure
from nodes.ids import TopicPartition

POLL_S: Final = 0.25
SEEN_S: Final = 10.0
"""How long brokers may take to learn what the controller has decided."""
BATCH: Final = 1000
"""Partitions asked for in one request: a record each for the controller, which has a bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One partition of a reassignment: where it was to be, where it is, whether it moves."""

    wanted: tuple[int, ...]
    replicas: tuple[int, ...]
    moving: bool


async def assignment(
    admin: AdminClient, names: Sequence[str] | None = None
) -> dict[TopicPartition, tuple[int, ...]]:
    """Where the partitions of these topics, or of all, are or, if they move, will be."""
    ongoing = await reassignments.ongoing(admin)
    return {
        each.name: ongoing[each.name].target if each.name in ongoing else each.replicas
        for topic in await topics.describe(admin, names)
        for each in topic.partitions
    }


async def sizes(admin: AdminClient, brokers: Sequence[int]) -> dict[TopicPartition, int]:
    """The bytes of each partition: its largest replica on these brokers, as far as they say."""
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
    tell: Callable[[str], None],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Begin to move partitions to `targets`; returns where they were.

    Raises BadRequest, before anything is changed, when a broker or partition is unknown or others
    move already (unless `additional`); and when the cluster refuses some partitions, which are
    named: the others have begun then. `throttle` is in bytes/s.
    """
    ongoing = await reassignments.ongoing(admin)
    if ongoing and not additional:
        raise BadRequest(
            f"{len(ongoing)} partitions are being moved already: wait for them, cancel them, or "
            "add to them with --additional"
        )
    known = {broker.node_id for broker in (await topics.cluster(admin)).brokers}
    for name, replicas in targets.items():
        if unknown := [node for node in replicas if node not in known]:
            raise BadRequest(f"{name}: broker {unknown[0]} is unknown; there are {sorted(known)}")
    current = {
        each.name: each.replicas
        for topic in await topics.describe(admin, sorted({name.topic for name in targets}))
        for each in topic.partitions
    }
    if absent := [name for name in targets if name not in current]:
        raise BadRequest(f"partition {absent[0]} does not exist")
    if throttle is not None:
        await _limit(admin, throttles.moves(targets, current, ongoing), throttle)
        tell(f"The inter-broker throttle limit was set to {throttle} B/s")
    failed = await ask(admin, targets)
    if failed:
        raise BadRequest(f"not all partitions could be moved: {describe_failures(failed)}")
    return {name: current[name] for name in targets}


async def ask(
    admin: AdminClient, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, Failure]:
    """`reassignments.alter` in requests of bounded size."""
    names = sorted(targets)
    failed: dict[TopicPartition, Failure] = {}
    for at in range(0, len(names), BATCH):
        some = {name: targets[name] for name in names[at : at + BATCH]}
        failed |= await reassignments.alter(admin, some)
    return failed


def describe_failures(failed: Mapping[TopicPartition, Failure]) -> str:
    """What the cluster said of partitions that it refused."""
    shown = [f"{name}: {said or code.name.upper()}" for name, (code, said) in failed.items()]
    more = f" (and {len(shown) - 10} more)" if len(shown) > 10 else ""
    return "; ".join(shown[:10]) + more


async def status(admin: AdminClient, targets: Assignment) -> dict[TopicPartition, Status]:
    """How far the partitions are. A partition that does not exist has no replicas."""
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
        name: Status(
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
    """Wait until no partition of `targets` moves any more; tells (those left, all).

    A cluster that does not answer is waited for. Raises BadRequest when some ended elsewhere (it
    was cancelled), or nothing has moved on for `give_up_s`.
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
                f"{len(waiting)} partitions have not moved for {give_up_s:g} s, {waiting[0]} among "
                "them: is a broker down? The move goes on; `reassign list` shows it"
            )
        await asyncio.sleep(POLL_S)
    progress(0, len(targets))
    # The controller has ended it; the brokers, who are asked where partitions are, learn it later.
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
) -> tuple[list[TopicPartition], dict[TopicPartition, Failure]]:
    """End the moves of these partitions where they were; returns who moved, and what failed."""
    ongoing = await reassignments.ongoing(admin, names)
    moving = [name for name in sorted(names) if name in ongoing]
    return moving, await ask(admin, dict.fromkeys(moving))


async def _limit(
    admin: AdminClient, moving: Mapping[TopicPartition, throttles.Move], rate: int
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


async def clear_limits(admin: AdminClient, targets: Assignment) -> tuple[list[int], list[str]]:
    """Remove every limit that a reassignment of `targets` can have set, from all brokers in
    service and the topics; returns which those are. A broker that is down keeps its rates, which
    bind nobody once the topics name no replicas.
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
