"""Runs a failing plan once more, looks on, and makes the page of what it saw.

The run is the same as without being looked at. It has the process to itself, as every run.
"""

import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from harness import judging
from harness.planning.preparing import Prepared
from harness.record.store import StoreError
from harness.record.versions import commit, versions
from harness.simulation.campaign import broken_by
from harness.simulation.diagram import incidents
from harness.simulation.diagram.incidents import Wrong
from harness.simulation.diagram.messages import messages
from harness.simulation.diagram.page import Story, render
from harness.simulation.diagram.selection import everything, select, window
from harness.simulation.diagram.tap import Tap
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation
from harness.targets.sim.invariants import InvariantBroken


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
    spans = incidents.faults(recording.faults.named(), base_ns)
    lives, roles = incidents.lives(tap.notes, end_ns), incidents.roles(recording.logs, wrong.place)
    marks = sorted([*lives, *roles, *incidents.turning(wrong)], key=lambda mark: mark.at_ns)
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
        return incidents.from_invariant(broken.name, broken.sentence, topics, end_ns)
    if broken is not None:
        return None
    root = Path(tempfile.mkdtemp(prefix="highwater-diagram-"))
    try:
        run = recording.store(root, versions=versions(), commit=commit())
        return incidents.from_verdict(judging.check(run.path), sign, base_ns)
    finally:
        shutil.rmtree(root, ignore_errors=True)
