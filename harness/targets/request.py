"""The machines that a run, or a cluster for clients, requests of any kind of target."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.recording.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """The requested machines."""

    run_id: str
    run_dir: Path
    nodes: Sequence[int]
    journal: Journal
    uplink: bool = False
    """Whether programs on the harness's machine can connect to the nodes."""
    clocks: bool = False
    """Whether every node has its own wall clock."""
    reads: Sequence[Path] = ()
    """Files and directories of the harness's machine that the nodes read, besides their own."""
