"""One machine of the inventory in a run: what is brought there, its agent, and its files."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from harness.targets.agent.client import AgentClient
from harness.targets.agent.machine import JOURNAL, SETTINGS, Settings
from harness.targets.agent.power_loss import LastingAgent
from harness.targets.agent.relay import LOG, SOCKET
from harness.targets.agent.server import Session
from harness.targets.base import TargetError
from harness.targets.linux.network import network
from harness.targets.ssh import install
from harness.targets.ssh.connection import Connection, Lines, SshError, recorded
from harness.targets.ssh.install import SEARCH_PATH, Cargo, Installed
from harness.targets.ssh.inventory import Host, Inventory
from nemesis.faults.fault import Ability

OUTPUT: Final = "node.log"
DATA: Final = "data"
FETCH_TIMEOUT_S: Final = 300.0
AGENT_TIMEOUT_S: Final = 20.0
_NOT_THE_NODES: Final = (
    SETTINGS,
    JOURNAL,
    SOCKET,
    LOG,
    "clocks",
    "copies",
    "data.img",
    "data/lost+found",
)
_START: Final = """\
unit=$1 && shift
[ -d /run/systemd/system ] || exec setsid -f "$@" </dev/null >>"$0" 2>&1
systemctl --quiet is-active "$unit" || exec systemd-run --quiet --collect --unit="$unit" "$@"
"""
"""In a unit of its own, where there are units."""
_PACK: Final = 'cd "$1" && shift && tar -czSf - "$@"; code=$?; [ $code -le 1 ]'
"""tar's 1: a file changed while it was read, as the output of a node that runs does."""


