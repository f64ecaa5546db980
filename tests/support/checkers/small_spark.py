"""Spark for tests that ask much of few rows."""

from functools import reduce

from checkers.engines.engine import Frame, SparkEngine


class BriefSparkEngine(SparkEngine):
    """Keeps in memory what there is room for: writing files of a few thousand rows, and reading
    them again, takes half as long as all else."""

    def materialize(self, *frames: Frame) -> Frame:
        """Computed at first use, once."""
        return reduce(lambda one, other: one.unionByName(other), frames).localCheckpoint(
            eager=False
        )


assert BriefSparkEngine.materialize is not SparkEngine.materialize  # it replaces what there is
