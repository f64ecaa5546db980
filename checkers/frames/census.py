"""How many rows of each kind a run has, and how many rows have impossible times."""

from collections.abc import Mapping
from dataclasses import dataclass

from checkers.frames.frames import Frames
from checkers.history.history import KEYED_DELETE, KEYED_WRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """How many rows of each kind a run has. operations: {(f, type): rows}. backwards: operations
    that end before they begin, or begin before the run. astray: clients that sent or polled before
    their start or after their end. valueless: sends without a value or a topic."""

    operations: Mapping[tuple[str, str], int]
    backwards: int
    astray: int
    acked_topics: frozenset[str]
    replicas: int
    cluster: int = 0
    valueless: int = 0

    def rows(self, f: str, type_: str | None = None) -> int:
        """Return the number of rows with this `f` (and type)."""
        return sum(
            count
            for (name, kind), count in self.operations.items()
            if name == f and type_ in (None, kind)
        )


def take_census(frames: Frames) -> Census:
    """Count the rows of the history by kind, and the rows with impossible times."""
    F = frames.engine.functions
    rows = frames.engine.rows(
        frames.client_totals.groupBy("f", "type").agg(
            F.sum("rows").alias("rows"), F.sum("backwards").alias("backwards")
        )
    )
    keyed = F.col("f").isin(KEYED_WRITE, KEYED_DELETE) & (F.col("type") == F.lit("ok"))
    keyed_topics = frames.row_counts.where(keyed).select("topic")
    acked = frames.engine.rows(frames.acked.select("topic").unionByName(keyed_topics).distinct())
    return Census(
        operations={(row["f"], row["type"]): row["rows"] for row in rows},
        backwards=sum(row["backwards"] for row in rows),
        astray=frames.count(frames.client_lifetimes.where(F.col("astray") == F.lit(1))),
        acked_topics=frozenset(row["topic"] for row in acked),
        replicas=frames.count(frames.replica_ends),
        cluster=frames.count(frames.cluster),
        valueless=frames.count(
            frames.sends.where(F.col("value").isNull() | F.col("topic").isNull())
        ),
    )
