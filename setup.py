"""The build. With HIGHWATER_COMPILE=1 it compiles the broker's hot modules with mypyc.

pyproject.toml lists them under [tool.highwater]. Their sources are installed beside the extensions:
they are what another version of Python loads, and what the zoo changes.
"""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from setuptools import setup

HERE: Final = Path(__file__).parent
GROUP: Final = "nodes.compiled"
"""The library that all extensions share is nodes/compiled__mypyc.*.so, inside of the package."""
OPTIONS: Final = ("--config-file=", "--strict", "--ignore-missing-imports")
"""mypy's options. `make lint` checks the types; here a missing library must not matter."""
TYPED: Final = ("kio", "crc32c", "cramjam", "xxhash")
"""The libraries of the compiled modules, whose types the compiler uses."""


def main() -> None:
    """Build."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())
    if os.environ.get("HIGHWATER_COMPILE") != "1":
        setup()
        return
    needed = [each for each in project["project"]["dependencies"] if each.startswith(TYPED)]
    needed += [
        each for each in project["project"]["optional-dependencies"]["dev"] if "mypy>" in each
    ]
    setup(setup_requires=needed, ext_modules=extensions(project["tool"]["highwater"]["compiled"]))


def extensions(modules: list[str]) -> list[Any]:
    """Return the extensions of the modules; none while pip still asks what the build needs."""
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        if "egg_info" in sys.argv:
            return []
        raise SystemExit(f"HIGHWATER_COMPILE=1 needs mypyc: pip install mypy ({error})") from error
    made: list[Any] = mypycify(
        [*OPTIONS, *modules], opt_level="3", debug_level="0", group_name=GROUP
    )
    return made


main()
