"""Modules that are named on the command line: found where `python -m` would find them."""

import importlib
import sys
from pathlib import Path
from types import ModuleType


def imported(module: str) -> ModuleType:
    """The module of that name, from the present directory on. Raises ImportError."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(here)
