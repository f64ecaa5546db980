"""Apache Kafka (version 3.9 or later) as a broker program, beside its quorum or ZooKeeper.

Every node is a JVM of its own. The environment variables KAFKA_HEAP_OPTS and
KAFKA_JVM_PERFORMANCE_OPTS set heap and further options, as for Kafka's own scripts. The defaults
suit a small machine. A node that lost its disk formats the new disk when it starts, as its operator
would.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from harness.brokers.kafka import home as homes
from harness.brokers.kafka.home import Home
from harness.brokers.kafka.properties import (
    ZOOKEEPER,
    Format,
    check_overrides,
    kafka_format,
    kafka_properties,
    with_small_segments,
)
from harness.brokers.program import Command, NodeFiles, write_properties
from harness.plans.plan import Plan

BROKER: Final = "kafka.Kafka"
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
LOGGING: Final = Path(__file__).parent / "log4j2.properties"
LOGGING_39: Final = LOGGING.with_name("log4j.properties")
"""The logging setup of Kafka before version 4."""

HEAP: Final = "-Xms256m -Xmx400m"
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""Only the first compiler: a node starts with half the work, and often runs only for a short time.
"""
LONG_RUNNING: Final = "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:MaxInlineLevel=15"
"""The options of Kafka's scripts that decide its speed in the long run."""
TOOL_HEAP: Final = f"-Xmx128m {QUICK_START}"

OTHER_MACHINES: Final = ("ssh", "vagrant")
"""Targets whose nodes run the Java of their own machines."""
JAVA_ON_PATH: Final = "java"

SCRIPT: Final = "start.sh"
START: Final = """\
# A disk without meta.properties is the node's first disk, or a new one after a loss. Kafka's tool
# does not fsync what it writes. A cluster that was formatted long ago has these files on its disks.
if ! [ -e {meta} ]; then
  if [ -e {known} ]; then
    {again} || exit 1
  else
    {first} || exit 1
    touch {known}
  fi
  sync --file-system {log_dir}
fi
exec {broker}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """Kafka of one home. Implements `harness.brokers.program.BrokerProgram`."""

    home: Home
    java: str
    long_running: bool = False
    start_timeout_factor: float = 3.0
    """Several JVMs that start together on a busy machine are slow."""

    @classmethod
    def of(cls, plan: Plan, *, long_running: bool = False) -> Self:
        """Return the plan's Kafka. Raises PlanError without Kafka, DeployError without Java."""
        check_overrides(plan.broker, f"plan {plan.name}")
        zookeeper = plan.control_plane == "zookeeper"
        home = homes.find_kafka(plan.kafka_home, zookeeper=zookeeper)
        java = JAVA_ON_PATH if plan.target in OTHER_MACHINES else homes.find_java()
        return cls(home=home, java=java, long_running=long_running)

    def versions(self) -> Mapping[str, str]:
        """Return Kafka's version."""
        return {"kafka": self.home.version}

    def required_files(self) -> Sequence[Path]:
        """Return Kafka's jars, the Java of this machine if nodes use it, and the logging setup."""
        java = [] if self.java == JAVA_ON_PATH else homes.java_directories(Path(self.java))
        return [self.home.libs, *java, self._logging]

    @property
    def _logging(self) -> Path:
        return LOGGING if self.home.release >= homes.ZOOKEEPER_REMOVED else LOGGING_39

    def configure(self, files: NodeFiles, wanted: Mapping[str, str]) -> None:
        """Write server.properties, and the script that starts the node."""
        write_properties(files.local_dir / files.properties.name, kafka_properties(wanted))
        if ZOOKEEPER in wanted:  # such a broker formats its disk by itself
            text = f"exec {self._broker(files)}\n"
        else:
            has_features = self.home.release >= homes.ZOOKEEPER_REMOVED
            text = self._start(files, kafka_format(wanted, has_features=has_features))
        (files.local_dir / SCRIPT).write_text(text)

    def topic_configs(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        """Return them, with segments of any size."""
        if self.home.release < homes.ZOOKEEPER_REMOVED:
            return configs
        return with_small_segments(configs)

    def command(self, files: NodeFiles) -> Command:
        """Return the command that runs the start script."""
        return Command(
            argv=("/bin/sh", str(files.properties.with_name(SCRIPT))), env=dict(files.environment)
        )

    def _start(self, files: NodeFiles, format: Format) -> str:
        """Return the start script: format the disk if it is not formatted, then run the broker."""
        tool = [
            *self._java(files, TOOL_HEAP),
            STORAGE_TOOL,
            "format",
            f"--config={files.properties}",
        ]
        return START.format(
            meta=shlex.quote(str(files.log_dir / "meta.properties")),
            log_dir=shlex.quote(str(files.log_dir)),
            known=shlex.quote(str(files.properties.with_name("formatted"))),
            first=shlex.join([*tool, *format.arguments(first=True)]),
            again=shlex.join([*tool, *format.arguments(first=False)]),
            broker=self._broker(files),
        )

    def _broker(self, files: NodeFiles) -> str:
        return shlex.join([*self._java(files, self._options()), BROKER, str(files.properties)])

    def _java(self, files: NodeFiles, options: str) -> list[str]:
        return [
            self.java,
            *shlex.split(options),
            self._logging_option(files.path_on_node(self._logging)),
            "-cp",
            f"{files.path_on_node(self.home.libs)}/*",
        ]

    def _logging_option(self, file: Path) -> str:
        if self._logging == LOGGING:
            return f"-Dlog4j2.configurationFile={file}"
        return f"-Dlog4j.configuration=file:{file}"

    def _options(self) -> str:
        default = LONG_RUNNING if self.long_running else QUICK_START
        heap = os.environ.get("KAFKA_HEAP_OPTS", HEAP)
        return f"{heap} {os.environ.get('KAFKA_JVM_PERFORMANCE_OPTS', default)}"
