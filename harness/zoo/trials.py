"""The trials of one entry of the zoo: by its schedule, with random seeds, and with real processes.

A schedule or a seed counts only if the unmodified broker passes it. A random seed draws the
cluster, topics, clients and faults (`highwater simulate --swarm`); the draw does not know the bug.
"""

import json
import logging
import os
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

from harness.judging.judge import count_forbidden
from harness.plans import plan as plans
from harness.plans.plan import Plan
from harness.simulation.campaign import (
    INVALID,
    VALID,
    Campaign,
    Seeds,
    Task,
    apply_broker_module,
    run_seed,
)
from harness.zoo.entry import Entry, load_entries

UNMODIFIED: Final = "nodes"
RUN_TIMEOUT_S: Final = 280
"""Five times the duration of a run on an idle machine."""
STOP_TIMEOUT_S: Final = 60
"""How long an interrupted run may take to heal and tear down."""
RANDOM_PLAN: Final = "simulation"
SEED_STRIDE: Final = 1_000_000
"""The distance between the first seeds of two searches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTrial:
    """The result of the schedule in simulated worlds."""

    worlds: int
    caught: int
    unmodified_passed: int
    """The number of worlds in which the unmodified broker passed."""
    signs: tuple[str, ...] = ()
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Whether the mutant was caught in a world, and the unmodified broker in none."""
        return self.caught > 0 and self.unmodified_passed == self.worlds


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTrial:
    """The result of the scenario with real processes."""

    verdict: str
    caught_by: tuple[str, ...]
    unmodified: str
    """The verdict about the unmodified broker."""
    seconds: float | None
    """The time from the first fault to the first operation that shows the bug."""
    problem: str

    @property
    def holds(self) -> bool:
        """Whether the mutant was caught, and the unmodified broker was not."""
        return bool(self.caught_by) and self.unmodified == VALID


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTrial:
    """The numbers of seeds that several searches needed."""

    seeds: tuple[int | None, ...]
    """Per search: the number of seeds up to the one that caught the bug; None without a catch."""
    tried: int
    """The number of seeds that the longest search tried."""
    signs: tuple[str, ...] = ()
    unmodified_failed: tuple[int, ...] = ()
    """Seeds in which the unmodified broker is INVALID too. Look into each of them."""

    @property
    def median(self) -> float | None:
        """The median of `seeds`. A search without a catch counts as infinite; None stands for an
        infinite median.
        """
        found = [float("inf") if each is None else each for each in self.seeds]
        middle = statistics.median(found) if found else float("inf")
        return None if middle == float("inf") else middle


def try_schedule(module: str, name: str, seeds: Sequence[int]) -> ScheduleTrial:
    """Play the entry's schedule in a world of each seed, with the unmodified broker and the mutant.

    Call this in a process of its own: the mutant patches the process.
    """
    entry = load_entries(module, [name])[0]
    with _logging_off(), tempfile.TemporaryDirectory(prefix="highwater-zoo-") as root:
        unmodified = [_play(entry, UNMODIFIED, seed, Path(root)) for seed in seeds]
        broken = [_play(entry, entry.module, seed, Path(root)) for seed in seeds]
    caught = [signs for signs in broken if signs]
    problems = [
        f"unmodified, seed {seed}: {signs[0]}"
        for seed, signs in zip(seeds, unmodified, strict=True)
        if signs
    ]
    return ScheduleTrial(
        worlds=len(seeds),
        caught=len(caught),
        unmodified_passed=sum(not signs for signs in unmodified),
        signs=caught[0] if caught else (),
        problem="; ".join(problems),
    )


