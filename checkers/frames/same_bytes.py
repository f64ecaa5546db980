"""Which replicas must be the same, byte for byte: not those of compacted topics."""

from checkers.engines.engine import Frame
from checkers.frames.frames import Frames
from checkers.history.settings import compacted_topics


def same_bytes(frames: Frames) -> Frame:
    """Return the rows of `frames.replicas` without compacted topics: each broker cleans its own
    logs."""
    names = compacted_topics(frames.plan)
    if not names:
        return frames.replicas
    return frames.replicas.where(~frames.engine.functions.col("topic").isin(*names))
