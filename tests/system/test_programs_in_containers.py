"""Tested programs that are containers of a daemon that was started for the tests."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pyarrow.parquet
import pytest

from harness.targets.docker import image
from harness.targets.linux import kernel
from tests.support.clusters import loopback_cluster
from tests.support.clusters.cluster_command import command, highwater
from tests.support.nodes.cluster import Cluster
from tests.support.require import require
from tests.support.targets import docker_daemon, program_image
from tests.support.targets.machine import leftovers
from tests.support.tiers import at_turn, in_turn

pytestmark = pytest.mark.slow

IMAGE = "highwater-test-program"
RUN_TIMEOUT_S = 240.0
PROGRAM = """
import json, os, sys
from confluent_kafka import Consumer
print("arguments", sys.argv[1:], "user", os.getuid(), "home", os.environ.get("HIGHWATER_X"))
consumer = Consumer({
    "bootstrap.servers": os.environ["HIGHWATER_BOOTSTRAP_SERVERS"],
    "group.id": os.environ["HIGHWATER_GROUP"],
    "auto.offset.reset": "earliest", "session.timeout.ms": 6000, "enable.auto.commit": False,
})
consumer.subscribe([os.environ["HIGHWATER_INPUT_TOPIC"]])
while True:
    message = consumer.poll(0.5)
    if message is not None and not message.error():
        with open(os.environ["HIGHWATER_OUTPUT"], "a") as out:
            print(json.loads(message.value())["id"], file=out, flush=True)
        consumer.commit(message)
