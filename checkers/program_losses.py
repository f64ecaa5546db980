"""What the cluster lost, as it may, of the topics that a tested program depends on.

A program reads its input, keeps its place in the offsets topic, ends transactions by the
transactions topic, and may write to a topic. When one of them loses acknowledged records, outputs
are missing, or the program makes them again, through no fault of its own.
"""

from checkers.causes.cause import Cause
from checkers.detectors.outputs import program_of, topics_needed
from checkers.frames.frames import Frames


def permitted_loss(frames: Frames) -> Cause | None:
    """Return the first event of such a topic that permits the loss of acknowledged records; None
    if the record has none, or the run has no program. What the program asked for by its own acks
    counts as its own doing."""
    program = program_of(frames.plan)
    if program is None:
        return None
    needed = topics_needed(program)
    permitted = (
        cause
        for cause in frames.causes.causes
        if cause.topic in needed and frames.took_committed(cause)
    )
    return min(permitted, key=lambda cause: cause.from_ns, default=None)
