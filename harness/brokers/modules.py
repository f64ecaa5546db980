"""Finds and imports modules that are named on the command line, as `python -m` does."""

import importlib
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def imported(module: str) -> ModuleType:
    """Import a module; look in the current directory first. Raises ImportError."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(here)


def module_exists(name: str) -> bool:
    """Whether `python -m` finds the module from the current directory. Nothing is imported."""
    top, *rest = name.split(".")
    spec = PathFinder.find_spec(top, [str(Path.cwd()), *sys.path]) or find_spec(top)
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return False
        top = f"{top}.{part}"
        spec = PathFinder.find_spec(top, spec.submodule_search_locations)
    return spec is not None
