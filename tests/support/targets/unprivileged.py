"""A user who is not root and has no capabilities, for tests that root runs too."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.require import require

NOBODY = 65534
SOURCES = Path(__file__).parents[3]
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": f"{SOURCES}:{sysconfig.get_path('purelib')}",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Of the user's processes; `home` adds the user's own directory."""


def unprivileged(script: str, *arguments: str, python: str) -> list[str]:
    """A command line that runs Python code as a user who is not root and has no capabilities."""
    argv = [python, "-c", script, *arguments]
    if os.geteuid() != 0:
        return argv
    drop = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "--no-new-privs",
    ]
    # The capabilities go with the next exec; the shell brings that about.
    return [*drop, "sh", "-c", 'exec "$@"', "sh", *argv]


def usable_python() -> str:
    """An interpreter that such a user may run, with this one's version and packages."""
    require("userns")
    for candidate in (sys.executable, shutil.which("python3", path="/usr/bin")):
        if candidate is None:
            continue
        probe = "import sys, pyroute2, harness; print(sys.version_info[:2])"
        argv = unprivileged(probe, python=candidate)
        done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT, check=False)
        if done.stdout.strip() == str(sys.version_info[:2]):
            return candidate
    pytest.skip("no interpreter here that another user may run with these packages")


@contextmanager
def own_home() -> Iterator[Path]:
    """A directory of the user's own, where runs are kept and registered."""
    with tempfile.TemporaryDirectory(prefix="highwater-test-", dir="/tmp") as name:
        if os.geteuid() == 0:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)
