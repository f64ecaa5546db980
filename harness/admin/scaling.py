"""Brokers that join or leave: replicas moved so that every broker has its share, or none.

Each operation plans with what it finds (`balance`), moves (`moving`), has the preferred leaders
lead, and looks again: topics may be made and deleted meanwhile. No partition ever has fewer
replicas than before, since a replica only goes when its successor is in sync. While a broker is
down nothing is planned: what it holds is neither lost nor to be copied elsewhere only because of
that; a move that has begun goes on, and is waited for.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin import balance, reassignments, replica_moves, topics
from harness.admin.balance import BalanceError, Plan
from harness.admin.client import AdminClient
from harness.admin.descriptions import Cluster
from harness.admin.errors import BadRequest

GIVE_UP_S: Final = 300.0
"""How long a move may stand still."""
WORTH: Final = 1.2
"""How much more than it has to a removal may move, if that keeps the load even."""
ROUNDS: Final = 5
"""How often to look again: each round has only what came up in the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What an operation did: partitions whose replicas or their order changed, replicas copied,
    and their bytes as they were when that was planned.
    """

    partitions: int = 0
    replicas: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """How an operation tells what it does, a sentence at a time, and what it may use."""

    tell: Callable[[str], None]
    throttle: int | None = None
    """Bytes/s that each broker may give or take."""
    give_up_s: float = GIVE_UP_S


async def rebalance(admin: AdminClient, watch: Watch) -> Moved:
    """Even replicas and leaders over all brokers, with the least movement. Raises BadRequest."""

    async def plan() -> Plan:
        cluster = await topics.cluster(admin)
        current = await replica_moves.assignment(admin)
        _check_all_up(cluster, current, set())
        brokers = {each.node_id: each.rack for each in cluster.live}
        return balance.spread(current, brokers, await replica_moves.sizes(admin, sorted(brokers)))

    return await _carry_out(admin, plan, watch)


async def drain(admin: AdminClient, leaving: Collection[int], watch: Watch) -> Moved:
    """Move everything off the brokers of `leaving`.

    What they hold has to move; a little more (WORTH) does where that evens the load over the rest.
    Raises BadRequest, before anything moves, when too few brokers would be left.
    """

    async def plan() -> Plan:
        cluster = await topics.cluster(admin)
        known = {each.node_id for each in cluster.brokers}
        if unknown := sorted(set(leaving) - known):
            raise BadRequest(f"broker {unknown[0]} is unknown; there are {sorted(known)}")
        everywhere = await replica_moves.assignment(admin)
        # Those that stay as they are count: the load is evened over all.
        _check_all_up(cluster, everywhere, set(leaving))
        rest = {each.node_id: each.rack for each in cluster.live if each.node_id not in leaving}
        if not rest:
            raise BadRequest("no broker in service would be left")
        # Those that leave may be down: then the others' sizes have to do.
        sizes = await replica_moves.sizes(admin, sorted(rest))
        least = balance.drain(everywhere, rest, sizes)
        if not least.moved_replicas:
            return least
        even = balance.spread(everywhere, rest, sizes)
        worth = (
            even.moved_replicas <= WORTH * least.moved_replicas
            and even.moved_bytes <= WORTH * least.moved_bytes
        )
        return even if worth else least

    return await _carry_out(admin, plan, watch)


def _check_all_up(cluster: Cluster, current: balance.Assignment, leaving: set[int]) -> None:
    live = {each.node_id for each in cluster.live}
    down = {each.node_id for each in cluster.brokers} - live
    # Old clusters do not tell of fenced brokers: what they hold does.
    down |= {node for replicas in current.values() for node in replicas} - live
    if down := down - leaving:
        raise BadRequest(
            f"broker {min(down)} is down: start it, or remove it with `brokers remove`, before "
            "replicas are moved"
        )


async def _carry_out(
    admin: AdminClient, plan: Callable[[], Awaitable[Plan]], watch: Watch
) -> Moved:
    done = Moved()
    try:
        for turn in range(ROUNDS):
            try:
                made = await plan()
            except BalanceError as error:
                raise BadRequest(str(error)) from error
            except BadRequest as error:
                if turn == 0:
                    raise
                watch.tell(f"not looked at again: {error}")
                break
            if not made.targets:
                break
            watch.tell(
                f"moving {made.moved_replicas} replicas ({made.moved_bytes:,} bytes) of "
                f"{len(made.targets)} partitions"
            )
            await _move(admin, made, watch)
            done = Moved(
                partitions=done.partitions + len(made.targets),
                replicas=done.replicas + made.moved_replicas,
                bytes=done.bytes + made.moved_bytes,
            )
    finally:
        if watch.throttle is not None:
            await replica_moves.clear_limits(admin, await replica_moves.assignment(admin))
    return done


async def _move(admin: AdminClient, plan: Plan, watch: Watch) -> None:
    def progress(left: int, of: int) -> None:
        watch.tell(f"{of - left} of {of} partitions moved")

    await replica_moves.start(admin, plan.targets, throttle=watch.throttle, tell=watch.tell)
    await replica_moves.finish(admin, plan.targets, give_up_s=watch.give_up_s, progress=progress)
    results = await reassignments.elect(admin, reassignments.PREFERRED, sorted(plan.targets))
    fine = (ErrorCode.none, ErrorCode.election_not_needed)
    failed = {name: each for name, each in results.items() if each[0] not in fine}
    if failed:
        watch.tell(f"preferred leaders do not lead: {replica_moves.describe_failures(failed)}")
