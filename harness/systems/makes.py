"""What differs between makes of broker that all take Kafka's properties.

`harness.systems.nodes` deploys any of them; a make says those properties in its own words, and how
a node is started. To add one is to write a `Make` and to name it in `make_of`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, assert_never

from harness.plan import Plan, PlanError


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


class BuiltIn:
    """The built-in broker: a Python module."""

    patience: Final = 1.0

    def __init__(self, module: str) -> None:
        self._module = module

    def versions(self) -> Mapping[str, str]:
        """The commit says it all."""
        return {}

    def reads(self) -> Sequence[Path]:
        """The packages of the broker, and of the module where that is another's."""
        names = dict.fromkeys(("nodes", self._module.partition(".")[0]))
        return [place for name in names if (place := _package(name)) is not None]

    def configure(self, files: NodeFiles, wanted: Mapping[str, str]) -> None:
        """Write them as they are."""
        (files.here / files.properties.name).write_text(as_text(wanted))

    def command(self, files: NodeFiles) -> Command:
        """`python -m` the module."""
        argv = (files.python, "-m", self._module, str(files.properties))
        return Command(argv=argv, env=dict(files.environment))


def _package(name: str) -> Path | None:
    """Where `python -m` would find a package: in the current directory first."""
    found = PathFinder.find_spec(name, [str(Path.cwd())]) or find_spec(name)
    places = found.submodule_search_locations if found is not None else None
    return Path(places[0]) if places else None


def as_text(properties: Mapping[str, str]) -> str:
    """As a file of Kafka's properties."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def make_of(plan: Plan, *, lasting: bool = False) -> Make:
    """The plan's make; `lasting` nodes may start slowly to be fast later.

    Raises PlanError when there is none where the plan says, DeployError when it cannot run here.
    """
    match plan.system:
        case "nodes":
            return BuiltIn(plan.broker_module)
        case "kafka":
            from harness.systems.kafka.make import Kafka

            return Kafka.of(plan, lasting=lasting)
        case "external":
            raise PlanError(f"plan {plan.name}: an external cluster is not ours to start")
        case _:
            assert_never(plan.system)
