"""The commit and the versions of packages, Python and kernel, for run.json."""

import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path


def versions() -> dict[str, str]:
    """Return the versions of Python, the kernel and the packages that a run depends on."""
    return {"python": platform.python_version(), "kernel": platform.release(), **_packages()}


@cache
def _packages() -> dict[str, str]:
    """Return the versions of the packages; a process keeps those that it began with."""
    packages = ("highwater", "confluent-kafka", "kio", "uvloop", "pyarrow", "duckdb", "sqlframe")
    found = {}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """Return the commit of this source tree, with "+" when files differ from it.

    None when it is unknown. A process keeps the commit that it began with.
    """
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None
