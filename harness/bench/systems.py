"""The measured systems: a cluster that the benchmark starts and removes, or a running one.

A started cluster is like that of `highwater cluster up`: each node has a process and a network
namespace, and this machine is on their network. The clients run on this machine, as they do for a
foreign system. The data of the nodes lies in plain directories on this machine's disk, as a foreign
broker's would, and is removed with the cluster. The configuration and output stay.
"""

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.admin.client import Address, parse_bootstrap
from harness.bench.admin import BlockingAdmin
from harness.bench.clients.workers import MeasureError
from harness.bench.options import NODES, STARTED, BenchError, MeasuredSystem, Options
from harness.brokers.built_in import BuiltIn
from harness.brokers.choose import broker_program_of
from harness.brokers.errors import DeployError
from harness.brokers.kafka.home import find_kafka
from harness.plans.plan import Plan, PlanError, build
from harness.recording.journal import Journal
from harness.recording.store import Run
from harness.systems import choose
from harness.systems.brokers import BrokerSystem
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSystem:
    """A running system. `target` is None for a cluster that the benchmark did not start."""

    name: str
    bootstrap: tuple[Address, ...]
    admin: BlockingAdmin
    target: LocalTarget | None = None
    zookeepers: Mapping[int, Address] = field(default_factory=dict)
    """The addresses of its ZooKeeper servers; none beside a metadata quorum."""
    files: Callable[[int], Path] | None = None
    """Where a node's logs are; None for a cluster that the benchmark did not start."""

    @property
    def servers(self) -> str:
        """The bootstrap servers as clients take them: host:port,..."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)


@contextmanager
def up(
    system: MeasuredSystem,
    options: Options,
    run: Run,
    label: str,
    stopped: Callable[[], bool],
    properties: Mapping[str, str] | None = None,
) -> Iterator[RunningSystem]:
    """Yield the running system. A cluster of ours is started in the run directory as `label`, and
    removed after; `properties` are server properties that the options may override.

    Raises BenchError when a running system does not answer, TargetError, DeployError, OSError.
    """
    if system.bootstrap is not None:
        bootstrap = parse_bootstrap(system.bootstrap)
        admin = BlockingAdmin(system.name, bootstrap, stopped)
        try:
            admin.broker_count()
        except MeasureError as error:
            raise BenchError(f"{error}; give the address of a running broker") from error
        yield RunningSystem(name=system.name, bootstrap=bootstrap, admin=admin)
        return
    path = run.path / "clusters" / f"{system.name}-{label}"
    path.mkdir(parents=True)
    own = Run(
        path=path,
        run_id=uuid.uuid4().hex[:16],
        started_wall_ns=run.started_wall_ns,
        base_ns=run.base_ns,
    )
    broker = {**(properties or {}), **options.broker}
    plan = plan_of(system, options, broker)
    program = broker_program_of(plan, long_running=True)
    layout = choose.layout_of(plan)
    with Journal.create(path / "journal.jsonl", run_id=own.run_id) as journal:
        target = LocalTarget(
            own.run_id,
            path,
            layout.nodes,
            journal,
            volume=Volume.DIRECTORY,
            uplink=True,
        )
        try:
            target.up()
            cluster = BrokerSystem(plan, target, own, layout, program=program)
            cluster.configure()
            cluster.start()
            bootstrap = tuple(cluster.brokers.values())
            yield RunningSystem(
                name=system.name,
                bootstrap=bootstrap,
                admin=BlockingAdmin(system.name, bootstrap, stopped),
                target=target,
                zookeepers=cluster.zookeepers,
                files=lambda node: path / "nodes" / str(node) / "data" / "log",
            )
        finally:
            target.down()
            journal.finish()
            _remove_data(path)


def check(options: Options) -> None:
    """Raise PlanError or DeployError when a cluster of the options cannot be started here."""
    for system in options.systems:
        if system.is_ours:
            choose.check(plan_of(system, options, options.broker))


def startable(
    names: Sequence[str], options: Options
) -> tuple[tuple[MeasuredSystem, ...], dict[str, str]]:
    """Return those of STARTED that can be started here, and why the others cannot, by name."""
    found, missing = [], {}
    for name in names:
        try:
            check(replace(options, systems=(STARTED[name],)))
        except (PlanError, DeployError) as error:
            missing[name] = str(error)
        else:
            found.append(STARTED[name])
    return tuple(found), missing


def plan_of(system: MeasuredSystem, options: Options, broker: Mapping[str, str]) -> Plan:
    """Return the plan of the cluster that is started for a system. Raises PlanError."""
    properties = {**dict(broker), **dict(system.properties)}
    raw: dict[str, Any] = {"name": "bench", "seed": 0, "nodes": NODES, "broker": properties}
    if system.zookeeper:
        raw["control_plane"] = "zookeeper"
    home = options.kafka_home
    if system.kafka_39 and home is None:
        home = str(find_kafka(zookeeper=True).libs.parent)
    flags = (
        {"broker_module": options.broker_module}
        if system.system == "nodes"
        else {"system": system.system, "kafka_home": home}
    )
    return build(raw, where="bench", flags=flags)


def _remove_data(path: Path) -> None:
    for data in sorted(path.glob("nodes/*/data")):
        shutil.rmtree(data, ignore_errors=True)


def described(systems: Mapping[str, MeasuredSystem], options: Options) -> list[dict[str, Any]]:
    """Return the facts of the measured systems, for the result."""
    return [
        {
            "name": name,
            "bootstrap": system.bootstrap,
            "nodes": NODES if system.is_ours else None,
            "system": system.system if system.is_ours else None,
            "control_plane": "zookeeper" if system.zookeeper else "quorum",
            "broker_module": options.broker_module if system.is_ours else None,
            "build": BuiltIn(options.broker_module).build()
            if system.system == "nodes" and system.is_ours
            else None,
            "properties": {**options.broker, **dict(system.properties)} if system.is_ours else {},
        }
        for name, system in systems.items()
    ]
