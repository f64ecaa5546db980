"""A running cluster, and what is needed to break it. It imports nothing heavy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.recording.journal import Journal
    from harness.recording.store import Run
    from harness.systems.base import DeployedSystem
    from harness.targets.base import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """The cluster of this process, or one that another process made and left running."""

    run: "Run"
    target: "Target"
    system: "DeployedSystem"
    journal: "Journal"
