"""`highwater cluster up` and `down` as people use them: on a terminal, twice at once, wrongly."""

import fcntl
import json
import os
import re
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness.recording import journal
from tests.support.clusters.cluster_command import (
    PATIENCE_S,
    command,
    facts,
    highwater,
    known_everywhere,
)
from tests.support.foreign import REPLICAS, Confluent, Message
from tests.support.require import require
from tests.support.targets.machine import leftovers

CTRL_C = b"\x03"


class Terminal:
    """A command with a terminal of its own, as a shell would start it."""

    def __init__(self, *arguments: str | Path) -> None:
        self._master, slave = os.openpty()
        self.output = ""
        self.process = subprocess.Popen(
            command(*arguments),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def read_until(self, wanted: str) -> str:
        """The text that `wanted`, a regular expression, matches, as soon as it is on the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(wanted, self.output, re.MULTILINE)) is None:
            assert time.monotonic() < deadline, f"no {wanted} in {self.output}"
            try:
                self.output += os.read(self._master, 4096).decode().replace("\r\n", "\n")
            except OSError:  # how Linux says that nobody has the terminal open any more
                raise AssertionError(f"ended without {wanted}: {self.output}") from None
        return found.group()

    def wait(self) -> int:
        """The exit code; what was still printed is in `output`."""
        with suppress(OSError):
            while data := os.read(self._master, 4096):
                self.output += data.decode().replace("\r\n", "\n")
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """Make sure that it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.wait()
        os.close(self._master)


@contextmanager
def terminal(*arguments: str | Path) -> Iterator[Terminal]:
    """A command on a terminal, ended in any case."""
    made = Terminal(*arguments)
    try:
        yield made
    finally:
        made.close()


def is_clean(run: Path) -> bool:
    """Whether the kernel has nothing left of a run, and its journal says so."""
    run_id = json.loads((run / "run.json").read_text())["run_id"]
    assert leftovers(run_id, run) == []
    return journal.read(run / "journal.jsonl")[-1]["kind"] == journal.UNDONE


def node_pid(run: Path, node: int) -> int:
    """The process of a node."""
    records = journal.read(run / "journal.jsonl")
    found = [r for r in records if r["kind"] == "local.process" and r["machine"] == node]
    return int(str(found[-1]["pid"]))


def serves(bootstrap: str, topic: str, replicas: int = REPLICAS) -> bool:
    """Whether the cluster takes a topic and a record, and gives it back."""
    client = Confluent()
    assert client.create_topic(bootstrap, topic, replicas)
    known_everywhere(bootstrap, topic)
    client.produce(bootstrap, topic, [Message(b"news")])
    return client.consume(bootstrap, topic, 1) == [Message(b"news")]


@pytest.mark.slow
def test_up_on_a_terminal_until_ctrl_c(tmp_path: Path) -> None:
    """It says where to connect, where its logs are and how to stop it; Ctrl-C leaves nothing.

    On the way: `down` does not touch it, and a node that ends by itself is told of.
    """
    require("root", "netns")
    with terminal("cluster", "up", "--store", tmp_path / "store") as up:
        up.read_until(r"^run +/.+$\n")
        said = facts("\n".join(line for line in up.output.splitlines() if "starting" not in line))
        assert list(said) == ["bootstrap", "logs", "stop", "run"]
        assert said["stop"] == "Ctrl-C"
        run = Path(said["run"])
        assert len(list(run.glob("nodes/*/node.log"))) == 3
        assert said["logs"] == f"{run}/nodes/*/node.log"
        assert len(said["bootstrap"].split(",")) == 3
        assert serves(said["bootstrap"], "first")

        refused = highwater("cluster", "down", run)
        assert refused.returncode == 254
        assert "stop it with Ctrl-C where it was started" in refused.stderr

        os.kill(node_pid(run, 3), signal.SIGKILL)
        up.read_until(r"node 3 ended by itself, exit code -9; see /.*/nodes/3/node\.log")

        up.type(CTRL_C)
        assert up.wait() == 0, up.output
        assert "SIGINT: ending in order" in up.output
        assert "the cluster is down" in up.output
        assert "Traceback" not in up.output
        assert is_clean(run)


@pytest.mark.slow
def test_ctrl_c_while_it_starts(tmp_path: Path) -> None:
    """Nothing is said of a cluster that nobody wants any more, and nothing is left."""
    require("root", "netns")
    with terminal("cluster", "up", "--nodes", "1", "--store", tmp_path / "store") as up:
        up.read_until("starting 1 nodes")
        up.type(CTRL_C)
        assert up.wait() == 0, up.output
        assert "bootstrap" not in up.output
        assert all(is_clean(path.parent) for path in tmp_path.glob("store/*/*/journal.jsonl"))


@pytest.mark.slow
def test_two_detached_clusters_at_once(tmp_path: Path) -> None:
    """Each has addresses of its own and outlives its command; `down` ends the one it is told."""
    require("root", "netns")
    runs: list[Path] = []
    try:
        bootstraps = []
        for name in ("one", "two"):
            up = highwater("cluster", "up", "--nodes", "1", "--detach", "--store", tmp_path / name)
            assert up.returncode == 0, up.stderr
            said = facts(up.stdout)
            runs.append(Path(said["run"]))
            bootstraps.append(said["bootstrap"])
            assert said["stop"] == f"highwater cluster down {said['run']}"
        assert bootstraps[0] != bootstraps[1]
        assert all(serves(bootstrap, "same-name", replicas=1) for bootstrap in bootstraps)

        down = highwater("cluster", "down", runs[0])
        assert down.returncode == 0, down.stderr
        assert "removed" in down.stdout
        assert is_clean(runs[0])
        assert leftovers(json.loads((runs[1] / "run.json").read_text())["run_id"], runs[1])

        again = highwater("cluster", "down", runs[0])
        assert again.returncode == 0
        assert "removed nothing" in again.stdout
    finally:
        for run in runs:
            highwater("cluster", "down", run)
    assert all(is_clean(run) for run in runs)


def test_down_where_nothing_ever_was(tmp_path: Path) -> None:
    """A directory that is no run is named as such."""
    refused = highwater("cluster", "down", tmp_path / "nowhere")
    assert refused.returncode == 254
    assert "no such run directory" in refused.stderr
