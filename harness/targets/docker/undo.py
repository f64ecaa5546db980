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
    "docker.shared": _shared,
}
