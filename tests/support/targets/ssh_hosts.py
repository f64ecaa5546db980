"""Three hosts with a real SSH server each: namespaces of this machine, on their own network.

Every host has its own network, mounts, processes, shared memory and name. Files are shared, so each
host gets its own directory. A host's processes end with it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.recording import journal as journals
from harness.targets.linux import kernel
from harness.targets.linux.network import firewall, namespaces, network
from harness.targets.local import LocalTarget
from harness.targets.ssh.connection import Connection
from harness.targets.ssh.inventory import Inventory, load
from tests.support.targets.machine import local_target

SSHD: Final = "/usr/sbin/sshd"
NODES: Final = (1, 2, 3)
DEAD_MAN_S: Final = 5
PLAIN: Final = "plain"
"""A user who is not root and may not use sudo."""

_CONFIG: Final = """\
ListenAddress {address}
HostKey {place}/host_key_{node}
AuthorizedKeysFile /run/sshd/key.pub
PidFile none
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
StrictModes no
"""
_HOST: Final = """\
mount --bind {place}/passwd /etc/passwd && mount --bind {place}/shadow /etc/shadow &&
hostname host-{node} && mkdir -p /run/sshd && mount -t tmpfs none /dev/shm &&
mount -t tmpfs -o mode=755 none /run/sshd && cp {place}/key.pub /run/sshd/ &&
exec {sshd} -D -e -f {place}/sshd_{node}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The hosts as tests see them."""

    place: Path
    target: LocalTarget
    inventory_path: Path

    @property
    def inventory(self) -> Inventory:
        """The inventory in the file."""
        return load(self.inventory_path)

    def directory(self, node: int) -> Path:
        """Return highwater's directory on a host."""
        return self.place / f"h{node}"

    def homes(self) -> list[Path]:
        """Return the home directories of all runs that are not undone."""
        return [path for node in NODES for path in self.directory(node).glob("runs/hw-*")]

    def agents(self) -> dict[int, int]:
        """Return the pids of the agents on their hosts, by node; 0 for an agent that has ended."""
        found = {}
        for home in self.homes():
            records = journals.read(home / "journal.jsonl")
            ended = records[-1]["kind"] == journals.UNDONE
            found[int(home.name.rpartition("-n")[2])] = 0 if ended else int(str(records[0]["pid"]))
        return found

    def run(self, node: int, *argv: str) -> str:
        """Run a command on a host and return its output."""
        host = next(each for each in self.inventory.hosts if each.node == node)
        with Connection(host, self.inventory) as connection:
            return connection.run(argv).decode()

    def left(self) -> list[str]:
        """Return everything that the hosts still have of any run."""
        loops = subprocess.run(["losetup", "-l"], capture_output=True, text=True, check=True).stdout
        mine = [line for line in loops.splitlines() if str(self.place) in line]
        return [*map(str, self.homes()), *mine]

    def rules_left(self, run_id: str) -> list[Path]:
        """Remove the packet rules of a run, and return the namespaces that had some."""
        spaces = [namespaces.OWN, *(self.target.network.namespace(node) for node in NODES)]
        return [space for space in spaces if firewall.remove(space, network.name_of(run_id))]

    def write(self, name: str, **top: object) -> Path:
        """Write an inventory of these hosts with other keys at the top."""
        keys = {
            "user": "root",
            "key": str(self.place / "key"),
            "known_hosts": str(self.place / "known_hosts"),
            "ssh_config": str(self.place / "no_config"),
            "python": str(Path(sys.executable).resolve()),
            "dead_man_s": DEAD_MAN_S,
        } | top
        lines = [f"{key} = {_toml(value)}" for key, value in keys.items()]
        for node in NODES:
            lines += [
                "[[hosts]]",
                f"node = {node}",
                f'host = "{self.target.address(node)}"',
                f'directory = "{self.directory(node)}"',
            ]
        path = self.place / name
        path.write_text("\n".join(lines))
        return path


@contextmanager
def hosts(place: Path) -> Iterator[Hosts]:
    """Start the hosts; their host keys are in `known_hosts`."""
    with ExitStack() as stack:
        target = stack.enter_context(local_target(place, nodes=len(NODES), uplink=True))
        (place / "unfinished").mkdir()
        _keygen(place / "key")
        user = f"{PLAIN}:x:65533:65533::/tmp:/bin/sh\n"
        unlocked = "".join(f"{name}:*:19000:0:99999:7:::\n" for name in ("root", PLAIN))
        (place / "shadow").write_text(unlocked)
        (place / "passwd").write_text(Path("/etc/passwd").read_text() + user)
        known = []
        for node in NODES:
            public = _keygen(place / f"host_key_{node}")
            known.append(f"{target.address(node)} {public}")
            config = _CONFIG.format(address=target.address(node), place=place, node=node)
            (place / f"sshd_{node}").write_text(config)
            script = _HOST.format(place=place, node=node, sshd=SSHD)
            unshare = ("unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child")
            argv = (*unshare, "--mount-proc", "sh", "-c", script)
            target.set_command(node, argv, os.environ, place / f"sshd_{node}.log")
            target.start(node)
            (place / f"h{node}").mkdir()
        (place / "known_hosts").write_text("".join(known))
        place.chmod(0o755)
        for node in NODES:
            _await_listening(place / f"sshd_{node}.log")
        found = Hosts(place=place, target=target, inventory_path=place / "lab.toml")
        found.write("lab.toml")
        yield found
        assert found.left() == []


def _await_listening(log: Path) -> None:
    assert kernel.wait_until(lambda: "listening" in log.read_text(), 30), log.read_text()


def _keygen(path: Path) -> str:
    command: Sequence[str] = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
    subprocess.run(command, check=True)
    return path.with_suffix(".pub").read_text()


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def eventually(what: str, holds: Callable[[], bool], within_s: float = 120.0) -> None:
    """Wait until `holds` returns True."""
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)
