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
SOURCE_TREE: Final = Path(__file__).parents[3]
"""The source tree; of an installed package, the directory of the packages."""
MIN_KAFKA: Final = 4
MIN_JAVA: Final = 17
"""Brokers of Kafka 4 need this release of Java (KIP-1013)."""
SYSTEM_CONFIG: Final = "/etc"
"""Linux distributions put files here to which Java's home has symbolic links."""
JAVA_TIMEOUT_S: Final = 30.0
HOW_TO_GET: Final = (
    "run `make kafka` in the source tree, or give the directory of an unpacked distribution with "
    "--kafka-home or KAFKA_HOME"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A Kafka that can be run: the directory of its jars, and its version."""

    libs: Path
    version: str


def find_kafka(home: str | None = None) -> Home:
    """Return the Kafka at `home`, by default the first one of `candidates()`. Raises PlanError."""
    if home is not None:
        try:
            return _kafka_at(Path(home).expanduser().resolve())
        except PlanError as error:
            raise PlanError(f"{error}; {HOW_TO_GET}") from error
    problems = []
    for name, path in candidates().items():
        try:
            return _kafka_at(path)
        except PlanError as error:
            problems.append(f"{name}: {error}")
    raise PlanError(f"no Kafka was found ({'; '.join(problems)}): {HOW_TO_GET}")


def candidates() -> Mapping[str, Path]:
    """Return where Kafka is looked for without --kafka-home, in this order."""
    found = {}
    if from_environment := os.environ.get("KAFKA_HOME"):
        found["$KAFKA_HOME"] = Path(from_environment).expanduser().resolve()
    found["the current directory"] = Path.cwd() / FETCHED
    if (SOURCE_TREE / "pyproject.toml").is_file():
        found["the source tree"] = SOURCE_TREE / FETCHED
    return found


def _kafka_at(path: Path) -> Home:
    found = sorted((path / "libs").glob("kafka-server-[0-9]*.jar"))
    if not found:
        raise PlanError(f"there is no Kafka {MIN_KAFKA} at {path}: no libs/kafka-server-*.jar")
    version = found[-1].name.removeprefix("kafka-server-").removesuffix(".jar")
    if int(version.partition(".")[0]) < MIN_KAFKA:
        raise PlanError(f"Kafka {version} at {path} is too old: version {MIN_KAFKA} is needed")
    return Home(libs=path / "libs", version=version)


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
