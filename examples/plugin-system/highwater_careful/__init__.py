"""A system of another package: a broker that is started by its own command and configuration.

For the sake of the example the broker is highwater's built-in one, so that nothing needs to be
installed. Another broker has another `command`, and `configure` writes its own kind of file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import nodes
from harness.brokers.program import BrokerProgram, Command, NodeFiles, write_properties
from harness.plans.plan import Plan

ALWAYS = {"flush.messages": "1"}
"""What this system sets, whatever the plan says."""


class Careful:
    """See `harness.brokers.program.BrokerProgram`."""

    start_timeout_factor = 1.0

    def versions(self) -> Mapping[str, str]:
        """Return what a run depends on; the report prints it."""
        return {"careful broker": "1"}

    def required_files(self) -> Sequence[Path]:
        """Return what must be there on a node's machine: the broker's package."""
        return [Path(nodes.__path__[0])]

    def configure(self, files: NodeFiles, wanted: Mapping[str, str]) -> None:
        """Write the properties that all systems share, and our own."""
        write_properties(files.local_dir / files.properties.name, {**wanted, **ALWAYS})

    def topic_configs(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        """Return a topic's properties by this broker's names: those of the plan."""
        return configs

    def command(self, files: NodeFiles) -> Command:
        """Return the command of a node."""
        argv = (files.python, "-P", "-m", "nodes", str(files.properties))
        return Command(argv=argv, env=dict(files.environment))


def careful(plan: Plan) -> BrokerProgram:
    """Return the broker program for a plan. Raises PlanError when the plan cannot have it."""
    return Careful()
