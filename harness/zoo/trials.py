"""One exhibit's trials: by its schedule in simulated worlds and with real processes, and by chance.

A schedule or a seed counts only where the unmodified broker comes through it. At random means
swarms: seeds that draw cluster, topics, clients and faults, none of which knows what is broken.
"""

import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from harness.judging.judge import forbidden_of
from harness.plans import plan as plans
from harness.plans.plan import Plan
from harness.simulation.campaign import INVALID, VALID, Campaign, Task, broken_by, run_seed
from harness.zoo.entry import Exhibit, collection

SOUND: Final = "nodes"
RUN_TIMEOUT_S: Final = 280
"""Five times what a run takes on a quiet machine."""
PATIENCE_S: Final = 60
"""How long a run that is to end may heal and tear down."""
RANDOM_PLAN: Final = "simulation"
APART: Final = 1_000_000
"""Between the first seeds of one search and of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """What the schedule showed in simulated worlds."""

    worlds: int
    caught: int
    sound: int
    """In how many the unmodified broker came through."""
    signs: tuple[str, ...] = ()
    said: str = ""

    @property
    def holds(self) -> bool:
        """Caught somewhere, and the unmodified broker nowhere."""
        return self.caught > 0 and self.sound == self.worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """What the schedule showed with real processes."""

    verdict: str
    caught_by: tuple[str, ...]
    sound: str
    """The unmodified broker's verdict."""
    seconds: float | None
    """From the first fault to the first operation that shows it."""
    said: str

    @property
    def holds(self) -> bool:
        """Caught, and the unmodified broker not."""
        return bool(self.caught_by) and self.sound == VALID


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """How many seeds several searches took."""

    seeds: tuple[int | None, ...]
    """Of each search, up to and with the one that caught it; None where none did."""
    tried: int
    """How many seeds the longest of them took, or as many as its time allowed."""
    signs: tuple[str, ...] = ()
    unsound: tuple[int, ...] = ()
    """Seeds that accuse the unmodified broker as well: each is to be looked into."""

    @property
    def median(self) -> float | None:
        """Of the searches, those that found nothing counted as endless; None where that is it."""
        found = [float("inf") if each is None else each for each in self.seeds]
        middle = statistics.median(found) if found else float("inf")
        return None if middle == float("inf") else middle


def scripted(module: str, name: str, seeds: Sequence[int]) -> Scripted:
    """Play the exhibit's schedule in a world of each seed, with and without what breaks it.

    For a process of its own: nothing but texts and numbers go in.
    """
    exhibit = collection(module, [name])[0]
    with _silence(), tempfile.TemporaryDirectory(prefix="highwater-zoo-") as root:
        sound = [_played(exhibit, SOUND, seed, Path(root)) for seed in seeds]
        broken = [_played(exhibit, exhibit.module, seed, Path(root)) for seed in seeds]
    caught = [signs for signs in broken if signs]
    told = [
        f"unmodified, seed {s}: {signs[0]}" for s, signs in zip(seeds, sound, strict=True) if signs
    ]
    return Scripted(
        worlds=len(seeds),
        caught=len(caught),
        sound=sum(not signs for signs in sound),
        signs=caught[0] if caught else (),
        said="; ".join(told),
    )