@contextmanager
def _logging_off() -> Iterator[None]:
    """Discard all log lines: those of a broken broker help nobody."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _play(entry: Entry, module: str, seed: int, root: Path) -> tuple[str, ...]:
    """Return what failed; an empty tuple means that nothing did."""
    if entry.script is not None:
        with apply_broker_module(module):
            failure = entry.script(seed)
        return (failure,) if failure else ()
    assert entry.scenario is not None
    task = Task(plan=_plan(str(entry.scenario), module), root=root)
    result = run_seed(task, seed)
    return result.signs if result.outcome == INVALID else _not_valid(result.outcome, module)


def _not_valid(outcome: str, module: str) -> tuple[str, ...]:
    """Return an outcome that is neither VALID nor INVALID: it is not a catch of the mutant, but a
    failure of the unmodified broker.
    """
    return (outcome,) if outcome != VALID and module == UNMODIFIED else ()


def _plan(source: str, module: str) -> Plan:
    raw = plans.load(source)
    return plans.build(raw, where=source, flags={"broker_module": module})


def try_random(
    entry: Entry, *, searches: int, limit: int, jobs: int, time_s: float, root: Path
) -> RandomTrial:
    """Search with random seeds, several times, each with at most `limit` seeds and `time_s`
    seconds.
    """
    found: list[int | None] = []
    tried = 0
    signs: tuple[str, ...] = ()
    unmodified_failed: list[int] = []
    for number in range(searches):
        first = number * SEED_STRIDE + 1
        task = _swarm(entry.module, root)
        campaign = Campaign(Seeds(task, range(first, first + limit)), jobs=jobs)
        until_s = time.monotonic() + time_s
        caught = {}
        for count, result in enumerate(campaign.results(until_s), start=1):
            tried = max(tried, count)
            if result.outcome != INVALID:
                continue
            if _unmodified_passes(result.seed, root):
                caught[result.seed] = result.signs
                campaign.stop()
            else:
                unmodified_failed.append(result.seed)
        found.append(min(caught) - first + 1 if caught else None)
        signs = signs or (caught[min(caught)] if caught else ())
    return RandomTrial(
        seeds=tuple(found),
        tried=tried,
        signs=signs,
        unmodified_failed=tuple(sorted(unmodified_failed)),
    )


def _unmodified_passes(seed: int, root: Path) -> bool:
    """Whether the seed is not INVALID with the unmodified broker.

    The seed runs in a process of its own: earlier runs do not influence it, and a signal that ends
    the search does not interrupt it.
    """
    campaign = Campaign(Seeds(_swarm(UNMODIFIED, root), [seed]), jobs=1)
    return all(result.outcome != INVALID for result in campaign.results(None))


def _swarm(module: str, root: Path) -> Task:
    return Task(plan=_plan(RANDOM_PLAN, module), seeds_are_swarms=True, root=root)


def try_real(entry: Entry, store: Path) -> RealTrial:
    """Run the scenario with real processes, with the mutant and with the unmodified broker."""
    assert entry.scenario is not None
    broken = _run(entry.scenario, entry.module, store)
    unmodified = _run(entry.scenario, UNMODIFIED, store)
    forbidden = count_forbidden(broken) if "anomalies" in broken else {}
    return RealTrial(
        verdict=broken["verdict"],
        caught_by=tuple(kind for kind in entry.shows if kind in forbidden),
        unmodified=unmodified["verdict"],
        seconds=_detection_s(broken),
        problem="; ".join(broken["reasons"]),
    )


def _run(scenario: Path, module: str, store: Path) -> Mapping[str, Any]:
    """Return the verdict of a run; ERROR if there is none. An exception ends the run in order
    first. A program that the scenario tests runs in this Python.
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
    pipe, path = subprocess.PIPE, f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(
        command,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
        env={**os.environ, "PATH": path},
    ) as run:
        try:
            out, err = run.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return {"verdict": "ERROR", "reasons": [f"it did not end within {RUN_TIMEOUT_S} s"]}
        finally:
            if run.poll() is None:
                _end(run)
    try:
        found: Mapping[str, Any] = json.loads(out)
    except ValueError:
        return {"verdict": "ERROR", "reasons": [err.strip()[-300:]]}
    return found


def _end(run: subprocess.Popen[str]) -> None:
    """End the run. It has some time to heal and tear down."""
    run.terminate()
    try:
        run.communicate(timeout=STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        run.kill()


def _detection_s(verdict: Mapping[str, Any]) -> float | None:
    """Return the time from the first fault to the first anomalous operation; without such an
    operation, to the last heal.
    """
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
