"""The built-in broker as a broker program: a Python module that `python -m` starts."""

from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import nodes
from harness.brokers.program import Command, NodeFiles, write_properties
from nodes import sources

OWN: Final = "nodes"
"""The module and the package of the unmodified broker."""
MUTANTS: Final = "harness.zoo.mutants."
"""What changes the broker's functions runs its sources."""


class BuiltIn:
    """One module on every node. Implements `harness.brokers.program.BrokerProgram`."""

    start_timeout_factor: Final = 1.0

    def __init__(self, module: str) -> None:
        self._module = module

    def versions(self) -> Mapping[str, str]:
        """Return whether modules of the broker are compiled; the commit identifies the rest."""
        return {"built-in broker": self.build()}

    def build(self) -> str:
        """Return in a few words how this Python runs the broker's modules."""
        package = None if self._module.startswith(MUTANTS) else self._package(OWN)
        return sources.INTERPRETED if package is None else sources.description(package)

    def required_files(self) -> Sequence[Path]:
        """Return the broker's package, and the package of the module if that is another one."""
        names = dict.fromkeys((OWN, self._module.partition(".")[0]))
        return [place for name in names if (place := self._package(name)) is not None]

    def topic_configs(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        """Return them as they are."""
        return configs

    def configure(self, files: NodeFiles, wanted: Mapping[str, str]) -> None:
        """Write the properties unchanged."""
        write_properties(files.local_dir / files.properties.name, wanted)

    def command(self, files: NodeFiles) -> Command:
        """Return `python -m` with the module."""
        # In a source tree, `-m` alone would take the tree's broker for that of the environment.
        elsewhere = self._module == OWN and _of_this_process().parent != Path.cwd()
        search = ("-P",) if elsewhere else ()
        argv = (files.python, *search, "-m", self._module, str(files.properties))
        return Command(argv=argv, env=dict(files.environment))

    def _package(self, name: str) -> Path | None:
        return _of_this_process() if self._module == OWN else _package(name)


def _of_this_process() -> Path:
    """Return the broker's package that this process imports, and that its nodes run."""
    return Path(nodes.__path__[0])


def _package(name: str) -> Path | None:
    """Return where `python -m` finds a package: it looks in the current directory first."""
    found = PathFinder.find_spec(name, [str(Path.cwd())]) or find_spec(name)
    places = found.submodule_search_locations if found is not None else None
    return Path(places[0]) if places else None
