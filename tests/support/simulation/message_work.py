"""What the nodes do for one acks=all message or one commit, counted in a simulated cluster.

Three nodes, one partition with three replicas, one client that sends a batch when the one before it
is acknowledged; or a consumer without a group protocol, which commits when the commit before is
answered. Everything is counted, nothing is timed, so a busy machine changes nothing: equal
code and equal seeds give equal numbers. Work that belongs to no message (heartbeats, fetches of the
metadata log) is left out by the median over the messages.
"""

import asyncio
import sys
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, wraps
from statistics import median_low
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

from kio.index import load_request_schema

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.disk import SimFile
from harness.simulation.world.guard import guard
from harness.simulation.world.network.transport import Endpoint
from harness.simulation.world.trace import Trace
from harness.simulation.world.world import World
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import Client, make_topics
from nodes.log.batch import Record, encode_batch
from nodes.server.apis import FIND_COORDINATOR, OFFSET_COMMIT
from nodes.wire.versions import fill

TOPIC: Final = "budget"
GROUP: Final = "budget-group"
PRODUCE_VERSION: Final = 9
COMMIT_VERSION: Final = 9
RETRY_S: Final = 0.1
TRIES: Final = 100
WARM_UP: Final = 20
LARGE_BYTES: Final = 8 << 10
"""An allocation of this size or more can only be a copy of a message."""

EVENTS: Final = "events"
READS: Final = "reads of a socket"
WRITES: Final = "writes to a socket"
APPENDS: Final = "writes to a file"
PREADS: Final = "reads of a file"
LOOKUPS: Final = "lookups of the running loop"
CALLS: Final = "function calls"
MEMORY: Final = "bytes of memory"
"""The greatest memory that each event needs, added."""
WORK: Final = (EVENTS, READS, WRITES, APPENDS, PREADS, LOOKUPS, CALLS, MEMORY)

LEADER: Final = "leader"
FOLLOWER: Final = "follower"

Key = tuple[int, str]
"""A node, and what is counted."""

Operation = Callable[[], Awaitable[None]]
"""Sends one message or one commit, and returns when it is acknowledged."""


@dataclass(frozen=True, slots=True)
class MessageWork:
    """What a leader and one of its followers do for a message, or for a commit.

    `leader` and `follower` have a number for each of WORK. `events` lists the callbacks that ran
    for a typical message, in order, with the role of the node.
    """

    leader: Mapping[str, int]
    follower: Mapping[str, int]
    events: Sequence[tuple[str, str]]


