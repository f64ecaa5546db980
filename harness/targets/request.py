"""The machines that a run, or a cluster for clients, requests of any kind of target."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.recording.journal import Journal
from nemesis.faults.fault import Ability


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """The requested machines."""

    run_id: str
    run_dir: Path
    nodes: Sequence[int]
    journal: Journal
    uplink: bool = False
    """Whether programs on the harness's machine can connect to the nodes."""
    needs: Collection[str] = ()
    """The abilities that the run's faults need."""
    reads: Sequence[Path] = ()
    """Files and directories of the harness's machine that the nodes read, besides their own."""

    program_image: str | None = None
    """The image of the tested program, if it runs in containers."""

    @property
    def clocks(self) -> bool:
        """Whether every node has its own wall clock."""
        return Ability.CLOCKS in self.needs

    @property
    def program(self) -> bool:
        """Whether the tested program has a network namespace of its own."""
        return self.program_image is not None or Ability.PROGRAM_CUTS in self.needs