"""
"""Writes a line for each input, then commits."""
FORM = """
[app]
image = "highwater-test-program"
command = ["--group", "${HIGHWATER_GROUP}"]
instances = 2
environment = { HIGHWATER_X = "here" }
[output]
file = "out.txt"
[claims]
delivery = "at-least-once"
[cluster]
nodes = 1
[chaos]
seconds = 12
events = [
    { at_ms = 500, fault = "app.kill", duration_ms = 2000 },
    { at_ms = 3500, fault = "app.pause", duration_ms = 2000, params = { instance = "2" } },
    { at_ms = 6500, fault = "app.cut", duration_ms = 4000 },
]
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The daemon, which has the image of the program."""
    require("docker", "netns", "nftables")
    with docker_daemon.daemon() as found:
        program_image.build(found, IMAGE, PROGRAM)
        yield found


def tried(
    place: Path, address: str, form: str = FORM, *options: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """What `test-app` of the form printed, and its verdict."""
    (place / "app.toml").write_text(form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", address)
        done = highwater(
            *("test-app", place / "app.toml", "--store", place / "store", "--json", "--seed", "1"),
            *options,
            patience_s=RUN_TIMEOUT_S,
        )
    return done, json.loads(done.stdout or "{}")


def containers(address: str) -> list[str]:
    """The names of all containers of the daemon."""
    client = docker.APIClient(base_url=address)
    try:
        return [str(each["Names"]) for each in client.containers(all=True)]
    finally:
        client.close()


@at_turn(
    0, 2, "system/test_programs_in_containers.py::test_clean_removes_the_containers_of_a_killed_run"
)
def test_faults_hit_a_program_in_containers(tmp_path: Path, address: str) -> None:
    """It is killed, stopped and cut off, keeps its claim, and nothing of it is left."""
    done, verdict = tried(tmp_path, address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (verdict["verdict"], verdict["headline"]["program"]) == ("VALID", "")
    [promise] = [each for each in verdict["promises"] if each.get("program")]
    assert promise["records"] > 500
    run = Path(verdict["run"])
    faults = pyarrow.parquet.read_table(run / "faults.parquet").to_pylist()
    assert [each["took_effect"] for each in faults] == [True] * 3, faults
    assert all(each["healed_ns"] is not None for each in faults)
    assert "2 of 2 processes of instance 2 in state T" in faults[1]["effect"]  # with the init
    log = (run / "program/instance-1.log").read_text()
    assert "arguments ['--group', 'highwater-app'] user 0 home here" in log
    assert "ended, SIGKILL, by a fault" in log
    assert containers(address) == []
    rows = pyarrow.parquet.read_table(run / "history").to_pylist()
    begun, ended = faults[2]["started_ns"] + 10**9, faults[2]["healed_ns"] - 10**8
    meanwhile = [row for row in rows if begun < row["invoke_ns"] < ended]
    assert sum(row["f"] == "send" and row["type"] == "ok" for row in meanwhile) > 50
    assert not any(row["f"] == "app-output" for row in meanwhile)


@pytest.mark.nightly(
    "system/test_programs_in_containers.py::test_faults_hit_a_program_in_containers"
)
def test_program_stands_beside_nodes_in_containers(tmp_path: Path, address: str) -> None:
    """On target docker its network is that of the nodes."""
    image.build(address, docker_daemon.BASE)
    events = FORM[FORM.index("seconds") :]
    cut = 'seconds = 6\nevents = [{ at_ms = 500, fault = "app.cut", duration_ms = 3000 }]\n'
    form = FORM.replace(events, cut).replace("[cluster]", '[cluster]\ntarget = "docker"')
    done, verdict = tried(tmp_path, address, form)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (verdict["verdict"], verdict["headline"]["program"]) == ("VALID", "")
    [fault] = pyarrow.parquet.read_table(Path(verdict["run"]) / "faults.parquet").to_pylist()
    assert fault["took_effect"], fault
    assert containers(address) == []


@at_turn(1, 2, "system/test_programs_in_containers.py::test_faults_hit_a_program_in_containers")
def test_clean_removes_the_containers_of_a_killed_run(tmp_path: Path, address: str) -> None:
    """The harness and the supervisor are killed at the same time, and end nothing. The form has no
    arguments, because an image alone is enough."""
    arguments = FORM[FORM.index("command") : FORM.index("instances")]
    (tmp_path / "app.toml").write_text(FORM.replace(arguments, ""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", address)
        arguments = ("test-app", tmp_path / "app.toml", "--store", tmp_path / "store")
        run = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, start_new_session=True)
        try:
            assert kernel.wait_until(lambda: len(containers(address)) == 3, RUN_TIMEOUT_S, 0.2)
        finally:
            supervisor = supervisor_of(run.pid)
            run.kill()
            os.kill(supervisor, signal.SIGKILL)
            run.communicate()
        assert len(containers(address)) == 3
        # What the harness was just starting may hold the journal's lock for a moment.
        assert kernel.wait_until(
            lambda: "3 containers" in highwater("clean", "--store", tmp_path / "store").stdout,
            RUN_TIMEOUT_S,
            0.2,
        )
    assert containers(address) == []
    [journal] = tmp_path.glob("store/*/*/journal.jsonl")
    assert leftovers(run_id_of(journal), journal.parent) == []


def supervisor_of(harness: int) -> int:
    """The process that starts the program."""
    children = Path(f"/proc/{harness}/task/{harness}/children").read_text().split()
    [found] = [
        int(pid)
        for pid in children
        if b"harness.workloads.app\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return found


def run_id_of(journal: Path) -> str:
    """The run of a journal."""
    return str(json.loads(journal.read_text().splitlines()[0])["run_id"])


@pytest.mark.parametrize(
    ("change", "code", "said"),
    in_turn(
        "system/test_programs_in_containers.py::test_program_that_cannot_work_is_one_message",
        [
            (
                (IMAGE, "no-such-image:1"),
                254,
                "has no image no-such-image:1: run `docker pull no-such-image:1`, or build it",
            ),
            ((IMAGE, docker_daemon.BASE), 255, "exec --group failed: No such file"),
            (("HIGHWATER_X =", "PYTHONPATH = '/nowhere', HIGHWATER_X ="), 255, "No module named"),
        ],
        of=3,
    ),
    ids=["no-image", "no-entry-point", "ends-at-once"],
)
def test_program_that_cannot_work_is_one_message(
    change: tuple[str, str], code: int, said: str, tmp_path: Path, address: str
) -> None:
    """It says what to do, and nothing is left."""
    done, _ = tried(tmp_path, address, FORM.replace(*change), "--duration", "2", "--faults", "kill")
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stderr
    assert containers(address) == []


EXTERNAL = """
[cluster]
system = "external"
nodes = 1
bootstrap_servers = "{servers}"
[chaos]
seconds = 6
events = [{{ at_ms = 1000, fault = "app.kill", duration_ms = 1000 }}]
"""


@pytest.mark.nightly(
    "system/test_programs_in_containers.py::test_faults_hit_a_program_in_containers"
)
def test_program_reaches_a_cluster_that_already_runs(tmp_path: Path) -> None:
    """By this machine's network."""
    require("docker")
    with (
        docker_daemon.daemon(own_network=False) as address,
        loopback_cluster.serving(Cluster(1)) as servers,
    ):
        program_image.build(address, IMAGE, PROGRAM)
        form = FORM[: FORM.index("[cluster]")] + EXTERNAL.format(servers=servers)
        done, verdict = tried(tmp_path, address, form)
        assert containers(address) == []
    assert done.returncode == 0, done.stdout + done.stderr
    assert (verdict["verdict"], verdict["headline"]["program"]) == ("VALID", "")
    [fault] = pyarrow.parquet.read_table(Path(verdict["run"]) / "faults.parquet").to_pylist()
    assert fault["took_effect"], fault


def test_daemon_with_another_network_is_refused(tmp_path: Path, address: str) -> None:
    """Its containers could not reach the brokers of this machine."""
    with loopback_cluster.serving(Cluster(1)) as servers:
        form = FORM[: FORM.index("[cluster]")] + EXTERNAL.format(servers=servers)
        done, _ = tried(tmp_path, address, form)
    assert done.returncode == 255, done.stdout + done.stderr
    assert "has another network than this machine" in done.stderr
    assert containers(address) == []
