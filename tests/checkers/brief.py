"""Spark with short plans, for tests that ask much of few rows."""

from checkers.engine import Frame, SparkEngine


class BriefSparkEngine(SparkEngine):
    """Forgets what a kept frame was made of, which Spark would go through for every query on it:
    of a few thousand rows that takes longer than all else. Where an executor or memory can be lost
    it must not be forgotten."""

    def keep(self, frame: Frame) -> Frame:
        """Computed at first use, once."""
        return frame.localCheckpoint(eager=False)
