"""What a kind of target is: `harness.targets.kinds` chooses one for a plan."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from harness.recording.journal import Journal
from harness.targets.base import Target
from harness.targets.request import TargetRequest
from nemesis.faults.fault import Ability


class TargetKind(Protocol):
    """One kind of target."""

    def ensure_privileges(self) -> None:
        """Get the needed privileges, in a new process if need be. Raises TargetError."""
        ...

    def missing_abilities(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """Return the wanted abilities that are missing, with the reason and the fix."""
        ...

    def make(self, request: TargetRequest) -> Target:
        """Return the target; `up` makes its machines. Raises TargetError."""
        ...

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        """Return the target that another process left running. Raises TargetError."""
        ...
