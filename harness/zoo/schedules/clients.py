"""Clients for schedules about transactions, groups and compaction: harness's own, with steps that
are repeated until they are answered.

The topic is `t`, as of all schedules. The coordinators' topics have one partition each, so the
coordinator of every group and of every transactional id is its leader.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from harness.simulation.committed_reads import read_committed
from harness.systems.brokers import BROKER_PORT
from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.coordinator import Unavailable
from harness.zoo.schedules.stage import TOPIC, ExpectationFailed, Stage
from nemesis.hosts import CLIENTS
from nemesis.requests import APIS, RequestFilter
from nodes.wire.errors import ChannelError

ONE_COORDINATOR: Final = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
FIND_COORDINATOR, FIND_VERSION = APIS["FindCoordinator"], 3
STEP_S: Final = 30.0
"""How long a step may take, with its repetitions."""
RETRY_S: Final = 0.05
REQUEST_S: Final = 1.0
LATE: Final = "late"
"""The layer of the request that a schedule holds."""

R = TypeVar("R")


@asynccontextmanager
async def connected(
    stage: Stage, number: int, topic: str = TOPIC.topic, *, request_s: float = REQUEST_S
) -> AsyncIterator[Cluster]:
    """A client's view of the cluster, with randomness of its own; it knows a leader. It gives up a
    request without an answer after `request_s`, with its connection.
    """
    cluster = Cluster(
        list(stage.cluster.brokers.values()),
        topic,
        client_id=f"client-{number}",
        rng=stage.world.stream("client", number),
        timing=Timing(request_s=request_s),
    )
    try:
        await stage.until("a client knows a leader", lambda: cluster.leader(0) is not None)
        yield cluster
    finally:
        await cluster.close()


async def answered(step: Callable[[], Awaitable[R]], within_s: float = STEP_S) -> R:
    """Repeat a step until it is answered. Raises ExpectationFailed at the end of its time, and what
    the step raises.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while True:
        try:
            return await step()
        except Unavailable as error:
            if loop.time() > until_s:
                raise ExpectationFailed(f"no answer within {within_s:g} s: {error}") from error
            await asyncio.sleep(RETRY_S)


async def find_coordinator(stage: Stage, kind: int) -> int:
    """The coordinator of every key of this kind; its topic is made if it does not exist."""
    found = 0

    async def look() -> None:
        nonlocal found
        try:
            answer = await stage.client.ask(
                stage.brokers[0], FIND_COORDINATOR, FIND_VERSION, key="any", key_type=kind
            )
        except ChannelError as error:
            raise Unavailable(type(error).__name__) from error
        if answer.error_code is not ErrorCode.none:
            raise Unavailable(answer.error_code.name)
        found = int(answer.node_id)

    await answered(look)
    return found


def hold(
    stage: Stage, wanted: RequestFilter, sources: Sequence[int] = (CLIENTS,), layer: str = LATE
) -> None:
    """Hold the first such request that one of the sources sends to each broker."""
    links = [(src, dst) for src in sources for dst in stage.brokers if src != dst]
    stage.links.watch_requests(links, layer, BROKER_PORT, wanted, None)


def is_held(stage: Stage, layer: str = LATE) -> bool:
    """Whether a request is held now."""
    seen = [stage.links.watched_requests(link, layer) for link in _links(stage)]
    return any(each is not None and each.held and each.held_ms is None for each in seen)


def let_go(stage: Stage, layer: str = LATE) -> None:
    """Let the held request arrive, after everything that was sent meanwhile."""
    stage.links.unwatch_requests(_links(stage), layer)


def _links(stage: Stage) -> list[tuple[int, int]]:
    return [(src, dst) for src in (CLIENTS, *stage.brokers) for dst in stage.brokers if src != dst]


async def expect_committed(cluster: Cluster, partition: int, values: Sequence[bytes]) -> None:
    """Raises ExpectationFailed unless these are what a reader of committed records sees, and
    InvariantBroken if a transaction stays open.
    """
    seen = [bytes(each.value or b"") for each in await read_committed(cluster, partition)]
    if seen != list(values):
        raise ExpectationFailed(
            f"committed reads: {cluster.topic}/{partition} has {seen}, not {list(values)}"
        )
