"""The kinds of targets that a plan can name, and what each needs of the harness's machine.

Only this module distinguishes the kinds; all other code uses the interface `Target`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from harness.plans.plan import TARGET_NAMES, Plan, PlanError
from harness.recording.journal import Journal
from harness.targets import abilities, plugged
from harness.targets.base import Target
from harness.targets.docker.kind import DockerKind, program_machine
from harness.targets.external import ExternalKind
from harness.targets.kind import TargetKind
from harness.targets.local import LocalTarget, rootless
from harness.targets.request import TargetRequest
from nemesis.faults.fault import Ability


class LocalKind:
    """Network namespaces on this machine."""

    def ensure_privileges(self) -> None:
        rootless.ensure_privileges()

    def missing_abilities(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        return abilities.missing_abilities(wanted)

    def make(self, request: TargetRequest) -> Target:
        return LocalTarget(
            request.run_id,
            request.run_dir,
            request.nodes,
            request.journal,
            uplink=request.uplink,
            clocks=request.clocks,
            program=request.program,
            program_machine=program_machine(request),
        )

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        return LocalTarget.attach(run_id, run_dir, journal)


def kind_of(plan: Plan) -> TargetKind:
    """Return the kind that the plan names. Raises PlanError for a simulated cluster."""
    if plan.system == "external":
        return ExternalKind()
    if plan.target == "ssh":
        from harness.targets.ssh.kind import SshKind  # its imports are slow

        return SshKind(plan)
    if plan.target == "vagrant":
        from harness.targets.vagrant.kind import VagrantKind

        return VagrantKind(plan)
    if TARGET_NAMES.has(plan.target):
        return plugged.of(plan.target).kind(plan)
    if plan.target not in _KINDS:
        raise PlanError(
            f"plan {plan.name} is for a simulated cluster: run it with `highwater simulate`, or "
            f"with real processes by --target {', '.join(_KINDS)}, ssh or vagrant"
        )
    return _KINDS[plan.target]


_KINDS: Final[Mapping[str, TargetKind]] = {"local": LocalKind(), "docker": DockerKind()}
