"""The kinds of targets that a plan can name, and what each needs of the machine of the harness.

The one place that knows them apart; everything else asks a `Target`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from harness.plans.plan import Plan, PlanError
from harness.recording.journal import Journal
from harness.targets import abilities
from harness.targets.base import Target
from harness.targets.docker.kind import Docker
from harness.targets.external import External
from harness.targets.local import LocalTarget, rootless
from harness.targets.request import Wish
from nemesis.faults.fault import Ability


class Kind(Protocol):
    """One kind of target."""

    def ensure_privileges(self) -> None:
        """Go on with what it takes, in another process if need be. Raises TargetError."""
        ...

    def lacking(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """Those of the wanted abilities that it lacks, why, and how to get them."""
        ...

    def make(self, wish: Wish) -> Target:
        """Plan the machines; `up` makes them. Raises TargetError."""
        ...

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        """The target that another process made and left, by its journal. Raises TargetError."""
        ...


class _Local:
    """Namespaces of this machine."""

    def ensure_privileges(self) -> None:
        rootless.ensure_privileges()

    def lacking(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        return abilities.lacking(wanted)

    def make(self, wish: Wish) -> Target:
        return LocalTarget(
            wish.run_id,
            wish.run_dir,
            wish.nodes,
            wish.journal,
            uplink=wish.uplink,
            clocks=wish.clocks,
        )

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        return LocalTarget.attach(run_id, run_dir, journal)


def kind_of(plan: Plan) -> Kind:
    """The kind that the plan names. Raises PlanError for one without machines."""
    if plan.system == "external":
        return External()
    if plan.target == "ssh":
        from harness.targets.ssh.kind import SshKind  # paramiko is slow to import

        return SshKind(plan)
    if plan.target == "vagrant":
        from harness.targets.vagrant.kind import VagrantKind

        return VagrantKind(plan)
    if plan.target not in _KINDS:
        raise PlanError(
            f"plan {plan.name} is for a simulated cluster: highwater simulate runs it; for real "
            f"processes say --target {', '.join(_KINDS)} ssh or vagrant"
        )
    return _KINDS[plan.target]


_KINDS: Final[Mapping[str, Kind]] = {"local": _Local(), "docker": Docker()}
