"""Tested programs on a secured cluster that already runs, and with a clock of their own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.support.clusters.cluster_command import highwater
from tests.support.clusters.loopback_cluster import serving
from tests.support.nodes import certificates
from tests.support.nodes.secured import PASSWORD, USER, SecuredCluster
from tests.support.require import require
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os
from confluent_kafka import Consumer
names = {
    "bootstrap.servers": "BOOTSTRAP_SERVERS",
    "group.id": "GROUP",
    "security.protocol": "SECURITY_PROTOCOL",
    "sasl.mechanism": "SASL_MECHANISM",
    "sasl.username": "SASL_USERNAME",
    "sasl.password": "SASL_PASSWORD",
    "ssl.ca.location": "SSL_CA_LOCATION",
}
settings = {name: os.environ["HIGHWATER_" + variable] for name, variable in names.items()}
settings = {name: value for name, value in settings.items() if value}
settings |= {"auto.offset.reset": "earliest", "session.timeout.ms": 6000}
consumer = Consumer({**settings, "enable.auto.commit": False})
consumer.subscribe([os.environ["HIGHWATER_INPUT_TOPIC"]])
while True:
    message = consumer.poll(0.5)
    if message is not None and not message.error():
        with open("out.txt", "a") as out:
            print(json.loads(message.value())["id"], file=out, flush=True)
        consumer.commit(message)
"""
"""Writes a line for each input, then commits."""
FORM = """
[app]
command = ["{python}", "app.py"]
[output]
file = "out.txt"
[claims]
delivery = "at-least-once"
"""


def tried(
    folder: Path, more: str, program: str = PROGRAM, form: str = FORM
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """What `test-app` of the program printed, and its verdict."""
    (folder / "app.py").write_text(program)
    (folder / "app.toml").write_text(form.format(python=sys.executable) + more)
    done = highwater("test-app", folder / "app.toml", "--store", folder / "store", "--json")
    return done, json.loads(done.stdout or "{}")


@at_turn(2, 3, "system/test_programs.py::test_clock_of_the_program_alone_jumps")
def test_program_gets_the_credentials_of_a_secured_cluster_that_already_runs(
    tmp_path: Path,
) -> None:
    """It is killed, and keeps its claim. No file of the run has the password."""
    files = certificates.make(tmp_path)
    with serving(SecuredCluster(1, files)) as servers:
        done, verdict = tried(
            tmp_path,
            f"""
[cluster]
system = "external"
nodes = 1
bootstrap_servers = "{servers}"
[cluster.properties]
"security.protocol" = "SASL_SSL"
"ssl.ca.location" = "{files.authority}"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "{USER}"
"sasl.password" = "{PASSWORD}"
[chaos]
seconds = 6
events = [{{ at_ms = 1000, fault = "app.kill", duration_ms = 1000 }}]
""",
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (verdict["verdict"], verdict["headline"]["program"]) == ("VALID", "")
    [promise] = [each for each in verdict["promises"] if each.get("program")]
    assert promise["records"] > 200
    assert (
        "ended, SIGKILL, by a fault" in Path(verdict["run"], "program/instance-1.log").read_text()
    )
    for path in Path(verdict["run"]).rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path


@at_turn(0, 3, "system/test_programs.py::test_program_alone_is_cut_off_from_the_cluster")
def test_clock_of_the_program_alone_jumps(tmp_path: Path) -> None:
    """By two hours, and back, as a process with the program's environment shows.

    The brokers' clocks stay right.
    """
    require("netns", "faketime")
    script = 'import time; print("hour", int(time.time() // 3600), flush=True)'
    done, verdict = tried(
        tmp_path,
        """
[cluster]
nodes = 1
[chaos]
seconds = 6
events = [
    { at_ms = 500, fault = "app.clock", duration_ms = 3000, params = { offset_ms = "7200000" } },
]
""",
        program=PROGRAM.replace("while True:", f"while True:\n    {script}"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdict["verdict"] == "VALID"
    run = Path(verdict["run"])
    [fault] = pyarrow.parquet.read_table(run / "faults.parquet").to_pylist()
    assert fault["took_effect"], fault
    assert fault["healed_ns"] is not None
    assert "the clock of instance 1 shows +7" in fault["effect"]
    log = (run / "program/instance-1.log").read_text()
    hours = {int(line.split()[-1]) for line in log.splitlines() if "| hour " in line}
    assert max(hours) - min(hours) >= 2


@at_turn(1, 3, "system/test_programs.py::test_clock_of_the_program_alone_jumps")
def test_program_alone_is_cut_off_from_the_cluster(tmp_path: Path) -> None:
    """The producers go on meanwhile. Its output reaches highwater from its own network, too."""
    require("netns", "nftables")
    posts = PROGRAM.replace(
        'with open("out.txt", "a") as out:\n            print(json.loads(message.value())["id"], '
        "file=out, flush=True)",
        "import urllib.request\n        urllib.request.urlopen(urllib.request.Request("
        'os.environ["HIGHWATER_OUTPUT"], json.loads(message.value())["id"].encode()))',
    )
    assert "urlopen" in posts
    form = FORM.replace('file = "out.txt"', "http = true")
    done, verdict = tried(
        tmp_path,
        """
[cluster]
nodes = 1
[chaos]
seconds = 8
events = [{ at_ms = 500, fault = "app.cut", duration_ms = 4000 }]
""",
        program=posts,
        form=form,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdict["verdict"] == "VALID"
    run = Path(verdict["run"])
    [fault] = pyarrow.parquet.read_table(run / "faults.parquet").to_pylist()
    assert fault["took_effect"], fault
    assert fault["label"] == "app.cut from node 1"
    assert "packets dropped (program>1" in fault["effect"]
    rows = pyarrow.parquet.read_table(run / "history").to_pylist()
    begun, ended = fault["started_ns"] + 10**9, fault["healed_ns"] - 10**8
    meanwhile = [row for row in rows if begun < row["invoke_ns"] < ended]
    assert sum(row["f"] == "send" and row["type"] == "ok" for row in meanwhile) > 50
    assert not any(row["f"] == "app-output" for row in meanwhile)


@at_turn(1, 4, "system/test_zookeeper.py::test_built_in_broker_beside_zookeeper_keeps_its_contract")
def test_program_keeps_its_claim_on_a_cluster_beside_zookeeper(tmp_path: Path) -> None:
    """One ZooKeeper node, which is killed, too."""
    require("netns", "zookeeper")
    done, verdict = tried(
        tmp_path,
        """
[cluster]
nodes = 1
control_plane = "zookeeper"
zookeepers = 1
[chaos]
seconds = 6
events = [
    { at_ms = 500, fault = "app.kill", duration_ms = 1000 },
    { at_ms = 2000, fault = "kill", duration_ms = 1500, targets = "zookeeper:1" },
]
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (verdict["verdict"], verdict["headline"]["program"]) == ("VALID", "")
    run = Path(verdict["run"])
    assert json.loads((run / "plan.json").read_text())["control_plane"] == "zookeeper"
    faults = pyarrow.parquet.read_table(run / "faults.parquet").to_pylist()
    assert [fault["took_effect"] for fault in faults] == [True, True]
