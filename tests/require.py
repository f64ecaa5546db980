"""What a test needs of the machine: skipped where it is missing, failed where it was promised.

`HIGHWATER_REQUIRE` names the capabilities that must be there (comma-separated, or `all`), so that a
continuous-integration machine that lost one fails instead of quietly testing less.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


def _runs(*argv: str) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _has_kafka() -> bool:
    """What `make kafka` fetches."""
    fetched = Path(__file__).parents[1] / ".kafka" / "libs"
    return any(fetched.glob("kafka-server-4*.jar")) and shutil.which("java") is not None


def _has_docker() -> bool:
    """What it takes to start a daemon for the tests, and to make a base image."""
    return os.geteuid() == 0 and None not in map(
        shutil.which, ("dockerd", "docker-init", "mmdebstrap")
    )


def _has_machines() -> bool:
    """Three that `vagrant up` made."""
    try:
        told = subprocess.run(
            ("vagrant", "status", "--machine-readable"),
            capture_output=True, text=True, timeout=60, check=False,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return all(f",n{node},state,running" in told for node in (1, 2, 3))


CAPABILITIES: dict[str, Callable[[], bool]] = {
    "root": lambda: os.geteuid() == 0,
    "netns": lambda: _runs("unshare", "--net", "true"),
    "userns": lambda: _runs("unshare", "--user", "--map-root-user", "--net", "true"),
    "loop": lambda: os.geteuid() == 0 and Path("/dev/loop-control").exists(),
    "java": lambda: shutil.which("java") is not None,
    "kafka": _has_kafka,
    "kcat": lambda: shutil.which("kcat") is not None,
    "faketime": lambda: bool(list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))),
    "sshd": lambda: Path("/usr/sbin/sshd").exists() and os.geteuid() == 0,
    "docker": _has_docker,
    "openssl": lambda: shutil.which("openssl") is not None,
    "chromium": lambda: shutil.which("chromium") is not None,
    "vagrant": _has_machines,
    "ruby": lambda: shutil.which("ruby") is not None,
}


def require(capability: str) -> None:
    """Skip the running test unless the machine has `capability`; fail it where it was promised."""
    if CAPABILITIES[capability]():
        return
    promised = os.environ.get("HIGHWATER_REQUIRE", "").split(",")
    if "all" in promised or capability in promised:
        pytest.fail(f"HIGHWATER_REQUIRE promises {capability}, but this machine has none")
    pytest.skip(f"this machine has no {capability}")
