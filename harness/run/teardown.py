"""How a run ends: everything healed and removed, or left as it is for a look.

A cluster that was left is a detached one: it lives on without the harness, other runs and
`highwater clean` leave it alone, `highwater cluster` administers it, and `highwater cluster down`
(or `highwater clean --all`) ends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from harness.plans.plan import PlanError
from harness.recording.store import Run
from harness.targets.base import Target
from harness.targets.local import rootless
from nemesis.hosts import CLIENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What becomes of the cluster, and of the faults still in force when the chaos ends."""

    teardown: bool = True
    heal: bool = True

    @classmethod
    def asked(cls, *, teardown: bool, heal: bool) -> Self:
        """As the command line says. Raises PlanError where that makes no sense."""
        if teardown and not heal:
            raise PlanError(
                "--no-heal leaves a broken cluster, and there is none to look at after the "
                "teardown; say --no-teardown too"
            )
        return cls(teardown=teardown, heal=heal)

    def check_privileges(self) -> None:
        """Raises PlanError where a cluster cannot outlive the harness."""
        if not self.teardown and rootless.is_rootless():
            raise PlanError(
                "a cluster of a user who is not root ends with highwater and cannot be left "
                "running; leave out --no-teardown, or run it as root"
            )


def told(target: Target, run: Run, bootstrap: str, in_force: Sequence[str]) -> list[str]:
    """Lines for the terminal: how to enter each node of a cluster that was left, and to end it."""
    lines = [f"the cluster is left running: {bootstrap}"]
    if in_force:
        lines.append(f"still broken by {'; '.join(in_force)}")
    for node in target.node_ids():
        state = "running" if target.is_running(node) else "not running"
        lines += [
            f"node {node}, {target.address(node)}, {state}",
            f"  enter  {target.enter(node)}",
            f"  data   {target.data_dir(node)}",
            f"  log    {run.node_dir(node) / 'node.log'}",
        ]
    return [
        *lines,
        f"clients, {target.address(CLIENTS)}",
        f"  enter  {target.enter(CLIENTS)}",
        f"ask it   highwater cluster topics describe --run {run.path}",
        f"end it   highwater cluster down {run.path}",
    ]
