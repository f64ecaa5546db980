"""Did a group get each record once, and did one member at a time own each partition?

A delivery is a record that a poll of a member returned (`group` of the row). Deliveries are
compared with the commits of the group, and with its members' rebalance callbacks.
"""

from collections.abc import Iterator
from typing import Final

from checkers.contract.conditions import (
    BELOW_COMMIT,
    BOTH_COMMITTED,
    COMMIT_LOST,
    MEMBER_CUT,
    MEMBER_ENDED,
    REBALANCED,
)
from checkers.contract.processing_rules import DELIVERED
from checkers.detectors.consumers import known_committed
from checkers.detectors.cut_inputs import (
    around,
    deliveries,
    with_cuts,
    written_before,
)
from checkers.detectors.forgotten import with_lost_state
from checkers.engines.engine import Frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.ownership import (
    CUT,
    ENDED,
    GROUP,
    LOST,
    REVOKED,
    commits,
    floors,
    ownership,
)
from checkers.history.history import TP

SKIPPED: Final = "skipped-record"
TWO_OWNERS: Final = "two-owners"


def _owned(frames: Frames) -> Frame:
    return ownership(frames.engine, frames.other_rows, frames.client_lifetimes)


def skipped_records(frames: Frames) -> Iterator[Frame]:
    """kind skipped-record: a record of the final log below an offset that a member committed and
    that was acknowledged (other_offset: the greatest), but no member of the group got the record.
    What is below the group's lowest position in the partition does not count. Nor does a record
    that was sent when the group had already got one above it: the log was cut in between, which
    truncated-read and inconsistent-offset tell. Nor does one of a transaction that is not known to
    be committed.

    aspect: what happened in the group between the deliveries around the record. cut: the record of
    a member ends before the later one, so the member may have got the record; member-ended,
    rebalanced: a member that owned the partition ended, or had to give it up; null: none of these.
    """
    F, engine = frames.engine.functions, frames.engine
    got, owned = deliveries(frames), _owned(frames)
    acknowledged = commits(engine, frames.other_rows).where(F.col("type") == F.lit("ok"))
    ends = acknowledged.groupBy(*GROUP).agg(F.max("committed").alias("other_offset"))
    lowest = got.select(*GROUP, "offset").unionByName(
        owned.where(F.col("position").isNotNull()).select(*GROUP, F.col("position").alias("offset"))
    )
    starts = lowest.groupBy(*GROUP).agg(F.min("offset").alias("start"))
    bounds = engine.materialize(ends.join(engine.materialize(starts), on=GROUP, how="inner"))
    within = (F.col("offset") >= F.col("start")) & (F.col("offset") < F.col("other_offset"))
    due = frames.final_log.join(bounds, on=TP, how="inner").where(within)
    due = known_committed(frames, due).select(*GROUP, "offset", "value", "other_offset")
    place = [*GROUP, "offset"]
    given = got.select(*place)
    missing = frames.none_if_empty(
        *(here(due).join(here(given), on=place, how="left_anti") for here in frames.slices)
    )
    if missing is not None:
        moments = around(frames, missing)
        missing = frames.none_if_empty(written_before(frames, missing, moments))
    if missing is not None:
        found = _with_what_happened(frames, missing, moments, owned)
        yield evidence(engine, found, kind=F.lit(SKIPPED))


