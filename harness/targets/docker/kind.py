"""The Docker target as one of the kinds of targets: what it needs, and how it is made."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.recording.journal import Journal
from harness.targets import abilities
from harness.targets.base import Target
from harness.targets.docker import daemon, image
from harness.targets.docker.containers import Containers, SharedFiles
from harness.targets.docker.program_network import ProgramNetwork
from harness.targets.linux.target import LinuxTarget
from harness.targets.request import TargetRequest
from nemesis.faults.fault import Ability


def program_machine(request: TargetRequest) -> ProgramNetwork | None:
    """Return what makes the network of a tested program in containers; None for other programs.
    Raises Unsupported for a daemon on another machine."""
    if request.program_image is None:
        return None
    return ProgramNetwork(daemon.chosen(), request.program_image, request.run_id, request.journal)


class DockerKind:
    """Containers on this machine. See `harness.targets.kinds.TargetKind`."""

    def ensure_privileges(self) -> None:
        """Check the daemon, and build the image unless it exists."""
        address = daemon.chosen()
        daemon.check(address)
        image.ensure(address)

    def missing_abilities(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """Return the abilities that this machine lacks; `ensure_privileges` refuses other users."""
        return abilities.missing_abilities(wanted) if os.geteuid() == 0 else {}

    def make(self, request: TargetRequest) -> Target:
        """Return a target with a container for each node."""
        clocks = request.run_dir.resolve() / "clocks" if request.clocks else None
        shared = SharedFiles(read=tuple(request.reads), clocks=clocks)
        machines = Containers(daemon.chosen(), image.tag(), request.run_id, request.journal, shared)
        return LinuxTarget(
            request.run_id,
            request.run_dir,
            request.nodes,
            request.journal,
            uplink=request.uplink,
            clocks=request.clocks,
            program=request.program,
            program_machine=program_machine(request),
            machines=machines,
        )

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        """Return the target with the containers that another process made."""
        machines = Containers.attach(run_id, journal)
        return LinuxTarget.attach(run_id, run_dir, journal, machines=machines)