class RemoteMachine:
    """A host, connected, and the agent of one run there. Any thread may call."""

    def __init__(self, host: Host, inventory: Inventory, run_id: str) -> None:
        """Plan it; nothing is connected yet."""
        self.host = host
        self.connection = Connection(host, inventory)
        self._inventory = inventory
        name = f"{network.name_of(run_id)}-n{host.node}"
        self.home = PurePosixPath(host.directory / "runs" / name)
        self._installed: Installed | None = None
        self._agent: LastingAgent | None = None

    @property
    def has_agent(self) -> bool:
        """Whether one was started and has not been ended."""
        return self._agent is not None

    @property
    def agent(self) -> LastingAgent:
        """Where calls go. Raises TargetError before there is one."""
        if self._agent is None:
            raise TargetError(f"{self.host.label} has no agent")
        return self._agent

    @property
    def python(self) -> str:
        """The interpreter, with `environment`."""
        return self._ready.python

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process of ours begins with there."""
        return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "PYTHONPATH": self._ready.path}

    def place(self, path: Path) -> Path:
        """Where a file or directory is there that was brought from here."""
        return Path(self._ready.places[path])

    @property
    def record(self) -> dict[str, object]:
        """What the journal says of it, for `undo`."""
        return {
            "home": str(self.home),
            **self.connection.record,
            "command": self._command("undo", str(self.home)),
        }

    # -- coming and going

    def connect(self, cargo: Cargo) -> None:
        """Connect, and have what nodes and the agent need there. Raises SshError."""
        self.connection.open()
        code, uid, said = self.connection.try_run(self.connection.as_root(["id", "-u"]))
        if code != 0:
            raise SshError(
                f"{self.host.label}: {self.connection.way.user} may not use sudo without a "
                f"password ({said or code}): allow it (NOPASSWD in sudoers), or connect as root"
            )
        if uid.strip() != b"0":
            raise SshError(
                f"{self.host.label}: {self.connection.way.user} is not root, and the inventory "
                "says `sudo = false`: nothing can be broken there; say `sudo = true`"
            )
        self._installed = install.install(self.connection, cargo)

    def lacking(self, wanted: list[str]) -> dict[str, str]:
        """Those of the abilities that the machine lacks, and why. Raises SshError."""
        if self.host.clock == "machine":
            wanted = [each for each in wanted if each != Ability.CLOCKS]
        found: dict[str, str] = json.loads(self.connection.run(self._command("lacking", *wanted)))
        return found

    def start(self, settings: Settings) -> None:
        """Start the agent, which makes the node's disk. Raises SshError."""
        run = self.connection.run
        run(["mkdir", "-p", str(self.home.parent)])
        run(["mkdir", "-m", "755", str(self.home)])
        written = settings.model_dump_json().encode()
        run(["tee", str(self.home / SETTINGS)], source=io.BytesIO(written))
        self._agent = LastingAgent(self._served("serve"), self.host.label)

    def lose_power(self) -> Callable[[], None]:
        """Its power is about to be cut: nobody is there to be called until `come_back`. What it
        returns is to be called after the cut, and lets go of the way there.
        """
        client = self.agent.lose_power()

        def let_go() -> None:
            if client is not None:
                client.close()
            self.connection.close()

        return let_go

    def come_back(self, timeout_s: float) -> None:
        """The machine boots: connect as soon as it lets us, and have an agent go on with what its
        disk has; one that runs already does. Raises SshError when it is not back in time.
        """
        self.connection.open_within(timeout_s)
        client = self._served("serve-again")
        try:
            self.agent.have_power(client)
        except BaseException:
            client.close()
            raise

    def _served(self, command: str) -> AgentClient:
        """Start an agent unless one runs; the way to it."""
        unit = f"{self.home.name}-agent"
        self.connection.run([
            *("sh", "-c", _START, str(self.home / LOG), unit),
            *self._command(command, str(self.home)),
        ])  # fmt: skip
        self.connection.run(self._relay)  # until it is there, or says why not
        dead_man_s = self._inventory.dead_man_s
        client = AgentClient(self._dial, dead_man_s=dead_man_s, label=self.host.label)
        client.ping()
        return client

    def end(self, *, keep_data: bool) -> None:
        """End the agent with all that it made; the home too unless `keep_data`. Again is no error.

        Raises TargetError when something is left.
        """
        if self._installed is None:
            self.connection.close()
            return
        if self._agent is not None:
            try:
                self._agent.call(Session.end, keep_data)
            finally:
                self._agent.close()
                self._agent = None
        elif self._is_there(self.home):
            _undone(self.connection, self._command("undo", str(self.home)))
        if not keep_data:
            self.connection.run(["rm", "-rf", str(self.home)])
        self._installed = None
        self.connection.close()

    def _dial(self) -> Lines:
        try:
            return self._relayed()
        except SshError:
            self.connection.open()
            return self._relayed()

    def _relayed(self) -> Lines:
        relay = self.connection.as_root(self._relay)
        return Lines(self.connection.channel(relay, self._inventory.dead_man_s))

    def _is_there(self, path: PurePosixPath) -> bool:
        there, _, _ = self.connection.try_run(self.connection.as_root(["test", "-e", str(path)]))
        return there == 0

    @property
    def _ready(self) -> Installed:
        if self._installed is None:
            raise TargetError(f"{self.host.label}: nothing is installed there yet")
        return self._installed

    def _command(self, *arguments: str) -> list[str]:
        """One of the agent's own."""
        return self._module("harness.targets.agent", *arguments)

    @property
    def _relay(self) -> list[str]:
        return self._module(
            "harness.targets.agent.relay",
            str(self.home),
            str(AGENT_TIMEOUT_S * self._inventory.patience),
        )

    def _module(self, *arguments: str) -> list[str]:
        env = [f"{name}={value}" for name, value in self.environment.items()]
        return ["env", *env, self.python, "-m", *arguments]

    # -- files

    def publish(self, directory: Path) -> None:
        """Bring the node's directory: its files, and its directories as they are. Not what the node
        itself writes.
        """
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in _ours(directory):
                tar.add(path, path.relative_to(directory), recursive=False)
        install.unpack(self.connection, self.home, packed.getvalue())
        install.sync(self.connection, self.home)

    def fetch(self, directory: Path, *names: str) -> None:
        """Bring what the node wrote, or these of it. Raises SshError."""
        options = [f"--exclude=./{name}" for name in _NOT_THE_NODES]
        wanted = [f"./{name}" for name in names if self._is_there(self.home / name)]
        for name in names or (DATA, OUTPUT):
            _remove(directory / name)
        if names and not wanted:
            return
        packed = self.connection.run(
            ["sh", "-c", _PACK, "sh", str(self.home), *options, *(wanted or ["."])],
            timeout_s=FETCH_TIMEOUT_S,
        )
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
            tar.extractall(directory, filter="data")


def undo(fields: Mapping[str, object]) -> list[str]:
    """Undo what is left on the machine of a journal's record; what it was. Raises TargetError."""
    command, home = fields["command"], str(fields["home"])
    assert isinstance(command, list)
    with recorded(fields) as connection:
        removed = _undone(connection, command)
        connection.run(["rm", "-rf", home])
    return [f"{each} on {connection.host.label}" for each in removed]


def _undone(connection: Connection, command: list[str]) -> list[str]:
    done = json.loads(connection.run(command))
    if done["problems"]:
        raise TargetError(f"{connection.host.label}: {'; '.join(done['problems'])}")
    return list(done["removed"])


def _ours(directory: Path) -> Iterator[Path]:
    """What is written for a node, not by it."""
    for path in sorted(directory.rglob("*")):
        of_the_node = path.relative_to(directory).parts[0] in (DATA, OUTPUT)
        if path.is_dir() or not of_the_node:
            yield path


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