def _with_what_happened(frames: Frames, missing: Frame, moments: Frame, owned: Frame) -> Frame:
    """Add aspect: see `skipped_records`."""
    F, engine = frames.engine.functions, frames.engine
    causes = owned.select(*GROUP, "until_ns", "ended_by")
    happened = moments.join(causes, on=GROUP, how="inner").where(
        (F.col("until_ns") >= F.col("before_ns")) & (F.col("until_ns") <= F.col("after_ns"))
    )
    told = F.when(F.col("ended_by").isin(ENDED, CUT), F.lit(2))
    told = told.when(F.col("ended_by").isin(REVOKED, LOST), F.lit(1)).otherwise(F.lit(0))
    told = happened.select(*GROUP, "offset", told.alias("weight"))
    members = frames.history.where(F.col("group").isNotNull()).select("client", "group").distinct()
    lost = frames.client_lifetimes.where(F.col("ended") == F.lit(0)).select("client", "last_ns")
    cut = members.join(lost, on="client", how="inner").groupBy("group")
    cut = engine.materialize(cut.agg(F.min("last_ns").alias("cut_ns")))
    hidden = moments.join(cut, on="group", how="inner")
    hidden = hidden.where(F.col("cut_ns") <= F.col("after_ns"))
    hidden = hidden.select(*GROUP, "offset", F.lit(3).alias("weight"))
    weights = engine.materialize(told, hidden).groupBy(*GROUP, "offset")
    weights = engine.materialize(weights.agg(F.max("weight").alias("weight")))
    known = left_join(missing, weights, on=[*GROUP, "offset"])
    aspect = F.when(F.col("weight") == F.lit(3), F.lit(MEMBER_CUT))
    aspect = aspect.when(F.col("weight") == F.lit(2), F.lit(MEMBER_ENDED))
    return known.withColumn("aspect", aspect.when(F.col("weight") == F.lit(1), F.lit(REBALANCED)))


def deliveries_again(frames: Frames) -> Iterator[Frame]:
    """kind delivered-again: a member got a record that the group had got by an earlier assignment
    (other_op: that delivery).

    aspect below-commit: an offset above it had been committed, and acknowledged, before the
    partition was assigned (other_offset: the least one that may have been the last); commit-lost:
    the same, but the member began below that offset, so this is a consequence of lost-commit;
    input-cut: the log was cut below the place of the member, which began again; else how the
    earlier owner lost the partition: member-ended, rebalanced.
    """
    F, engine = frames.engine.functions, frames.engine
    place = [*GROUP, "offset"]
    got = deliveries(frames)
    often = frames.none_if_empty(
        *(
            here(got)
            .groupBy(*place)
            .agg(F.min("op").alias("least"), F.max("op").alias("greatest"))
            .where(F.col("least") < F.col("greatest"))
            .select(*place)
            for here in frames.slices
        )
    )
    if often is None:
        return
    owned = _owned(frames)
    held = owned.select(
        *GROUP, "client", "position", "from_ns", "ended_by", F.col("op").alias("assigned_op")
    )
    several = engine.materialize(got.join(often, on=place, how="left_semi"))
    again = frames.none_if_empty(_later_assignments(frames, several, held))
    if again is None:
        return
    known = floors(engine, owned, commits(engine, frames.other_rows))
    known = known.select(F.col("op").alias("assigned_op"), *GROUP, "floor", "last_ns")
    found = left_join(again, engine.materialize(known), on=["assigned_op", *GROUP])
    below = F.coalesce(F.col("offset") < F.col("floor"), F.lit(False))
    lost = below & F.coalesce(F.col("position") < F.col("floor"), F.lit(False))
    found = with_cuts(frames, found)
    aspect = F.when(lost, F.lit(COMMIT_LOST)).when(F.col("cut").isNotNull(), F.col("cut"))
    aspect = aspect.when(below, F.lit(BELOW_COMMIT))
    aspect = aspect.when(F.col("other_end").isin(ENDED, CUT), F.lit(MEMBER_ENDED))
    found = found.withColumn("since_ns", F.when(below, F.col("last_ns")))
    found = found.withColumn("seen_ns", F.col("invoke_ns"))
    yield evidence(
        engine,
        with_lost_state(frames, found, ["op", *place]),
        kind=F.lit(DELIVERED),
        aspect=aspect.otherwise(F.lit(REBALANCED)),
        other_offset=F.when(below, F.col("floor")),
    )


