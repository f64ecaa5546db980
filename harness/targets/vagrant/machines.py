"""The machines that `vagrant up` made, asked of Vagrant and of themselves: an inventory.

Vagrant itself checks no host keys; the machines are its own. What they show when they are asked is
written down here, and holds for the run.
"""

import functools
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import paramiko

from harness.targets.ssh import parts
from harness.targets.ssh.connection import Connection
from harness.targets.ssh.inventory import Host, Inventory
from harness.targets.vagrant import output
from harness.targets.vagrant.output import VagrantError

VAGRANT_TIMEOUT_S: Final = 120
KEY_TIMEOUT_S: Final = 60
# An emulated machine on a busy one takes its time.
PATIENCE: Final = 10
DEAD_MAN_S: Final = 60
KNOWN_HOSTS: Final = Path(".vagrant", "known_hosts")


def directory(start: Path) -> Path:
    """Where the Vagrantfile is that `vagrant` takes: at `start` or above. Raises VagrantError."""
    here = Path(os.environ.get("VAGRANT_CWD", start)).resolve()
    for each in (here, *here.parents):
        if (each / "Vagrantfile").exists():
            return each
    raise VagrantError(
        f"no Vagrantfile in {here} or above: call highwater in its own repository, whose "
        "Vagrantfile makes the machines, or set VAGRANT_CWD"
    )


@functools.cache  # asked for several times before a run, and each takes seconds
def inventory(where: Path, nodes: int) -> Inventory:
    """Every machine of the Vagrantfile in `where` that runs. Raises VagrantError unless those of
    nodes 1 to `nodes` do, and SshError for one that is not reached.
    """
    running = output.running(output.states(_vagrant(where, "status", "--machine-readable")), nodes)
    hosts = output.hosts(_vagrant(where, "ssh-config", *(f"n{node}" for node in running)))
    file = where / KNOWN_HOSTS
    _learn(hosts, file)
    bare = Inventory(
        hosts=hosts,
        known_hosts=file,
        ssh_config=Path(os.devnull),
        patience=PATIENCE,
        dead_man_s=DEAD_MAN_S,
    )
    by_node = {host.node: host for host in hosts}
    looked = parts.together(by_node, lambda node: _look(by_node[node], bare))
    return bare.model_copy(update={"hosts": tuple(looked.values())})


def _vagrant(where: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ("vagrant", *arguments),
            cwd=where,
            capture_output=True,
            text=True,
            timeout=VAGRANT_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise VagrantError(
            "vagrant is not installed: apt-get install vagrant vagrant-libvirt; docs/vagrant.md "
            "says which providers there are"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise VagrantError(
            f"vagrant {arguments[0]} says nothing for {VAGRANT_TIMEOUT_S} s: is its provider up?"
        ) from error
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise VagrantError(f"vagrant {arguments[0]} failed: {said or done.returncode}")
    return done.stdout


def _learn(hosts: Sequence[Host], file: Path) -> None:
    """Write down the machines' host keys."""
    by_node = {host.node: host for host in hosts}
    shown = parts.together(by_node, lambda node: _shown(by_node[node]))
    keys = paramiko.HostKeys()
    for name, key in shown.values():
        keys.add(name, key.get_name(), key)
    file.parent.mkdir(exist_ok=True)
    keys.save(str(file))


def _shown(host: Host) -> tuple[str, paramiko.PKey]:
    """A machine's name in known_hosts, and the key that it shows."""
    port = host.port or 22
    try:
        with socket.create_connection((host.host, port), timeout=KEY_TIMEOUT_S) as link:
            transport = paramiko.Transport(link)
            try:
                transport.start_client(timeout=KEY_TIMEOUT_S)
                key = transport.get_remote_server_key()
            finally:
                transport.close()
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise VagrantError(
            f"machine n{host.node} is not reached at {host.host}, port {port} ({error}): see "
            f"whether `vagrant ssh n{host.node}` is; else vagrant reload n{host.node}"
        ) from error
    return host.host if port == 22 else f"[{host.host}]:{port}", key


def _look(host: Host, bare: Inventory) -> Host:
    with Connection(host, bare) as connection:
        _, answer, _ = connection.try_run(output.ASK)
    traits = output.traits(host.node, answer.decode())
    return host.model_copy(update={"address": traits.address, "clock": traits.clock})
