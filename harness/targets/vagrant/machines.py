"""Make an inventory of the machines that `vagrant up` made, from Vagrant and from the machines.

Vagrant itself checks no host keys, because it made the machines. The keys that the machines show
now are stored in `KNOWN_HOSTS`, and only these are accepted during the run.
"""

import functools
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import paramiko

from harness.targets.parallel import in_parallel
from harness.targets.ssh.connection import Connection
from harness.targets.ssh.inventory import Host, Inventory
from harness.targets.vagrant import output
from harness.targets.vagrant.output import VagrantError

VAGRANT_TIMEOUT_S: Final = 120
KEY_TIMEOUT_S: Final = 60
# An emulated machine on a busy host is slow.
PATIENCE: Final = 10
DEAD_MAN_S: Final = 60
KNOWN_HOSTS: Final = Path(".vagrant", "known_hosts")


def directory(start: Path) -> Path:
    """Return the directory of the Vagrantfile, at `start` or above. Raises VagrantError."""
    here = Path(os.environ.get("VAGRANT_CWD", start)).resolve()
    for each in (here, *here.parents):
        if (each / "Vagrantfile").exists():
            return each
    raise VagrantError(
        f"no Vagrantfile in {here} or above, so the machines are unknown: run highwater in its own "
        "repository, whose Vagrantfile makes the machines, or set VAGRANT_CWD"
    )


@functools.cache  # called several times before a run, and each call takes seconds
def inventory(where: Path, nodes: int) -> Inventory:
    """Return an inventory of all running machines of the Vagrantfile in `where`.

    Raises VagrantError unless the machines of nodes 1 to `nodes` run, and SshError.
    """
    running = output.running(output.states(_vagrant(where, "status", "--machine-readable")), nodes)
    hosts = output.hosts(_vagrant(where, "ssh-config", *(f"n{node}" for node in running)))
    file = where / KNOWN_HOSTS
    _store_host_keys(hosts, file)
    bare = Inventory(
        hosts=hosts,
        known_hosts=file,
        ssh_config=Path(os.devnull),
        patience=PATIENCE,
        dead_man_s=DEAD_MAN_S,
    )
    by_node = {host.node: host for host in hosts}
    complete = in_parallel(by_node, lambda node: _with_traits(by_node[node], bare))
    return bare.model_copy(update={"hosts": tuple(complete.values())})


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
            "lists the providers"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise VagrantError(
            f"`vagrant {arguments[0]}` has not ended after {VAGRANT_TIMEOUT_S} s: check that its "
            "provider runs (systemctl status libvirtd)"
        ) from error
    if done.returncode != 0:
        errors = " ".join(done.stderr.split())
        raise VagrantError(f"`vagrant {arguments[0]}` failed: {errors or done.returncode}")
    return done.stdout


def _store_host_keys(hosts: Sequence[Host], file: Path) -> None:
    """Store the machines' host keys."""
    by_node = {host.node: host for host in hosts}
    found = in_parallel(by_node, lambda node: _host_key(by_node[node]))
    keys = paramiko.HostKeys()
    for name, key in found.values():
        keys.add(name, key.get_name(), key)
    file.parent.mkdir(exist_ok=True)
    keys.save(str(file))


def _host_key(host: Host) -> tuple[str, paramiko.PKey]:
    """Return a machine's name in known_hosts, and the key that it shows."""
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
            f"machine n{host.node} cannot be reached at {host.host}, port {port} ({error}): try "
            f"`vagrant ssh n{host.node}`; if that fails too, `vagrant reload n{host.node}`"
        ) from error
    return host.host if port == 22 else f"[{host.host}]:{port}", key


def _with_traits(host: Host, bare: Inventory) -> Host:
    """Ask a machine for its address and its clock."""
    with Connection(host, bare) as connection:
        _, answer, _ = connection.try_run(output.TRAITS_COMMAND)
    traits = output.traits(host.node, answer.decode())
    return host.model_copy(update={"address": traits.address, "clock": traits.clock})
