"""One machine of the inventory in a run: its software, its agent, and its files."""

import io
import json
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from harness.targets.agent.client import AgentClient
from harness.targets.agent.machine import JOURNAL, SETTINGS, Settings
from harness.targets.agent.power_loss import PowerAwareClient
from harness.targets.agent.relay import LOG, SOCKET
from harness.targets.agent.server import Session
from harness.targets.base import TargetError
from harness.targets.linux.network import network
from harness.targets.ssh import fetched, install
from harness.targets.ssh.connection import AgentStream, Connection, SshError, recorded
from harness.targets.ssh.install import SEARCH_PATH, InstalledSoftware, Software
from harness.targets.ssh.inventory import Host, Inventory
from nemesis.faults.fault import Ability

OUTPUT: Final = "node.log"
DATA: Final = "data"
FETCH_TIMEOUT_S: Final = 300.0
AGENT_TIMEOUT_S: Final = 20.0
_NOT_FETCHED: Final = (
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
"""Start the agent, in a systemd unit where systemd runs."""
_PACK: Final = 'cd "$1" && shift && tar -czSf - "$@"; code=$?; [ $code -le 1 ]'
"""tar's exit code 1 means that a file changed meanwhile, as the output of a running node does."""


class RemoteMachine:
    """A host, the connection to it, and the agent of one run there. Any thread may call."""

    def __init__(self, host: Host, inventory: Inventory, run_id: str) -> None:
        """Store the settings; `connect` connects."""
        self.host = host
        self.connection = Connection(host, inventory)
        self._inventory = inventory
        name = f"{network.name_of(run_id)}-n{host.node}"
        self.home = PurePosixPath(host.directory / "runs" / name)
        self._installed: InstalledSoftware | None = None
        self._agent: PowerAwareClient | None = None

    @property
    def has_agent(self) -> bool:
        """Whether an agent was started and not ended."""
        return self._agent is not None

    @property
    def agent(self) -> PowerAwareClient:
        """The agent for calls. Raises TargetError before its start."""
        if self._agent is None:
            raise TargetError(f"{self.host.label} has no agent: it has not been started")
        return self._agent

    @property
    def python(self) -> str:
        """The Python interpreter there, to be run with `environment`."""
        return self._software.python

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of all our processes there."""
        return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "PYTHONPATH": self._software.path}

    def place(self, path: Path) -> Path:
        """Return the place there of a file or directory that was copied from here."""
        return Path(self._software.places[path])

    @property
    def record(self) -> dict[str, object]:
        """The fields of the journal's record, for `undo`."""
        return {
            "home": str(self.home),
            **self.connection.record,
            "command": self._command("undo", str(self.home)),
        }

    # -- connection and agent

    def connect(self, software: Software) -> None:
        """Connect, and install the software. Raises SshError."""
        self.connection.open()
        code, uid, errors = self.connection.try_run(self.connection.as_root(["id", "-u"]))
        if code != 0:
            raise SshError(
                f"{self.host.label}: {self.connection.ssh.user} may not use sudo without a "
                f"password ({errors or code}), and only root can make faults there: allow it "
                "(NOPASSWD in sudoers), or connect as root"
            )
        if uid.strip() != b"0":
            raise SshError(
                f"{self.host.label}: {self.connection.ssh.user} is not root, and the inventory "
                "says `sudo = false`, but only root can make faults there: set `sudo = true`, or "
                "connect as root"
            )
        self._installed = install.install(self.connection, software)

    def missing_abilities(self, wanted: list[str]) -> dict[str, str]:
        """Return the abilities that the machine lacks, with reasons. Raises SshError."""
        if self.host.clock == "machine":
            wanted = [each for each in wanted if each != Ability.CLOCKS]
        found: dict[str, str] = json.loads(self.connection.run(self._command("lacking", *wanted)))
        return found

    def start(self, settings: Settings) -> None:
        """Write the agent's settings and start it; it makes the node's disk. Raises SshError."""
        run = self.connection.run
        run(["mkdir", "-p", str(self.home.parent)])
        run(["mkdir", "-m", "755", str(self.home)])
        written = settings.model_dump_json().encode()
        run(["tee", str(self.home / SETTINGS)], content=written)
        self._agent = PowerAwareClient(self._start_agent("serve"), self.host.label)

    def power_lost(self) -> Callable[[], None]:
        """Record that the power is about to be cut: no call reaches an agent until
        `reconnect_after_boot`. Return a function that closes the connection after the cut.
        """
        client = self.agent.power_lost()

        def disconnect() -> None:
            if client is not None:
                client.close()
            self.connection.close()

        return disconnect

    def reconnect_after_boot(self, timeout_s: float) -> None:
        """Connect to a booting machine as soon as possible, and start an agent with the node's
        data on its disk, unless an agent runs. Raises SshError after `timeout_s`.
        """
        self.connection.open_within(timeout_s)
        client = self._start_agent("serve-again")
        try:
            self.agent.power_restored(client)
        except BaseException:
            client.close()
            raise

    def _start_agent(self, command: str) -> AgentClient:
        """Start an agent, unless one runs, and return a client for it."""
        unit = f"{self.home.name}-agent"
        self.connection.run([
            *("sh", "-c", _START, str(self.home / LOG), unit),
            *self._command(command, str(self.home)),
        ])  # fmt: skip
        self.connection.run(self._relay)  # returns when the agent listens; raises its error
        dead_man_s = self._inventory.dead_man_s
        client = AgentClient(self._connect_to_agent, dead_man_s=dead_man_s, label=self.host.label)
        client.ping()
        return client

    def end(self, *, keep_data: bool) -> None:
        """End the agent and undo all that it made; remove the home too, unless `keep_data`.

        A second call is no error. Raises TargetError with what is left.
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
        elif self._exists(self.home):
            _undo_by_agent(self.connection, self._command("undo", str(self.home)))
        if not keep_data:
            self.connection.run(["rm", "-rf", str(self.home)])
        self._installed = None
        self.connection.close()

    def _connect_to_agent(self) -> AgentStream:
        try:
            return self._open_relay()
        except SshError:
            self.connection.open()
            return self._open_relay()

    def _open_relay(self) -> AgentStream:
        relay = self.connection.as_root(self._relay)
        return AgentStream(self.connection.channel(relay, self._inventory.dead_man_s))

    def _exists(self, path: PurePosixPath) -> bool:
        there, _, _ = self.connection.try_run(self.connection.as_root(["test", "-e", str(path)]))
        return there == 0

    @property
    def _software(self) -> InstalledSoftware:
        if self._installed is None:
            raise TargetError(f"{self.host.label} is not connected, so no software is installed")
        return self._installed

    def _command(self, *arguments: str) -> list[str]:
        """Return a command line of `harness.targets.agent`."""
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
        """Copy the node's directory to the machine, without the files that the node writes."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in _files_for_the_node(directory):
                tar.add(path, path.relative_to(directory), recursive=False)
        install.unpack(self.connection, self.home, packed.getvalue())
        install.sync(self.connection, self.home)

    def fetch(self, directory: Path, *names: str) -> None:
        """Copy what the node wrote, or only these files, from the machine. Raises SshError."""
        options = [f"--exclude=./{name}" for name in _NOT_FETCHED]
        wanted = [f"./{name}" for name in names if self._exists(self.home / name)]
        for name in names or (DATA, OUTPUT):
            _remove(directory / name)
        if names and not wanted:
            return
        packed = self.connection.run(
            ["sh", "-c", _PACK, "sh", str(self.home), *options, *(wanted or ["."])],
            timeout_s=FETCH_TIMEOUT_S,
        )
        fetched.unpack(packed, directory)


def undo(fields: Mapping[str, object]) -> list[str]:
    """Undo what is left on the machine that a record names; return it. Raises TargetError."""
    command, home = fields["command"], str(fields["home"])
    assert isinstance(command, list)
    with recorded(fields) as connection:
        removed = _undo_by_agent(connection, command)
        connection.run(["rm", "-rf", home])
    return [f"{each} on {connection.host.label}" for each in removed]


def _undo_by_agent(connection: Connection, command: list[str]) -> list[str]:
    done = json.loads(connection.run(command))
    if done["problems"]:
        raise TargetError(f"{connection.host.label}: {'; '.join(done['problems'])}")
    return list(done["removed"])


def _files_for_the_node(directory: Path) -> Iterator[Path]:
    """Yield the files that the harness writes for a node, and all directories."""
    for path in sorted(directory.rglob("*")):
        of_the_node = path.relative_to(directory).parts[0] in (DATA, OUTPUT)
        if path.is_dir() or not of_the_node:
            yield path


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
