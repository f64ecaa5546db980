"""Outages: gaps that clients see when a leader is killed or shut down, or the controller is killed.

Each number of partitions gets a cluster of its own. It has a small topic that is watched, and
ballast topics, so that the loss of a node moves a third of all leaders. Between two outages the
node is started again, all replicas come back in sync, and the preferred leaders lead again.

`created_ms` is the time from the first request to create the topics until every broker sees all
replicas in sync; each cluster is filled once. `gap_ms` is the median gap of the watched partitions
that the stopped node led. `worst_ms` is their greatest gap. `usual_ms` is the longest gap in the
second before the outage: the machine's own noise. After a kill the gap contains the session
timeout, because no node can know of the kill before it expires. `takeover_ms` is the part after it:
from the first broker that names the new leader to the new leader's first answer.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Final

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.errors import ErrorCode

from harness.bench import systems
from harness.bench.clients.probe import REQUEST_TIMEOUT_S, Probe, longest_gap_ms
from harness.bench.clients.workers import MeasureError, Stop, Stopped
from harness.bench.options import MeasuredSystem, Options
from harness.bench.points import OUTAGES, Measure, Point, Turn
from harness.bench.results import Sample
from harness.bench.systems import RunningSystem
from harness.brokers.errors import DeployError
from harness.recording.store import Run
from harness.targets.base import TargetError
from harness.targets.local import LocalTarget
from nemesis.hosts import FIRST_ZOOKEEPER
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill

REPLICAS: Final = 3
WATCHED: Final = "watched"
WATCHED_PARTITIONS: Final = 6
BALLAST_PARTITIONS: Final = 1_000
"""Partitions of each ballast topic at most."""
CALM_S: Final = 1.0
"""The time before an outage in which `usual_ms` is measured."""
AFTERWARDS_S: Final = 0.5
"""How long sends go on after all partitions are served again, so that a later gap shows too."""
OUTAGE_S: Final = 60.0
"""An outage that lasts longer is a failed measurement."""
STOP_S: Final = 600.0
"""How long a controlled shutdown may take. One partition after the other, 10,000 take minutes."""
LOOK_S: Final = 0.01
ATTEMPT_S: Final = 0.01
MAX_ATTEMPTS: Final = 64
"""Concurrent requests for a decision of the controller, at most."""

OUTAGE_PROPERTIES: Final[Mapping[str, str]] = {
    "leader.imbalance.check.interval.seconds": "1",
    "controlled.shutdown.max.wait.ms": "590000",  # a shutdown that gives up looks quick
}

Values = dict[str, float]


def samples(
    system: MeasuredSystem,
    points: Sequence[Point],
    options: Options,
    run: Run,
    begin: Callable[[Turn], None],
    stop: Stop,
) -> Iterator[Sample]:
    """Measure all outages on clusters of a system; `begin` gets each measurement before it starts.

    The points of a cluster that does not start become failed samples. Raises Stopped.
    """
    for partitions, group in groupby(sorted(points, key=_partitions), _partitions):
        here = list(group)
        turns = [
            Turn(n, point, system.name)
            for n in range(options.rounds)
            for point in sorted(here, key=lambda point: OUTAGES.index(point.measure))
            if n in rounds_of(point, options.rounds)
        ]
        with ExitStack() as stack:
            cluster: _Cluster | None = None
            error = ""
            for turn in turns:
                begin(turn)
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


def rounds_of(point: Point, rounds: int) -> range:
    """Return the rounds in which a point is measured: a cluster is filled only once."""
    return range(1 if point.measure is Measure.CREATION else rounds)


def _partitions(point: Point) -> int:
    return point.partitions


def topics_of(partitions: int) -> dict[str, int]:
    """Return topics with this number of partitions in all; the watched topic comes last."""
    rest = max(0, partitions - WATCHED_PARTITIONS)
    ballast = {
        f"ballast-{number}": min(BALLAST_PARTITIONS, rest - number * BALLAST_PARTITIONS)
        for number in range(-(-rest // BALLAST_PARTITIONS))
    }
    return {**ballast, WATCHED: min(partitions, WATCHED_PARTITIONS)}


def _deploy(
    system: MeasuredSystem,
    partitions: int,
    options: Options,
    run: Run,
    stack: ExitStack,
    stop: Stop,
) -> "_Cluster":
    label = f"{partitions}-partitions"
    up = stack.enter_context(systems.up(system, options, run, label, stop, OUTAGE_PROPERTIES))
    topics = topics_of(partitions)
    began_ns = time.monotonic_ns()
    up.admin.create_all(topics, replicas=REPLICAS)
    created_ms = (time.monotonic_ns() - began_ns) / 1e6
    return _Cluster(up, topics, stop, created_ms)


class _Cluster:
    """A running cluster whose nodes are stopped one at a time."""

    def __init__(
        self, up: RunningSystem, topics: Mapping[str, int], stop: Stop, created_ms: float
    ) -> None:
        assert up.target is not None
        self._up = up
        self._target: LocalTarget = up.target
        self._topics = topics
        self._stop = stop
        self._created_ms = created_ms
        nodes = [node for node in self._target.node_ids() if node < FIRST_ZOOKEEPER]
        self._brokers = dict(zip(nodes, up.bootstrap, strict=True))
        self._decisions = 0

    def measure(self, measure: Measure) -> Values:
        """Make one outage, then restore the cluster. Raises MeasureError, Stopped."""
        if measure is Measure.CREATION:
            return {"created_ms": self._created_ms}
        try:
            match measure:
                case Measure.FAILOVER:
                    victim, led = self._watched_leader()
                    return asyncio.run(self._stop_leader(victim, led, self._target.kill))
                case Measure.SHUTDOWN:
                    victim, led = self._watched_leader()
                    return asyncio.run(self._stop_leader(victim, led, self._stop_node))
                case Measure.CONTROLLER:
                    return asyncio.run(self._kill_controller(self._active_controller()))
                case _:
                    raise AssertionError(measure)
        finally:
            self._restore()

    def _stop_node(self, node: int) -> None:
        if not self._target.stop(node, STOP_S):
            raise MeasureError(f"node {node} still ran {STOP_S:.0f} s after SIGTERM")

    def _restore(self) -> None:
        for node in self._target.node_ids():
            if not self._target.is_running(node):
                self._target.start(node)
        self._up.admin.await_in_sync(self._topics, replicas=REPLICAS, preferred=True)

    async def _stop_leader(
        self, victim: int, partitions: Sequence[int], end: Callable[[int], None]
    ) -> Values:
        """Stop a node with `end` while a client sends to the partitions that the node leads."""
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

    async def _kill_controller(self, victim: int) -> Values:
        """Kill the controller, and ask the other nodes for a decision until one is made."""
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
                self._check(ended_ns, "no controller creates a topic")
                attempts = [each for each in attempts if not each.done() or each.result()]
                if len(attempts) < MAX_ATTEMPTS:
                    channel = channels[len(attempts) % len(channels)]
                    attempts.append(asyncio.create_task(_creates_topic(channel, topic)))
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

    def _watched_leader(self) -> tuple[int, list[int]]:
        """Return the leader of the first watched partition, and the watched partitions it leads."""
        leaders = self._up.admin.leaders(WATCHED)
        victim = leaders.get(0)
        if victim is None or victim not in self._brokers:
            raise MeasureError(f"{WATCHED}-0 has no leader")
        return victim, sorted(p for p, leader in leaders.items() if leader == victim)

    def _active_controller(self) -> int:
        if self._up.zookeepers:
            return self._named_by_zookeeper()
        controller = self._up.admin.active_controller()
        if controller not in self._brokers:
            raise MeasureError(f"node {controller} leads the quorum and is no node of the cluster")
        return controller

    def _named_by_zookeeper(self) -> int:
        from harness.systems.ensemble.reading import active_controller

        found = active_controller(self._up.zookeepers)
        if found is None:
            raise MeasureError("/controller names no broker")
        return found


async def _creates_topic(channel: Channel, topic: str) -> bool:
    """Return whether the controller has created the topic, by this request or an earlier one."""
    request = fill(
        CreateTopicsRequest,
        topics=[{"name": topic, "num_partitions": 1, "replication_factor": 1}],
    )
    try:
        answer = await channel.request(request)
    except WireError:
        return False
    return answer.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists)
