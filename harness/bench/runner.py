"""Runs a benchmark: the measurements by clients in interleaved rounds, then the outages.

A failed measurement becomes a sample with its error, and the others go on. Only a cluster that does
not start ends the benchmark. A stop ends it in order, with the samples so far. Clusters that the
benchmark started are removed in any case.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

from harness.bench import compaction, measurement, outages, results, systems
from harness.bench.clients.workers import MeasureError, Stop, Stopped
from harness.bench.options import MeasuredSystem, Options
from harness.bench.points import (
    COORDINATORS,
    OUTAGES,
    STARTED_ONLY,
    Measure,
    Point,
    ShowTurn,
    Turn,
    rounds,
)
from harness.bench.results import CLIENT_ALONE, Result, Sample
from harness.bench.systems import RunningSystem
from harness.recording.store import Run
from harness.systems.brokers import QUICK_FAILOVER

REPLICAS: Final = 3
RECYCLED_BYTES: Final = 4e9
"""A started cluster that cannot delete topics is replaced when it holds more than this."""


def run(options: Options, run: Run, stop: Stop, show: ShowTurn) -> Result:
    """Run all measurements. Raises TargetError, DeployError when a cluster does not start."""
    started = datetime.now(UTC)
    start_s = time.monotonic()
    machine = results.machine()
    samples: list[Sample] = []
    stopped = False
    try:
        samples.extend(_samples(options, run, stop, show))  # keeps the samples before a stop
    except Stopped:
        stopped = True
    by_name = {system.name: system for system in options.systems}
    return Result(
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - start_s,
        options=_options_json(options),
        systems=systems.described(by_name, options),
        machine={**machine, "load_after": [round(each, 2) for each in os.getloadavg()]},
        samples=_in_order(samples, options.points),
        stopped=stopped,
    )


def _samples(options: Options, run: Run, stop: Stop, show: ShowTurn) -> Iterator[Sample]:
    by_clients = [p for p in options.points if p.measure not in OUTAGES]
    turns = _turns(options, by_clients)
    outage_points = [p for p in options.points if p.measure in OUTAGES]
    ours = [system for system in options.systems if system.is_ours]
    each = sum(len(outages.rounds_of(point, options.rounds)) for point in outage_points)
    total = len(turns) + each * len(ours)
    numbers = count(1)

    def begin(turn: Turn) -> None:
        if stop():
            raise Stopped
        show(turn, next(numbers), total)

    if turns:
        with _Systems(options, run, stop) as up:
            for turn in turns:
                begin(turn)
                yield _by_clients(turn, up, options, stop)
    for system in ours:
        yield from outages.samples(system, outage_points, options, run, begin, stop)


def _turns(options: Options, points: Sequence[Point]) -> list[Turn]:
    """Return the measurements in order: the clients without a broker once, then the rounds."""
    names = [system.name for system in options.systems]
    alone = rounds(points, [CLIENT_ALONE], 1, options.seed)
    ours = {system.name for system in options.systems if system.is_ours}
    turns = rounds(points, names, options.rounds, options.seed)
    return alone + [
        turn for turn in turns if turn.system in ours or turn.point.measure not in STARTED_ONLY
    ]


def _by_clients(turn: Turn, up: "_Systems", options: Options, stop: Stop) -> Sample:
    point = turn.point
    topic = f"bench-{next(up.topics)}"
    values: Mapping[str, float] = {}
    error = None
    try:
        if turn.system == CLIENT_ALONE:
            values = measurement.client_alone(point, topic, options, stop) or {}
        else:
            values = _on_system(point, up.fresh(turn.system), topic, options, stop)
            up.wrote(turn.system, topic, measurement.bytes_written(point, dict(values)))
    except MeasureError as failed:
        error = str(failed)
    return Sample(point=point, system=turn.system, round=turn.round, values=values, error=error)


def _on_system(
    point: Point, system: RunningSystem, topic: str, options: Options, stop: Stop
) -> Mapping[str, float]:
    if point.measure is Measure.COMPACTION:
        return compaction.measure(point, system, topic, options, stop)
    _create(point, system, topic)
    return measurement.measure(point, system.admin, system.servers, topic, options, stop)


def _create(point: Point, system: RunningSystem, topic: str) -> None:
    replicas = min(REPLICAS, system.admin.broker_count())
    partitions = point.partitions if point.measure in COORDINATORS else 1
    system.admin.create(topic, partitions=partitions, replicas=replicas)


class _Systems:
    """The systems that run while clients measure. A full cluster is replaced by an empty one."""

    def __init__(self, options: Options, run: Run, stop: Stop) -> None:
        self.topics = count(1)
        self._options = options
        self._run = run
        self._stop = stop
        self._labels = count(1)
        self._up: dict[str, tuple[ExitStack, RunningSystem]] = {}
        self._held_bytes: dict[str, float] = {}

    def __enter__(self) -> "_Systems":
        try:
            for system in self._options.systems:
                self._start(system)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as everything:
            for stack, _system in self._up.values():
                everything.push(stack)
            self._up.clear()

    def fresh(self, name: str) -> RunningSystem:
        """Return the system, replaced if its disks are full."""
        if self._held_bytes[name] > RECYCLED_BYTES:
            stack, _ = self._up.pop(name)
            stack.close()
            self._start(next(each for each in self._options.systems if each.name == name))
        return self._up[name][1]

    def wrote(self, name: str, topic: str, size: float) -> None:
        """Delete the topic of a finished measurement, or count its `size` in bytes as held."""
        system = self._up[name][1]
        if not system.admin.delete(topic) and system.target is not None:
            self._held_bytes[name] += size

    def _start(self, system: MeasuredSystem) -> None:
        stack = ExitStack()
        label = f"clients-{next(self._labels)}"
        made = stack.enter_context(
            systems.up(system, self._options, self._run, label, self._stop, compaction.PROPERTIES)
        )
        self._up[system.name] = (stack, made)
        self._held_bytes[system.name] = 0.0
        if system.is_ours and self._options.warmup_s:
            self._warm_up(made)

    def _warm_up(self, system: RunningSystem) -> None:
        """Put load on a new cluster: the last point of each measure."""
        points = {p.measure: p for p in self._options.points if p.measure not in OUTAGES}
        for point in points.values():
            topic = f"warm-{next(self.topics)}"
            with suppress(MeasureError):  # the rounds will tell
                if point.measure is Measure.COMPACTION:
                    compaction.measure(point, system, topic, self._options, self._stop)
                else:
                    _create(point, system, topic)
                    measurement.warm_up(
                        point, system.admin, system.servers, topic, self._options, self._stop
                    )
                system.admin.delete(topic)


def _in_order(samples: Sequence[Sample], points: Sequence[Point]) -> list[Sample]:
    place = {point: number for number, point in enumerate(points)}
    return sorted(samples, key=lambda sample: (place[sample.point], sample.round))


def _options_json(options: Options) -> dict[str, Any]:
    return {
        "rounds": options.rounds,
        "duration_s": options.duration_s,
        "warmup_s": options.warmup_s,
        "size": options.size,
        "seed": options.seed,
        "client_cpus": list(options.client_cpus),
        "check_crcs": options.check_crcs,
        "session_timeout_ms": int(
            {**QUICK_FAILOVER, **options.broker}["broker.session.timeout.ms"]
        ),
    }
