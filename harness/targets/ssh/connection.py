"""SSH connections to the machines of an inventory, by fabric (on paramiko).

fabric reads the ssh configuration, connects (through jump hosts or a ProxyCommand) and
authenticates. Unlike with fabric's defaults, unknown and changed host keys are refused, and every
refusal is one sentence that says how to correct it. Some parts of fabric are not used:

- `Connection.get_gateway` connects several hosts of a ProxyJump in reverse order (fabric issue
  2203), so the chain of jump hosts is built here.
- `Connection.run` sends a command's input at one byte every 10 ms and joins all output so far after
  every 1,000 bytes, so `try_run` uses a plain session. That also needs a quarter of the CPU time.
- `put` and `get` need an SFTP server, work as the login user instead of root, and need a second
  copy on the machine's disk; `get` took half as long again as tar's output through a session.
- `sudo` sends the password "None" when sudo asks for one, which may lock the account.

SshError    a machine cannot be reached, has another host key, or refuses a command
"""

import contextlib
import logging
import shlex
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import fabric
import paramiko

from harness.targets.base import TargetError
from harness.targets.ssh.inventory import Host, Inventory

CONNECT_TIMEOUT_S: Final = 10.0
RUN_TIMEOUT_S: Final = 60.0
CHUNK_BYTES: Final = 1 << 18
SSH_PORT: Final = 22
_RETRY_S: Final = 1.0
_FAILURES: Final = (paramiko.SSHException, OSError, EOFError)

_quiet = logging.getLogger("paramiko")  # SshError reports the same
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class SshError(TargetError):
    """A machine cannot be reached, has another host key, or refuses a command."""


class _Hop(NamedTuple):
    """One connection on the way to a machine."""

    ssh: fabric.Connection
    keys: Sequence[str]
    """The files of private keys; without any, ssh-agent's keys and the user's default keys."""

    def __str__(self) -> str:
        return f"{self.ssh.user}@{self.ssh.host}, port {self.ssh.port}"


