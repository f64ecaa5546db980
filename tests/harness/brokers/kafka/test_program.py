"""How a node of Kafka is formatted and started."""

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
    """The files of a node with an empty disk."""
    (tmp_path / "data").mkdir()
    return NodeFiles(
        node=2,
        local_dir=tmp_path,
        properties=tmp_path / "server.properties",
        log_dir=tmp_path / "data",
        python="python3",
        environment=os.environ,
    )


@pytest.fixture
def kafka(tmp_path: Path) -> Kafka:
    """A Kafka with a fake java, which writes its arguments down and formats by making a file."""
    java = tmp_path / "java"
    java.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
        f'case "$*" in *BAD*) exit 3;; *" format "*) touch {tmp_path}/data/meta.properties;; esac\n'
    )
    java.chmod(0o755)
    return Kafka(home=Home(libs=tmp_path / "libs", version="4.2.0"), java=str(java))


def start(kafka: Kafka, files: NodeFiles) -> tuple[int, list[str]]:
    """Run the node's command; return its exit code and the arguments of each java."""
    command = kafka.command(files)
    asked = files.properties.parent / "asked"
    asked.write_text("")
    code = subprocess.run(command.argv, env=command.env, timeout=20, check=False).returncode
    return code, asked.read_text().splitlines()


def test_new_disk_is_formatted_once(kafka: Kafka, files: NodeFiles) -> None:
    """The first start formats it for a first voter; the second start does not."""
    kafka.configure(files, wanted())
    _, (format, broker) = start(kafka, files)
    assert "kafka.tools.StorageTool format" in format
    assert "--initial-controllers" in format
    assert broker.endswith(f"kafka.Kafka {files.properties}")
    assert f"-cp {kafka.home.libs}/*" in broker
    _, (again,) = start(kafka, files)
    assert again == broker


def test_node_on_another_machine_uses_the_paths_of_that_machine(
    kafka: Kafka, files: NodeFiles
) -> None:
    """This concerns the jars and the logging setup."""
    kafka.configure(
        files=replace(files, path_on_node=lambda path: Path("/there") / path.name), wanted=wanted()
    )
    _, (format, broker) = start(kafka, files)
    for asked in (format, broker):
        assert "-Dlog4j2.configurationFile=/there/log4j2.properties -cp /there/libs/* " in asked


def test_other_machines_have_their_own_java(tmp_path: Path) -> None:
    """Only the jars and the logging setup are copied to them."""
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs/kafka-server-4.2.0.jar").touch()
    raw = {"seed": 1, "target": "ssh", "system": "kafka", "kafka_home": str(tmp_path)}
    made = Kafka.of(build(raw, where="test"))
    assert made.java == "java"
    assert made.required_files() == [tmp_path / "libs", LOGGING]


def test_wiped_disk_is_formatted_without_a_vote(kafka: Kafka, files: NodeFiles) -> None:
    """A voter that lost its disk has no vote until it is added again (KIP-853)."""
    kafka.configure(files, wanted())
    start(kafka, files)
    (files.log_dir / "meta.properties").unlink()
    _, (format, _) = start(kafka, files)
    assert "--no-initial-controllers" in format


def test_node_whose_disk_cannot_be_formatted_is_not_started(kafka: Kafka, files: NodeFiles) -> None:
    """The start script ends with an error."""
    kafka.configure(files, {**wanted(), "eligible.leader.replicas.version": "BAD"})
    code, asked = start(kafka, files)
    assert code == 1
    assert len(asked) == 1


def test_written_configuration_can_be_read_as_properties(kafka: Kafka, files: NodeFiles) -> None:
    """Other commands read it."""
    kafka.configure(files, wanted())
    assert parse_properties(files.properties.read_text())["process.roles"] == "broker,controller"
    assert kafka.versions() == {"kafka": "4.2.0"}


def test_environment_variables_of_kafkas_scripts_set_the_options_of_the_jvm(
    kafka: Kafka, files: NodeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They replace the defaults."""
    kafka.configure(files, wanted())
    assert "TieredStopAtLevel=1" in start(kafka, files)[1][-1]
    monkeypatch.setenv("KAFKA_HEAP_OPTS", "-Xmx1g")
    monkeypatch.setenv("KAFKA_JVM_PERFORMANCE_OPTS", "-XX:+UseZGC")
    kafka.configure(files, wanted())
    broker = start(kafka, files)[1][-1]
    assert "-Xmx1g -XX:+UseZGC" in broker
    assert "TieredStopAtLevel" not in broker
