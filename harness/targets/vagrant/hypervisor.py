"""The power of Vagrant's virtual machines, switched off and on by their hypervisor.

This uses the hypervisor's own tools, because Vagrant always tells the guest first: with libvirt
even `vagrant halt --force` requests a shutdown by ACPI, and waits. Here the power is cut: the guest
loses its memory and its page cache. What the guest had written to its disk stays, flushed or not,
because the disk is a file of the host.
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
class PowerCommands:
    """The commands of a hypervisor's tool for one machine."""

    state: Sequence[str]
    off: Sequence[str]
    on: Sequence[str]
    off_states: Sequence[str]
    """The lines in the output of `state` that mean that the machine is off."""


def power_commands(provider: str, machine: str, uri: str) -> PowerCommands:
    """Return the commands for a Vagrant provider and its id of the machine; `uri` is libvirt's."""
    match provider:
        case "libvirt":
            virsh = ("virsh", "--quiet", "--connect", uri)
            return PowerCommands(
                state=(*virsh, "domstate", machine),
                off=(*virsh, "destroy", machine),
                on=(*virsh, "start", machine),
                off_states=("shut off",),
            )
        case "virtualbox":
            return PowerCommands(
                state=("VBoxManage", "showvminfo", machine, "--machinereadable"),
                off=("VBoxManage", "controlvm", machine, "poweroff"),
                on=("VBoxManage", "startvm", machine, "--type", "headless"),
                off_states=('VMState="poweroff"', 'VMState="aborted"'),
            )
        case _:
            raise VagrantError(
                f"machines of provider {provider} have no power switch: "
                "VAGRANT_DEFAULT_PROVIDER=libvirt vagrant up"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualMachine:
    """See `harness.targets.ssh.power.PowerSwitch`. Errors of the hypervisor are VagrantErrors."""

    kind = "vagrant.power"

    provider: str
    machine: str
    uri: str
    """Libvirt's; empty for other providers."""

    @classmethod
    def of(cls, where: Path, node: int) -> Self:
        """Return the virtual machine of a node of the Vagrantfile in `where`. Raises VagrantError
        without a hypervisor, or when the hypervisor does not answer.
        """
        place = where / os.environ.get("VAGRANT_DOTFILE_PATH", ".vagrant") / "machines" / f"n{node}"
        for provider in (LIBVIRT, VIRTUALBOX):
            if (place / provider / "id").exists():
                machine = (place / provider / "id").read_text().strip()
                there = os.environ.get("LIBVIRT_DEFAULT_URI", "qemu:///system")
                uri = there if provider == LIBVIRT else ""
                found = cls(provider=provider, machine=machine, uri=uri)
                found.is_off()
                return found
        raise VagrantError(
            f"machine n{node} was made neither by libvirt nor by VirtualBox, and machines of other "
            "providers have no power switch: VAGRANT_DEFAULT_PROVIDER=libvirt vagrant up"
        )

    @property
    def record(self) -> Mapping[str, object]:
        """See the protocol."""
        return {"provider": self.provider, "machine": self.machine, "uri": self.uri}

    def switch_off(self) -> None:
        """See the protocol."""
        _run(self._power_commands.off)

    def switch_on(self) -> None:
        """See the protocol."""
        if self.is_off():
            _run(self._power_commands.on)

    def is_off(self) -> bool:
        """See the protocol."""
        lines = _run(self._power_commands.state).splitlines()
        return any(line.strip() in self._power_commands.off_states for line in lines)

    @property
    def _power_commands(self) -> PowerCommands:
        return power_commands(self.provider, self.machine, self.uri)


def undo(fields: Mapping[str, object]) -> str | None:
    """Switch on the machine that a journal's record names. Raises TargetError."""
    provider, machine, uri = (str(fields[name]) for name in ("provider", "machine", "uri"))
    return power.undo(VirtualMachine(provider=provider, machine=machine, uri=uri), fields)


def _run(argv: Sequence[str]) -> str:
    """Run a command and return its output. Raises VagrantError."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise VagrantError(
            f"{argv[0]} is not installed, so the machines' power cannot be switched: "
            f"apt-get install {_PACKAGES[argv[0]]}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise VagrantError(f"{' '.join(argv)} has not answered for {TIMEOUT_S:.0f} s") from error
    if done.returncode != 0:
        raise VagrantError(f"{' '.join(argv)} failed: {' '.join(done.stderr.split())}")
    return done.stdout
