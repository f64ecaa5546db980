"""Runs a failing plan once more, looks on, and makes the page of what it saw.

The run is the same as without being looked at. It has the process to itself, as every run.
"""

import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from harness.judging import judge
from harness.recording.store import StoreError
from harness.recording.versions import commit, versions
from harness.run.prepare import Prepared
from harness.simulation.campaign import broken_by
from harness.simulation.diagram import events
from harness.simulation.diagram.capture import Tap
from harness.simulation.diagram.events import Wrong
from harness.simulation.diagram.messages import messages
from harness.simulation.diagram.page import Story, render
from harness.simulation.diagram.selection import everything, select, window
from harness.simulation.invariants import InvariantBroken
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation


def drawn(prepared: Prepared, *, sign: str | None, invariants: bool, repeat: str) -> str:
    """`diagram` in a process of its own: what ran here before must not show in the run."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(
            diagram, prepared, sign=sign, invariants=invariants, repeat=repeat
        ).result()


def diagram(prepared: Prepared, *, sign: str | None, invariants: bool, repeat: str) -> str:
    """The page of a run.

    `sign` is the kind of anomaly that it is to explain; `repeat` a command that shows the run.
    Raises StoreError when nothing is wrong with the run, or it ended early.
    """
    with broken_by(prepared.plan.broker_module):
        simulation = Simulation(prepared, keep_logs=True, invariants=invariants)
        base_ns = simulation.world.now_ns
        tap = simulation.cluster.network.observer = Tap(simulation.world)
        recording = simulation.run()
        end_ns = simulation.world.now_ns
    wrong = _wrong(recording, sign, base_ns, end_ns)
    if wrong is None:
        raise StoreError(f"seed {prepared.plan.seed} shows nothing that a diagram could explain")
    spans = events.faults(recording.faults.named(), base_ns)
    lives, roles = events.lives(tap.notes, end_ns), events.roles(recording.logs, wrong.place)
    marks = sorted([*lives, *roles, *events.turning(wrong)], key=lambda mark: mark.at_ns)
    told = messages(tap.streams)
    seen = window(wrong, roles, spans, end_ns)
    told_ns = [each for each in (wrong.began_ns, wrong.ended_ns) if each is not None]
    moments = [*told_ns, *(mark.at_ns for mark in marks)]
    nodes = [f"node-{node}" for node in range(1, prepared.plan.nodes + 1)]
    return render(
        Story(
            title=f"{prepared.plan.name}, seed {prepared.plan.seed}",
            repeat=repeat,
            wrong=wrong,
            marks=marks,
            spans=spans,
            nodes=nodes,
            base_ns=base_ns,
            mattered=select(told, wrong, seen, moments),
            all=everything(told, seen),
        )
    )


def _wrong(recording: Recording, sign: str | None, base_ns: int, end_ns: int) -> Wrong | None:
    broken = recording.failure
    topics = [topic.name for topic in recording.prepared.plan.topics]
    if isinstance(broken, InvariantBroken):
        return events.from_invariant(broken.name, broken.sentence, topics, end_ns)
    if broken is not None:
        return None
    root = Path(tempfile.mkdtemp(prefix="highwater-diagram-"))
    try:
        run = recording.store(root, versions=versions(), commit=commit())
        return events.from_verdict(judge.check(run.path), sign, base_ns)
    finally:
        shutil.rmtree(root, ignore_errors=True)
