"""How a node of Kafka is started, and what is formatted before that."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.brokers.kafka.home import Home
from harness.brokers.kafka.program import LOGGING, Kafka
from harness.brokers.program import NodeFiles
from harness.plans.plan import build
from nodes.config import parse_properties
from tests.harness.brokers.kafka.test_properties import wanted


@pytest.fixture
def files(tmp_path: Path) -> NodeFiles:
    """A node's, its disk empty."""
    (tmp_path / "data").mkdir()
    return NodeFiles(
        node=2,
        here=tmp_path,
        properties=tmp_path / "server.properties",
        log_dir=tmp_path / "data",
        python="python3",
        environment=os.environ,
    )


@pytest.fixture
def kafka(tmp_path: Path) -> Kafka:
    """One whose java tells what it was asked for, and formats by making a file."""
    java = tmp_path / "java"
    java.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
        f'case "$*" in *BAD*) exit 3;; *" format "*) touch {tmp_path}/data/meta.properties;; esac\n'
    )
    java.chmod(0o755)
    return Kafka(home=Home(libs=tmp_path / "libs", version="4.2.0"), java=str(java))


def start(kafka: Kafka, files: NodeFiles) -> tuple[int, list[str]]:
    """Run the node's command; its exit code, and what java was asked for."""
    command = kafka.command(files)
    asked = files.properties.parent / "asked"
    asked.write_text("")
    code = subprocess.run(command.argv, env=command.env, timeout=20, check=False).returncode
    return code, asked.read_text().splitlines()


def test_a_new_disk_is_formatted_once(kafka: Kafka, files: NodeFiles) -> None:
    """The first start formats it for a first voter, the next finds it so."""
    kafka.configure(files, wanted())
    _, (format, broker) = start(kafka, files)
    assert "kafka.tools.StorageTool format" in format
    assert "--initial-controllers" in format
    assert broker.endswith(f"kafka.Kafka {files.properties}")
    assert f"-cp {kafka.home.libs}/*" in broker
    _, (again,) = start(kafka, files)
    assert again == broker


def test_on_another_machine_its_files_are_where_they_were_brought(
    kafka: Kafka, files: NodeFiles
) -> None:
    """The jars, and how it is to log."""
    kafka.configure(
        files=replace(files, place=lambda path: Path("/there") / path.name), wanted=wanted()
    )
    _, (format, broker) = start(kafka, files)
    for asked in (format, broker):
        assert "-Dlog4j2.configurationFile=/there/log4j2.properties -cp /there/libs/* " in asked


def test_other_machines_have_their_own_java(tmp_path: Path) -> None:
    """Only the jars and the way of logging are to be brought to them."""
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs/kafka-server-4.2.0.jar").touch()
    raw = {"seed": 1, "target": "ssh", "system": "kafka", "kafka_home": str(tmp_path)}
    made = Kafka.of(build(raw, where="test"))
    assert made.java == "java"
    assert made.reads() == [tmp_path / "libs", LOGGING]


def test_a_wiped_disk_is_formatted_as_another(kafka: Kafka, files: NodeFiles) -> None:
    """Who lost its disk is no voter any more, until it is made one again (KIP-853)."""
    kafka.configure(files, wanted())
    start(kafka, files)
    (files.log_dir / "meta.properties").unlink()
    _, (format, _) = start(kafka, files)
    assert "--no-initial-controllers" in format


def test_what_cannot_be_formatted_is_not_started(kafka: Kafka, files: NodeFiles) -> None:
    """The node ends, and has said why."""
    kafka.configure(files, {**wanted(), "eligible.leader.replicas.version": "BAD"})
    code, asked = start(kafka, files)
    assert code == 1
    assert len(asked) == 1


def test_the_configuration_reads_back(kafka: Kafka, files: NodeFiles) -> None:
    """As Kafka's properties, which other commands read, too."""
    kafka.configure(files, wanted())
    assert parse_properties(files.properties.read_text())["process.roles"] == "broker,controller"
    assert kafka.versions() == {"kafka": "4.2.0"}


def test_the_jvms_options_are_those_of_kafkas_scripts(
    kafka: Kafka, files: NodeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the environment says wins."""
    kafka.configure(files, wanted())
    assert "TieredStopAtLevel=1" in start(kafka, files)[1][-1]
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1g")
    monkeypatch.setenv("KAFKA_JVM_PERFORMANCE_OPTS", "-XX:+UseZGC")
    kafka.configure(files, wanted())
    broker = start(kafka, files)[1][-1]
    assert "-Xmx1g -XX:+UseZGC" in broker
    assert "TieredStopAtLevel" not in broker
