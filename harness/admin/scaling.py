"""Brokers that join or leave: moves replicas so that every broker has its share, or none.

Each operation plans moves from the present assignment (`balance`), makes them (`replica_moves`),
elects the preferred leaders, and repeats, because topics may be created and deleted meanwhile. No
partition ever has fewer replicas than before: a replica is removed only when its successor is in
sync. While a broker is down, no move is planned: its replicas are not lost, and need not be copied.
A move that has started goes on, and the operation waits for it.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin import balance, reassignments, replica_moves, topics
from harness.admin.balance import BalanceError, PlacementPlan
from harness.admin.client import AdminClient
from harness.admin.descriptions import Cluster
from harness.admin.errors import BadRequest

GIVE_UP_S: Final = 300.0
"""How long moves may make no progress."""
EVEN_FACTOR: Final = 1.2
"""A removal may move this many times the least data, if that evens the load."""
ROUNDS: Final = 5
"""How often the operation plans; each round has only what changed during the round before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTotals:
    """The moves of an operation: partitions whose replicas or their order changed, copied replicas,
    and the bytes of these at the time of planning.
    """

    partitions: int = 0
    replicas: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions:
    """How an operation reports its progress, and its limits."""

    report: Callable[[str], None]
    """Gets one sentence at a time."""
    throttle: int | None = None
    """Bytes/s that each broker may send and receive."""
    give_up_s: float = GIVE_UP_S


async def rebalance(admin: AdminClient, options: MoveOptions) -> MoveTotals:
    """Even out replicas and leaders over all brokers with the least data. Raises BadRequest."""

    async def plan() -> PlacementPlan:
        cluster = await topics.cluster(admin)
        current = await replica_moves.assignment(admin)
        _check_all_up(cluster, current, set())
        brokers = {each.node_id: each.rack for each in cluster.live}
        return balance.spread(current, brokers, await replica_moves.sizes(admin, sorted(brokers)))

    return await _carry_out(admin, plan, options)


async def drain(admin: AdminClient, leaving: Collection[int], options: MoveOptions) -> MoveTotals:
    """Move all replicas off the brokers of `leaving`.

    A little more data (EVEN_FACTOR) moves if that evens the load over the other brokers. Raises
    BadRequest, before any move, when too few brokers would be left.
    """

    async def plan() -> PlacementPlan:
        cluster = await topics.cluster(admin)
        known = {each.node_id for each in cluster.brokers}
        if unknown := sorted(set(leaving) - known):
            raise BadRequest(f"broker {unknown[0]} is unknown; the brokers are {sorted(known)}")
        everywhere = await replica_moves.assignment(admin)
        # Partitions that stay as they are count too: the load is evened over all.
        _check_all_up(cluster, everywhere, set(leaving))
        rest = {each.node_id: each.rack for each in cluster.live if each.node_id not in leaving}
        if not rest:
            raise BadRequest("no broker in service would be left")
        # The leaving brokers may be down, so the sizes come from the other brokers.
        sizes = await replica_moves.sizes(admin, sorted(rest))
        least = balance.drain(everywhere, rest, sizes)
        if not least.moved_replicas:
            return least
        even = balance.spread(everywhere, rest, sizes)
        worth = (
            even.moved_replicas <= EVEN_FACTOR * least.moved_replicas
            and even.moved_bytes <= EVEN_FACTOR * least.moved_bytes
        )
        return even if worth else least

    return await _carry_out(admin, plan, options)


def _check_all_up(cluster: Cluster, current: balance.Assignment, leaving: set[int]) -> None:
    live = {each.node_id for each in cluster.live}
    down = {each.node_id for each in cluster.brokers} - live
    # Old clusters do not list fenced brokers; the replicas on them show these brokers.
    down |= {node for replicas in current.values() for node in replicas} - live
    if down := down - leaving:
        raise BadRequest(
            f"broker {min(down)} is down: start it, or remove it with `brokers remove`, before you "
            "move replicas"
        )


async def _carry_out(
    admin: AdminClient, plan: Callable[[], Awaitable[PlacementPlan]], options: MoveOptions
) -> MoveTotals:
    done = MoveTotals()
    try:
        for turn in range(ROUNDS):
            try:
                made = await plan()
            except BalanceError as error:
                raise BadRequest(str(error)) from error
            except BadRequest as error:
                if turn == 0:
                    raise
                options.report(f"the load was not checked again: {error}")
                break
            if not made.targets:
                break
            options.report(
                f"moving {made.moved_replicas} replicas ({made.moved_bytes:,} bytes) of "
                f"{len(made.targets)} partitions"
            )
            await _move(admin, made, options)
            done = MoveTotals(
                partitions=done.partitions + len(made.targets),
                replicas=done.replicas + made.moved_replicas,
                bytes=done.bytes + made.moved_bytes,
            )
    finally:
        if options.throttle is not None:
            await replica_moves.clear_throttles(admin, await replica_moves.assignment(admin))
    return done


async def _move(admin: AdminClient, plan: PlacementPlan, options: MoveOptions) -> None:
    def progress(left: int, of: int) -> None:
        options.report(f"{of - left} of {of} partitions moved")

    await replica_moves.start(admin, plan.targets, throttle=options.throttle, report=options.report)
    await replica_moves.finish(admin, plan.targets, give_up_s=options.give_up_s, progress=progress)
    results = await reassignments.elect(admin, reassignments.PREFERRED, sorted(plan.targets))
    fine = (ErrorCode.none, ErrorCode.election_not_needed)
    failed = {name: each for name, each in results.items() if each[0] not in fine}
    if failed:
        options.report(
            f"not led by the preferred leader: {replica_moves.describe_failures(failed)}"
        )
