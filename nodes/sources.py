"""Which modules of this package are compiled here, and how to run the sources of all instead.

A build may compile some modules (docs/performance.md). Then a module's extension lies beside its
source, and Python prefers it. Compiled functions cannot be changed while they run. So whatever
changes functions calls `use_sources` first, and HIGHWATER_INTERPRETED=1 does so at every start.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import Final

VARIABLE: Final = "HIGHWATER_INTERPRETED"
INTERPRETED: Final = "interpreted"
_PACKAGE: Final = Path(__file__).parent


class CompiledModuleError(ImportError):
    """Sources are needed, but compiled modules are loaded already; the message says what to do."""


def compiled_modules(package: Path = _PACKAGE) -> list[str]:
    """Return the names of the modules of a package that this Python loads from an extension."""
    sources = (source.relative_to(package.parent) for source in package.rglob("*.py"))
    return sorted(
        ".".join(source.with_suffix("").parts)
        for source in sources
        if any((package.parent / source).with_suffix(end).exists() for end in EXTENSION_SUFFIXES)
    )


def description(package: Path = _PACKAGE) -> str:
    """Return in a few words how this Python runs the package."""
    count = 0 if os.environ.get(VARIABLE) == "1" else len(compiled_modules(package))
    return f"compiled (modules: {count})" if count else INTERPRETED


def use_sources() -> None:
    """Load the modules of this package from their sources from now on, here and in new processes.

    Does nothing where no module is compiled. Raises CompiledModuleError if it is too late.
    """
    if any(isinstance(finder, _Sources) for finder in sys.meta_path) or not compiled_modules():
        return
    loaded = [name for name, module in sys.modules.items() if _is_compiled(name, module)]
    if loaded:
        raise CompiledModuleError(
            f"{loaded[0]} is compiled, and compiled functions cannot be changed: set {VARIABLE}=1 "
            "and try again, or use an environment in which nothing is compiled"
        )
    os.environ[VARIABLE] = "1"
    sys.meta_path.insert(0, _Sources())


def _is_compiled(name: str, module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or ""
    return name.startswith(f"{__package__}.") and file.endswith(tuple(EXTENSION_SUFFIXES))


class _Sources:
    """Finds the sources of this package's modules. Implements `importlib.abc.MetaPathFinder`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of this package; None for all others."""
        if path is None or not name.startswith(f"{__package__}."):
            return None
        for place in path:
            spec = FileFinder(place, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)
            if spec is not None:
                return spec
        return None