class Connection:
    """The connection to one machine. Several threads may run commands at the same time."""

    def __init__(self, host: Host, inventory: Inventory) -> None:
        """Read the ssh configuration; `open` connects."""
        self.host = host
        self.record: Mapping[str, object] = {
            "host": host.model_dump(mode="json"),
            "known_hosts": str(inventory.known_hosts),
            "ssh_config": str(inventory.ssh_config),
            "patience": inventory.patience,
        }
        """The fields of the journal's record, for `recorded`."""
        self.transport: paramiko.Transport | None = None
        """The open connection; None while it is closed."""
        self._known_hosts = inventory.known_hosts
        self._patience = inventory.patience
        config = paramiko.SSHConfig()
        if inventory.ssh_config.exists():
            config = paramiko.SSHConfig.from_path(str(inventory.ssh_config))
        self._config = fabric.Config(ssh_config=config, lazy=True)
        self._hops: list[_Hop] = []
        """The machine itself, then the jump hosts, the first one last."""
        self.ssh = self._plan(host.host, host.user, host.port, host.key, host.jump)

    def _plan(
        self, name: str, user: str | None, port: int | None, key: Path | None, jump: str | None
    ) -> fabric.Connection:
        """Return a connection with its jump hosts; arguments have priority over the configuration.

        A jump host uses the key of the machine, unless the configuration has one.
        """
        limits = ("banner_timeout", "auth_timeout", "channel_timeout")
        ssh = fabric.Connection(
            name,
            user,
            port,
            self._config,
            gateway=False,
            connect_timeout=self._connect_timeout_s,
            connect_kwargs=dict.fromkeys(limits, self._connect_timeout_s),
        )
        keys = [str(key)] if key else ssh.ssh_config.get("identityfile", [])
        ssh.connect_kwargs["key_filename"] = [each for each in keys if Path(each).exists()]
        ssh.connect_kwargs["look_for_keys"] = not keys
        if self._known_hosts.exists():
            ssh.client.load_host_keys(str(self._known_hosts))
        ssh.client.set_missing_host_key_policy(_Refuse(self.host.label, self._known_hosts))
        self._hops.append(_Hop(ssh, keys))
        before, _, last = (jump or ssh.ssh_config.get("proxyjump", "")).rpartition(",")
        hop = fabric.connection.derive_shorthand(last)
        if hop["host"] in (None, name):  # a pattern of the configuration matches the jump host too
            ssh.gateway = ssh.ssh_config.get("proxycommand")
        elif last != "none":
            has_key = "identityfile" in self._config.base_ssh_config.lookup(hop["host"])
            key = None if has_key else self.host.key
            ssh.gateway = self._plan(hop["host"], hop["user"], hop["port"], key, before)
        return ssh

    @property
    def _connect_timeout_s(self) -> float:
        return CONNECT_TIMEOUT_S * self._patience

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect anew. Raises SshError."""
        self.close()
        try:
            for hop in reversed(self._hops):
                with self._explained(hop):
                    hop.ssh.open()
            self.transport = self.ssh.transport
        except BaseException:
            self.close()
            raise

    def open_within(self, timeout_s: float) -> None:
        """Connect to a booting machine, retrying until `timeout_s`. Raises SshError."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                self.open()
            except SshError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    def close(self) -> None:
        """Close the connection, and those to its jump hosts."""
        self.transport = None
        for hop in self._hops:
            with contextlib.suppress(*_FAILURES):
                hop.ssh.client.close()

    def address(self) -> str:
        """Return the IPv4 address for the nodes: the inventory's, or the one ssh connects to."""
        if self.host.address is not None:
            return str(self.host.address)
        try:
            return socket.gethostbyname(self.ssh.host)
        except OSError as error:
            raise SshError(
                f"{self.host.label}: the name {self.ssh.host} has no address here ({error}): set "
                "the machine's `address` in the inventory"
            ) from error

    # -- commands

    def as_root(self, argv: Sequence[str]) -> list[str]:
        """Return the command as root's."""
        sudo = self.ssh.user != "root" if self.host.sudo is None else self.host.sudo
        return ["sudo", "-n", "--", *argv] if sudo else list(argv)

    def run(
        self, argv: Sequence[str], *, content: bytes = b"", timeout_s: float = RUN_TIMEOUT_S
    ) -> bytes:
        """Run a command as root with `content` as its input; return its output. Raises SshError."""
        code, out, errors = self.try_run(self.as_root(argv), content=content, timeout_s=timeout_s)
        if code != 0:
            raise SshError(f"{self.host.label}: `{_shown(argv)}` failed: {errors or code}")
        return out

    def try_run(
        self, argv: Sequence[str], *, content: bytes = b"", timeout_s: float = RUN_TIMEOUT_S
    ) -> tuple[int, bytes, str]:
        """Run a command; return its exit code, its output, and the last lines of its errors.

        The command must not write much output before it has read its input. Raises SshError.
        """
        channel = self.channel(argv, timeout_s * self._patience)
        with self._failing(argv), contextlib.closing(channel):
            with contextlib.suppress(OSError):  # a command may end without reading its input
                channel.sendall(content)
                channel.shutdown_write()
            out = b"".join(iter(lambda: channel.recv(CHUNK_BYTES), b""))
            errors = b"".join(iter(lambda: channel.recv_stderr(CHUNK_BYTES), b""))
            code = channel.recv_exit_status()
        lines = errors.decode(errors="replace").strip().splitlines()
        return code, out, "; ".join(lines[-3:])

    def channel(self, argv: Sequence[str], timeout_s: float) -> paramiko.Channel:
        """Start a command and return its input and output. Raises SshError."""
        if self.transport is None:
            raise SshError(f"{self.host.label} is not connected")
        with self._failing(argv):
            channel = self.transport.open_session(timeout=self._connect_timeout_s)
            channel.settimeout(timeout_s)
            channel.exec_command(shlex.join(argv))
        return channel

    @contextlib.contextmanager
    def _failing(self, argv: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            why = str(error) or type(error).__name__
            raise SshError(f"{self.host.label}: `{_shown(argv)}`: {why}") from error

    # -- refusals

    @contextlib.contextmanager
    def _explained(self, hop: _Hop) -> Iterator[None]:
        try:
            yield
        except SshError:
            raise
        except (*_FAILURES, ValueError) as error:
            raise SshError(f"{self.host.label}: {self._reason(hop, error)}") from error

    def _reason(self, hop: _Hop, error: Exception) -> str:
        ssh, known_hosts = hop.ssh, self._known_hosts
        match error:
            case paramiko.BadHostKeyException():
                name = ssh.host if ssh.port == SSH_PORT else f"[{ssh.host}]:{ssh.port}"
                return (
                    f"{ssh.host} shows another host key ({error.key.fingerprint}) than the one "
                    f"in {known_hosts}: it was reinstalled, or somebody intercepts the connection. "
                    f"If you know why: ssh-keygen -f {known_hosts} -R '{name}'"
                )
            case paramiko.PasswordRequiredException():
                return (
                    f"the key {', '.join(hop.keys)} has a passphrase: add it to ssh-agent (ssh-add)"
                )
            case _ if isinstance(
                error, paramiko.AuthenticationException
            ) or "authentication" in str(error):
                keys = ", ".join(hop.keys) or "those of ssh-agent and ~/.ssh"
                return (
                    f"{hop} accepts none of the keys ({keys}): correct `user` and `key` in the "
                    "inventory, or add the key to authorized_keys there"
                )
        return (
            f"{hop} cannot be reached: {error or type(error).__name__}; check that the machine "
            "runs and that `ssh` connects to it"
        )


def recorded(fields: Mapping[str, object]) -> Connection:
    """Return the connection that a journal's record describes, not opened."""
    host = Host.model_validate(fields["host"])
    settings = {name: fields[name] for name in ("known_hosts", "ssh_config", "patience")}
    return Connection(host, Inventory.model_validate({"hosts": [host], **settings}))


class _Refuse(paramiko.MissingHostKeyPolicy):
    """Refuse unknown host keys."""

    def __init__(self, label: str, known_hosts: Path) -> None:
        self._label, self._known_hosts = label, known_hosts

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        # Ports other than 22 are part of the name: [host]:port.
        host, _, port = hostname.removeprefix("[").partition("]:")
        raise SshError(
            f"{self._label}: {hostname} is not in {self._known_hosts}, so its key cannot be "
            f"checked; it shows a {key.get_name()} key, {key.fingerprint}. If that is the "
            f"machine's: ssh-keyscan {f'-p {port} ' if port else ''}{host} >> {self._known_hosts}"
        )


class AgentStream:
    """A session as lines. See `harness.targets.agent.client.Stream`."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._reader = channel.makefile("rb")
        self._writing = threading.Lock()

    def readline(self) -> bytes:
        """Return the next line; empty at the end."""
        with _as_os_error():
            return bytes(self._reader.readline())

    def write(self, line: bytes) -> None:
        """Send the whole line."""
        with self._writing, _as_os_error():
            self._channel.sendall(line)

    def close(self) -> None:
        """Close the session, which ends the command."""
        with contextlib.suppress(OSError), _as_os_error():
            self._channel.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except (paramiko.SSHException, EOFError) as error:
        raise ConnectionError(str(error) or "the connection ended") from error


def _shown(argv: Sequence[str]) -> str:
    """Return a command for messages, without its environment variables."""
    return shlex.join([word for word in argv if word != "env" and "=" not in word])[:80]
