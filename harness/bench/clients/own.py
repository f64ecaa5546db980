"""Our own client in the measurements of groups and transactions.

It speaks the protocol without a library's caches and timers: the same requests on every system.
Commits, transactions and copies are counted in the job's window; a group's join is measured once.
The members of a group have connections of their own, as processes would: Kafka serves one request
of a connection at a time.
"""

import asyncio
import random
import time
from array import array
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from harness.admin.client import parse_bootstrap
from harness.bench.clients import loops
from harness.workloads.clients.own.classic_member import ClassicMember
from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.committed_reads import read_on
from harness.workloads.clients.own.coordinator import GROUP, Coordinator, Unavailable
from harness.workloads.clients.own.group_member import GroupSettings
from harness.workloads.clients.own.transactions import TransactionalProducer
from nodes.ids import TopicPartition
from nodes.log.batch import Record

R = TypeVar("R")

COMMITTING_MEMBERS: Final = 8
"""The members of the group whose commits are counted; each has one commit in flight."""
PATIENCE_S: Final = 20.0
"""How long a coordinator may need until it serves, and a group until it is complete."""
RETRY_S: Final = 0.05
LOOK_S: Final = 0.005
SESSION_S: Final = 45.0
REBALANCE_S: Final = 60.0
TIMEOUT_S: Final = 60.0

SOURCE: Final = 0
COPY: Final = 1
"""The partitions of a copy."""
NO_MEMBER: Final[Mapping[str, Any]] = {
    "generation_id": -1,
    "member_id": "",
    "group_instance_id": None,
}
"""A consumer that chose its partitions itself."""

Measured = tuple["array[int]", float]
"""How long each operation took in ns, and the seconds of all."""


class Copied(NamedTuple):
    """The copies that a reader saw, and the seconds of that."""

    messages: int
    seconds: float


