"""Runs a command where no optional tool is: `python -m tests.bare make check`.

Every program of `tests.require` is covered by an empty file in a mount namespace of the command's
own; so are libfaketime and Kafka's jars. Neither a test nor the product finds them, however it
looks. What a kernel or a privilege gives cannot be covered; HIGHWATER_HIDE=all makes the tests do
without.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.targets.linux import clocks
from tests.require import CAPABILITIES, KAFKA_JARS, SEARCH_PATH


def main(argv: list[str]) -> int:
    """Run `argv` without the tools; its exit code."""
    if not argv:
        print("usage: python -m tests.bare COMMAND...", file=sys.stderr)
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
        environment |= {"HIGHWATER_HIDE": "all", "HIGHWATER_REQUIRE": ""}
        return subprocess.run(
            [*unshare, "sh", "-c", script, "sh", *argv], env=environment, check=False
        ).returncode


def files() -> Iterator[Path]:
    """The programs, wherever they are."""
    found: dict[Path, None] = {}
    for name in (name for each in CAPABILITIES.values() for name in each.programs):
        for folder in SEARCH_PATH.split(":"):
            if folder and (path := shutil.which(name, path=folder)):
                found[Path(path).resolve()] = None
    yield from found


def folders() -> Iterator[Path]:
    """What is found in folders of its own."""
    if (preload := clocks.library()) is not None:
        yield Path(preload).resolve().parent
    if KAFKA_JARS.is_dir():
        yield KAFKA_JARS


def shell(argv: list[str]) -> str:
    """A command as a line of the shell."""
    return " ".join(f"'{each}'" for each in argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
