"""`highwater fault`: a person breaks a running cluster, and heals it."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.recording import journal
from harness.run.by_hand.client import BreakerClient
from tests.support.clusters.cluster_command import (
    PATIENCE_S,
    called,
    cluster_up,
    facts,
    highwater,
    until,
)
from tests.support.require import require
from tests.support.targets.machine import leftovers
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow


def fault(run: Path, *arguments: str) -> Any:
    """Run a command of `highwater fault` that succeeds, and return what it prints as JSON.

    Only `inject` has a process of its own: the keeper that it starts must not be ours.
    """
    if arguments[0] != "inject":
        printed = called("fault", *arguments, "--run", str(run), "--json")
        assert printed.code == 0, printed.err
        return json.loads(printed.out)
    done = highwater("fault", *arguments, "--run", run, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def states(run: Path) -> list[tuple[int, str]]:
    """The id and state of each fault, as `fault list` says."""
    return [(row["id"], row["state"]) for row in fault(run, "list")]


@contextmanager
def detached(store: Path) -> Iterator[Path]:
    """A detached cluster, which `cluster down` ends and leaves nothing of."""
    up = highwater("cluster", "up", "--detach", "--store", store)
    assert up.returncode == 0, up.stderr
    run = Path(facts(up.stdout)["run"])
    try:
        yield run
    finally:
        down = highwater("cluster", "down", run)
    assert down.returncode == 0, down.stderr
    assert leftovers(json.loads((run / "run.json").read_text())["run_id"], run) == []
    assert BreakerClient.of_run(run) is None


def answers(address: str) -> bool:
    """Whether a new connection to a broker is accepted within a second."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def keeper_of(run: Path) -> int:
    """The pid of the keeper, which is told by the run that it keeps."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"harness.run.by_hand.keeper" in words and os.fsencode(run) in words:
            return int(entry.name)
    raise AssertionError("no keeper")


@at_turn(1, 2, "system/test_fault_commands.py::test_the_next_keeper_heals_what_a_killed_one_left")
def test_faults_of_a_detached_cluster_last_until_they_are_healed(tmp_path: Path) -> None:
    """Each is a command of its own. The keeper ends with the last fault."""
    require("root", "netns")
    with detached(tmp_path / "store") as run:
        assert fault(run, "list") == []
        (killed,) = fault(run, "inject", "kill", "--targets", "node:2")
        assert killed["effect"] == "process of node 2 gone"
        (slow,) = fault(run, "inject", "link.slow", "--targets", "node:3", "--param", "delay_ms=50")
        assert states(run) == [(killed["id"], "in force"), (slow["id"], "in force")]

        refused = highwater("cluster", "brokers", "add", "--run", run)
        assert refused.returncode == 254
        assert "a fault is in force (`highwater fault heal-all`)" in refused.stderr

        (healed,) = fault(run, "heal", str(killed["id"]))
        assert healed["healing"] == "node 2 runs"
        assert states(run) == [(killed["id"], "healed"), (slow["id"], "in force")]
        assert [row["id"] for row in fault(run, "heal-all")] == [slow["id"]]
        until(lambda: BreakerClient.of_run(run), lambda client: client is None or client.close())
        assert states(run) == [(killed["id"], "healed"), (slow["id"], "healed")]
        kinds = [record["kind"] for record in journal.read(run / "journal.jsonl")]
        assert kinds.count("fault") == kinds.count("fault-healed") == 2


@at_turn(
    0,
    2,
    "system/test_fault_commands.py::test_faults_of_a_detached_cluster_last_until_they_are_healed",
)
def test_the_next_keeper_heals_what_a_killed_one_left(tmp_path: Path) -> None:
    """The journal has what it needs, also for cuts with a layer. `down` removes all else."""
    require("root", "netns")
    with detached(tmp_path / "store") as run:
        (first,) = fault(run, "inject", "partition.isolate-one", "--targets", "node:1")
        (second,) = fault(run, "inject", "pause", "--targets", "node:2")
        (third,) = fault(run, "inject", "cut.flapping", "--targets", "node:3")
        os.kill(keeper_of(run), signal.SIGKILL)
        ids = [first["id"], second["id"], third["id"]]
        assert states(run) == [(each, "in force") for each in ids]
        assert sorted(row["id"] for row in fault(run, "heal-all")) == ids
        assert states(run) == [(each, "healed") for each in ids]
        fault(run, "inject", "kill")  # and one that `down` finds in force


@at_turn(1, 2, "system/test_fault_commands.py::test_the_next_keeper_heals_what_a_killed_one_left")
def test_a_fault_between_clients_and_a_node_hits_programs_of_this_machine(tmp_path: Path) -> None:
    """In the foreground the process of `cluster up` holds the faults. Ctrl-C heals them."""
    require("root", "netns")
    with cluster_up(tmp_path / "store") as cluster:
        first, second = cluster.bootstrap.split(",")[:2]
        assert answers(first)
        (cut,) = fault(cluster.run, "inject", "cut.clients", "--targets", "node:1")
        assert not answers(first)
        assert answers(second)
        fault(cluster.run, "heal", str(cut["id"]))
        assert answers(first)
        fault(cluster.run, "inject", "pause", "--targets", "node:2", "--duration", "1s")
        until(lambda: states(cluster.run)[-1][1], lambda state: state == "healed")
        fault(cluster.run, "inject", "kill", "--targets", "node:3")


def test_bad_requests_are_refused_with_what_to_do(tmp_path: Path) -> None:
    require("root", "netns")
    with cluster_up(tmp_path / "store") as cluster:
        for arguments, told in {
            ("inject", "kil"): "did you mean kill?",
            ("inject", "kill", "--targets", "node:9"): "there is no node 9; the nodes are 1, 2, 3",
            ("inject", "kill", "--targets", "leeder"): "is not a selector",
            ("inject", "pause", "--param", "for=3"): "there is no parameter 'for'",
            ("inject", "pause", "--param", "for"): "is no KEY=VALUE",
            ("inject", "clock.jump"): "only the clusters of plans have",
            ("heal", "7"): "there is no fault 7 in force; in force: none",
        }.items():
            done = called("fault", *arguments, "--run", str(cluster.run))
            assert done.code == 254, done.err
            assert told in done.err
        assert states(cluster.run) == []
    began_s = time.monotonic()
    done = highwater("fault", "list", "--run", cluster.run)
    assert done.returncode == 254
    assert "no cluster of this run is up" in done.stderr
    assert time.monotonic() - began_s < PATIENCE_S
