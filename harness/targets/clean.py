"""Undoing what dead runs of any target left behind.

`harness.targets.linux.clean` says what is touched and what is not; here is how the records of every
target are undone.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.targets.docker import undo as docker
from harness.targets.linux import clean as linux_clean
from harness.targets.linux import undo as linux
from harness.targets.linux.clean import Cleaned
from harness.targets.linux.undo import Fields, Undo


def _ssh_machine(fields: Fields) -> list[str]:
    from harness.targets.ssh.machine import undo  # paramiko is slow to import, and seldom needed

    return undo(fields)


def _vagrant_power(fields: Fields) -> str | None:
    from harness.targets.vagrant.hypervisor import undo

    return undo(fields)


UNDO: Final[Mapping[str, Undo]] = {
    **linux.UNDO,
    **docker.UNDO,
    "ssh.machine": _ssh_machine,
    "vagrant.power": _vagrant_power,
}


def undo(path: Path, *, registry: Path | None = None, even_detached: bool = True) -> Cleaned:
    """Undo one run by its journal. A second time finds nothing to do. Raises OSError."""
    return linux_clean.undo(path, registry=registry, even_detached=even_detached, handlers=UNDO)


def clean(
    store: Path | None = None, *, everything: bool = False, registry: Path | None = None
) -> list[Cleaned]:
    """Undo every unfinished run that the registry or the store (store/PLAN/TIME/) knows of.

    `everything` takes down living detached clusters too, never a run whose harness is alive.
    """
    return linux_clean.clean(store, everything=everything, registry=registry, handlers=UNDO)