def _later_assignments(frames: Frames, several: Frame, held: Frame) -> Frame:
    """Return one row for each record and assignment that delivered it, without the first assignment
    of each record: the columns of the first delivery by it, assigned_op, position, other_op and
    other_end (how the assignment before ended)."""
    F, engine = frames.engine.functions, frames.engine
    pairs = several.join(held, on=[*GROUP, "client"], how="inner")
    pairs = pairs.where(F.col("assigned_op") < F.col("op"))
    latest = pairs.groupBy("op", "client", *GROUP, "offset").agg(
        F.max("assigned_op").alias("assigned_op")
    )
    firsts = latest.groupBy("assigned_op", "client", *GROUP, "offset").agg(F.min("op").alias("op"))
    key = ["op", "assigned_op", "client", *GROUP, "offset"]
    each = pairs.join(engine.materialize(firsts), on=key, how="left_semi")
    line = engine.window.partitionBy(*GROUP, "offset").orderBy("from_ns", "assigned_op")
    numbered = each.select(
        *each.columns,
        F.lag("op").over(line).alias("other_op"),
        F.lag("ended_by").over(line).alias("other_end"),
    )
    return numbered.where(F.col("other_op").isNotNull())


def two_owners(frames: Frames) -> Iterator[Frame]:
    """kind two-owners: two members of a group owned a partition at the same time, by their own
    callbacks. op, client: of the later assignment; other_op: the earlier one.

    aspect both-committed: commits of both were acknowledged that were sent after the later
    assignment and before either lost the partition. A commit of a generation before the other
    member's counts as stale-commit, and not here.
    """
    F, engine = frames.engine.functions, frames.engine
    owned = _owned(frames)
    names = ("client", "generation", "op", "from_ns", "until_ns")
    other = owned.select(*GROUP, *(F.col(name).alias(f"other_{name}") for name in names))
    later = (F.col("other_from_ns") < F.col("from_ns")) | (
        (F.col("other_from_ns") == F.col("from_ns")) & (F.col("other_op") < F.col("op"))
    )
    pairs = owned.join(other, on=GROUP, how="inner").where(
        later
        & (F.col("client") != F.col("other_client"))
        & (F.col("from_ns") < F.col("other_until_ns"))
        & (F.col("from_ns") < F.col("until_ns"))
    )
    found = frames.none_if_empty(pairs)
    if found is None:
        return
    both = F.when(F.col("mine") * F.col("others") > F.lit(0), F.lit(BOTH_COMMITTED))
    counted = _with_commits(frames, found)
    yield evidence(
        engine,
        counted,
        kind=F.lit(TWO_OWNERS),
        aspect=both,
        offset=F.col("position"),
        complete_ns=F.col("from_ns"),
    )


def _with_commits(frames: Frames, pairs: Frame) -> Frame:
    """Add mine, others: how many commits of the two members were acknowledged while both owned the
    partition, without those of an older generation than the other member's."""
    F, engine = frames.engine.functions, frames.engine
    committed = (
        commits(engine, frames.other_rows)
        .where(F.col("type") == F.lit("ok"))
        .select(
            *GROUP,
            "begun_ns",
            "ended_ns",
            F.col("client").alias("committer"),
            F.col("generation").alias("of_generation"),
        )
    )
    key = ["op", "other_op", *GROUP]
    both = pairs.select(
        *key, "client", "generation", "other_client", "other_generation", "from_ns",
        F.least("until_ns", "other_until_ns").alias("over_ns"),
    ).join(committed, on=GROUP, how="inner")  # fmt: skip
    both = both.where(
        (F.col("begun_ns") > F.col("from_ns")) & (F.col("ended_ns") < F.col("over_ns"))
    )

    def fresh(committer: str, rival: str) -> Frame:
        older = F.coalesce(F.col("of_generation") < F.col(rival), F.lit(False))
        ours = (F.col("committer") == F.col(committer)) & ~older
        return F.count(F.when(ours, F.lit(1)))

    counts = both.groupBy(*key).agg(
        fresh("client", "other_generation").alias("mine"),
        fresh("other_client", "generation").alias("others"),
    )
    return left_join(pairs, engine.materialize(counts), on=key)
