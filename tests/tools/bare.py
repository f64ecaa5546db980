"""Runs a command where no optional tool is: `python -m tests.tools.bare make check`.

Every optional program of `tests.support.require` is covered by an empty file in a mount namespace
of
the command's own; so are libfaketime and Kafka's jars. Neither a test nor the product finds them,
however it looks. What every Debian has stays, and so does what the kernel and the user's privileges
give: a machine that has some of it and lacks the rest is what most new users have.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.targets.linux import clocks
from tests.support.require import (
    CAPABILITIES,
    KAFKA_39_JARS,
    KAFKA_JARS,
    SEARCH_PATH,
    ZOOKEEPER_JARS,
)

EVERYWHERE: Final = {"mkfs.ext4"}
"""Programs of the capabilities that every Debian has."""


def main(argv: list[str]) -> int:
    """Run `argv` without the tools; its exit code."""
    if not argv:
        print("usage: python -m tests.tools.bare COMMAND...", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="highwater-bare-") as name:
        blank = Path(name, "blank")
        blank.touch(mode=0o644)
        empty = Path(name, "empty")
        empty.mkdir()
        cover = [["mount", "--bind", str(blank), str(each)] for each in files()]
        cover += [["mount", "--bind", str(empty), str(each)] for each in folders()]
        script = "set -e\n" + "\n".join(map(shell, cover)) + '\nexec "$@"\n'
        here = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        unshare = ["unshare", *here, "--mount", "--propagation", "private"]
        environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "KAFKA_HOME")}
        environment |= {"HIGHWATER_REQUIRE": ""}
        return subprocess.run(
            [*unshare, "sh", "-c", script, "sh", *argv], env=environment, check=False
        ).returncode


def files() -> Iterator[Path]:
    """The optional programs, wherever they are."""
    found: dict[Path, None] = {}
    names = {name for each in CAPABILITIES.values() for name in each.programs}
    for name in sorted(names - EVERYWHERE):
        for folder in SEARCH_PATH.split(":"):
            if folder and (path := shutil.which(name, path=folder)):
                found[Path(path).resolve()] = None
    yield from found


def folders() -> Iterator[Path]:
    """What is found in folders of its own."""
    if (preload := clocks.library()) is not None:
        yield Path(preload).resolve().parent
    for jars in (KAFKA_JARS, KAFKA_39_JARS, ZOOKEEPER_JARS):
        if jars.is_dir():
            yield jars


def shell(argv: list[str]) -> str:
    """A command as a line of the shell."""
    return " ".join(f"'{each}'" for each in argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
