"""The messages when no Docker daemon can be used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.targets.base import PrivilegeMissing, Unsupported
from harness.targets.docker import daemon
from tests.support.require import require


def test_a_remote_daemon_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults are made on the harness's machine."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    with pytest.raises(Unsupported, match=r"tcp://10.0.0.1:2375.*on this machine.*unset or unix"):
        daemon.chosen()


def test_docker_host_chooses_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for Docker's own programs."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///here")
    assert daemon.chosen() == "unix:///here"
    monkeypatch.delenv("DOCKER_HOST")
    assert daemon.chosen() == daemon.DEFAULT


def test_a_user_who_is_not_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any call of the daemon."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PrivilegeMissing, match=r"as root.*or use --target local"):
        daemon.check("unix:///nowhere")


def test_a_run_without_a_daemon_fails_with_one_sentence(tmp_path: Path) -> None:
    """The sentence names the socket and the fix, and nothing was made."""
    require("root")
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "run", "quick", "--target", "docker"],
        cwd=tmp_path,
        env={
            **os.environ,
            "DOCKER_HOST": f"unix://{tmp_path}/socket",
            "PYTHONPATH": str(Path.cwd()),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 255
    [message] = done.stderr.splitlines()
    assert f"no Docker daemon answers at {tmp_path}/socket (No such file or directory)" in message
    assert "apt-get install docker.io" in message
    assert not (tmp_path / "store").exists()
