"""Where Kafka and Java are, checked before anything is started.

A Kafka home is a directory whose `libs` holds Kafka's jars: an unpacked distribution, or what
`make kafka` has fetched.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.brokers.errors import DeployError
from harness.plans.plan import PlanError

FETCHED: Final = Path(__file__).parents[3] / ".kafka"
"""Where `make kafka` puts it."""
LEAST_KAFKA: Final = 4
LEAST_JAVA: Final = 17
"""Brokers of Kafka 4 need it (KIP-1013)."""
ETC: Final = "/etc"
"""Where distributions have what Java's home links to."""
ASK_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A Kafka that can be run."""

    libs: Path
    version: str


def find(home: str | None) -> Home:
    """The Kafka at `home`, or what `make kafka` fetched. Raises PlanError."""
    path = FETCHED if home is None else Path(home).expanduser().resolve()
    found = sorted((path / "libs").glob("kafka-server-[0-9]*.jar"))
    if not found:
        raise PlanError(
            f"there is no Kafka {LEAST_KAFKA} at {path}: its libs directory has no "
            "kafka-server-*.jar; run `make kafka`, or give the directory of an unpacked "
            "distribution with --kafka-home"
        )
    version = found[-1].name.removeprefix("kafka-server-").removesuffix(".jar")
    if int(version.partition(".")[0]) < LEAST_KAFKA:
        raise PlanError(f"Kafka {version} at {path} is too old: give one of version 4 or later")
    return Home(libs=path / "libs", version=version)


def java() -> str:
    """The java that is used, by its own home: that of JAVA_HOME, else of PATH.

    Raises DeployError without a fit one.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    how = f"install Java {LEAST_JAVA} (openjdk-{LEAST_JAVA}-jre-headless), or set JAVA_HOME"
    if found is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "it is not on the PATH"
        raise DeployError(f"Kafka needs Java, and {where}: {how}")
    try:
        said = subprocess.run(
            [found, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT_S,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise DeployError(f"{found} does not run ({error}): {how}") from error
    release = major_release(said)
    if release is None or release < LEAST_JAVA:
        told = said.partition("\n")[0] or "nothing"
        raise DeployError(f"Kafka needs Java {LEAST_JAVA} or later, and {found} says {told}: {how}")
    own_home = re.search(r"java\.home = (.+)", said)
    return found if own_home is None else f"{own_home[1]}/bin/java"


def runtime(java: Path) -> list[Path]:
    """The directories that a java reads: its home, and those of its configuration elsewhere."""
    home = java.parents[1]
    links = (path.resolve() for path in home.rglob("*") if path.is_symlink())
    places = {target.parent for target in links if target.exists() and target.is_relative_to(ETC)}
    return [home, *sorted(each for each in places if places.isdisjoint(each.parents))]


def major_release(said: str) -> int | None:
    """What `java -version` said, as a number: 17 of `17.0.15`, 8 of `1.8.0_392`; None if not."""
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return None if match is None else int(match[1])
