"""The virtual machines behind Vagrant's, taken off and on again by their hypervisor.

Its own tools do it, for Vagrant only knows ways that tell the guest first: with libvirt, even
`vagrant halt --force` asks it by ACPI to shut down, and waits. What is meant here is a plug that is
pulled: the guest's memory is gone, its page cache with it. What it had handed to its disk stays,
flushed or not, for that is a file of the host.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from harness.targets.ssh import power
from harness.targets.vagrant.output import VagrantError

LIBVIRT: Final = "libvirt"
VIRTUALBOX: Final = "virtualbox"
TIMEOUT_S: Final = 120.0
_PACKAGES: Final = {"virsh": "libvirt-clients", "VBoxManage": "virtualbox"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What a hypervisor's tool is told of one machine."""

    state: Sequence[str]
    off: Sequence[str]
    on: Sequence[str]
    off_states: Sequence[str]
    """How the output of `state` has a line for a machine without power."""


def commands(provider: str, machine: str, uri: str) -> Commands:
    """Of a provider of Vagrant's, its own id for the machine, and where libvirt is."""
    match provider:
        case "libvirt":
            virsh = ("virsh", "--quiet", "--connect", uri)
            return Commands(
                state=(*virsh, "domstate", machine),
                off=(*virsh, "destroy", machine),
                on=(*virsh, "start", machine),
                off_states=("shut off",),
            )
        case "virtualbox":
            return Commands(
                state=("VBoxManage", "showvminfo", machine, "--machinereadable"),
                off=("VBoxManage", "controlvm", machine, "poweroff"),
                on=("VBoxManage", "startvm", machine, "--type", "headless"),
                off_states=('VMState="poweroff"', 'VMState="aborted"'),
            )
        case _:
            raise VagrantError(f"{provider} gives no machine a power of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualMachine:
    """See `harness.targets.ssh.power.Plug`. What its hypervisor refuses is a VagrantError."""

    kind = "vagrant.power"

    provider: str
    machine: str
    uri: str
    """Of libvirt; empty for others."""

    @classmethod
    def of(cls, where: Path, node: int) -> Self:
        """Node's machine of the Vagrantfile in `where`. Raises VagrantError for one of no
        hypervisor's, or of one that does not answer.
        """
        place = where / os.environ.get("VAGRANT_DOTFILE_PATH", ".vagrant") / "machines" / f"n{node}"
        for provider in (LIBVIRT, VIRTUALBOX):
            if (place / provider / "id").exists():
                machine = (place / provider / "id").read_text().strip()
                there = os.environ.get("LIBVIRT_DEFAULT_URI", "qemu:///system")
                uri = there if provider == LIBVIRT else ""
                found = cls(provider=provider, machine=machine, uri=uri)
                found.is_out()
                return found
        raise VagrantError(
            f"machine n{node} is neither libvirt's nor VirtualBox's, and no other provider's has a "
            "power of its own: VAGRANT_DEFAULT_PROVIDER=libvirt vagrant up"
        )

    @property
    def record(self) -> Mapping[str, object]:
        """See the protocol."""
        return {"provider": self.provider, "machine": self.machine, "uri": self.uri}

    def pull(self) -> None:
        """See the protocol."""
        _run(self._commands.off)

    def put_in(self) -> None:
        """See the protocol."""
        if self.is_out():
            _run(self._commands.on)

    def is_out(self) -> bool:
        """See the protocol."""
        lines = _run(self._commands.state).splitlines()
        return any(line.strip() in self._commands.off_states for line in lines)

    @property
    def _commands(self) -> Commands:
        return commands(self.provider, self.machine, self.uri)


def undo(fields: Mapping[str, object]) -> str | None:
    """Give the machine of a journal's record its power back. Raises TargetError."""
    provider, machine, uri = (str(fields[name]) for name in ("provider", "machine", "uri"))
    return power.undo(VirtualMachine(provider=provider, machine=machine, uri=uri), fields)


def _run(argv: Sequence[str]) -> str:
    """What the command prints. Raises VagrantError."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise VagrantError(
            f"{argv[0]} is not installed: apt-get install {_PACKAGES[argv[0]]}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise VagrantError(f"{' '.join(argv)} has not answered for {TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise VagrantError(f"{' '.join(argv)} failed: {' '.join(done.stderr.split())}")
    return done.stdout
