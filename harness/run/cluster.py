"""A cluster for other clients, reachable from this machine: `highwater cluster up`.

It has the same brokers on the same target as in a run, without workload, faults or verdict. In the
foreground it runs as long as the harness. A detached cluster goes on, and `highwater cluster down`
removes it by its journal. Several clusters may be up at once: each has a subnet of its own.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.brokers.choose import broker_program_of
from harness.plans.plan import Plan, PlanError
from harness.recording import journal, store
from harness.recording.journal import Journal
from harness.recording.versions import commit, versions
from harness.run import prepare
from harness.run.by_hand.client import end_keeper, end_keepers
from harness.run.by_hand.foreground import serving
from harness.systems import choose
from harness.systems.brokers import BrokerSystem
from harness.systems.node_roles import Layout
from harness.targets import clean
from harness.targets.base import Target
from harness.targets.kinds import kind_of
from harness.targets.linux.clean import CleanedRun, CleanOutcome, has_living_process, is_detached
from harness.targets.local import rootless
from harness.targets.request import TargetRequest

POLL_S = 0.5
LOOK_S = 0.1
PATIENCE_S = 10.0
"""How long `down` waits for another command that works on the cluster."""
UNNAMED = "cluster"
"""The plan's name of a cluster that was started without `--name`."""


class ClusterError(PlanError):
    """The cluster cannot be started, found, changed or removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    """A cluster of `cluster up` that this machine can reach."""

    run: Path
    bootstrap: str
    name: str
    """The name of its plan: what `cluster up --name` was given, or UNNAMED."""


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
    """Start the nodes of `layout` and call `say`; then wait for `stop`, unless `detach`.

    `say` gets name (if the cluster has one), bootstrap (host:port,...), logs, without root enter
    (how to get onto its network), stop (the command that ends it) and run (its directory). It is
    not called when `stop` came first. `warn` gets later events. Raises ClusterError, PlanError,
    TargetError, DeployError, StoreError.
    """
    if detach and rootless.is_rootless():
        raise ClusterError(
            "a cluster of a user who is not root ends with highwater and cannot be detached; "
            "leave out --detach, or run it as root"
        )
    _check_name_is_free(plan.name)
    plan.resolved_broker()
    prepare.check_configs(plan)
    program = broker_program_of(plan, long_running=True)
    prepare.check_system(plan)
    needed = {**versions(), **choose.versions(plan)}
    run = store.create(root, plan.name, versions=needed, commit=commit())
    run.write_plan(plan.to_json())
    path = run.path / "journal.jsonl"
    with Journal.create(path, run_id=run.run_id, detached=detach) as journal:
        request = TargetRequest(
            run_id=run.run_id,
            run_dir=run.path,
            nodes=layout.nodes,
            journal=journal,
            uplink=True,
            reads=choose.reads(plan),
        )
        target = kind_of(plan).make(request)
        keep = False
        try:
            target.up()
            system = BrokerSystem(plan, target, run, layout, program=program)
            system.configure()
            system.start()
            if stop.is_set():
                system.stop()
                return
            run.update(bootstrap=system.bootstrap)
            say(_facts(plan.name, system.bootstrap, run.path, detach))
            keep = detach
            if not detach:
                with serving(run, target, system, journal):
                    _watch(target, system, stop, warn)
                system.stop()
        finally:
            if not keep:
                target.down(keep_data=True)
                journal.finish()


def down(root: Path, run: Path | None = None) -> list[CleanedRun]:
    """Remove the cluster of the run directory `run`; by default all detached clusters and the
    leftovers of killed runs.

    Living runs and foreground clusters stay, and are not in the result. Raises StoreError when
    `run` is no run directory, and ClusterError when its cluster is in the foreground, or when
    another command works on it for longer than PATIENCE_S.
    """
    if run is None:
        end_keepers()
        found = clean.clean(root, everything=True)
        return [each for each in found if each.outcome is not CleanOutcome.ALIVE]
    path = store.open_run(run).path / "journal.jsonl"
    if not path.exists():
        raise ClusterError(f"{run}: nothing was started in this run: it has no journal")
    end_keeper(path.parent)
    deadline_s = time.monotonic() + PATIENCE_S
    while (done := clean.undo(path)).outcome is CleanOutcome.ALIVE:
        if not is_detached(journal.read(path)):
            raise ClusterError(f"{run} is not detached: stop it with Ctrl-C where it was started")
        if time.monotonic() > deadline_s:
            raise ClusterError(f"{run} is in use by another highwater command: try again")
        time.sleep(LOOK_S)
    return [done]


def running() -> list[RunningCluster]:
    """Return the clusters of this user that are up, in the foreground or detached."""
    found = []
    for path in journal.registered():
        try:
            records = journal.read(path)
            bootstrap = json.loads((path.parent / store.RUN_FILE).read_text()).get("bootstrap")
            name = json.loads((path.parent / "plan.json").read_text())["name"]
        except (OSError, ValueError, KeyError, RecursionError):
            continue  # it is just being made or removed
        if bootstrap and has_living_process(records):
            found.append(RunningCluster(run=path.parent, bootstrap=bootstrap, name=name))
    return found


def find(run: Path | None = None, name: str | None = None) -> RunningCluster:
    """The running cluster with this run directory, or with this name, or the only one.

    Raises ClusterError when no cluster fits, or more than one.
    """
    up_now = running()
    if run is not None and name is not None:
        raise ClusterError("give the run directory or the name of a cluster, not both")
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
    fitting = [each for each in up_now if name in (None, each.name)]
    if not fitting:
        raise ClusterError(
            f"no cluster named {name} is up; these clusters are up:\n  {_choices(up_now)}"
        )
    if len(fitting) > 1:
        named = "" if name is None else f" named {name}"
        raise ClusterError(
            f"{len(fitting)} clusters{named} are up; choose one:\n  {_choices(fitting)}"
        )
    return fitting[0]


def _choices(clusters: Sequence[RunningCluster]) -> str:
    """The option that chooses each cluster: its name, or its run directory if others share it."""
    names = [each.name for each in clusters]
    return "\n  ".join(
        f"--run {each.run}"
        if each.name == UNNAMED or names.count(each.name) > 1
        else f"--name {each.name}"
        for each in clusters
    )


def _check_name_is_free(name: str) -> None:
    if name == UNNAMED:
        return
    for each in running():
        if each.name == name:
            raise ClusterError(
                f"a cluster named {name} is up already ({each.run}): choose another name, or end "
                f"that cluster with `highwater cluster down --name {name}`"
            )


def _facts(name: str, bootstrap: str, run: Path, detach: bool) -> dict[str, str]:
    hint = rootless.enter_hint()
    end = f"highwater cluster down {run if name == UNNAMED else f'--name {name}'}"
    return {
        **({} if name == UNNAMED else {"name": name}),
        "bootstrap": bootstrap,
        "logs": f"{run}/nodes/*/node.log",
        **({} if hint is None else {"enter": hint}),
        "stop": end if detach else "Ctrl-C",
        "run": str(run),
    }


def _watch(
    target: Target, system: BrokerSystem, stop: threading.Event, warn: Callable[[str], None]
) -> None:
    dead: list[int] = []
    while not stop.wait(POLL_S):
        for node in target.node_ids():
            if node not in dead and not target.is_running(node):
                dead.append(node)
                code = target.exit_code(node)
                warn(f"node {node} ended by itself, exit code {code}; see {system.output(node)}")
