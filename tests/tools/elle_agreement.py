"""Does Elle itself say the same of generated histories as the native checker?

    python -m tests.tools.elle_agreement --elle "java -jar elle-cli-standalone.jar" --count 100

writes random histories of transactions in Elle's form and has elle-cli judge all of them in one
process. For each history both answer which of four consistency models (Adya's PL-1, PL-2, PL-2+ and
PL-3) it violates. Prints each history whose answers differ, with its seed, and how many violate
what. Exits with 1 when an answer differs. docs/interchange.md says how to get the jar.

Elle knows no ww edge over a record of a failed send. So of histories with such a record only PL-2
is compared, which both find violated.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from checkers.elle.graph import ABORTED, INTERMEDIATE, GraphVerdict, check_graph
from checkers.elle.list_append import to_list_append
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from tests.support.checkers.judge_imports import sources
from tests.support.checkers.random_transactions import random_transactions

_PL_1: Final = frozenset({"G0"})
_PL_2: Final = _PL_1 | {ABORTED, INTERMEDIATE, "G1c", "G1c of reads alone"}
FORBIDDEN: Final[Mapping[str, frozenset[str]]] = {
    "read-uncommitted": _PL_1,
    "read-committed": _PL_2,
    "consistent-view": _PL_2 | {"G-single"},
    "serializable": _PL_2 | {"G-single", "G2-item"},
}
"""The native checker's names of what violates a model, by Elle's names of models."""

TIMEOUT_S: Final = 3_600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate, ask both, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elle", required=True, help="the command that starts elle-cli")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first, chosen.first + chosen.count)
    with tempfile.TemporaryDirectory(prefix="highwater-elle-") as folder:
        files = {seed: Path(folder, f"{seed}.json") for seed in seeds}
        native = {seed: judge(seed, path) for seed, path in files.items()}
        answers = ask(shlex.split(chosen.elle), [*files.values()])
    counts: Counter[str] = Counter()
    differing = 0
    for seed, answer in zip(seeds, answers, strict=True):
        mine = violated(native[seed])
        theirs = FORBIDDEN.keys() & {*answer.get("not", ()), *answer.get("also-not", ())}
        counts.update(mine or {"nothing"})
        wrong = differences(native[seed], mine, theirs)
        if wrong:
            differing += 1
            found = sorted(each.name for each in native[seed].anomalies)
            print(f"seed {seed}: {wrong}: native {found}, Elle {answer.get('anomaly-types')}")
    listed = ", ".join(f"{model} {count}" for model, count in sorted(counts.items()))
    print(f"{len(seeds)} histories, violated: {listed}; {differing} answers differ")
    return 1 if differing else 0


def judge(seed: int, path: Path) -> GraphVerdict:
    """Write the history of a seed in Elle's form, and return the native answer."""
    imported = random_transactions(Random(seed)).imported()
    engine = DuckDbEngine(threads=1)
    try:
        frames = Frames(engine, sources(imported), imported.plan)
        path.write_text(to_list_append(frames))
        return check_graph(frames, timeout_s=TIMEOUT_S)
    finally:
        engine.close()


def ask(elle: Sequence[str], files: Sequence[Path]) -> list[dict[str, Any]]:
    """Elle's analysis of each file."""
    command = [*elle, "--model", "list-append", "--format", "json", "--verbose"]
    command += ["--consistency-models", "serializable", *map(str, files)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    found = [*_documents(ended.stdout)]
    if len(found) != len(files):
        raise SystemExit(f"{len(found)} answers to {len(files)} histories: {ended.stderr[-2000:]}")
    return found


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, one after the other; lines between them are no answers."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        found, at = decoder.raw_decode(text, at)
        yield found
        at = text.find("{", at)


def violated(verdict: GraphVerdict) -> frozenset[str]:
    """The models that the native answer violates."""
    found = {each.name for each in verdict.anomalies}
    return frozenset(model for model, names in FORBIDDEN.items() if names & found)


def differences(
    verdict: GraphVerdict, mine: Iterable[str], theirs: Iterable[str]
) -> frozenset[str]:
    """The models about which the answers differ, of those that can be compared."""
    aborted = any(each.name == ABORTED for each in verdict.anomalies)
    compared = {"read-committed"} if aborted else {*FORBIDDEN}
    return frozenset({*mine} ^ {*theirs}) & compared


if __name__ == "__main__":
    sys.exit(main())
