"""SSH connections to the machines of an inventory: checked host keys, and sentences for refusals.

SshError    a machine cannot be reached, is not who it was, or lets us not do what is needed
"""

import base64
import contextlib
import logging
import os
import shlex
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import paramiko

from harness.targets.base import TargetError
from harness.targets.ssh.inventory import Host, Inventory

CONNECT_TIMEOUT_S: Final = 10.0
RUN_TIMEOUT_S: Final = 60.0
CHUNK_BYTES: Final = 1 << 18
SSH_PORT: Final = 22
_AGAIN_S: Final = 1.0

_quiet = logging.getLogger("paramiko")  # it tells what we say in our own words
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class SshError(TargetError):
    """A machine is not reached, or does not do what it is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one machine is reached, all told."""

    host: str
    port: int
    user: str
    keys: tuple[str, ...]
    jump: str | None

    @property
    def known_as(self) -> str:
        """Its name in known_hosts."""
        return self.host if self.port == SSH_PORT else f"[{self.host}]:{self.port}"


def way_of(
    alias: str,
    config: paramiko.SSHConfig,
    *,
    port: int | None = None,
    user: str | None = None,
    key: Path | None = None,
    jump: str | None = None,
) -> Way:
    """What is given, then what the ssh configuration says of the alias, then ssh's own defaults."""
    found = config.lookup(alias)
    by = jump or found.get("proxyjump")
    return Way(
        host=found.get("hostname", alias),
        port=port or int(found.get("port", SSH_PORT)),
        user=user or found.get("user") or _me(),
        keys=(str(key),) if key else tuple(found.get("identityfile", ())),
        jump=None if by == "none" else by,
    )


def jump_of(text: str, config: paramiko.SSHConfig, key: Path | None) -> Way:
    """The last of a list of jump hosts, reached by those before it; with the key of the host behind
    them, unless the configuration says otherwise.
    """
    before, _, last = text.rpartition(",")
    user, _, place = last.rpartition("@")
    host, _, port = place.partition(":")
    return way_of(
        host,
        config,
        port=int(port) if port else None,
        user=user or None,
        key=None if "identityfile" in config.lookup(host) else key,
        jump=before or None,
    )


