"""CPU seconds that brokers need for one message, one commit and one cleaning, by environment.

    python -m tests.tools.broker_cpu --against .venv-compiled/bin/python --rounds 5

Starts three nodes with this Python and three with each other one, on addresses of the loopback
device, lets the clients of `highwater bench` use them, one after the other in each round, and
prints user and system CPU time of the three nodes: medians over the rounds, with the least and the
greatest. Other programs on the machine do not matter much, because their CPU time is not counted.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

from harness.bench import compaction, measurement
from harness.bench.admin import BlockingAdmin
from harness.bench.clients.workers import MeasureError
from harness.bench.options import Options, parse_systems
from harness.bench.points import Measure, Point, PointSelection
from harness.bench.systems import RunningSystem
from harness.brokers.program import write_properties
from harness.systems.brokers import BROKER_PORT, server_properties

NODES = (1, 2, 3)
START_S = 30.0
STOP_S = 20.0
TRIES = 3
PATIENT = {
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "2000",
    "replica.lag.time.max.ms": "60000",
    "controller.quorum.fetch.timeout.ms": "60000",
}
"""Properties that keep leaders where they are on a busy machine."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Environment:
    """Three running nodes of one Python."""

    name: str
    system: RunningSystem
    pids: Sequence[int]

    def cpu_s(self) -> float:
        """User and system CPU time of the nodes until now."""
        stats = [
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids
        ]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) * TICK_S


