"""Which member of a group owned which partition, and from which position it must have gone on.

A member owns a partition from its callback `assigned` until its next callback for the partition, or
until its own end. A group goes on from its last commit, so the acknowledged commits that were over
before an assignment give a lower bound of the position.
"""

from typing import Final

from checkers.engines.engine import Engine, Frame, left_join
from checkers.history.history import TP
from checkers.history.settings import FOREVER_NS

GROUP: Final = ["group", *TP]
ASSIGNED, REVOKED, LOST = "assigned", "revoked", "lost"
ENDED: Final = "end"
"""How an ownership ends when the member ends."""
CUT: Final = "cut"
"""How an ownership ends when the record of the member does."""


def ownership(engine: Engine, others: Frame, lifetimes: Frame) -> Frame:
    """Return a row for each assignment of a partition: GROUP, client, generation, op, position
    (null: not known), invoke_ns, from_ns, until_ns, ended_by (assigned: again; revoked, lost, end,
    cut). others: rows of HISTORY; lifetimes: see `client_counts.client_lifetimes`."""
    F = engine.functions
    rows = others.where(
        F.col("f").isin(ASSIGNED, REVOKED, LOST)
        & F.col("partition").isNotNull()
        & F.col("group").isNotNull()
        & (F.col("type") != F.lit("fail"))
    )
    along = engine.window.partitionBy("client", *GROUP).orderBy("op")
    steps = rows.select(
        *GROUP, "client", "generation", "op", "f", "invoke_ns",
        F.when(F.col("offset") >= F.lit(0), F.col("offset")).alias("position"),
        F.coalesce(F.col("complete_ns"), F.col("invoke_ns")).alias("from_ns"),
        F.lead("f").over(along).alias("next_f"),
        F.lead("invoke_ns").over(along).alias("next_ns"),
    )  # fmt: skip
    held = engine.materialize(steps.where(F.col("f") == F.lit(ASSIGNED)).drop("f"))
    known = left_join(held, lifetimes.select("client", "ended", "last_ns"), on=["client"])
    ended = F.when(F.col("ended") == F.lit(1), F.lit(ENDED)).otherwise(F.lit(CUT))
    return engine.materialize(
        known.select(
            *GROUP, "client", "generation", "op", "position", "invoke_ns", "from_ns",
            F.coalesce(F.col("next_ns"), F.col("last_ns")).alias("until_ns"),
            F.coalesce(F.col("next_f"), ended).alias("ended_by"),
        )
    )  # fmt: skip


def commits(engine: Engine, others: Frame) -> Frame:
    """Return GROUP, client, type, generation, committed, begun_ns, ended_ns (FOREVER_NS: never) of
    every commit that may have happened. others: rows of HISTORY."""
    F = engine.functions
    rows = others.where((F.col("f") == F.lit("offset-commit")) & (F.col("type") != F.lit("fail")))
    return engine.materialize(
        rows.select(
            *GROUP, "client", "type", "generation",
            F.col("offset").alias("committed"),
            F.col("invoke_ns").alias("begun_ns"),
            F.coalesce(F.col("complete_ns"), F.lit(FOREVER_NS)).alias("ended_ns"),
        )
    )  # fmt: skip


def floors(engine: Engine, owned: Frame, committed: Frame) -> Frame:
    """Return op, GROUP, floor, last_ns: the least position from which an assignment may go on,
    without those before which no commit was over. owned: of `ownership`; committed: of `commits`.

    The last commit counts. Of the commits that were acknowledged before the assignment began, take
    the one that began last (at last_ns). Every commit that was not over before that may be the
    last one.
    """
    F = engine.functions
    begins = owned.select("op", *GROUP, "invoke_ns", "from_ns")
    pairs = engine.materialize(begins.join(committed, on=GROUP, how="inner"))
    over = (F.col("type") == F.lit("ok")) & (F.col("ended_ns") < F.col("invoke_ns"))
    last = pairs.where(over).groupBy("op", *GROUP).agg(F.max("begun_ns").alias("last_ns"))
    possible = pairs.join(engine.materialize(last), on=["op", *GROUP], how="inner")
    possible = possible.where(
        (F.col("ended_ns") >= F.col("last_ns")) & (F.col("begun_ns") < F.col("from_ns"))
    )
    least = F.min("committed").alias("floor")
    return engine.materialize(possible.groupBy("op", *GROUP, "last_ns").agg(least))


def lost_ranges(engine: Engine, owned: Frame, committed: Frame) -> Frame:
    """Return GROUP, position, floor of every assignment that went on below its floor: the group
    gets the records between the two again, because a commit was lost. As `floors`."""
    F = engine.functions
    known = floors(engine, owned, committed)
    found = owned.select("op", *GROUP, "position").join(known, on=["op", *GROUP], how="inner")
    found = found.where(F.col("position") < F.col("floor"))
    return engine.materialize(found.select(*GROUP, "position", "floor").distinct())
