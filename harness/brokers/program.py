"""The protocol of a broker program: what differs between brokers that take Kafka's properties.

`harness.systems.brokers` deploys any of them. A broker program writes the properties in its own
form, and says how a node is started. To add one, write a `BrokerProgram` and name it in
`harness.brokers.choose`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command that starts a node; `env` is the node's whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """Paths of a node's files. All but `local_dir` are paths on the node's machine."""

    node: int
    local_dir: Path
    """The node's directory in the run, on the harness's machine; the configuration is written
    here."""
    properties: Path
    log_dir: Path
    python: str
    """The interpreter of the node's machine."""
    environment: Mapping[str, str]
    """The environment of a new process on the node's machine."""
    path_on_node: Callable[[Path], Path] = lambda path: path
    """Maps a path of the program's `required_files` to its path on the node's machine."""


class BrokerProgram(Protocol):
    """A broker that takes Kafka's properties. Calls are synchronous and bounded."""

    @property
    def start_timeout_factor(self) -> float:
        """How many times as long as the built-in broker a cluster may take to start."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the software that a run depends on because of this program."""
        ...

    def required_files(self) -> Sequence[Path]:
        """Return the files and directories of the harness's machine that a node reads."""
        ...

    def configure(self, files: NodeFiles, wanted: Mapping[str, str]) -> None:
        """Write a node's configuration, from the properties that all programs share."""
        ...

    def topic_configs(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        """Return the configurations of a topic as this program takes them."""
        ...

    def command(self, files: NodeFiles) -> Command:
        """Return the command that starts a configured node, whatever is on its disk."""
        ...


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a properties file. Only its owner can read it, because it may hold passwords."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
