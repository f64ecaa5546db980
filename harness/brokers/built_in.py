"""The built-in broker as a broker program: a Python module that `python -m` starts."""

from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from harness.brokers.program import Command, NodeFiles, write_properties


class BuiltIn:
    """One module on every node. Implements `harness.brokers.program.BrokerProgram`."""

    start_timeout_factor: Final = 1.0

    def __init__(self, module: str) -> None:
        self._module = module

    def versions(self) -> Mapping[str, str]:
        """Return nothing: the commit identifies the broker."""
        return {}

    def required_files(self) -> Sequence[Path]:
        """Return the broker's package, and the package of the module if that is another one."""
        names = dict.fromkeys(("nodes", self._module.partition(".")[0]))
        return [place for name in names if (place := _package(name)) is not None]

    def configure(self, files: NodeFiles, wanted: Mapping[str, str]) -> None:
        """Write the properties unchanged."""
        write_properties(files.local_dir / files.properties.name, wanted)

    def command(self, files: NodeFiles) -> Command:
        """Return `python -m` with the module."""
        argv = (files.python, "-m", self._module, str(files.properties))
        return Command(argv=argv, env=dict(files.environment))


def _package(name: str) -> Path | None:
    """Return where `python -m` finds a package: it looks in the current directory first."""
    found = PathFinder.find_spec(name, [str(Path.cwd())]) or find_spec(name)
    places = found.submodule_search_locations if found is not None else None
    return Path(places[0]) if places else None
