"""How every kind of record of every target is undone: where their tables come together."""

from collections.abc import Mapping
from typing import Final

from harness.targets.docker import undo as docker
from harness.targets.linux import undo as linux
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
