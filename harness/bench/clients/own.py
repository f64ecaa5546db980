"""Our own client in the measurements of groups and transactions.

It speaks the protocol without a library's caches and timers: the same requests on every system.
Commits and transactions are counted in the job's window; a group's join is measured once.
"""

import asyncio
import random
import time
from array import array
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from harness.admin.client import parse_bootstrap
from harness.bench.clients import loops
from harness.workloads.clients.own.classic_member import ClassicMember
from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.coordinator import Unavailable
from harness.workloads.clients.own.group_member import GroupSettings
from harness.workloads.clients.own.transactions import TransactionalProducer

R = TypeVar("R")

COMMITS_IN_FLIGHT: Final = 8
PATIENCE_S: Final = 20.0
"""How long a coordinator may need until it serves, and a group until it is complete."""
RETRY_S: Final = 0.05
LOOK_S: Final = 0.005
SESSION_S: Final = 45.0
REBALANCE_S: Final = 60.0
TIMEOUT_S: Final = 60.0

Measured = tuple["array[int]", float]
"""How long each operation took in ns, and the seconds of all."""


class Measurement:
    """One job: a connection to the cluster, and what is measured on it.

    `ready` is called when the client is connected, and returns the window.
    """

    def __init__(self, job: Mapping[str, Any], ready: Callable[[], loops.Window]) -> None:
        self._job = job
        self._ready = ready
        self._topic = str(job["topic"])
        self._partitions = int(job["partitions"])

    def run(self, what: Callable[["Measurement"], Coroutine[Any, Any, R]]) -> R:
        """Run one of the measurements. Raises ClientError."""
        return asyncio.run(what(self))

    async def commits(self) -> Measured:
        """Commit the offsets of all partitions again and again, some commits in flight."""
        cluster = self._connect()
        member = self._member(cluster, f"commits-{self._topic}")
        await _joined(member)
        window = self._ready()
        offsets = dict.fromkeys(range(self._partitions), 1)

        async def commit() -> None:
            results = await member.commit(offsets)
            _refuse_errors(results.values())

        taken = array("q")
        await asyncio.gather(*(_repeat(commit, window, taken) for _ in range(COMMITS_IN_FLIGHT)))
        await member.leave()
        await cluster.close()
        return taken, (window.end_ns - window.warm_ns) / 1e9

    async def join(self) -> float:
        """Let all members of a new group join at once; return the ms until each has its share."""
        clusters = [self._connect() for _ in range(int(self._job["members"]))]
        members = [self._member(each, f"joins-{self._topic}") for each in clusters]
        await _joined(self._member(clusters[0], f"warm-{self._topic}"))  # finds the coordinator
        self._ready()
        begun_ns = time.monotonic_ns()
        living = [asyncio.create_task(_stay(member)) for member in members]
        end_s = time.monotonic() + PATIENCE_S
        while not _complete(members, self._partitions) and time.monotonic() < end_s:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        for task in living:
            task.cancel()
        if not _complete(members, self._partitions):
            raise loops.ClientError(f"the group was not complete within {PATIENCE_S:g} s")
        taken_ms = (time.monotonic_ns() - begun_ns) / 1e6
        for cluster in clusters:
            await cluster.close()
        return taken_ms

    async def transactions(self) -> Measured:
        """Write one record to each partition and commit, again and again; the commits are timed."""
        cluster = self._connect()
        producer = TransactionalProducer(cluster, f"bench-{self._topic}", TIMEOUT_S, second=True)
        await _answered(producer.init)
        window = self._ready()
        taken = array("q")
        value = b"v" * int(self._job["size"])
        while time.monotonic_ns() < window.end_ns:
            now_ms = time.time_ns() // 1_000_000
            writes = [
                partial(producer.write, partition, [value], now_ms)
                for partition in range(self._partitions)
            ]
            await asyncio.gather(*map(_answered, writes))
            begun_ns = time.monotonic_ns()
            await _answered(partial(producer.end, commit=True))
            if begun_ns >= window.warm_ns:
                taken.append(time.monotonic_ns() - begun_ns)
        await cluster.close()
        return taken, (window.end_ns - window.warm_ns) / 1e9

    def _connect(self) -> Cluster:
        return Cluster(
            parse_bootstrap(str(self._job["bootstrap"])),
            self._topic,
            client_id="highwater-bench",
            rng=random.Random(),
            timing=Timing(request_s=loops.SILENCE_S),
        )

    def _member(self, cluster: Cluster, group: str) -> ClassicMember:
        settings = GroupSettings(
            group=group,
            partitions=self._partitions,
            session_s=SESSION_S,
            rebalance_s=REBALANCE_S,
        )
        return ClassicMember(cluster, settings)


async def _repeat(
    step: Callable[[], Awaitable[None]], window: loops.Window, taken: "array[int]"
) -> None:
    while (begun_ns := time.monotonic_ns()) < window.end_ns:
        await step()
        if begun_ns >= window.warm_ns:
            taken.append(time.monotonic_ns() - begun_ns)


async def _answered(step: Callable[[], Awaitable[R]]) -> R:
    """Repeat a step until there is an answer. Raises ClientError."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await step()
        except Unavailable as error:
            if time.monotonic() > end_s:
                raise loops.ClientError(f"no answer within {PATIENCE_S:g} s: {error}") from error
            await asyncio.sleep(RETRY_S if str(error) != "CONCURRENT_TRANSACTIONS" else 0.001)


async def _joined(member: ClassicMember) -> None:
    """Let a member join, and again as long as the group wants it to. Raises ClientError."""
    while (code := await _answered(member.join)) is not ErrorCode.none:
        if code not in (ErrorCode.member_id_required, ErrorCode.rebalance_in_progress):
            raise loops.ClientError(f"the join was refused: {code.name.upper()}")


async def _stay(member: ClassicMember) -> None:
    """Join, and join again when the group wants it to, until cancelled."""
    while True:
        await _joined(member)
        while await _answered(member.heartbeat) is ErrorCode.none:  # noqa: ASYNC110
            await asyncio.sleep(RETRY_S)


def _complete(members: list[ClassicMember], partitions: int) -> bool:
    """Whether the members, in one generation, own every partition once."""
    owned = [partition for member in members for partition in member.owned]
    one = len({member.generation for member in members}) == 1
    return one and len(owned) == len(set(owned)) == partitions


def _refuse_errors(codes: Any) -> None:
    for code in codes:
        if code is not ErrorCode.none:
            raise loops.ClientError(f"the commit was refused: {code.name.upper()}")