class Connection:
    """One machine's connection. Commands may run at the same time, from several threads."""

    def __init__(self, host: Host, inventory: Inventory) -> None:
        """Plan it; `open` connects."""
        self.host = host
        self.record: Mapping[str, object] = {
            "host": host.model_dump(mode="json"),
            "known_hosts": str(inventory.known_hosts),
            "ssh_config": str(inventory.ssh_config),
            "patience": inventory.patience,
        }
        """What the journal says of it, for `recorded`."""
        self._known_hosts = inventory.known_hosts
        self._patience = inventory.patience
        self._config = paramiko.SSHConfig()
        if inventory.ssh_config.exists():
            self._config = paramiko.SSHConfig.from_path(str(inventory.ssh_config))
        self.way = way_of(
            host.host,
            self._config,
            port=host.port,
            user=host.user,
            key=host.key,
            jump=host.jump,
        )
        self._clients = ExitStack()
        self._transport: paramiko.Transport | None = None

    @property
    def port(self) -> int:
        """Where its ssh server listens."""
        return self.way.port

    @property
    def transport(self) -> paramiko.Transport | None:
        """What carries it; None while it is closed."""
        return self._transport

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
            self._transport = self._reach(self.way)
        except BaseException:
            self.close()
            raise

    def open_within(self, timeout_s: float) -> None:
        """Connect to a machine that is booting. Raises SshError when it lets nobody in in time."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                self.open()
            except SshError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_AGAIN_S)
            else:
                return

    def close(self) -> None:
        """End it and all that goes over it."""
        self._transport = None
        with contextlib.suppress(OSError), _as_os_error():
            self._clients.close()

    @property
    def _connect_timeout_s(self) -> float:
        return CONNECT_TIMEOUT_S * self._patience

    def address(self) -> str:
        """The IPv4 address that the nodes use: the inventory's, or the one ssh connected to."""
        if self.host.address is not None:
            return str(self.host.address)
        try:
            return socket.gethostbyname(self.way.host)
        except OSError as error:
            raise SshError(
                f"{self.host.label}: {self.way.host} has no address here ({error}); say the "
                "machine's `address` in the inventory"
            ) from error

    # -- commands

    def as_root(self, argv: Sequence[str]) -> list[str]:
        """The command as root gives it."""
        sudo = self.way.user != "root" if self.host.sudo is None else self.host.sudo
        return ["sudo", "-n", "--", *argv] if sudo else list(argv)

    def run(
        self,
        argv: Sequence[str],
        *,
        source: IO[bytes] | None = None,
        timeout_s: float = RUN_TIMEOUT_S,
    ) -> bytes:
        """Run a command as root with `source` as its input; what it printed. Raises SshError."""
        code, out, said = self.try_run(self.as_root(argv), source=source, timeout_s=timeout_s)
        if code != 0:
            raise SshError(f"{self.host.label}: `{_told(argv)}` failed: {said or code}")
        return out

    def try_run(
        self,
        argv: Sequence[str],
        *,
        source: IO[bytes] | None = None,
        timeout_s: float = RUN_TIMEOUT_S,
    ) -> tuple[int, bytes, str]:
        """Run a command as it is: exit code, output, the last lines of its errors."""
        timeout_s *= self._patience
        with self._failing(argv), contextlib.closing(self.channel(argv, timeout_s)) as channel:
            feeder = threading.Thread(target=_feed, args=(channel, source), daemon=True)
            feeder.start()
            errors: list[bytes] = []
            listener = threading.Thread(target=_drain, args=(channel, errors), daemon=True)
            listener.start()
            out = b"".join(iter(lambda: channel.recv(CHUNK_BYTES), b""))
            listener.join(timeout_s)
            code = channel.recv_exit_status()
            feeder.join(timeout_s)
        lines = b"".join(errors).decode(errors="replace").strip().splitlines()
        return code, out, "; ".join(lines[-3:])

    def channel(self, argv: Sequence[str], timeout_s: float) -> paramiko.Channel:
        """A started command's input and output. Raises SshError."""
        if self._transport is None:
            raise SshError(f"{self.host.label} is not connected")
        with self._failing(argv):
            channel = self._transport.open_session(timeout=self._connect_timeout_s)
            channel.settimeout(timeout_s)
            channel.exec_command(shlex.join(argv))
        return channel

    @contextlib.contextmanager
    def _failing(self, argv: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except (paramiko.SSHException, OSError, EOFError) as error:
            why = str(error) or type(error).__name__
            raise SshError(f"{self.host.label}: `{_told(argv)}`: {why}") from error

    # -- connecting

    def _reach(self, way: Way) -> paramiko.Transport:
        sock: Any = None
        if way.jump is not None:
            inner = self._reach(jump_of(way.jump, self._config, self.host.key))
            with self._explained(way):
                sock = inner.open_channel(
                    "direct-tcpip",
                    (way.host, way.port),
                    ("127.0.0.1", 0),
                    timeout=self._connect_timeout_s,
                )
        keys = [key for key in way.keys if Path(key).exists()]
        client = paramiko.SSHClient()
        self._clients.callback(client.close)
        with self._explained(way):
            if self._known_hosts.exists():
                client.load_host_keys(str(self._known_hosts))
            client.set_missing_host_key_policy(_Refuse(self.host.label, way, self._known_hosts))
            client.connect(
                way.host,
                way.port,
                way.user,
                key_filename=keys or None,  # type: ignore[arg-type]  # it takes a list too
                look_for_keys=not way.keys,
                sock=sock,
                timeout=self._connect_timeout_s,
                banner_timeout=self._connect_timeout_s,
                auth_timeout=self._connect_timeout_s,
            )
        transport = client.get_transport()
        assert transport is not None
        return transport

    @contextlib.contextmanager
    def _explained(self, way: Way) -> Iterator[None]:
        at = f"{way.user}@{way.host}, port {way.port}"
        label = self.host.label
        try:
            yield
        except SshError:
            raise
        except paramiko.BadHostKeyException as error:
            raise SshError(
                f"{label}: {way.host} shows another host key ({_print_of(error.key)}) than "
                f"{self._known_hosts} has: it was installed anew, or somebody is in between. If "
                f"you know why: ssh-keygen -f {self._known_hosts} -R '{way.known_as}'"
            ) from error
        except paramiko.PasswordRequiredException as error:
            raise SshError(
                f"{label}: the key {', '.join(way.keys)} has a passphrase: give it to the agent "
                "(ssh-add) and try again"
            ) from error
        except (
            paramiko.AuthenticationException,
            paramiko.ssh_exception.NoValidConnectionsError,
            paramiko.SSHException,
            OSError,
            EOFError,
            ValueError,
        ) as error:
            if isinstance(error, paramiko.AuthenticationException) or "authentication" in str(
                error
            ):
                tried = ", ".join(way.keys) or "ssh-agent's and the user's default ones"
                raise SshError(
                    f"{label}: {at} accepts none of the keys ({tried}): correct `user` and `key` "
                    "in the inventory, or add the key to authorized_keys there"
                ) from error
            raise SshError(
                f"{label}: {at} cannot be reached: {error or type(error).__name__}; is it up, and "
                "does `ssh` get there?"
            ) from error


def recorded(fields: Mapping[str, object]) -> Connection:
    """The connection that a journal's record tells of, to be opened."""
    host = Host.model_validate(fields["host"])
    told = {name: fields[name] for name in ("known_hosts", "ssh_config", "patience")}
    return Connection(host, Inventory.model_validate({"hosts": [host], **told}))


class _Refuse(paramiko.MissingHostKeyPolicy):
    """Nobody is trusted at first sight."""

    def __init__(self, label: str, way: Way, known_hosts: Path) -> None:
        self._label, self._way, self._known_hosts = label, way, known_hosts

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        port = "" if self._way.port == SSH_PORT else f"-p {self._way.port} "
        raise SshError(
            f"{self._label}: {hostname} is not in {self._known_hosts}; it shows a "
            f"{key.get_name()} key, {_print_of(key)}. If that is the machine's: "
            f"ssh-keyscan {port}{self._way.host} >> {self._known_hosts}"
        )


class Lines:
    """A channel as lines. See `harness.targets.agent.client.Stream`."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._reader = channel.makefile("rb")
        self._writing = threading.Lock()

    def readline(self) -> bytes:
        """The next line; empty at the end."""
        with _as_os_error():
            return bytes(self._reader.readline())

    def write(self, line: bytes) -> None:
        """Send all of it."""
        with self._writing, _as_os_error():
            self._channel.sendall(line)

    def close(self) -> None:
        """End the command."""
        with contextlib.suppress(OSError), _as_os_error():
            self._channel.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except (paramiko.SSHException, EOFError) as error:
        raise ConnectionError(str(error) or "the connection ended") from error


def _feed(channel: paramiko.Channel, source: IO[bytes] | None) -> None:
    with contextlib.suppress(OSError):
        while source is not None and (chunk := source.read(CHUNK_BYTES)):
            channel.sendall(chunk)
        channel.shutdown_write()


def _drain(channel: paramiko.Channel, into: list[bytes]) -> None:
    with contextlib.suppress(OSError):
        while chunk := channel.recv_stderr(CHUNK_BYTES):
            into.append(chunk)


def _print_of(key: paramiko.PKey) -> str:
    digest = sha256(key.asbytes()).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _told(argv: Sequence[str]) -> str:
    """A command without the environment that it is given."""
    return shlex.join([word for word in argv if word != "env" and "=" not in word])[:80]


def _me() -> str:
    return os.environ.get("USER") or os.environ.get("LOGNAME") or "root"
