"""The built-in broker as a make of broker: a Python module."""

from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from harness.brokers.program import Command, NodeFiles, write_properties


class BuiltIn:
    """`python -m` of one module, on every node. See `harness.brokers.program.Make`."""

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
        write_properties(files.here / files.properties.name, wanted)

    def command(self, files: NodeFiles) -> Command:
        """`python -m` the module."""
        argv = (files.python, "-m", self._module, str(files.properties))
        return Command(argv=argv, env=dict(files.environment))


def _package(name: str) -> Path | None:
    """Where `python -m` would find a package: in the current directory first."""
    found = PathFinder.find_spec(name, [str(Path.cwd())]) or find_spec(name)
    places = found.submodule_search_locations if found is not None else None
    return Path(places[0]) if places else None
