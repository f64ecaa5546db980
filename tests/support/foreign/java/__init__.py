"""Programs on Kafka's own client library: tests compile them, and run each in a process."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.require import KAFKA_JARS, KAFKA_PROGRAMS

SOURCES: Final = Path(__file__).parent
TIMEOUT_S: Final = 400.0
"""Of a whole program, on a busy machine; what waits for the cluster gives up long before."""

CLASS_PATH: Final = f"{KAFKA_JARS}/*:{KAFKA_PROGRAMS}/*"
"""Kafka's jars, and those of Streams and Connect if they are there."""

TERMINATION_S: Final = 20.0
"""How long a program that was asked to end may take."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What one call of AdminClient came to.

    sent: how many requests of each kind went to each node. seen: what the answer said.
    """

    method: str
    outcome: str
    sent: dict[str, int]
    seen: dict[str, str]

    @property
    def error(self) -> str:
        """The class of the error; "ok" without one."""
        return self.outcome.partition(":")[0]

    @property
    def retries(self) -> int:
        """How often it repeated the most repeated request to one node."""
        return max(self.sent.values(), default=1) - 1


def compiled(program: str, into: Path) -> None:
    """Compile the source file of that name."""
    subprocess.run(
        ["javac", "-nowarn", "-cp", CLASS_PATH, "-d", into, SOURCES / f"{program}.java"],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def run(
    main: str, arguments: Sequence[str], *, classes: Path | None = None, typed: str = ""
) -> Any:
    """Run the class's `main`, which reads what was typed; return its exit status, output and
    errors.
    """
    return subprocess.run(
        _command(main, arguments, classes),
        check=False,
        capture_output=True,
        input=typed,
        text=True,
        timeout=TIMEOUT_S,
    )


@contextmanager
def started(
    main: str,
    arguments: Sequence[str],
    *,
    classes: Path | None = None,
    output: Path = Path(os.devnull),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the class's `main` beside the test; what it prints goes to the file `output`. At the end
    it is killed, if it still runs.
    """
    with output.open("wb") as printed:
        process = subprocess.Popen(
            _command(main, arguments, classes), stdout=printed, stderr=printed
        )
    try:
        yield process
    finally:
        try:
            process.wait(TERMINATION_S if process.poll() is None else 0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _command(main: str, arguments: Sequence[str], classes: Path | None) -> list[str]:
    path = [CLASS_PATH, *([] if classes is None else [str(classes)])]
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", ":".join(path), main, *arguments]


def swept(lines: str) -> dict[str, Swept]:
    """Parse what AdminSweep prints, by method."""
    rows = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return {
        row["method"]: Swept(row["method"], row["outcome"], row["sent"], row["seen"])
        for row in rows
    }