class _Counting(Trace):
    """Counts what the node of the current event does."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[Key] = Counter()
        self.events_of_message: list[tuple[int, str]] = []
        self.node = 0
        self._held_bytes = 0

    def called(self, now_ns: int, host: int, callback: Callable[..., Any]) -> None:
        if tracemalloc.is_tracing():
            self._take_memory()
        self.node = host - 1
        self.count(EVENTS)
        self.events_of_message.append((self.node, _name(callback)))
        super().called(now_ns, host, callback)

    def _take_memory(self) -> None:
        """Count what the last event needed."""
        now, peak = tracemalloc.get_traced_memory()
        self.counts[self.node, MEMORY] += max(0, peak - self._held_bytes)
        self._held_bytes = now
        tracemalloc.reset_peak()

    def count(self, what: str) -> None:
        """Count one thing of the current node."""
        self.counts[self.node, what] += 1


def _name(callback: Callable[..., Any]) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return f"task {getattr(task.get_coro(), '__qualname__', '')}"
    return getattr(callback, "__qualname__", None) or type(callback).__name__


def message_work(*, messages: int = 20, size: int = 1000) -> MessageWork:
    """Return what one message of `size` bytes costs, as the median of this many."""

    async def prepare(cluster: _MeasuredCluster) -> Operation:
        return partial(cluster.send, size)

    return _work(prepare, messages)


def commit_work(*, commits: int = 20, partitions: int = 10) -> MessageWork:
    """Return what one commit of so many partitions' offsets costs, as the median of this many.

    The leader is the group's coordinator.
    """

    async def prepare(cluster: _MeasuredCluster) -> Operation:
        await cluster.find_coordinator()
        return partial(cluster.commit, partitions)

    return _work(prepare, commits, partitions)


def _work(
    prepare: Callable[["_MeasuredCluster"], Awaitable[Operation]], times: int, partitions: int = 1
) -> MessageWork:
    """Return what an operation costs, as the median of `times`."""
    trace = _Counting()
    taken: list[Counter[Key]] = []
    with_memory: list[Counter[Key]] = []
    lists: list[list[tuple[int, str]]] = []

    async def measure(cluster: _MeasuredCluster) -> None:
        operation = await prepare(cluster)
        for _ in range(WARM_UP):
            await operation()

        async def send(into: list[Counter[Key]]) -> None:
            for _ in range(times):
                before = trace.counts.copy()
                trace.events_of_message = []
                await operation()
                into.append(trace.counts - before)
                lists.append(trace.events_of_message)

        with _calls_counted(trace):
            await send(taken)
        with _memory_traced():
            await send(with_memory)

    with ExitStack() as stack:
        for owner, method, what in (
            (Endpoint, "write", WRITES),
            (Endpoint, "_acknowledge", READS),
            (SimFile, "append", APPENDS),
            (SimFile, "pread", PREADS),
            (asyncio, "get_running_loop", LOOKUPS),
        ):
            counted = _counted(getattr(owner, method), trace, what)
            stack.enter_context(patch.object(owner, method, counted))
        cluster = stack.enter_context(_measured(trace, measure, partitions))
    works = {
        node: {
            what: median_low([each[node, what] for each in counts])
            for whats, counts in ((WORK[:-1], taken), ((MEMORY,), with_memory))
            for what in whats
        }
        for node in cluster.nodes
    }
    leader = works.pop(cluster.leader)
    follower = max(works.values(), key=lambda each: each[CALLS])
    events = [(cluster.role(node), name) for node, name in min(lists, key=len) if node > 0]
    return MessageWork(leader, follower, events)


def _counted(function: Callable[..., Any], trace: _Counting, what: str) -> Callable[..., Any]:
    @wraps(function)
    def counted(*args: Any, **options: Any) -> Any:
        trace.count(what)
        return function(*args, **options)

    return counted


@contextmanager
def _calls_counted(trace: _Counting) -> Iterator[None]:
    """Count the calls of Python functions and of builtins in the code of `nodes` and of what
    it uses, without those of the simulator."""
    counts = trace.counts
    simulator: dict[str, bool] = {}

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" or event == "c_call":
            name = frame.f_code.co_filename
            inside = simulator.get(name)
            if inside is None:
                inside = simulator[name] = _is_simulator(name)
            if not inside:
                counts[trace.node, CALLS] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def _memory_traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def _is_simulator(path: str) -> bool:
    """Whether the file stands for a kernel or an event loop here, or counts."""
    return "/harness/" in path or "/tests/" in path or path.endswith("nodes/storage/memory.py")


@dataclass(slots=True)
class _MeasuredCluster:
    """A cluster with the topic, and a client that knows the leader."""

    nodes: Sequence[int]
    client: Client
    leader: int = 0

    def role(self, node: int) -> str:
        """LEADER or FOLLOWER."""
        return LEADER if node == self.leader else FOLLOWER

    async def send(self, size: int) -> None:
        """Send one record with acks=all, and wait for the acknowledgement."""
        batch = encode_batch([Record(value=bytes(size))], timestamp_ms=1)
        request = fill(
            load_request_schema(0, PRODUCE_VERSION),
            acks=-1,
            timeout=timedelta(seconds=5),
            topic_data=[{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}],
        )
        answer = await self.client.channel(self.leader).request(request)
        assert answer.responses[0].partition_responses[0].error_code == 0

    async def find_coordinator(self) -> None:
        """Let the leader be the group's coordinator, which is asked until it serves."""
        for _ in range(TRIES):
            if await self._coordinates():
                return
            await asyncio.sleep(RETRY_S)
        raise AssertionError("no coordinator serves")

    async def _coordinates(self) -> bool:
        found = await self.client.ask(1, FIND_COORDINATOR, 3, key=GROUP, key_type=0)
        if found.error_code != 0:
            return False
        self.leader = found.node_id
        return await self._committed(1)

    async def commit(self, partitions: int) -> None:
        """Commit an offset of each partition, and wait for the answer."""
        assert await self._committed(partitions)

    async def _committed(self, partitions: int) -> bool:
        rows = [
            {"partition_index": number, "committed_offset": 1, "committed_metadata": ""}
            for number in range(partitions)
        ]
        answer = await self.client.ask(
            self.leader,
            OFFSET_COMMIT,
            COMMIT_VERSION,
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            topics=[{"name": TOPIC, "partitions": rows}],
        )
        return all(row.error_code == 0 for row in answer.topics[0].partitions)


