"""Lines of a tested program's logs, with times of the run's clock.

The supervisor writes them as `seconds | text` into `program/instance-N.log`; its own remarks, such
as the end of a process, begin with `highwater:`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.reports.redaction import redacted

MAX_BYTES: Final = 64 << 20
"""The first bytes of a log; the rest is not read."""
MAX_LINE: Final = 400
_LINE: Final = re.compile(r" *(\d+\.\d{3}) \| (.*)", re.DOTALL)


def program_lines(run_dir: Path) -> Iterator[tuple[int, float, str]]:
    """Yield (instance, seconds since the run began, text) of every line, a log after the other."""
    for path in sorted(run_dir.glob("program/instance-*.log")):
        number = path.stem.removeprefix("instance-")
        if not number.isdigit():
            continue
        with path.open(errors="replace") as file:
            for line in file.readlines(MAX_BYTES):
                if match := _LINE.match(line.rstrip("\n")):
                    yield int(number), float(match[1]), match[2][:MAX_LINE]


def lines_between(run_dir: Path, from_s: float, until_s: float, most: int) -> list[str]:
    """Return the first lines of all instances in a time span, in the order of time, as people read
    them."""
    found = [line for line in program_lines(run_dir) if from_s <= line[1] <= until_s]
    found.sort(key=lambda line: line[1])
    return [f"{at_s:.3f} s, instance {n}: {redacted(text)}" for n, at_s, text in found[:most]]
