"""`highwater cluster up` and `down`: on a terminal, several clusters, wrong arguments."""

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
    called,
    command,
    facts,
    highwater,
    known_everywhere,
)
from tests.support.foreign import REPLICAS, Confluent, Message
from tests.support.require import require
from tests.support.targets.machine import leftovers
from tests.support.tiers import at_turn

CTRL_C = b"\x03"


class Terminal:
    """A command on a terminal of its own, as a shell starts it."""

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
        """Type keys."""
        os.write(self._master, keys)

    def read_until(self, wanted: str) -> str:
        """Return the text that the regular expression `wanted` matches, once it is printed."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(wanted, self.output, re.MULTILINE)) is None:
            assert time.monotonic() < deadline, f"no {wanted} in {self.output}"
            try:
                self.output += os.read(self._master, 4096).decode().replace("\r\n", "\n")
            except OSError:  # Linux reports so that no process has the terminal open
                raise AssertionError(f"ended without {wanted}: {self.output}") from None
        return found.group()

    def wait(self) -> int:
        """Return the exit code; the rest of the text is in `output`."""
        with suppress(OSError):
            while data := os.read(self._master, 4096):
                self.output += data.decode().replace("\r\n", "\n")
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """End the command if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.wait()
        os.close(self._master)


@contextmanager
def terminal(*arguments: str | Path) -> Iterator[Terminal]:
    """Yield a command on a terminal, and end it in any case."""
    made = Terminal(*arguments)
    try:
        yield made
    finally:
        made.close()


def is_clean(run: Path) -> bool:
    """Return whether the kernel has nothing left of a run, and its journal is finished."""
    run_id = json.loads((run / "run.json").read_text())["run_id"]
    assert leftovers(run_id, run) == []
    return journal.read(run / "journal.jsonl")[-1]["kind"] == journal.UNDONE


def node_pid(run: Path, node: int) -> int:
    """Return the process id of a node."""
    records = journal.read(run / "journal.jsonl")
    found = [r for r in records if r["kind"] == "local.process" and r["machine"] == node]
    return int(str(found[-1]["pid"]))


def serves(bootstrap: str, topic: str, replicas: int = REPLICAS) -> bool:
    """Return whether the cluster stores a record and returns it."""
    client = Confluent()
    client.create_topic(bootstrap, topic, replicas)
    known_everywhere(bootstrap, topic)
    client.produce(bootstrap, topic, [Message(b"news")])
    return client.consume(bootstrap, topic, 1) == [Message(b"news")]


@pytest.mark.slow
def test_cluster_on_a_terminal_runs_until_ctrl_c(tmp_path: Path) -> None:
    """It prints its addresses, logs and how to stop it; Ctrl-C leaves nothing.

    Before that, `down` refuses to end it, and the end of a node is reported.
    """
    require("root", "netns")
    with terminal("cluster", "up", "--store", tmp_path / "store") as up:
        up.read_until(r"^run +/.+$\n")
        printed = facts(
            "\n".join(line for line in up.output.splitlines() if "starting" not in line)
        )
        assert list(printed) == ["bootstrap", "logs", "stop", "run"]
        assert printed["stop"] == "Ctrl-C"
        run = Path(printed["run"])
        assert len(list(run.glob("nodes/*/node.log"))) == 3
        assert printed["logs"] == f"{run}/nodes/*/node.log"
        assert len(printed["bootstrap"].split(",")) == 3
        assert serves(printed["bootstrap"], "first")

        refused = highwater("cluster", "down", run)
        assert refused.returncode == 254
        assert "stop it with Ctrl-C where it was started" in refused.stderr

        os.kill(node_pid(run, 3), signal.SIGKILL)
        up.read_until(r"node 3 ended by itself, exit code -9; see /.*/nodes/3/node\.log")

        up.type(CTRL_C)
        assert up.wait() == 0, up.output
        assert "SIGINT: stopping in order" in up.output
        assert "the cluster is down" in up.output
        assert "Traceback" not in up.output
        assert is_clean(run)


@pytest.mark.slow
def test_ctrl_c_during_the_start_leaves_nothing(tmp_path: Path) -> None:
    """No bootstrap servers are printed."""
    require("root", "netns")
    with terminal("cluster", "up", "--nodes", "1", "--store", tmp_path / "store") as up:
        up.read_until("starting 1 nodes")
        up.type(CTRL_C)
        assert up.wait() == 0, up.output
        assert "bootstrap" not in up.output
        assert all(is_clean(path.parent) for path in tmp_path.glob("store/*/*/journal.jsonl"))


@pytest.mark.slow
@at_turn(
    1, 2, "system/test_cluster_command.py::test_named_clusters_are_found_and_ended_by_their_names"
)
def test_two_detached_clusters_run_at_once_and_end_by_run_directory(tmp_path: Path) -> None:
    """Each has addresses of its own."""
    require("root", "netns")
    runs: list[Path] = []
    try:
        bootstraps = []
        for name in ("one", "two"):
            up = highwater("cluster", "up", "--nodes", "1", "--detach", "--store", tmp_path / name)
            assert up.returncode == 0, up.stderr
            printed = facts(up.stdout)
            runs.append(Path(printed["run"]))
            bootstraps.append(printed["bootstrap"])
            assert printed["stop"] == f"highwater cluster down {printed['run']}"
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


@pytest.mark.slow
@at_turn(
    0,
    2,
    "system/test_cluster_command.py::test_two_detached_clusters_run_at_once_and_end_by_run_directory",
)
def test_named_clusters_are_found_and_ended_by_their_names(tmp_path: Path) -> None:
    """`--brokers` alone is enough; a name of a running cluster is refused."""
    require("root", "netns")
    runs: dict[str, Path] = {}
    up = ("cluster", "up", "--detach", "--store", tmp_path)
    try:
        for name in ("alpha", "beta"):
            made = highwater(*up, "--brokers", "1", "--name", name)
            assert made.returncode == 0, made.stderr
            printed = facts(made.stdout)
            runs[name] = Path(printed["run"])
            assert printed["name"] == name
            assert printed["stop"] == f"highwater cluster down --name {name}"
            assert len(printed["bootstrap"].split(",")) == 1

        again = highwater(*up, "--name", "alpha")
        assert again.returncode == 254
        assert "a cluster named alpha is up already" in again.stderr

        several = called("cluster", "topics", "list")
        assert several.code == 254
        assert "\n  --name alpha\n" in several.err
        assert "\n  --name beta\n" in several.err
        chosen = called("cluster", "topics", "create", "t", "--name", "beta")
        assert chosen.code == 0, chosen.err
        assert called("cluster", "topics", "list", "--name", "alpha").out == ""
        assert called("cluster", "topics", "list", "--name", "beta").out == "t\n"

        down = highwater("cluster", "down", "--name", "alpha")
        assert down.returncode == 0, down.stderr
        assert is_clean(runs["alpha"])
        gone = highwater("cluster", "down", "--name", "alpha")
        assert gone.returncode == 254
        assert "no cluster named alpha is up" in gone.stderr
    finally:
        for run in runs.values():
            highwater("cluster", "down", run)
    assert all(is_clean(run) for run in runs.values())


def test_down_refuses_a_directory_that_is_no_run(tmp_path: Path) -> None:
    refused = highwater("cluster", "down", tmp_path / "nowhere")
    assert refused.returncode == 254
    assert "no such run directory" in refused.stderr