@contextmanager
def _measured(
    trace: Trace, measure: Callable[[_MeasuredCluster], Any], partitions: int = 1
) -> Iterator[Any]:
    """Run `measure` as a client of a cluster that has served some messages; yield the cluster."""
    world = World(1)
    world.trace = trace
    cluster = SimCluster(
        world, Layout.combined([1, 2, 3]), overrides={"offsets.topic.num.partitions": 1}
    )
    measured = _MeasuredCluster(tuple(cluster.nodes), Client(cluster))

    async def run() -> None:
        await make_topics(cluster, {TOPIC: partitions})
        measured.leader = await measured.client.leader(TOPIC, 0)
        for _ in range(WARM_UP):
            await measured.send(1000)
        await measure(measured)

    try:
        with guard(world):
            cluster.start()
            world.run_until(cluster.run_client(run))
        yield measured
    finally:
        cluster.close()


def message_copies(*, size: int, messages: int = 4) -> Mapping[tuple[str, str], float]:
    """Return how many times the code copies a message of `size` bytes, by role and function.

    Of followers it is the mean of both. A copy is memory of LARGE_BYTES or more that one step of
    a function allocates, in parts of `size`. What the kernel or the event loop copies is not
    counted: see `message_work` for their reads and writes.
    """
    trace = _Counting()
    copied: Counter[tuple[int, str]] = Counter()

    async def measure(world: _MeasuredCluster) -> None:
        with _copies_counted(trace, copied):
            for _ in range(messages):
                await world.send(size)

    with _measured(trace, measure) as cluster:
        pass
    found: dict[tuple[str, str], float] = {}
    for (node, function), copied_bytes in copied.items():
        if node in cluster.nodes:
            role = cluster.role(node)
            nodes = 1 if role == LEADER else len(cluster.nodes) - 1
            key = role, function
            found[key] = found.get(key, 0.0) + copied_bytes / size / messages / nodes
    return {key: round(times, 1) for key, times in found.items() if round(times, 1)}


@contextmanager
def _copies_counted(trace: _Counting, copied: Counter[tuple[int, str]]) -> Iterator[None]:
    """Add the bytes of large allocations to `copied`, by node and function."""
    last_bytes, last_frame = 0, sys._getframe()

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal last_bytes, last_frame
        now, peak = tracemalloc.get_traced_memory()
        if peak - last_bytes >= LARGE_BYTES and not _is_simulator(last_frame.f_code.co_filename):
            copied[trace.node, last_frame.f_code.co_qualname] += peak - last_bytes
        frame.f_trace_opcodes = True
        # After a return, builtins that called the function go on in the caller's name.
        last_bytes, last_frame = now, frame.f_back or frame if event == "return" else frame
        tracemalloc.reset_peak()
        return step

    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(before)
        tracemalloc.stop()
