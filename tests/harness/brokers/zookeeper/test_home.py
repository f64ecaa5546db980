"""Where ZooKeeper's jars are found, and the error without them."""

from pathlib import Path

import pytest

from harness.brokers.zookeeper import home as homes
from harness.plans.plan import PlanError


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without ZooKeeper, in an empty directory."""
    monkeypatch.setattr(homes, "SOURCE_TREE", tmp_path / "tree")
    monkeypatch.setattr(homes, "DEBIAN", tmp_path / "java")
    monkeypatch.delenv("ZOOKEEPER_LIBS", raising=False)
    monkeypatch.chdir(tmp_path)


def test_missing_zookeeper_is_one_error_that_names_both_ways_to_get_it(tmp_path: Path) -> None:
    """It names the places that were searched, too."""
    with pytest.raises(PlanError) as raised:
        homes.find_zookeeper()
    text = str(raised.value)
    assert "make zookeeper" in text
    assert "apt-get install zookeeper" in text
    assert f"{tmp_path}/.zookeeper/libs" in text


def test_fetched_jars_come_before_debians(tmp_path: Path) -> None:
    """The name of the jar has the version; jute's jar does not count."""
    libs = tmp_path / ".zookeeper" / "libs"
    libs.mkdir(parents=True)
    for name in ("zookeeper-3.8.4.jar", "zookeeper-jute-3.8.4.jar"):
        (libs / name).touch()
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "zookeeper.jar").touch()
    found = homes.find_zookeeper()
    assert found.version == "3.8.4"
    assert found.classpath == (f"{libs}/*",)


def test_debians_jar_is_used_with_what_writes_its_log_lines(tmp_path: Path) -> None:
    """Its manifest names all else."""
    java = tmp_path / "java"
    java.mkdir()
    for name in ("zookeeper.jar", "zookeeper-3.8.0.jar", "slf4j-log4j12.jar", "other.jar"):
        (java / name).touch()
    found = homes.find_zookeeper()
    assert found.classpath == (f"{java}/zookeeper.jar", f"{java}/slf4j-log4j12.jar")
    assert found.version == "3.8.0"
