"""Where Kafka and Java are found, and the errors when one is missing or too old."""

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


def test_distribution_is_found_and_its_jars_name_its_version(tmp_path: Path) -> None:
    """Its `libs` directory is the class path."""
    found = homes.find_kafka(str(with_jar(tmp_path / "kafka", "4.1.2")))
    assert found.version == "4.1.2"
    assert found.libs == tmp_path / "kafka/libs"


def test_kafka_is_looked_for_in_the_environment_then_here_then_in_the_source_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--kafka-home comes before all of them."""
    tree = tmp_path / "tree"
    for home, version in (
        (tmp_path / "given", "4.0.0"),
        (tmp_path / "environment", "4.1.0"),
        (tmp_path / "here" / ".kafka", "4.2.0"),
        (tree / ".kafka", "4.3.0"),
    ):
        with_jar(home, version)
    (tree / "pyproject.toml").touch()
    monkeypatch.setattr(homes, "SOURCE_TREE", tree)
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "environment"))
    monkeypatch.chdir(tmp_path / "here")
    assert homes.find_kafka(str(tmp_path / "given")).version == "4.0.0"
    assert homes.find_kafka().version == "4.1.0"
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "nowhere"))
    assert homes.find_kafka().version == "4.2.0"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAFKA_HOME")
    assert homes.find_kafka().version == "4.3.0"


def test_installed_package_does_not_look_for_kafka_among_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory of installed packages has no pyproject.toml. The error names other places."""
    monkeypatch.setattr(homes, "SOURCE_TREE", tmp_path / "site-packages")
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "old"))
    with_jar(tmp_path / "old", "3.8.1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanError, match=r"HOME: Kafka 3\.8\.1 .* too old.*make kafka") as raised:
        homes.find_kafka()
    assert f"there is no Kafka 4 at {tmp_path}/.kafka" in str(raised.value)
    assert "site-packages" not in str(raised.value)


def test_home_without_kafka_is_refused(tmp_path: Path) -> None:
    """The error names the directory, and how to get Kafka."""
    with pytest.raises(PlanError, match=rf"no Kafka 4 at {tmp_path}.*make kafka.*--kafka-home"):
        homes.find_kafka(str(tmp_path))


def test_kafka_before_version_3_9_is_refused(tmp_path: Path) -> None:
    """Its storage tool does not know the arguments that the harness gives."""
    with pytest.raises(PlanError, match=r"Kafka 3\.8\.1 .* too old"):
        homes.find_kafka(str(with_jar(tmp_path, "3.8.1")))


def test_kafka_beside_zookeeper_is_looked_for_in_its_own_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make kafka-zookeeper` fills it, so both versions can be there."""
    monkeypatch.setattr(homes, "SOURCE_TREE", tmp_path / "nowhere")
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    with_jar(tmp_path / ".kafka", "4.2.0")
    with_jar(tmp_path / ".kafka39", "3.9.1")
    assert homes.find_kafka().version == "4.2.0"
    assert homes.find_kafka(zookeeper=True).version == "3.9.1"


def test_kafka_without_zookeeper_is_refused_beside_zookeeper(tmp_path: Path) -> None:
    """Kafka 4 has no ZooKeeper mode any more; the error says how to get one that has."""
    with pytest.raises(PlanError, match=r"4\.2\.0 .* cannot use ZooKeeper.*make kafka-zookeeper"):
        homes.find_kafka(str(with_jar(tmp_path, "4.2.0")), zookeeper=True)


@pytest.mark.parametrize(
    ("output", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15\n', 17),
        ('openjdk version "21" 2023-09-19\n', 21),
        ('java version "1.8.0_392"\n', 8),
        ("command not understood", None),
    ],
)
def test_release_of_java_is_read_in_old_and_new_form(output: str, release: int | None) -> None:
    """Up to Java 8 the release is the second number."""
    assert homes.major_release(output) == release


def fake_java(home: Path, output: str) -> None:
    """Write a program that prints `output` in place of java."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    program.chmod(0o755)


def test_java_of_java_home_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's own scripts do the same."""
    fake_java(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert homes.find_java() == f"{tmp_path}/bin/java"


def test_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the release that was found, and the one that is needed."""
    fake_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DeployError, match=r"needs Java 17 or later.*11\.0\.2.*install Java 17"):
        homes.find_java()


def test_missing_java_is_reported_with_the_place_of_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place is JAVA_HOME, or else the PATH."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DeployError, match=r"JAVA_HOME is .* has no bin/java.*install Java"):
        homes.find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeployError, match=r"not on the PATH.*install Java"):
        homes.find_java()
