"""What differs between makes of broker that all take Kafka's properties.

`harness.systems.brokers` deploys any of them; a make says those properties in its own words, and
how a node is started. To add one is to write a `Make` and to name it in `harness.brokers.choose`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a node is started; `env` is its whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """Where a node's own files are: on its machine, but for `here`."""

    node: int
    here: Path
    """The node's directory in the run, where its configuration is written."""
    properties: Path
    log_dir: Path
    python: str
    """The interpreter of the node's machine."""
    environment: Mapping[str, str]
    """What a process on the node's machine begins with."""
    place: Callable[[Path], Path] = lambda path: path
    """Where that of what the make `reads` is on the node's machine."""


class Make(Protocol):
    """One make of broker. Calls are synchronous and bounded."""

    @property
    def patience(self) -> float:
        """How many times as long as the built-in broker a cluster may take to start."""
        ...

    def versions(self) -> Mapping[str, str]:
        """What a run depends on because of it."""
        ...

    def reads(self) -> Sequence[Path]:
        """Files and directories of the harness's machine that a node reads."""
        ...

    def configure(self, files: NodeFiles, wanted: Mapping[str, str]) -> None:
        """Write a node's configuration, from the properties that all makes share."""
        ...

    def command(self, files: NodeFiles) -> Command:
        """How a configured node is started, whatever its disk has kept."""
        ...


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a file of Kafka's properties, which only its owner can read: passwords may be in it."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
