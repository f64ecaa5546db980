"""The Docker daemon: where it is, and what to say when it does not do what is asked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from harness.targets.base import PrivilegeMissing, TargetError, Unsupported

if TYPE_CHECKING:
    from docker import DockerClient

DEFAULT: Final = "unix:///var/run/docker.sock"
_SOCKET: Final = "unix://"
_TIMEOUT_S: Final = 60


def chosen() -> str:
    """The address of the daemon that the environment chooses. Raises Unsupported for one elsewhere:
    the harness must see the containers' processes, and bring its own network to them.
    """
    address = os.environ.get("DOCKER_HOST") or DEFAULT
    if not address.startswith(_SOCKET):
        raise Unsupported(
            f"DOCKER_HOST is {address}, and the containers of a run must be on this machine: run "
            "highwater on the daemon's machine, with DOCKER_HOST unset or unix:///PATH"
        )
    return address


@contextmanager
def client(address: str) -> "Iterator[DockerClient]":
    """A connection for the block. Raises Unsupported without a daemon, TargetError for whatever
    the daemon refuses; docker.errors.NotFound is the caller's.
    """
    import docker
    from docker.errors import DockerException, NotFound
    from requests import RequestException

    try:
        connection = docker.DockerClient(base_url=address, version="auto", timeout=_TIMEOUT_S)
    except (DockerException, RequestException) as error:
        raise Unsupported(
            f"no Docker daemon answers at {address.removeprefix(_SOCKET)} ({_reason(error)}): "
            "start it (apt-get install docker.io), or say where it is in DOCKER_HOST"
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
    """Raises PrivilegeMissing, Unsupported where no run can have its containers."""
    if os.geteuid() != 0:
        raise PrivilegeMissing(
            "containers get their network, disks and faults from outside, which only root may give "
            "them: run highwater as root (sudo), or use --target local"
        )
    with client(address) as connection:
        options = connection.info().get("SecurityOptions") or []
    if "name=rootless" in options:
        raise Unsupported(
            f"the Docker daemon at {address} runs without root, where no network of ours can be "
            "brought to its containers: use one that runs as root, or --target local"
        )


def _reason(error: BaseException) -> str:
    """What the daemon said; or the innermost words of those that wrap a failure to reach it."""
    if said := getattr(error, "explanation", None):
        return str(said)
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(getattr(error, "strerror", None) or error)
