"""Finds Kafka and Java, and checks both before anything is started.

A Kafka home is a directory whose `libs` holds Kafka's jars: an unpacked distribution, or what
`make kafka` has fetched.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.brokers.errors import DeployError
from harness.plans.plan import PlanError

FETCHED: Final = ".kafka"
"""The directory that `make kafka` fills, in the source tree."""
FETCHED_WITH_ZOOKEEPER: Final = ".kafka39"
"""The directory that `make kafka-zookeeper` fills."""
SOURCE_TREE: Final = Path(__file__).parents[3]
"""The source tree; of an installed package, the directory of the packages."""
MIN_KAFKA: Final = (3, 9)
ZOOKEEPER_REMOVED: Final = (4, 0)
"""The first version that cannot use ZooKeeper (KIP-500)."""
MIN_JAVA: Final = 17
"""Brokers of Kafka 4 need this release of Java (KIP-1013)."""
SYSTEM_CONFIG: Final = "/etc"
"""Linux distributions put files here to which Java's home has symbolic links."""
JAVA_TIMEOUT_S: Final = 30.0
HOW_TO_GET: Final = (
    "run `make kafka` in the source tree, or give the directory of an unpacked distribution with "
    "--kafka-home or KAFKA_HOME"
)
HOW_TO_GET_39: Final = (
    "run `make kafka-zookeeper` in the source tree, or give the directory of an unpacked Kafka 3.9 "
    "with --kafka-home or KAFKA_HOME"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A Kafka that can be run: the directory of its jars, and its version."""

    libs: Path
    version: str

    @property
    def release(self) -> tuple[int, int]:
        """The first two numbers of the version."""
        return release_of(self.version)


def find_kafka(home: str | None = None, *, zookeeper: bool = False) -> Home:
    """Return the Kafka at `home`, by default the first one of `candidates()`. Raises PlanError.

    With `zookeeper`, it is one that can use ZooKeeper.
    """
    how = HOW_TO_GET_39 if zookeeper else HOW_TO_GET
    if home is not None:
        try:
            return _kafka_at(Path(home).expanduser().resolve(), zookeeper)
        except PlanError as error:
            raise PlanError(f"{error}; {how}") from error
    problems = []
    for name, path in candidates(FETCHED_WITH_ZOOKEEPER if zookeeper else FETCHED).items():
        try:
            return _kafka_at(path, zookeeper)
        except PlanError as error:
            problems.append(f"{name}: {error}")
    raise PlanError(f"no Kafka was found ({'; '.join(problems)}): {how}")


def candidates(fetched: str = FETCHED) -> Mapping[str, Path]:
    """Return where Kafka is looked for without --kafka-home, in this order.

    `fetched` is the name of the directory that `make` fills.
    """
    found = {}
    if from_environment := os.environ.get("KAFKA_HOME"):
        found["$KAFKA_HOME"] = Path(from_environment).expanduser().resolve()
    found["the current directory"] = Path.cwd() / fetched
    if (SOURCE_TREE / "pyproject.toml").is_file():
        found["the source tree"] = SOURCE_TREE / fetched
    return found


def _kafka_at(path: Path, zookeeper: bool) -> Home:
    found = sorted((path / "libs").glob("kafka-server-[0-9]*.jar"))
    wanted = "3.9" if zookeeper else "4"
    if not found:
        raise PlanError(f"there is no Kafka {wanted} at {path}: no libs/kafka-server-*.jar")
    version = found[-1].name.removeprefix("kafka-server-").removesuffix(".jar")
    if release_of(version) < MIN_KAFKA:
        raise PlanError(f"Kafka {version} at {path} is too old: version 3.9 or later is needed")
    if zookeeper and release_of(version) >= ZOOKEEPER_REMOVED:
        raise PlanError(f"Kafka {version} at {path} cannot use ZooKeeper: version 3.9 is needed")
    return Home(libs=path / "libs", version=version)


def release_of(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version: (3, 9) for 3.9.1."""
    numbers = re.findall(r"\d+", version)
    return int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0


def find_java() -> str:
    """Return the path of the java in JAVA_HOME, else on the PATH, as its own home names it.

    Raises DeployError when there is none, or when it is older than MIN_JAVA.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    how = f"install Java {MIN_JAVA} (openjdk-{MIN_JAVA}-jre-headless), or set JAVA_HOME"
    if found is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "it is not on the PATH"
        raise DeployError(f"Kafka needs Java, and {where}: {how}")
    try:
        output = subprocess.run(
            [found, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_TIMEOUT_S,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise DeployError(f"{found} does not run ({error}): {how}") from error
    release = major_release(output)
    if release is None or release < MIN_JAVA:
        answer = output.partition("\n")[0] or "nothing"
        raise DeployError(f"Kafka needs Java {MIN_JAVA} or later, and {found} says {answer}: {how}")
    own_home = re.search(r"java\.home = (.+)", output)
    return found if own_home is None else f"{own_home[1]}/bin/java"


def java_directories(java: Path) -> list[Path]:
    """Return the directories that a java reads: its home, and those that its home links to."""
    home = java.parents[1]
    links = (path.resolve() for path in home.rglob("*") if path.is_symlink())
    places = {
        target.parent
        for target in links
        if target.exists() and target.is_relative_to(SYSTEM_CONFIG)
    }
    return [home, *sorted(each for each in places if places.isdisjoint(each.parents))]


def major_release(output: str) -> int | None:
    """Return the release in the output of `java -version`: 17 for `17.0.15`, 8 for `1.8.0_392`.

    None when the output has no version.
    """
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return None if match is None else int(match[1])
