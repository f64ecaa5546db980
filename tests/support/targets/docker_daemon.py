"""A Docker daemon for the tests, and a base image for it that needs no registry.

The daemon has its own directory and, usually, its own network namespace, so that it affects neither
this machine's bridges and rules nor other daemons.
"""

import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker

from harness.targets.linux import kernel

START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 60.0
BASE = "highwater-test-base"
KEPT = Path(__file__).parents[3] / ".docker"
"""The directory where the base is kept for later test runs."""
PACKAGES = (
    *("python3-minimal", "libpython3-stdlib", "dash", "coreutils"),
    *("libstdc++6", "zlib1g"),  # of the JVM
)


def base() -> Path:
    """Return a tar file of a small Debian of this machine's release, with Python."""
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    path = KEPT / f"{release}.tar"
    if not path.exists():
        KEPT.mkdir(exist_ok=True)
        (KEPT / ".gitignore").write_text("*\n")
        made = path.with_suffix(f".{os.getpid()}.tar")
        options = ("--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}")
        subprocess.run(["mmdebstrap", *options, release, made], check=True, timeout=600)
        made.replace(path)
    return path


@contextmanager
def daemon(*, own_network: bool = True) -> Iterator[str]:
    """Start a daemon that has only the base, and return its address. Without a network of its own
    it has this machine's, and changes nothing of it."""
    place = Path(tempfile.mkdtemp(prefix="highwater-docker-"))
    address = f"unix://{place}/socket"
    options = (
        *("--data-root", place / "data", "--exec-root", place / "exec"),
        *("--pidfile", place / "pid", "--host", address),
        *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none"),
    )
    with (place / "log").open("wb") as log:
        prefix = ("unshare", "--net") if own_network else ()
        process = subprocess.Popen([*prefix, "dockerd", *options], stdout=log, stderr=log)
    try:
        assert kernel.wait_until(lambda: _answers(place / "socket"), START_TIMEOUT_S, 0.1), (
            place / "log"
        ).read_text()
        client = docker.DockerClient(base_url=address, timeout=600)
        try:
            client.api.import_image_from_file(str(base()), repository=BASE)
        finally:
            client.close()
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(END_TIMEOUT_S)
        # The name of the daemon's own network, which containers with that network have used.
        if kernel.is_mounted(own := place / "exec" / "netns" / "default"):
            kernel.umount(own)
        shutil.rmtree(place)


def _answers(path: Path) -> bool:
    # Docker's library leaks failed connections, so this uses a socket.
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(str(path))
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in connection.recv(64)
        except OSError:
            return False
