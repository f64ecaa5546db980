"""The Docker target as one of the kinds: what it needs, how it is made and found again."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.recording.journal import Journal
from harness.targets import abilities
from harness.targets.base import Target
from harness.targets.docker import daemon, image
from harness.targets.docker.containers import Containers, Share
from harness.targets.linux.target import LinuxTarget
from harness.targets.request import Wish
from nemesis.faults.fault import Ability


class Docker:
    """Containers on this machine. See `harness.targets.kinds.Kind`."""

    def ensure_privileges(self) -> None:
        """Have a daemon that can be used, and the image; it is built if need be."""
        address = daemon.chosen()
        daemon.check(address)
        image.ensure(address)

    def lacking(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """What this machine lacks; of a user who is not root something else is said first."""
        return abilities.lacking(wanted) if os.geteuid() == 0 else {}

    def make(self, wish: Wish) -> Target:
        """Every node a container of the image that fits this harness."""
        clocks = wish.run_dir.resolve() / "clocks" if wish.clocks else None
        share = Share(read=tuple(wish.reads), clocks=clocks)
        machines = Containers(daemon.chosen(), image.tag(), wish.run_id, wish.journal, share)
        return LinuxTarget(
            wish.run_id,
            wish.run_dir,
            wish.nodes,
            wish.journal,
            uplink=wish.uplink,
            clocks=wish.clocks,
            machines=machines,
        )

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        """The containers that another process made, and others like them."""
        machines = Containers.attach(run_id, journal)
        return LinuxTarget.attach(run_id, run_dir, journal, machines=machines)
