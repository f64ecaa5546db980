"""Instances that are containers, each with the program's image and in the program's network.

The containers join the network of a container that the target has made, or have this machine's.
Their processes are processes of this machine, so faults hit them as they hit commands. A container
is removed at its end. What is left when this process is killed, the target removes.
"""

import io
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from harness.targets.base import TargetError
from harness.targets.docker import daemon
from harness.targets.docker.undo import PROGRAM_LABEL, RUN_LABEL, remove
from harness.targets.linux import kernel, processes
from harness.targets.linux.network.network import name_of
from harness.workloads.app.started import ProgramFailed

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.types import Mount

_NEVER: Final = 255
"""The exit code of a container whose end nobody knows."""


class Chunks(io.RawIOBase):
    """A stream of what an iterator yields."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with the next bytes; return how many, 0 at the end."""
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


class StartedContainer:
    """A container. See `Started`."""

    def __init__(self, address: str, name: str, run_id: str, pid: int, output: IO[bytes]) -> None:
        """`pid` is that of its first process, 0 if it has ended."""
        self._address = address
        self._name = name
        self._run_id = run_id
        self._process = (processes.identify(pid) if pid else None) or processes.UNKNOWN_PROCESS
        self._output = output
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """See the protocol."""
        return self._process.pid

    @property
    def output(self) -> IO[bytes]:
        """See the protocol."""
        return self._output

    def poll(self) -> int | None:
        """See the protocol."""
        if self._code is None and not processes.is_alive(self._process):
            self._code = self._exit_code()
        return self._code

    def wait(self, timeout_s: float) -> int:
        """See the protocol."""
        if not kernel.wait_until(lambda: self.poll() is not None, timeout_s):
            raise subprocess.TimeoutExpired(f"container {self._name}", timeout_s)
        assert self._code is not None
        return self._code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the first process, which passes it on to the program. With it the whole
        container ends."""
        if processes.is_alive(self._process):
            processes.signal_group(self.pid, number)

    def clean_up(self) -> None:
        """Remove the container."""
        with suppress(TargetError):  # the target tries it again, and says what is left
            remove(self._address, self._name, self._run_id)

    def _exit_code(self) -> int:
        from docker.errors import NotFound

        with suppress(TargetError, NotFound), daemon.client(self._address) as client:
            code = daemon.exit_code(lambda: client.api.inspect_container(self._name)["State"])
            if code is not None:
                return code
        return _NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Containers:
    """Starts containers. See `Starter`."""

    address: str
    """The daemon's."""
    image: str
    command: Callable[[int], Sequence[str]]
    """The arguments of an instance; none: the image's own."""
    environment: Callable[[int], Mapping[str, str]]
    """The variables of an instance, in addition to the image's."""
    network: str | None
    """The name of the container whose network the containers join; None: this machine's."""
    run_id: str
    shared: Sequence[Path]
    """Directories and files of this machine that are in the containers too, at the same paths."""

    def __call__(self, number: int) -> StartedContainer:
        """Start an instance. Raises ProgramFailed."""
        from docker.errors import NotFound

        name = f"{self.network or f'{name_of(self.run_id)}-program'}-{number}"
        try:
            remove(self.address, name, self.run_id)
            with daemon.client(self.address) as client:
                return self._started(client, name, number)
        except (TargetError, NotFound) as error:
            reason = str(error).removeprefix("Docker: ")
            raise ProgramFailed(
                f"the program cannot be started: image {self.image}: {reason}"
            ) from error

    def _started(self, client: "DockerClient", name: str, number: int) -> StartedContainer:
        from docker.types import LogConfig

        container = client.containers.create(
            self.image,
            list(self.command(number)),
            name=name,
            labels={RUN_LABEL: self.run_id, PROGRAM_LABEL: str(number)},
            environment=dict(self.environment(number)),
            init=True,  # it passes SIGTERM on, and ends the container with the program
            userns_mode="host",
            network_mode="host" if self.network is None else f"container:{self.network}",
            mounts=_mounts(self.shared),
            log_config=LogConfig(type=LogConfig.types.NONE),
        )
        output = _attached(self.address, name)
        container.start()
        container.reload()
        pid = int(container.attrs["State"]["Pid"])
        if self.network is None and pid and not _has_this_network(pid):
            remove(self.address, name, self.run_id)
            raise TargetError(
                f"the Docker daemon at {self.address} has another network than this machine, so "
                "the containers cannot reach the brokers: run highwater where the daemon runs"
            )
        return StartedContainer(self.address, name, self.run_id, pid, output)


def _has_this_network(pid: int) -> bool:
    """Whether a process has this process's network, or has ended."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
    except OSError:
        return True


def _mounts(paths: Sequence[Path]) -> "list[Mount]":
    from docker.types import Mount

    return [Mount(str(path), str(path), type="bind") for path in dict.fromkeys(paths)]


def _attached(address: str, name: str) -> IO[bytes]:
    """Return what a container prints from now on, to its end.

    The connection is one of its own, which ends with the container.
    """
    import docker

    client = docker.APIClient(base_url=address, version="auto")

    def chunks() -> Iterator[bytes]:
        try:
            yield from stream
        finally:
            client.close()

    stream = client.attach(name, stdout=True, stderr=True, stream=True)
    return cast(IO[bytes], io.BufferedReader(Chunks(chunks())))
