"""Gaps: what clients see when a leader is killed or leaves in order, or the controller is killed.

Each number of partitions gets a built-in cluster of its own: a small topic that is watched, and
ballast, so that a node's end moves a third of all leaderships. Between two outages the node is
started again, everything is awaited in sync, and the leaders go back to where they belong.

`gap_ms` is the median over the watched partitions that the node led, `worst_ms` their greatest,
`usual_ms` the longest gap in the second before: the machine's own noise. After a kill the gap
holds the session timeout, within which nobody can know; `takeover_ms` is what comes after it, from
the first broker that names the successor to the successor's first answer.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any, Final

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest

from harness.bench import systems
from harness.bench.clients.probe import REQUEST_TIMEOUT_S, Probe, longest_gap_ms
from harness.bench.clients.workers import MeasureError, Stopped
from harness.bench.options import Options, SystemName
from harness.bench.points import Measure, Point, Turn
from harness.bench.results import Sample
from harness.bench.systems import UpSystem
from harness.brokers.errors import DeployError
from harness.recording.store import Run
from harness.systems.brokers import CONTROLLER_PORT
from harness.targets.base import TargetError
from harness.targets.local import LocalTarget
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill

REPLICAS: Final = 3
WATCHED: Final = "watched"
WATCHED_PARTITIONS: Final = 6
BALLAST_PARTITIONS: Final = 1_000
"""Per topic, as many as fit."""
CALM_S: Final = 1.0
"""Before an outage."""
AFTERWARDS_S: Final = 0.5
"""How long after everything is served again a gap may still begin."""
OUTAGE_S: Final = 60.0
"""A longer one is given up."""
STOP_S: Final = 30.0
LOOK_S: Final = 0.01
ATTEMPT_S: Final = 0.01
MAX_ATTEMPTS: Final = 64
"""Attempts of a decision that may be under way at once."""

OWN_PROPERTIES: Final[Mapping[str, str]] = {"leader.imbalance.check.interval.seconds": "1"}

Stop = Callable[[], bool]
Values = dict[str, float]


def samples(
    system: SystemName,
    points: Sequence[Point],
    options: Options,
    run: Run,
    told: Callable[[Turn], None],
    stop: Stop,
) -> Iterator[Sample]:
    """Measure all outages of a built-in system; a cluster that does not come up fails its points.

    Raises Stopped.
    """
    for partitions, group in groupby(sorted(points, key=_partitions), _partitions):
        here = list(group)
        turns = [Turn(n, point, system.name) for n in range(options.rounds) for point in here]
        with ExitStack() as stack:
            cluster: _Cluster | None = None
            error = ""
            for turn in turns:
                told(turn)
                values: Values = {}
                try:
                    if cluster is None and not error:
                        cluster = _deploy(system, partitions, options, run, stack, stop)
                    if cluster is not None:
                        values = cluster.measure(turn.point.measure)
                        error = ""
                except (MeasureError, DeployError, TargetError) as failed:
                    error = str(failed)
                yield Sample(
                    point=turn.point, system=system.name, round=turn.round, values=values,
                    error=error or None,
                )  # fmt: skip


def _partitions(point: Point) -> int:
    return point.partitions


def topics_of(partitions: int) -> dict[str, int]:
    """Topics that have so many partitions in all; the one that is watched comes last."""
    rest = max(0, partitions - WATCHED_PARTITIONS)
    ballast = {
        f"ballast-{number}": min(BALLAST_PARTITIONS, rest - number * BALLAST_PARTITIONS)
        for number in range(-(-rest // BALLAST_PARTITIONS))
    }
    return {**ballast, WATCHED: min(partitions, WATCHED_PARTITIONS)}


def _deploy(
    system: SystemName,
    partitions: int,
    options: Options,
    run: Run,
    stack: ExitStack,
    stop: Stop,
) -> "_Cluster":
    label = f"{partitions}-partitions"
    up = stack.enter_context(systems.up(system, options, run, label, stop, OWN_PROPERTIES))
    topics = topics_of(partitions)
    up.admin.create_all(topics, replicas=REPLICAS)
    return _Cluster(up, topics, stop)


class _Cluster:
    """A cluster whose nodes end one at a time."""

    def __init__(self, up: UpSystem, topics: Mapping[str, int], stop: Stop) -> None:
        assert up.target is not None
        self._up = up
        self._target: LocalTarget = up.target
        self._topics = topics
        self._stop = stop
        self._brokers = dict(zip(self._target.node_ids(), up.bootstrap, strict=True))
        self._decisions = 0

    def measure(self, measure: Measure) -> Values:
        """One outage, and everything in order again. Raises MeasureError, Stopped."""
        try:
            match measure:
                case Measure.FAILOVER:
                    return asyncio.run(self._leader_ends(self._target.kill))
                case Measure.SHUTDOWN:
                    return asyncio.run(self._leader_ends(self._stop_node))
                case Measure.CONTROLLER:
                    return asyncio.run(self._controller_ends())
                case _:
                    raise AssertionError(measure)
        finally:
            self._restore()

    def _stop_node(self, node: int) -> None:
        if not self._target.stop(node, STOP_S):
            raise MeasureError(f"node {node} did not end within {STOP_S:.0f} s of SIGTERM")

    def _restore(self) -> None:
        for node in self._target.node_ids():
            if not self._target.is_running(node):
                self._target.start(node)
        self._up.admin.await_in_sync(self._topics, replicas=REPLICAS, preferred=True)

    async def _leader_ends(self, end: Callable[[int], None]) -> Values:
        victim, partitions = await self._led_together()
        async with Probe(self._brokers, WATCHED, partitions) as probe:
            started_ns = time.monotonic_ns()
            while not probe.everywhere_since(started_ns):
                self._check(started_ns, "not every partition is served")
                await asyncio.sleep(LOOK_S)
            await asyncio.sleep(CALM_S)
            ended_ns = time.monotonic_ns()
            ending = asyncio.get_running_loop().run_in_executor(None, end, victim)
            await ending
            gone_ns = time.monotonic_ns()
            while not probe.everywhere_since(gone_ns):
                self._check(gone_ns, "not every partition is served again")
                await asyncio.sleep(LOOK_S)
            await asyncio.sleep(AFTERWARDS_S)
            times = probe.acked_ns.values()
            gaps = [longest_gap_ms(each, ended_ns) for each in times]
            calm = [[at for at in each if at <= ended_ns] for each in times]
        return {
            "gap_ms": statistics.median(gaps),
            "worst_ms": max(gaps),
            "takeover_ms": statistics.median(probe.takeover_ms(each) for each in partitions),
            "usual_ms": max(longest_gap_ms(each, 0) for each in calm),
            "stopped_ms": (gone_ns - ended_ns) / 1e6,
            "partitions_watched": float(len(partitions)),
        }

    async def _controller_ends(self) -> Values:
        victim = await self._active_controller()
        survivors = [address for node, address in self._brokers.items() if node != victim]
        channels = [
            Channel(*address, client_id="highwater-bench", request_timeout_s=REQUEST_TIMEOUT_S)
            for address in survivors
        ]
        self._decisions += 1
        topic = f"decided-{self._decisions}"
        attempts: list[asyncio.Task[bool]] = []
        ended_ns = time.monotonic_ns()
        ending = asyncio.get_running_loop().run_in_executor(None, self._target.kill, victim)
        try:
            await ending
            while not any(each.done() and each.result() for each in attempts):
                self._check(ended_ns, "no controller decides")
                attempts = [each for each in attempts if not each.done() or each.result()]
                if len(attempts) < MAX_ATTEMPTS:
                    channel = channels[len(attempts) % len(channels)]
                    attempts.append(asyncio.create_task(_decide(channel, topic)))
                await asyncio.wait(attempts, timeout=ATTEMPT_S)
            return {"gap_ms": (time.monotonic_ns() - ended_ns) / 1e6}
        finally:
            for attempt in attempts:
                attempt.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)
            for channel in channels:
                channel.close()

    def _check(self, since_ns: int, what: str) -> None:
        if self._stop():
            raise Stopped
        if time.monotonic_ns() - since_ns > OUTAGE_S * 1e9:
            raise MeasureError(f"{what} after {OUTAGE_S:.0f} s")

    async def _led_together(self) -> tuple[int, list[int]]:
        """A node, and the watched partitions that it leads."""
        answer = await self._ask(
            list(self._brokers.values()),
            fill(MetadataRequest, topics=[{"name": WATCHED}]),
        )
        leaders = {int(p.partition_index): int(p.leader_id) for p in answer.topics[0].partitions}
        victim = leaders.get(0, -1)
        if victim not in self._brokers:
            raise MeasureError(f"nobody leads {WATCHED}-0")
        return victim, sorted(p for p, leader in leaders.items() if leader == victim)

    async def _active_controller(self) -> int:
        quorum = [(host, CONTROLLER_PORT) for host, _ in self._brokers.values()]
        partition = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
        request = fill(DescribeQuorumRequest, topics=[partition])
        for address in quorum:
            answer = await self._ask([address], request)
            found = answer.topics[0].partitions[0]
            if found.error_code is ErrorCode.none and int(found.leader_id) in self._brokers:
                return int(found.leader_id)
        raise MeasureError("no node knows the active controller")

    async def _ask(self, addresses: Sequence[tuple[str, int]], request: Any) -> Any:
        problem = ""
        for address in addresses:
            channel = Channel(*address, client_id="highwater-bench", request_timeout_s=5.0)
            try:
                return await channel.request(request)
            except WireError as error:
                problem = str(error)
            finally:
                channel.close()
        raise MeasureError(problem)


async def _decide(channel: Channel, topic: str) -> bool:
    """Whether the controller took a decision; an earlier attempt may have made it already."""
    request = fill(
        CreateTopicsRequest,
        topics=[{"name": topic, "num_partitions": 1, "replication_factor": 1}],
    )
    try:
        answer = await channel.request(request)
    except WireError:
        return False
    return answer.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists)
