"""Adds brokers to a running detached cluster, and removes them.

The cluster's journal is locked while machines are made or removed. New machines are recorded there,
so that `cluster down` and `clean` undo them. Moving data to and from the brokers is left to
`harness.admin.scaling`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.plans.plan import Plan, stored_plan
from harness.recording import store
from harness.recording.journal import Journal, JournalHeld
from harness.recording.store import Run
from harness.run import cluster
from harness.run.by_hand.client import end_idle_keeper
from harness.run.cluster import ClusterError
from harness.systems.brokers import BrokerSystem
from harness.systems.node_roles import CONTROLLER
from harness.targets.base import Target
from harness.targets.kinds import kind_of

KEEPER_ENDS_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedCluster:
    """A running cluster whose journal this process holds."""

    run: Run
    target: Target
    system: BrokerSystem
    journal: Journal


@contextmanager
def locked_cluster(run_dir: Path | None) -> Iterator[LockedCluster]:
    """Lock a running detached cluster and return it.

    Raises ClusterError when there is no such cluster, when it is in the foreground, when another
    command is changing it, or while a fault is in force.
    """
    path = cluster.find(run_dir).run
    try:
        journal = _taken_over(path)
    except JournalHeld as error:
        raise ClusterError(
            f"{path}: this cluster is in the foreground, or a fault is in force (`highwater fault "
            "heal-all`), or another command is changing it; only a cluster that was started with "
            "--detach can be changed"
        ) from error
    with journal:
        run = store.open_run(path)
        plan = _plan_of(run)
        target = kind_of(plan).attach(run.run_id, run.path, journal)
        system = BrokerSystem.attach(target, run)
        try:
            yield LockedCluster(run=run, target=target, system=system, journal=journal)
        finally:
            run.update(bootstrap=system.bootstrap)


def _taken_over(run_dir: Path) -> Journal:
    """The journal of a cluster; a keeper without faults gives it up. Raises JournalHeld."""
    file = run_dir / "journal.jsonl"
    try:
        return Journal.take_over(file)
    except JournalHeld:
        if not end_idle_keeper(run_dir):
            raise
    until_s = time.monotonic() + KEEPER_ENDS_S
    while True:
        try:
            return Journal.take_over(file)
        except JournalHeld:
            if time.monotonic() > until_s:
                raise
        time.sleep(0.05)


def _plan_of(run: Run) -> Plan:
    try:
        return stored_plan(run.path)
    except (OSError, ValueError) as error:
        raise ClusterError(f"{run.path}: the cluster's plan cannot be read: {error}") from error


def add_brokers(
    run_dir: Path | None, count: int, rack: str | None, *, tell: Callable[[str], None]
) -> list[int]:
    """Start `count` brokers; return their numbers, which are new. `tell` gets lines of progress.

    Raises ClusterError, DeployError, TargetError; brokers that were started before the error stay.
    """
    added = []
    with locked_cluster(run_dir) as locked:
        system = locked.system
        for _ in range(count):
            added.append(system.add_broker(rack=rack))
            tell(f"started broker {added[-1]}")
    return added


def check_removable(run_dir: Path | None, nodes: Sequence[int]) -> None:
    """Raise ClusterError when one of the nodes does not exist, or is a controller too."""
    with locked_cluster(run_dir) as locked:
        layout = locked.system.layout
        for node in nodes:
            if node not in layout.brokers:
                raise ClusterError(f"no broker {node}: there are {list(layout.brokers)}")
            if CONTROLLER in layout.roles[node]:
                raise ClusterError(
                    f"node {node} is a voter of the metadata quorum too and cannot be removed; "
                    "clusters of `cluster up --controllers N --brokers M` have brokers that can"
                )


def remove_brokers(
    run_dir: Path | None,
    nodes: Sequence[int],
    *,
    forget: Callable[[str, int], None],
    tell: Callable[[str], None],
) -> None:
    """Shut brokers down, unregister them and remove their machines.

    `forget` unregisters a broker: it gets the bootstrap servers of the other brokers and the
    number. The caller must know that the brokers hold no replicas any more.
    """
    check_removable(run_dir, nodes)
    with locked_cluster(run_dir) as locked:
        system = locked.system
        for node in nodes:
            if not system.stop_node(node):
                tell(f"broker {node} did not shut down in time and was killed")
            others = [address for each, address in system.brokers.items() if each != node]
            forget(",".join(f"{host}:{port}" for host, port in others), node)
            system.remove_node(node)
            tell(f"stopped broker {node}")
