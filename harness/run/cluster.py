"""A cluster for foreign clients: up until somebody stops it, reachable from this machine.

The same brokers on the same target as in a run, without workload, faults or verdict. In the
foreground it lives as long as the harness; detached it lives on, and `highwater cluster down`
removes it by its journal. Several may be up at once: each has a subnet of its own.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.brokers.choose import make_of
from harness.plans.plan import Plan, PlanError
from harness.recording import journal, store
from harness.recording.journal import Journal
from harness.recording.versions import commit, versions
from harness.run import prepare
from harness.systems.brokers import NodesSystem
from harness.systems.node_roles import Layout
from harness.targets import clean
from harness.targets.base import Target
from harness.targets.kinds import kind_of
from harness.targets.linux.clean import Cleaned, Outcome, lives
from harness.targets.local import rootless
from harness.targets.request import Wish

POLL_S = 0.5


class ClusterError(PlanError):
    """The cluster cannot be started, found, changed or ended as asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A cluster of `cluster up` that this machine can reach."""

    run: Path
    bootstrap: str


def up(
    plan: Plan,
    layout: Layout,
    *,
    root: Path,
    detach: bool,
    stop: threading.Event,
    say: Callable[[Mapping[str, str]], None],
    warn: Callable[[str], None],
) -> None:
    """Start the nodes of `layout` and `say` where they are; then wait for `stop`, unless detached.

    `say` gets bootstrap (host:port,...), logs, without root enter (how to get onto its network),
    stop (what ends it) and run (the directory with everything); nothing when `stop` came first.
    `warn` gets what happens later. Raises ClusterError, PlanError, TargetError, DeployError,
    StoreError.
    """
    if detach and rootless.is_rootless():
        raise ClusterError(
            "a cluster of a user who is not root ends with highwater and cannot be detached; "
            "leave out --detach, or run it as root"
        )
    plan.resolved_broker()
    prepare.check_configs(plan)
    make = make_of(plan, lasting=True)
    run = store.create(root, plan.name, versions={**versions(), **make.versions()}, commit=commit())
    run.write_plan(plan.to_json())
    path = run.path / "journal.jsonl"
    with Journal.create(path, run_id=run.run_id, detached=detach) as journal:
        wish = Wish(
            run_id=run.run_id,
            run_dir=run.path,
            nodes=layout.nodes,
            journal=journal,
            uplink=True,
            reads=make.reads(),
        )
        target = kind_of(plan).make(wish)
        keep = False
        try:
            target.up()
            system = NodesSystem(plan, target, run, layout, make=make)
            system.configure()
            system.start()
            if stop.is_set():
                system.stop()
                return
            run.update(bootstrap=system.bootstrap)
            say(_facts(system.bootstrap, run.path, detach))
            keep = detach
            if not detach:
                _watch(target, system, stop, warn)
                system.stop()
        finally:
            if not keep:
                target.down(keep_data=True)
                journal.finish()


def down(root: Path, run: Path | None = None) -> list[Cleaned]:
    """Remove the cluster whose run directory is `run`; or every detached one, and what killed runs
    left. Runs and foreground clusters that are alive are left alone, and not mentioned.

    Raises StoreError when `run` is no run directory, ClusterError when it is in the foreground.
    """
    if run is None:
        found = clean.clean(root, everything=True)
        return [each for each in found if each.outcome is not Outcome.ALIVE]
    path = store.open_run(run).path / "journal.jsonl"
    if not path.exists():
        raise ClusterError(f"{run}: nothing was ever started in this run: it has no journal")
    done = clean.undo(path)
    if done.outcome is Outcome.ALIVE:
        raise ClusterError(f"{run} is not detached: it ends where it was started, by Ctrl-C")
    return [done]


def running() -> list[Running]:
    """The clusters of this user that are up, in the foreground or detached."""
    found = []
    for path in journal.registered():
        try:
            records = journal.read(path)
            bootstrap = json.loads((path.parent / store.RUN_FILE).read_text()).get("bootstrap")
        except (OSError, ValueError, RecursionError):
            continue  # being made or being removed
        if bootstrap and lives(records):
            found.append(Running(run=path.parent, bootstrap=bootstrap))
    return found


def find(run: Path | None = None) -> Running:
    """The cluster whose run directory is `run`, or the only one that is up. Raises ClusterError."""
    up_now = running()
    if run is not None:
        path = store.open_run(run).path
        for each in up_now:
            if each.run == path:
                return each
        raise ClusterError(f"{run}: no cluster of this run is up")
    if not up_now:
        raise ClusterError(
            "no cluster is up: start one with `highwater cluster up --detach`, or name any Kafka "
            "cluster with --bootstrap-servers host:port"
        )
    if len(up_now) > 1:
        known = "\n  ".join(f"--run {each.run}" for each in up_now)
        raise ClusterError(f"{len(up_now)} clusters are up; choose one:\n  {known}")
    return up_now[0]


def _facts(bootstrap: str, run: Path, detach: bool) -> dict[str, str]:
    hint = rootless.enter_hint()
    return {
        "bootstrap": bootstrap,
        "logs": f"{run}/nodes/*/node.log",
        **({} if hint is None else {"enter": hint}),
        "stop": f"highwater cluster down {run}" if detach else "Ctrl-C",
        "run": str(run),
    }


def _watch(
    target: Target, system: NodesSystem, stop: threading.Event, warn: Callable[[str], None]
) -> None:
    dead: list[int] = []
    while not stop.wait(POLL_S):
        for node in target.node_ids():
            if node not in dead and not target.is_running(node):
                dead.append(node)
                code = target.exit_code(node)
                warn(f"node {node} ended by itself, exit code {code}; see {system.output(node)}")
