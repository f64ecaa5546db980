"""What is measured: a cluster deployed and removed by us, or somebody's servers.

A cluster of ours is the same as that of `highwater cluster up`: a process and a network
namespace for each node, and this machine on their network, where the clients run as they do for
a foreign system. Its files are plain directories on this machine's disk, as a foreign broker's
would be, and are removed with it; its configuration and output stay.
"""

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.admin.client import Address
from harness.bench.admin import Admin
from harness.bench.clients.workers import MeasureError
from harness.bench.options import NODES, BenchError, Options, SystemName, parse_bootstrap
from harness.brokers.choose import broker_program_of
from harness.plans.plan import Plan, build
from harness.recording.journal import Journal
from harness.recording.store import Run
from harness.systems.brokers import BrokerSystem
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSystem:
    """A system that is up. `target` is there when its nodes are ours to stop."""

    name: str
    bootstrap: tuple[Address, ...]
    admin: Admin
    target: LocalTarget | None = None

    @property
    def servers(self) -> str:
        """As clients take it."""
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)


@contextmanager
def up(
    system: SystemName,
    options: Options,
    run: Run,
    label: str,
    stopped: Callable[[], bool],
    properties: Mapping[str, str] | None = None,
) -> Iterator[UpSystem]:
    """The system for the block; one of ours is deployed below the run, as `label`, with
    `properties` unless the options have others.

    Raises BenchError when nobody answers, TargetError, DeployError, OSError.
    """
    if system.bootstrap is not None:
        bootstrap = tuple(parse_bootstrap(system.bootstrap))
        admin = Admin(system.name, bootstrap, stopped)
        try:
            admin.broker_count()
        except MeasureError as error:
            raise BenchError(f"{error}; give the address of a broker that runs") from error
        yield UpSystem(name=system.name, bootstrap=bootstrap, admin=admin)
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
    with Journal.create(path / "journal.jsonl", run_id=own.run_id) as journal:
        target = LocalTarget(
            own.run_id,
            path,
            list(range(1, NODES + 1)),
            journal,
            volume=Volume.DIRECTORY,
            uplink=True,
        )
        try:
            target.up()
            cluster = BrokerSystem(plan, target, own, program=program)
            cluster.configure()
            cluster.start()
            bootstrap = tuple(cluster.brokers.values())
            yield UpSystem(
                name=system.name,
                bootstrap=bootstrap,
                admin=Admin(system.name, bootstrap, stopped),
                target=target,
            )
        finally:
            target.down()
            journal.finish()
            _remove_data(path)


def check(options: Options) -> None:
    """Raises PlanError or DeployError when a cluster of ours cannot be started here."""
    for system in options.systems:
        if system.is_ours:
            broker_program_of(plan_of(system, options, options.broker))


def plan_of(system: SystemName, options: Options, broker: Mapping[str, str]) -> Plan:
    """The cluster that is started for a system. Raises PlanError."""
    raw: dict[str, Any] = {"name": "bench", "seed": 0, "nodes": NODES, "broker": dict(broker)}
    flags = (
        {"broker_module": options.broker_module}
        if system.system == "nodes"
        else {"system": system.system, "kafka_home": options.kafka_home}
    )
    return build(raw, where="bench", flags=flags)


def _remove_data(path: Path) -> None:
    for data in sorted(path.glob("nodes/*/data")):
        shutil.rmtree(data, ignore_errors=True)


def described(systems: Mapping[str, SystemName], options: Options) -> list[dict[str, Any]]:
    """What was measured, for the record."""
    return [
        {
            "name": name,
            "bootstrap": system.bootstrap,
            "nodes": NODES if system.is_ours else None,
            "system": system.system if system.is_ours else None,
            "broker_module": options.broker_module if system.is_ours else None,
            "properties": dict(options.broker) if system.is_ours else {},
        }
        for name, system in systems.items()
    ]
