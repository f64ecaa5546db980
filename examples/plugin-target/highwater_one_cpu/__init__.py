"""A target of another package: all nodes on this machine, and all on one of its CPUs.

Only the way in which processes start differs from the target `local`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.plans.plan import Plan
from harness.recording.journal import Journal
from harness.targets.base import Target
from harness.targets.kinds import LocalKind
from harness.targets.linux.machines import Namespaces
from harness.targets.linux.processes import Process
from harness.targets.linux.target import LinuxTarget
from harness.targets.plugged import PluggedTarget
from harness.targets.request import TargetRequest


class OneCpu(Namespaces):
    """Network namespaces whose processes share the machine's first CPU."""

    def spawn(
        self, node: int, namespace: Path, argv: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Process:
        """Start a process on the first CPU."""
        return super().spawn(node, namespace, ["taskset", "--cpu-list", "0", *argv], env, log)


class OneCpuKind(LocalKind):
    """See `harness.targets.kind.TargetKind`."""

    def make(self, request: TargetRequest) -> Target:
        """Return the target; nothing is made yet."""
        return LinuxTarget(
            request.run_id,
            request.run_dir,
            request.nodes,
            request.journal,
            uplink=request.uplink,
            clocks=request.clocks,
            program=request.program,
            machines=OneCpu(request.journal),
        )

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        """Return the target that another process left running."""
        return LinuxTarget.attach(run_id, run_dir, journal, machines=OneCpu(journal))


def kind(plan: Plan) -> OneCpuKind:
    """Return the kind of target for a plan."""
    return OneCpuKind()


ONE_CPU = PluggedTarget(kind=kind)
