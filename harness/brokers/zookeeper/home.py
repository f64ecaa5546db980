"""Finds ZooKeeper's jars before anything is started.

They come from Debian's package, or from what `make zookeeper` has fetched.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.brokers.kafka.home import SOURCE_TREE
from harness.plans.plan import PlanError

FETCHED: Final = Path(".zookeeper", "libs")
"""What `make zookeeper` fills, in the source tree."""
DEBIAN: Final = Path("/usr/share/java")
DEBIAN_JARS: Final = ("zookeeper.jar", "log4j-1.2.jar", "slf4j-log4j12.jar")
"""The manifest of the first of them names what it needs, except for what writes log lines."""
HOW_TO_GET: Final = "run `make zookeeper` in the source tree, or apt-get install zookeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperHome:
    """A ZooKeeper that can be run: its jars, and its version."""

    classpath: tuple[str, ...]
    """Jars, or `DIRECTORY/*`."""
    directory: Path
    """The directory of the jars."""
    version: str


def find_zookeeper() -> ZooKeeperHome:
    """Return the first ZooKeeper of `candidates()`. Raises PlanError, which says how to get it."""
    places = candidates()
    for path in places.values():
        if (found := _zookeeper_at(path)) is not None:
            return found
    tried = ", ".join(f"{name} ({path})" for name, path in places.items())
    raise PlanError(f"no ZooKeeper was found in {tried}: {HOW_TO_GET}")


def candidates() -> Mapping[str, Path]:
    """Return the directories of jars where ZooKeeper is looked for, in this order."""
    found = {}
    if from_environment := os.environ.get("ZOOKEEPER_LIBS"):
        found["$ZOOKEEPER_LIBS"] = Path(from_environment).expanduser().resolve()
    found["the current directory"] = Path.cwd() / FETCHED
    if (SOURCE_TREE / "pyproject.toml").is_file():
        found["the source tree"] = SOURCE_TREE / FETCHED
    found["Debian's package"] = DEBIAN
    return found


def _zookeeper_at(path: Path) -> ZooKeeperHome | None:
    fetched = sorted(path.glob("zookeeper-[0-9]*.jar"))
    if path == DEBIAN:
        if not (path / DEBIAN_JARS[0]).exists():
            return None
        jars = [path / name for name in DEBIAN_JARS if (path / name).exists()]
        classpath = tuple(str(jar) for jar in jars)
        return ZooKeeperHome(classpath=classpath, directory=path, version=_version(fetched))
    if not fetched:
        return None
    return ZooKeeperHome(classpath=(f"{path}/*",), directory=path, version=_version(fetched))


def _version(jars: list[Path]) -> str:
    for jar in reversed(jars):
        if match := re.fullmatch(r"zookeeper-(\d[\w.]*?)\.jar", jar.name):
            return match[1]
    return "unknown"