@contextmanager
def _silence() -> Iterator[None]:
    """What brokers say while they are broken on purpose is for nobody."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _played(exhibit: Exhibit, module: str, seed: int, root: Path) -> tuple[str, ...]:
    """What broke; nothing if all went as it must."""
    if exhibit.script is not None:
        with broken_by(module):
            said = exhibit.script(seed)
        return (said,) if said else ()
    assert exhibit.scenario is not None
    task = Task(plan=_plan(str(exhibit.scenario), module), root=root)
    result = run_seed(task, seed)
    return result.signs if result.outcome == INVALID else _not_valid(result.outcome, module)


def _not_valid(outcome: str, module: str) -> tuple[str, ...]:
    """What is neither VALID nor INVALID: no catch, and no coming through either."""
    return (outcome,) if outcome != VALID and module == SOUND else ()


def _plan(source: str, module: str) -> Plan:
    raw = plans.load(source)
    return plans.build(raw, where=source, flags={"broker_module": module})


def by_chance(
    exhibit: Exhibit, *, searches: int, limit: int, jobs: int, time_s: float, root: Path
) -> Chance:
    """Search with swarms, several times, each with `limit` seeds and `time_s` seconds at most."""
    found: list[int | None] = []
    tried = 0
    signs: tuple[str, ...] = ()
    unsound: list[int] = []
    for number in range(searches):
        first = number * APART + 1
        task = _swarm(exhibit.module, root)
        campaign = Campaign(task, range(first, first + limit), jobs=jobs)
        until_s = time.monotonic() + time_s
        caught = {}
        for count, result in enumerate(campaign.results(until_s), start=1):
            tried = max(tried, count)
            if result.outcome != INVALID:
                continue
            if _unmodified_comes_through(result.seed, root):
                caught[result.seed] = result.signs
                campaign.stop()
            else:
                unsound.append(result.seed)
        found.append(min(caught) - first + 1 if caught else None)
        signs = signs or (caught[min(caught)] if caught else ())
    return Chance(seeds=tuple(found), tried=tried, signs=signs, unsound=tuple(sorted(unsound)))


def _unmodified_comes_through(seed: int, root: Path) -> bool:
    """Whether the seed does not accuse the unmodified broker, too."""
    with _silence():
        return run_seed(_swarm(SOUND, root), seed).outcome != INVALID


def _swarm(module: str, root: Path) -> Task:
    return Task(plan=_plan(RANDOM_PLAN, module), seeds_are_swarms=True, root=root)


def real(exhibit: Exhibit, store: Path) -> Real:
    """Run the scenario with real processes, broken and not."""
    assert exhibit.scenario is not None
    broken = _run(exhibit.scenario, exhibit.module, store)
    sound = _run(exhibit.scenario, SOUND, store)
    forbidden = forbidden_of(broken) if "anomalies" in broken else {}
    return Real(
        verdict=broken["verdict"],
        caught_by=tuple(kind for kind in exhibit.shows if kind in forbidden),
        sound=sound["verdict"],
        seconds=_first_s(broken),
        said="; ".join(broken["reasons"]),
    )


def _run(scenario: Path, module: str, store: Path) -> Mapping[str, Any]:
    """The verdict of a run; ERROR where there is none. What interrupts this one ends the run in
    order first.
    """
    command = [
        sys.executable,
        "-m",
        "harness.cli.main",
        "run",
        str(scenario),
        "--json",
        "--no-report",
    ]
    command += ["--broker-module", module, "--store", str(store)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as run:
        try:
            out, err = run.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return {"verdict": "ERROR", "reasons": [f"not over in {RUN_TIMEOUT_S} s"]}
        finally:
            if run.poll() is None:
                _end(run)
    try:
        found: Mapping[str, Any] = json.loads(out)
    except ValueError:
        return {"verdict": "ERROR", "reasons": [err.strip()[-300:]]}
    return found


def _end(run: subprocess.Popen[str]) -> None:
    """Let it heal and tear down what it made; not for ever."""
    run.terminate()
    try:
        run.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        run.kill()


def _first_s(verdict: Mapping[str, Any]) -> float | None:
    """From the first fault to the first operation, or (without any) to the end of the run."""
    found = [a for a in verdict.get("anomalies", ()) if a["judgement"] == "forbidden"]
    if not found:
        return None
    faults = pq.read_table(Path(verdict["run"]) / "faults.parquet").to_pylist()
    began_ns = min((row["started_ns"] for row in faults if row["started_ns"]), default=None)
    if began_ns is None:
        return None
    rows = (row for each in found for row in each["examples"])
    ends = (row.get("complete_ns") or row.get("invoke_ns") for row in rows)
    shown_ns = min((end for end in ends if end is not None and end > began_ns), default=None)
    if shown_ns is None:
        shown_ns = max(row["healed_ns"] or row["started_ns"] or 0 for row in faults)
    return float(shown_ns - began_ns) / 1e9
