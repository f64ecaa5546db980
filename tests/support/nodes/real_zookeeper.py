"""A single ZooKeeper server of its own for a test, on loopback, with its data in a given folder."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from harness.brokers.zookeeper.home import find_zookeeper
from tests.support.nodes.cluster import free_ports

START_S = 60.0


@contextlib.contextmanager
def real_zookeeper(directory: Path) -> Iterator[int]:
    """Start a server and yield its port. Call `require("zookeeper", "java")` first."""
    (port,) = free_ports(1)
    config = directory / "zoo.cfg"
    config.write_text(
        f"dataDir={directory / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "tickTime=200\nminSessionTimeout=400\nmaxClientCnxns=0\nadmin.enableServer=false\n"
    )
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    classpath = ":".join(find_zookeeper().classpath)
    with (directory / "zookeeper.log").open("wb") as log:
        server = subprocess.Popen(
            ["java", "-Xmx128m", "-cp", classpath, main, str(config)], stdout=log, stderr=log
        )
    try:
        _wait(port, server, directory / "zookeeper.log")
        yield port
    finally:
        server.kill()
        server.wait()


def _wait(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise AssertionError(f"ZooKeeper did not start: {log.read_text()[-2000:]}")
