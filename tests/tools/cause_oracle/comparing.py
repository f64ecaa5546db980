"""Compare the checkers' cause of each lost write of a simulated run with the true cause."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from checkers.causes.cause import Cause, CauseKind
from checkers.causes.retention import Removal
from checkers.detectors.durability import lost_writes
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from checkers.frames.log_starts import PREFIX
from checkers.history.history import load_plan, load_run
from harness.judging import judge
from harness.recording.versions import commit, versions
from harness.run.prepare import Prepared
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation
from tests.tools.cause_oracle.truth import Oracle, Truth, struck
from tests.tools.cause_oracle.witness import Observations, Witness


class Agreement(StrEnum):
    """How the checkers' cause of a loss compares with the truth."""

    EXACT = "exact"
    """They name one cause, and it is the true one."""
    AMBIGUOUS = "ambiguous"
    """They name several causes, and one is the true one."""
    WRONG = "wrong"
    """They name causes, and none is the true one."""
    UNNAMED = "unnamed"
    """They name no cause, and there was one."""
    UNKNOWN = "unknown"
    """The oracle does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One lost write."""

    seed: int
    acks: int
    topic: str
    partition: int
    value: int
    invoke_ns: int
    agreement: Agreement
    truth: Truth
    named: tuple[str, ...]

    def line(self) -> str:
        """For people."""
        named = "\n      or ".join(self.named) or "no cause in the record"
        return (
            f"seed {self.seed}, acks {self.acks}, {self.topic}-{self.partition}, "
            f"{self.value >> 32}:{self.value & 0xFFFFFFFF} sent at {self.invoke_ns / 1e9:.3f} s: "
            f"{self.agreement}\n    truth: {self.truth}\n    named: {named}"
        )


def witnessed(prepared: Prepared) -> tuple[Recording, Observations]:
    """Run a plan and observe it."""
    simulation = Simulation(prepared)
    witness = Witness(simulation)
    with witness.observing():
        recording = simulation.run()
    return recording, witness.seen


def compare(prepared: Prepared) -> list[Compared]:
    """Return every lost write of a run. Raises the error that ended the run, if any."""
    recording, seen = witnessed(prepared)
    if recording.failure is not None:
        raise recording.failure
    oracle = Oracle(seen, struck(recording.faults.named()))
    root = Path(tempfile.mkdtemp(prefix="highwater-causes-"))
    engine = DuckDbEngine(threads=1)
    try:
        run = recording.store(root, versions=versions(), commit=commit())
        judge.complete_run(run.path)
        frames = Frames(engine, load_run(run.path), load_plan(run.path))
        return [_compared(prepared.plan.seed, frames, row, oracle) for row in _lost(frames)]
    finally:
        engine.close()
        shutil.rmtree(root, ignore_errors=True)


def _lost(frames: Frames) -> Iterator[dict[str, Any]]:
    """Yield the lost writes that a cause has to explain: not what retention may have removed."""
    for found in lost_writes(frames):
        rows = frames.engine.rows(found)
        for row in rows:
            if row["kind"] == "lost-write" and not _removed(frames, row):
                yield row


def _removed(frames: Frames, row: dict[str, Any]) -> bool:
    start = frames.log_starts.get((row["topic"], row["partition"]))
    if start is None or start.removal(frames.settings(row["topic"])) is Removal.TOO_EARLY:
        return False
    return row["offset"] is None or row["aspect"] == PREFIX


def _compared(seed: int, frames: Frames, row: dict[str, Any], oracle: Oracle) -> Compared:
    truth = oracle.of((row["topic"], row["partition"]), row["value"], row["offset"])
    causes = named(frames, row["cause_id"])
    return Compared(
        seed=seed,
        acks=row["acks"],
        topic=row["topic"],
        partition=row["partition"],
        value=row["value"],
        invoke_ns=row["invoke_ns"],
        agreement=agreement(causes, truth),
        truth=truth,
        named=tuple(cause.text for cause in causes),
    )


def named(frames: Frames, cause_id: int | None) -> tuple[Cause, ...]:
    """The causes that the checkers name."""
    return () if cause_id is None else frames.explanations[cause_id].causes


def agreement(causes: tuple[Cause, ...], truth: Truth) -> Agreement:
    """Compare the named causes with the truth."""
    if not truth.known:
        return Agreement.UNKNOWN
    if not causes:
        return Agreement.UNNAMED
    if not any(is_true(cause, truth) for cause in causes):
        return Agreement.WRONG
    return Agreement.EXACT if len(causes) == 1 else Agreement.AMBIGUOUS


def is_true(cause: Cause, truth: Truth) -> bool:
    """Whether a named cause is the true one: the election of the same epoch, or one of the same
    faults."""
    if cause.epoch in truth.epochs or cause.refused in truth.elsewhere:
        return True
    if cause.refused is not None and cause.refused[1] in truth.epochs:
        return cause.refused[0] == (cause.topic, cause.partition)
    return bool(truth.faults & cause.faults) or cause.kind is CauseKind.QUORUM_LOSS


def shares(found: list[Compared]) -> dict[int, Counter[Agreement]]:
    """Count the agreements, by acks."""
    counts: dict[int, Counter[Agreement]] = {0: Counter(), 1: Counter(), -1: Counter()}
    for each in found:
        counts[each.acks][each.agreement] += 1
    return counts
