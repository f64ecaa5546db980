"""Remove what dead runs left behind, on every kind of target.

`harness.targets.linux.clean` says what is removed and what stays. This module adds the handlers for
the records of all targets.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.targets import plugged
from harness.targets.docker import undo as docker
from harness.targets.linux import clean as linux_clean
from harness.targets.linux import undo as linux
from harness.targets.linux.clean import CleanedRun
from harness.targets.linux.undo import Fields, Undo


def _ssh_machine(fields: Fields) -> list[str]:
    from harness.targets.ssh.machine import undo  # its imports are slow and seldom needed

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


def _handlers() -> Mapping[str, Undo]:
    return {**plugged.undo(), **UNDO}


def undo(path: Path, *, registry: Path | None = None, even_detached: bool = True) -> CleanedRun:
    """Undo one run by its journal; a second call finds nothing to do. Raises OSError."""
    return linux_clean.undo(
        path, registry=registry, even_detached=even_detached, handlers=_handlers()
    )


def clean(
    store: Path | None = None, *, everything: bool = False, registry: Path | None = None
) -> list[CleanedRun]:
    """Undo every unfinished run in the registry or in the store (store/PLAN/TIME/).

    `everything` also removes running detached clusters, but never a run whose harness is alive.
    """
    return linux_clean.clean(store, everything=everything, registry=registry, handlers=_handlers())
