"""What a run depends on besides its plan: the commit, and the versions of what it runs on."""

import importlib.metadata
import platform
import subprocess
from pathlib import Path


def versions() -> dict[str, str]:
    """What a run depends on besides the commit."""
    packages = ("highwater", "confluent-kafka", "kio", "uvloop", "pyarrow", "duckdb", "sqlframe")
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit of this source tree, with + when files differ from it; None when unknown."""
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
