"""Undo what only the Docker target makes. See `harness.targets.linux.undo`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.targets.docker import daemon
from harness.targets.linux import kernel
from harness.targets.linux import undo as linux
from harness.targets.linux.undo import Fields, Undo

RUN_LABEL: Final = "highwater.run"
"""The label of all our containers; its value is the run's id."""
PROGRAM_LABEL: Final = "highwater.program"
"""The label of the containers of a tested program; its value is the instance's number, or
`network`."""

PROGRAM: Final = "docker.program"
"""Kind of the journal's record of the containers of a tested program: daemon, run_id."""


def remove(address: str, name: str, run_id: str) -> bool:
    """Kill and remove a run's container; return whether it existed. Raises TargetError.

    A container of that name that belongs to another run stays.
    """
    from docker.errors import NotFound

    with daemon.client(address) as client:
        try:
            container = client.containers.get(name)
            if container.labels.get(RUN_LABEL) != run_id:
                return False
            container.remove(force=True, v=True)
        except NotFound:
            return False
    return True


def remove_program(address: str, run_id: str) -> list[str]:
    """Kill and remove all containers of a run's tested program; return their names. Raises
    TargetError."""
    labels = [f"{RUN_LABEL}={run_id}", PROGRAM_LABEL]
    with daemon.client(address) as client:
        found = client.api.containers(all=True, filters={"label": labels})
    names = [str(each["Names"][0]).removeprefix("/") for each in found]
    return [name for name in names if remove(address, name, run_id)]


def _program(fields: Fields) -> list[str]:
    removed = remove_program(str(fields["daemon"]), str(fields["run_id"]))
    return [f"container {name}" for name in removed]


def _container(fields: Fields) -> str | None:
    name = str(fields["name"])
    removed = remove(str(fields["daemon"]), name, str(fields["run_id"]))
    return f"container {name}" if removed else None


def _shared(fields: Fields) -> str | None:
    path = Path(str(fields["path"]))
    if not kernel.is_mounted(path):
        return None
    kernel.umount(path)
    return f"mount {path}"


UNDO: Mapping[str, Undo] = {
    **linux.UNDO,
    "docker.container": _container,
    PROGRAM: _program,
    "docker.shared": _shared,
}