@contextmanager
def started(name: str, python: str, number: int, directory: Path) -> Iterator[Environment]:
    """Yield the nodes of one environment, and end them after."""
    addresses = {node: f"127.77.{number}.{node}" for node in NODES}
    processes = []
    # Another environment has its own packages; `python -m` would find ours in this directory.
    variables = dict(os.environ)
    if python != sys.executable:
        variables.pop("PYTHONPATH", None)
    try:
        for node in NODES:
            here = directory / str(node)
            here.mkdir(parents=True)
            wanted = server_properties(
                node,
                addresses,
                log_dir=here / "log",
                cluster_id="broker-cpu",
                overrides={**compaction.PROPERTIES, **PATIENT},
            )
            write_properties(here / "server.properties", wanted)
            command = [python, "-m", "nodes", "server.properties"]
            with (here / "node.log").open("wb") as output:
                processes.append(
                    subprocess.Popen(
                        command, cwd=here, env=variables, stdout=output, stderr=subprocess.STDOUT
                    )
                )
        bootstrap = [(address, BROKER_PORT) for address in addresses.values()]
        system = RunningSystem(
            name=name,
            bootstrap=tuple(bootstrap),
            admin=BlockingAdmin(name, bootstrap, lambda: False),
            files=lambda node: directory / str(node) / "log",
        )
        await_all(system.admin)
        yield Environment(name, system, [process.pid for process in processes])
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def await_all(admin: BlockingAdmin) -> None:
    """Return when all nodes are registered brokers."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        with suppress(MeasureError):
            if admin.broker_count() == len(NODES):
                return
        time.sleep(0.1)
    raise MeasureError(f"the nodes are not in service after {START_S:.0f} s")


class Row(NamedTuple):
    """One line of the table: `measure` returns CPU seconds and how many things they were for."""

    what: str
    scale: float
    unit: str
    measure: Callable[[Environment, str], tuple[float, float]]


def rows(options: Options) -> list[Row]:
    """Return what is measured."""
    found = []
    for point in options.points:
        match point.measure:
            case Measure.COMPACTION:
                what = f"cleaning of 128 MB, {point.messages_per_send} records in a batch"
                found.append(Row(what, 1.0, "s", cleaning(point, options)))
            case Measure.COMMITS:
                what = f"commit of {point.partitions} partitions"
                found.append(Row(what, 1e6, "us", by_clients(point, options, "commits_per_s")))
            case _:
                sends = f"{point.messages_per_send} messages in a send"
                what = f"acks=all, {point.producers} producers, {sends}: a message"
                found.append(Row(what, 1e6, "us", by_clients(point, options, "messages_per_s")))
    return found


def cleaning(point: Point, options: Options) -> Callable[[Environment, str], tuple[float, float]]:
    """Return what measures one cleaning."""

    def measure(environment: Environment, topic: str) -> tuple[float, float]:
        system = environment.system
        log = compaction.filled(point, system, topic, options, lambda: False)
        before_s = environment.cpu_s()
        compaction.clean(log, system, topic, lambda: False)
        return environment.cpu_s() - before_s, 1.0

    return measure


def by_clients(
    point: Point, options: Options, rate: str
) -> Callable[[Environment, str], tuple[float, float]]:
    """Return what measures operations of clients. Their warm-up counts as the rest does."""
    seconds = options.duration_s + measurement.job_fields(options)["warmup_s"]

    def measure(environment: Environment, topic: str) -> tuple[float, float]:
        system = environment.system
        partitions = max(1, point.partitions)
        system.admin.create(topic, partitions=partitions, replicas=len(NODES))
        before_s = environment.cpu_s()
        values = measurement.measure(
            point, system.admin, system.servers, topic, options, lambda: False
        )
        return environment.cpu_s() - before_s, values[rate] * seconds

    return measure


def measured(
    environments: Sequence[Environment], wanted: Sequence[Row], rounds: int
) -> Mapping[tuple[str, str], list[float]]:
    """Return the values of all rounds, by row and environment. A first round is not counted."""
    found: dict[tuple[str, str], list[float]] = {}
    topics = count(1)
    for number in range(rounds + 1):
        for row in wanted:
            turn = environments if number % 2 else environments[::-1]
            for environment in turn:
                value = once(row, environment, topics)
                if number:
                    found.setdefault((row.what, environment.name), []).append(value)
    return found


def once(row: Row, environment: Environment, topics: Iterator[int]) -> float:
    """Return one value. A measurement that failed, as when a leader moved, is repeated."""
    for left in reversed(range(TRIES)):
        topic = f"cpu-{next(topics)}"
        try:
            cpu_s, things = row.measure(environment, topic)
            environment.system.admin.delete(topic)
            return cpu_s / things * row.scale
        except MeasureError as error:
            if not left:
                raise
            print(f"{row.what}, {environment.name}: {error}", file=sys.stderr)
    raise AssertionError


def chosen(duration_s: float) -> Options:
    """Return the options of the measurements."""
    selection = PointSelection(
        measures=(Measure.PRODUCER, Measure.COMMITS, Measure.COMPACTION),
        clients=(),
        acks=(-1,),
        messages=(1, 1000),
        producers=(10,),
    )
    return Options(
        selection=selection,
        systems=parse_systems((), None),
        rounds=1,
        duration_s=duration_s,
        warmup_s=0.0,
        size=1024,
        seed=0,
        broker={},
        broker_module="nodes",
        client_cpus=(),
        check_crcs=False,
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", action="append", default=[], help="another Python; repeatable")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--only", default="", help="measure rows that contain this text")
    given = parser.parse_args()
    options = chosen(given.seconds)
    wanted = [row for row in rows(options) if given.only in row.what]
    pythons = [sys.executable, *given.against]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="broker-cpu-")))
        environments = [
            stack.enter_context(started(str(number), python, number, directory / str(number)))
            for number, python in enumerate(pythons)
        ]
        found = measured(environments, wanted, given.rounds)
    for number, python in enumerate(pythons):
        print(f"{number}: {python}")
    for row in wanted:
        print(row.what)
        base = statistics.median(found[row.what, "0"])
        for environment in environments:
            values = found[row.what, environment.name]
            median = statistics.median(values)
            print(
                f"  {environment.name}: {median:8.2f} {row.unit} ({min(values):.2f} to "
                f"{max(values):.2f}), {median / base:.2f} of the first"
            )


if __name__ == "__main__":
    main()
