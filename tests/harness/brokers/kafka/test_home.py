"""What is said where Kafka or Java is not to be had."""

from pathlib import Path

import pytest

from harness.brokers.errors import DeployError
from harness.brokers.kafka import home as homes
from harness.plans.plan import PlanError


def with_jar(home: Path, version: str) -> Path:
    """A directory like a distribution's."""
    (home / "libs").mkdir(parents=True)
    (home / "libs" / f"kafka-server-{version}.jar").touch()
    (home / "libs" / f"kafka-server-common-{version}.jar").touch()
    return home


def test_a_distribution_is_found(tmp_path: Path) -> None:
    """Its jars are the class path, and name its version."""
    found = homes.find(str(with_jar(tmp_path / "kafka", "4.1.2")))
    assert found.version == "4.1.2"
    assert found.libs == tmp_path / "kafka/libs"


def test_a_home_without_kafka_is_refused(tmp_path: Path) -> None:
    """The sentence names the place, and how to get one."""
    with pytest.raises(PlanError, match=rf"no Kafka 4 at {tmp_path}.*make kafka.*--kafka-home"):
        homes.find(str(tmp_path))


def test_an_old_kafka_is_refused(tmp_path: Path) -> None:
    """What has no KRaft alone is not configured by us."""
    with pytest.raises(PlanError, match=r"Kafka 3\.9\.1 .* too old"):
        homes.find(str(with_jar(tmp_path, "3.9.1")))


@pytest.mark.parametrize(
    ("said", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15\n', 17),
        ('openjdk version "21" 2023-09-19\n', 21),
        ('java version "1.8.0_392"\n', 8),
        ("command not understood", None),
    ],
)
def test_javas_release_is_read(said: str, release: int | None) -> None:
    """In both of the forms that it has had."""
    assert homes.major_release(said) == release


def java_that_says(home: Path, said: str) -> None:
    """A program in place of java."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)


def test_java_is_that_of_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for Kafka's own scripts."""
    java_that_says(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert homes.java() == f"{tmp_path}/bin/java"


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what it is, and what would do."""
    java_that_says(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DeployError, match=r"needs Java 17 or later.*11\.0\.2.*install Java 17"):
        homes.java()


def test_no_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it was looked for."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DeployError, match=r"JAVA_HOME is .* has no bin/java.*install Java"):
        homes.java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeployError, match=r"not on the PATH.*install Java"):
        homes.java()
