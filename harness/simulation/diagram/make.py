"""Runs a failing plan once more, records it, and makes the page.

The run is the same as without the recorder. Like each run, it needs a process of its own.
"""

import shutil
import tempfile
from pathlib import Path

from harness.judging import judge
from harness.recording.store import StoreError
from harness.recording.versions import commit, versions
from harness.run.prepare import Prepared
from harness.simulation import workers
from harness.simulation.campaign import apply_broker_module
from harness.simulation.diagram import events
from harness.simulation.diagram.capture import NetworkRecorder
from harness.simulation.diagram.events import Finding
from harness.simulation.diagram.messages import messages
from harness.simulation.diagram.page import Story, render
from harness.simulation.diagram.selection import everything, select, window
from harness.simulation.invariants import InvariantBroken
from harness.simulation.recording import Recording
from harness.simulation.run import Simulation


def render_diagram(prepared: Prepared, *, sign: str | None, invariants: bool, repeat: str) -> str:
    """Call `diagram` in a new process: an earlier run in this process must not influence
    the run.
    """
    with workers.pool(1) as pool:
        return pool.submit(
            diagram, prepared, sign=sign, invariants=invariants, repeat=repeat
        ).result()


def diagram(prepared: Prepared, *, sign: str | None, invariants: bool, repeat: str) -> str:
    """Return the page of a run.

    `sign` is the kind of anomaly to explain; `repeat` is a command that repeats the run. Raises
    StoreError if nothing is wrong with the run, or if it ended early.
    """
    with apply_broker_module(prepared.plan.broker_module):
        simulation = Simulation(prepared, keep_logs=True, invariants=invariants)
        base_ns = simulation.world.now_ns
        recorder = simulation.cluster.network.observer = NetworkRecorder(simulation.world)
        recording = simulation.run()
        end_ns = simulation.world.now_ns
    finding = _find(recording, sign, base_ns, end_ns)
    if finding is None:
        raise StoreError(f"seed {prepared.plan.seed} shows no failure that a diagram could explain")
    spans = events.fault_spans(recording.faults.named(), base_ns)
    process_marks, role_marks = (
        events.process_marks(recorder.notes, end_ns),
        events.role_marks(recording.logs, finding.place),
    )
    marks = sorted(
        [*process_marks, *role_marks, *events.turning_points(finding)], key=lambda mark: mark.at_ns
    )
    sent_messages = messages(recorder.streams)
    shown = window(finding, role_marks, spans, end_ns)
    finding_ns = [each for each in (finding.began_ns, finding.ended_ns) if each is not None]
    moments = [*finding_ns, *(mark.at_ns for mark in marks)]
    nodes = [f"node-{node}" for node in range(1, prepared.plan.nodes + 1)]
    return render(
        Story(
            title=f"{prepared.plan.name}, seed {prepared.plan.seed}",
            repeat=repeat,
            finding=finding,
            marks=marks,
            spans=spans,
            nodes=nodes,
            base_ns=base_ns,
            mattered=select(sent_messages, finding, shown, moments),
            all=everything(sent_messages, shown),
        )
    )


def _find(recording: Recording, sign: str | None, base_ns: int, end_ns: int) -> Finding | None:
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
