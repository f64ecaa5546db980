"""Parse the output of Vagrant and of its machines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Final, Literal

import paramiko

from harness.targets.base import TargetError
from harness.targets.ssh.inventory import MAX_NODE, Host

NETWORK: Final = IPv4Network("198.18.0.0/15")
"""The range of the Vagrantfile's network between the machines."""
RUNNING: Final = "running"

_NODE: Final = re.compile(r"n([1-9][0-9]{0,2})")


class VagrantError(TargetError):
    """Vagrant, its provider or a machine is missing. The message says what to do."""


def states(text: str) -> dict[int, str]:
    """Parse `vagrant status --machine-readable`: the state of each node's machine, such as
    `running`, `not_created` or `shutoff`. Machines not named n1, n2, ... are skipped.
    """
    fields = (line.split(",") for line in text.splitlines())
    by_name = {f[1]: f[3] for f in fields if len(f) > 3 and f[2] == "state"}
    return {node: state for name, state in by_name.items() if (node := _node(name)) is not None}


def running(found: Mapping[int, str], nodes: int) -> list[int]:
    """Return the nodes whose machines run. Raises VagrantError unless nodes 1 to `nodes` do."""
    for node in range(1, nodes + 1):
        if (state := found.get(node, "not_created")) != RUNNING:
            raise VagrantError(
                f"the plan has {nodes} nodes, but machine n{node} is {state.replace('_', ' ')}: "
                f"NODES={nodes} vagrant up"
            )
    return sorted(node for node, state in found.items() if state == RUNNING)


def hosts(ssh_config: str) -> tuple[Host, ...]:
    """Parse `vagrant ssh-config`: how to reach each node's machine. Raises VagrantError."""
    config = paramiko.SSHConfig.from_text(ssh_config)
    found = ((node, name) for name in config.get_hostnames() if (node := _node(name)) is not None)
    return tuple(_host(node, config.lookup(name)) for node, name in sorted(found))


def _host(node: int, config: Mapping[str, str | Sequence[str]]) -> Host:
    if "proxycommand" in config:
        raise VagrantError(
            f"machine n{node} is reached through another host ({config['proxycommand']}): write an "
            "inventory with `jump`, and use --target ssh; docs/ssh.md shows an example"
        )
    keys = config.get("identityfile", ())
    return Host.model_validate({
        "node": node,
        "host": config["hostname"],
        "port": int(str(config.get("port", 22))),
        "user": config.get("user"),
        "key": keys[0] if keys else None,
    })  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTraits:
    """A machine's address and clock."""

    address: IPv4Address
    """The address in the network between the machines."""
    clock: Literal["process", "machine"]
    """Which clock a fault may set: a container has none of its own."""


TRAITS_COMMAND: Final = ("sh", "-c", "hostname -I; systemd-detect-virt --container")


def traits(node: int, answer: str) -> MachineTraits:
    """Parse the output of TRAITS_COMMAND: addresses, and the kind of container, or "none".

    Without "none" the machine counts as a container, whose clock is the harness's too. Raises
    VagrantError.
    """
    first, _, container = answer.partition("\n")
    addresses = [ip_address(word) for word in first.split()]
    found = [a for a in addresses if isinstance(a, IPv4Address) and a in NETWORK]
    if not found:
        raise VagrantError(
            f"machine n{node} has no address in {NETWORK} (it has {first.strip() or 'none'}), "
            f"because its second network is not up: vagrant reload n{node}"
        )
    has_own_clock = container.strip() == "none"
    return MachineTraits(address=found[0], clock="machine" if has_own_clock else "process")


def _node(name: str) -> int | None:
    matched = _NODE.fullmatch(name)
    return int(matched[1]) if matched and int(matched[1]) <= MAX_NODE else None