class Measurement:
    """One job: a connection to the cluster, and what is measured on it.

    `ready` is called when the client is connected, and returns the window.
    """

    def __init__(self, job: Mapping[str, Any], ready: Callable[[], loops.Window]) -> None:
        self._job = job
        self._ready = ready
        self._topic = str(job["topic"])
        self._name = f"{job['topic']}-{job['number']}"
        self._partitions = int(job["partitions"])

    def run(self, what: Callable[["Measurement"], Coroutine[Any, Any, R]]) -> R:
        """Run one of the measurements. Raises ClientError."""
        return asyncio.run(what(self))

    async def commits(self) -> Measured:
        """Let every member of a group commit the offsets of all partitions, again and again."""
        clusters = [self._connect() for _ in range(COMMITTING_MEMBERS)]
        members = [self._member(each, f"commits-{self._name}") for each in clusters]
        await self._assigned(members)
        window = self._ready()
        offsets = {TopicPartition(self._topic, each): 1 for each in range(self._partitions)}

        async def commit(member: ClassicMember) -> None:
            results = await _answered(partial(member.commit, offsets))
            _refuse_errors(results.values())

        taken = array("q")
        await asyncio.gather(*(_repeat(partial(commit, each), window, taken) for each in members))
        for cluster in clusters:
            await cluster.close()
        return taken, (window.end_ns - window.warm_ns) / 1e9

    async def join(self) -> float:
        """Let all members of a new group join at once; return the ms until each has its share."""
        clusters = [self._connect() for _ in range(int(self._job["members"]))]
        members = [self._member(each, f"joins-{self._name}") for each in clusters]
        await _joined(self._member(clusters[0], f"warm-{self._name}"))  # finds the coordinator
        self._ready()
        begun_ns = time.monotonic_ns()
        await self._assigned(members)
        taken_ms = (time.monotonic_ns() - begun_ns) / 1e6
        for cluster in clusters:
            await cluster.close()
        return taken_ms

    async def transactions(self) -> Measured:
        """Write one record to each partition and commit, again and again; the commits are timed."""
        cluster = self._connect()
        producer = TransactionalProducer(cluster, f"bench-{self._name}", TIMEOUT_S, second=True)
        await _answered(producer.init)
        window = self._ready()
        taken = array("q")
        value = b"v" * int(self._job["size"])
        values = {partition: [value] for partition in range(self._partitions)}
        while time.monotonic_ns() < window.end_ns:
            await _written(producer, values)
            begun_ns = time.monotonic_ns()
            await _answered(partial(producer.end, commit=True))
            if begun_ns >= window.warm_ns:
                taken.append(time.monotonic_ns() - begun_ns)
        await cluster.close()
        return taken, (window.end_ns - window.warm_ns) / 1e9

    async def copies(self) -> Copied:
        """Copy from partition 0 to partition 1, with the read offsets in the same transactions.

        A consumer with isolation.level=read_committed reads the copies. It counts them.
        """
        cluster, readers = self._connect(), self._connect()
        producer = TransactionalProducer(cluster, f"copy-{self._name}", TIMEOUT_S, second=True)
        await _answered(producer.init)
        # What other clients copied before is not counted.
        begin = await _answered(partial(read_on, readers, COPY, 0))
        window = self._ready()
        copying = asyncio.create_task(self._copy(cluster, producer))
        offset, counted = begin.high_watermark, 0
        while (now_ns := time.monotonic_ns()) < window.end_ns and not copying.done():
            found = await _answered(partial(read_on, readers, COPY, offset, wait_s=LOOK_S))
            offset = found.next_offset
            counted += len(found.records) if now_ns >= window.warm_ns else 0
        if copying.done():
            await copying  # raises what it failed for
        copying.cancel()
        await asyncio.wait([copying])
        for each in (cluster, readers):
            await each.close()
        return Copied(counted, (window.end_ns - window.warm_ns) / 1e9)

    async def _copy(self, cluster: Cluster, producer: TransactionalProducer) -> None:
        """Copy one transaction after the other, from the begin again at the end, until cancelled.

        The next messages are read during a transaction, as a consumer would.
        """
        group = f"copies-{self._name}"
        coordinator = Coordinator(cluster, group, GROUP)
        count, offset = int(self._job["messages_per_send"]), 0
        read: list[Record] = []
        ahead = asyncio.create_task(_answered(partial(read_on, cluster, SOURCE, offset)))
        try:
            while True:
                while len(read) < count:
                    found = await ahead
                    read += found.records
                    at_end = found.next_offset >= found.last_stable_offset
                    offset = 0 if at_end else found.next_offset
                    ahead = asyncio.create_task(
                        _answered(partial(read_on, cluster, SOURCE, offset))
                    )
                taken, read = read[:count], read[count:]
                await _written(producer, {COPY: [each.value or b"" for each in taken]})
                await _answered(
                    partial(
                        producer.commit_offsets,
                        coordinator,
                        group,
                        {TopicPartition(cluster.topic, SOURCE): taken[-1].offset + 1},
                        **NO_MEMBER,
                    )
                )
                await _answered(partial(producer.end, commit=True))
        finally:
            ahead.cancel()

    async def _assigned(self, members: list[ClassicMember]) -> None:
        """Let the members join at once; return when each has its share. Raises ClientError."""
        living = [asyncio.create_task(_stay(member)) for member in members]
        end_s = time.monotonic() + PATIENCE_S
        while not _complete(members, self._partitions) and time.monotonic() < end_s:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        for task in living:
            task.cancel()
        if not _complete(members, self._partitions):
            raise loops.ClientError(f"the group was not complete within {PATIENCE_S:g} s")

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
            partitions={self._topic: self._partitions},
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


async def _written(producer: TransactionalProducer, values: Mapping[int, Sequence[bytes]]) -> None:
    """Write to every partition, and again to those that refuse for now. Raises ClientError."""
    now_ms = time.time_ns() // 1_000_000
    end_s = time.monotonic() + PATIENCE_S
    while values := await producer.write_all(values, now_ms):
        if time.monotonic() > end_s:
            raise loops.ClientError(f"no leader within {PATIENCE_S:g} s")
        await asyncio.sleep(RETRY_S)


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
