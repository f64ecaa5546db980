"""Imports modules that are named on the command line, from where `python -m` finds them."""

import importlib
import sys
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
