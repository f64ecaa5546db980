"""What Vagrant says of its machines, as data."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Final, Literal

import paramiko

from harness.targets.base import TargetError
from harness.targets.ssh.inventory import MAX_NODE, Host

NETWORK: Final = IPv4Network("198.18.0.0/15")
"""Where the Vagrantfile's network between the machines lies."""
RUNNING: Final = "running"

_NODE: Final = re.compile(r"n([1-9][0-9]{0,2})")


class VagrantError(TargetError):
    """Vagrant, or what it is to have made, is not there. Says what to do."""


def states(text: str) -> dict[int, str]:
    """The state of each node's machine, by `vagrant status --machine-readable`: `running`,
    `not_created`, `shutoff`, ...; machines that are not named n1, n2, ... are not ours.
    """
    fields = (line.split(",") for line in text.splitlines())
    told = {f[1]: f[3] for f in fields if len(f) > 3 and f[2] == "state"}
    return {node: state for name, state in told.items() if (node := _node(name)) is not None}


def running(found: Mapping[int, str], nodes: int) -> list[int]:
    """The nodes whose machines run. Raises VagrantError unless 1 to `nodes` are among them."""
    for node in range(1, nodes + 1):
        if (state := found.get(node, "not_created")) != RUNNING:
            raise VagrantError(
                f"the plan has {nodes} nodes, and machine n{node} is {state.replace('_', ' ')}: "
                f"NODES={nodes} vagrant up"
            )
    return sorted(node for node, state in found.items() if state == RUNNING)


def hosts(ssh_config: str) -> tuple[Host, ...]:
    """How each node's machine is reached, by `vagrant ssh-config`. Raises VagrantError."""
    config = paramiko.SSHConfig.from_text(ssh_config)
    found = ((node, name) for name in config.get_hostnames() if (node := _node(name)) is not None)
    return tuple(_host(node, config.lookup(name)) for node, name in sorted(found))


def _host(node: int, told: Mapping[str, str | Sequence[str]]) -> Host:
    if "proxycommand" in told:
        raise VagrantError(
            f"machine n{node} is reached through another host ({told['proxycommand']}): write an "
            "inventory with `jump`, and say --target ssh; docs/ssh.md shows one"
        )
    keys = told.get("identityfile", ())
    return Host.model_validate({
        "node": node,
        "host": told["hostname"],
        "port": int(str(told.get("port", 22))),
        "user": told.get("user"),
        "key": keys[0] if keys else None,
    })  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a machine says of itself."""

    address: IPv4Address
    """In the network between the machines."""
    clock: Literal["process", "machine"]
    """Whose clock a fault may set: a container has none of its own."""


ASK: Final = ("sh", "-c", "hostname -I; systemd-detect-virt --container")


def traits(node: int, answer: str) -> Traits:
    """What ASK printed: addresses, and which kind of container it is. What does not say that it is
    none is taken for one, whose clock is the harness's too. Raises VagrantError.
    """
    first, _, container = answer.partition("\n")
    addresses = [ip_address(word) for word in first.split()]
    found = [a for a in addresses if isinstance(a, IPv4Address) and a in NETWORK]
    if not found:
        raise VagrantError(
            f"machine n{node} has no address in {NETWORK} (it has {first.strip() or 'none'}): its "
            f"second network is not up; vagrant reload n{node}"
        )
    return Traits(address=found[0], clock="machine" if container.strip() == "none" else "process")


def _node(name: str) -> int | None:
    matched = _NODE.fullmatch(name)
    return int(matched[1]) if matched and int(matched[1]) <= MAX_NODE else None
