"""The packaged client program on Kafka's Java client: where it is, and how it is started.

`make java-client` compiles its source, which is beside this module, and puts it and its libraries
into `.kafka/client`.
"""

from pathlib import Path
from typing import Final

from harness.brokers.errors import DeployError
from harness.brokers.kafka.home import FETCHED, SOURCE_TREE, find_java
from harness.plans.plan import PlanError

FOLDER: Final = "client"
"""The folder of the program and its libraries, beside the jars of `make kafka`."""
JAR: Final = "highwater-java-client.jar"
MAIN: Final = "highwater.Client"
OPTIONS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Several of these processes run beside the brokers: little memory, few threads, a quick start."""


def command() -> list[str]:
    """Return the command of the program. Raises PlanError if it or Java is missing."""
    places = [Path.cwd() / FETCHED / FOLDER, SOURCE_TREE / FETCHED / FOLDER]
    found = next((place for place in places if (place / JAR).is_file()), None)
    if found is None:
        raise PlanError(
            f"workload.client java is not compiled: there is no {FETCHED}/{FOLDER}/{JAR} in the "
            "current directory or in the source tree; run `make java-client` in the source tree "
            "(it needs a JDK and Maven: apt-get install openjdk-17-jdk-headless maven)"
        )
    try:
        program = find_java()
    except DeployError as error:
        raise PlanError(f"workload.client java: {error}") from error
    return [program, *OPTIONS, "-cp", f"{found}/*", MAIN]
