"""Apache Kafka (KRaft, version 4 on) as a make of broker.

Every node is a JVM of its own. Heap and further options may be set as for Kafka's own scripts, by
KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS of the environment; the defaults suit a small
machine. A node whose disk was lost formats the new one when it is started, as its operator would.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from harness.brokers.kafka import home as homes
from harness.brokers.kafka.home import Home
from harness.brokers.kafka.properties import Format, check_overrides, kafka_format, kafka_properties
from harness.brokers.program import Command, NodeFiles, write_properties
from harness.plans.plan import Plan

BROKER: Final = "kafka.Kafka"
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
LOGGING: Final = Path(__file__).parent / "log4j2.properties"

HEAP: Final = "-Xms256m -Xmx400m"
QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""The first compiler alone: a node is up with half the work, and often does not live for long."""
LASTING: Final = "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:MaxInlineLevel=15"
"""Those of Kafka's scripts that say how fast it is in the long run."""
TOOL_HEAP: Final = f"-Xmx128m {QUICK_START}"

OTHER_MACHINES: Final = ("ssh", "vagrant")
"""Targets whose nodes run the Java of their own machines."""
JAVA_THERE: Final = "java"

SCRIPT: Final = "start.sh"
START: Final = """\
# A disk without meta.properties is the node's first, or a new one after the loss of that. Kafka's
# tool does not fsync what it writes; a cluster whose formatting is long past has it on its disks.
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
    """Kafka of one home. See `harness.brokers.program.Make`."""

    home: Home
    java: str
    lasting: bool = False
    patience: float = 3.0
    """JVMs that start together on a busy machine take their time."""

    @classmethod
    def of(cls, plan: Plan, *, lasting: bool = False) -> Self:
        """The plan's. Raises PlanError for a home without Kafka, DeployError without Java."""
        check_overrides(plan.broker, f"plan {plan.name}")
        home = homes.find(plan.kafka_home)
        java = JAVA_THERE if plan.target in OTHER_MACHINES else homes.java()
        return cls(home=home, java=java, lasting=lasting)

    def versions(self) -> Mapping[str, str]:
        """Kafka's."""
        return {"kafka": self.home.version}

    def reads(self) -> Sequence[Path]:
        """Kafka's jars, Java if it is this machine's, and how it is to log."""
        runtime = [] if self.java == JAVA_THERE else homes.runtime(Path(self.java))
        return [self.home.libs, *runtime, LOGGING]

    def configure(self, files: NodeFiles, wanted: Mapping[str, str]) -> None:
        """Write server.properties, and the script that starts the node."""
        write_properties(files.here / files.properties.name, kafka_properties(wanted))
        (files.here / SCRIPT).write_text(self._start(files, kafka_format(wanted)))

    def command(self, files: NodeFiles) -> Command:
        """The script."""
        return Command(
            argv=("/bin/sh", str(files.properties.with_name(SCRIPT))), env=dict(files.environment)
        )

    def _start(self, files: NodeFiles, format: Format) -> str:
        """Format what is not formatted; then become the broker."""
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
            broker=shlex.join([*self._java(files, self._options()), BROKER, str(files.properties)]),
        )

    def _java(self, files: NodeFiles, options: str) -> list[str]:
        return [
            self.java,
            *shlex.split(options),
            f"-Dlog4j2.configurationFile={files.place(LOGGING)}",
            "-cp",
            f"{files.place(self.home.libs)}/*",
        ]

    def _options(self) -> str:
        ours = LASTING if self.lasting else QUICK_START
        heap = os.environ.get("KAFKA_HEAP_OPTS", HEAP)
        return f"{heap} {os.environ.get('KAFKA_JVM_PERFORMANCE_OPTS', ours)}"
