"""How a run ends: everything is healed and removed, or the cluster is left for inspection.

A cluster that is left is a detached one. It goes on without the harness. Other runs and `highwater
clean` do not touch it, `highwater cluster` administers it, and `highwater cluster down` (or
`highwater clean --all`) removes it.
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
class EndOptions:
    """Whether the cluster is removed at the end, and whether the faults in force are healed."""

    teardown: bool = True
    heal: bool = True

    @classmethod
    def from_flags(cls, *, teardown: bool, heal: bool) -> Self:
        """Return the options of the command line. Raises PlanError for a useless combination."""
        if teardown and not heal:
            raise PlanError(
                "--no-heal leaves a broken cluster, but the teardown would remove it; give "
                "--no-teardown too"
            )
        return cls(teardown=teardown, heal=heal)

    def check_privileges(self) -> None:
        """Raise PlanError when a cluster is to be left but cannot outlive the harness."""
        if not self.teardown and rootless.is_rootless():
            raise PlanError(
                "a cluster of a user who is not root ends with highwater and cannot be left "
                "running; leave out --no-teardown, or run it as root"
            )


def describe_left_cluster(
    target: Target, run: Run, bootstrap: str, in_force: Sequence[str]
) -> list[str]:
    """Return lines for the terminal: how to enter and remove the cluster."""
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
        f"query    highwater cluster topics describe --run {run.path}",
        f"remove   highwater cluster down {run.path}",
    ]
