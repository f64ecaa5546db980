"""A cluster for foreign clients: up until somebody stops it, reachable from this machine.

The same brokers on the same target as in a run, without workload, faults or verdict. In the
foreground it lives as long as the harness; detached it lives on, and `highwater cluster down`
removes it by its journal.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import clean, store
from harness.clean import Cleaned
from harness.journal import Journal
from harness.plan import Plan
from harness.runner import commit, versions
from harness.systems.nodes import NodesSystem
from harness.targets.local import rootless
from harness.targets.local.target import LocalTarget

POLL_S = 0.5


class ClusterError(Exception):
    """The cluster cannot be started as asked."""


def up(
    plan: Plan,
    *,
    root: Path,
    detach: bool,
    stop: threading.Event,
    say: Callable[[Mapping[str, str]], None],
    warn: Callable[[str], None],
) -> None:
    """Start the plan's nodes and `say` where they are; then wait for `stop`, unless detached.

    `say` gets bootstrap (host:port,...), run (the directory with logs and data) and, without root,
    enter (how to get onto its network); `warn` gets what happens later. Raises ClusterError,
    TargetError, DeployError, StoreError.
    """
    if detach and rootless.is_rootless():
        raise ClusterError(
            "a cluster of a user who is not root ends with highwater and cannot be detached; "
            "leave out --detach, or run it as root"
        )
    run = store.create(root, plan.name, versions=versions(), commit=commit())
    run.write_json("plan.json", plan.to_json())
    path = run.path / "journal.jsonl"
    with Journal.create(path, run_id=run.run_id, detached=detach) as journal:
        nodes = list(range(1, plan.nodes + 1))
        target = LocalTarget(run.run_id, run.path, nodes, journal, uplink=True)
        keep = False
        try:
            target.up()
            system = NodesSystem(plan, target, run)
            system.configure()
            system.start()
            where = {"bootstrap": system.bootstrap, "run": str(run.path)}
            if (hint := rootless.enter_hint()) is not None:
                where["enter"] = hint
            say(where)
            keep = detach
            if not detach:
                _watch(target, stop, warn)
                system.stop()
        finally:
            if not keep:
                target.down(keep_data=True)
                journal.finish()


def down(root: Path) -> list[Cleaned]:
    """Remove every detached cluster, and what killed runs left."""
    return clean.clean(root, everything=True)


def _watch(target: LocalTarget, stop: threading.Event, warn: Callable[[str], None]) -> None:
    dead: list[int] = []
    while not stop.wait(POLL_S):
        for node in target.node_ids():
            if node not in dead and not target.is_running(node):
                dead.append(node)
                warn(f"node {node} ended by itself, exit code {target.exit_code(node)}")
