"""The Docker daemon: its address, its client, and messages for its errors."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.targets.base import PrivilegeMissing, TargetError, Unsupported
from harness.targets.linux import kernel

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

DEFAULT: Final = "unix:///var/run/docker.sock"
_SOCKET: Final = "unix://"
_TIMEOUT_S: Final = 60
_END_TIMEOUT_S: Final = 5.0
_KILLED: Final = 128
"""Docker's exit code of a process ended by a signal is this plus the signal's number."""


def chosen() -> str:
    """Return the daemon's address from the environment. Raises Unsupported for a remote daemon: the
    harness must see the containers' processes, and connect its own network to them.
    """
    address = os.environ.get("DOCKER_HOST") or DEFAULT
    if not address.startswith(_SOCKET):
        raise Unsupported(
            f"DOCKER_HOST is {address}, but the containers of a run must be on this machine, where "
            "highwater makes their network and faults: run highwater on the daemon's machine, with "
            "DOCKER_HOST unset or unix:///PATH"
        )
    return address


@contextmanager
def client(address: str) -> "Iterator[DockerClient]":
    """Return a client for the block. Raises Unsupported without a daemon, TargetError for errors of
    the daemon, and docker.errors.NotFound.
    """
    import docker
    from docker.errors import DockerException, NotFound
    from requests import RequestException

    try:
        connection = docker.DockerClient(base_url=address, version="auto", timeout=_TIMEOUT_S)
    except (DockerException, RequestException) as error:
        raise Unsupported(
            f"no Docker daemon answers at {address.removeprefix(_SOCKET)} ({_reason(error)}): "
            "start it (apt-get install docker.io; dockerd), or set DOCKER_HOST to its address"
        ) from error
    try:
        yield connection
    except NotFound:
        raise
    except (DockerException, RequestException) as error:
        raise TargetError(f"Docker: {_reason(error)}") from error
    finally:
        connection.close()


def check(address: str) -> None:
    """Raise PrivilegeMissing or Unsupported if no run can use the daemon's containers."""
    if os.geteuid() != 0:
        raise PrivilegeMissing(
            "only root can give containers their network, disks and faults from outside: run "
            "highwater as root (sudo), or use --target local"
        )
    with client(address) as connection:
        options = connection.info().get("SecurityOptions") or []
    if "name=rootless" in options:
        raise Unsupported(
            f"the Docker daemon at {address} runs without root, so highwater cannot connect its "
            "containers to the run's network: use a daemon that runs as root, or no containers"
        )


def first_process(container: "Container", address: str) -> int:
    """Return the pid here of a container's first process. Raises Unsupported for a container of
    another machine."""
    container.reload()
    pid = int(container.attrs["State"]["Pid"])
    try:
        is_here = str(container.id) in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        is_here = False
    if not is_here:
        raise Unsupported(
            f"the containers of the Docker daemon at {address} are not processes of this machine, "
            "so no fault can be made for them: run highwater where the daemon runs"
        )
    return pid


def exit_code(inspect: Callable[[], Mapping[str, object]]) -> int | None:
    """Return the exit code of a process that has ended (negative: the signal), or None when it is
    unknown. `inspect` asks the daemon for `Running` and `ExitCode`."""
    kernel.wait_until(lambda: not inspect()["Running"], _END_TIMEOUT_S)
    code = inspect()["ExitCode"]
    if not isinstance(code, int):
        return None
    return _KILLED - code if code > _KILLED else code


def _reason(error: BaseException) -> str:
    """Return the daemon's explanation, or the text of the innermost cause."""
    if explanation := getattr(error, "explanation", None):
        return str(explanation)
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(getattr(error, "strerror", None) or error)
