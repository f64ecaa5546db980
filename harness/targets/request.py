"""What a run, or a cluster for clients, asks of a target of whatever kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.recording.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The machines that are asked for."""

    run_id: str
    run_dir: Path
    nodes: Sequence[int]
    journal: Journal
    uplink: bool = False
    """Programs on the harness's machine reach the nodes."""
    clocks: bool = False
    """Every node has a wall clock of its own."""
    reads: Sequence[Path] = ()
    """What of the harness's machine the nodes read, beside their own directories."""
