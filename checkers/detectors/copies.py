"""Did a group copy each record that it committed, once, and in order?

A copy is a send that names the record from which it was made (`copies`) and the group that read the
record (`group`). Copies count when the final log has them, and it is not known that they failed: of
a copy that came back although its transaction was aborted, aborted-read tells.
"""

from collections.abc import Iterator
from typing import Final

from checkers.contract.conditions import COMMIT_LOST, DELIVERED_AGAIN
from checkers.detectors.consumers import known_committed
from checkers.detectors.cut_inputs import around, deliveries, with_cuts, written_before
from checkers.detectors.forgotten import with_lost_state
from checkers.detectors.vanished_copies import copies_that_vanished
from checkers.engines.engine import Frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.ownership import GROUP, commits, lost_ranges, ownership
from checkers.frames.send_outcomes import SEND
from checkers.history.history import TP

UNCOPIED: Final = "uncopied"
TWICE: Final = "copied-twice"
OUT_OF_ORDER: Final = "copied-out-of-order"
_INPUT: Final = ["source_topic", "source_partition"]


def judged_copies(frames: Frames) -> Iterator[Frame]:
    """kind uncopied: a record of the final log below the final committed offset of a group that
    copies its topic, without a copy that was acknowledged or that the log has. topic, partition,
    value, offset: of the record. A copy of unknown outcome counts if its partition was not read to
    the end, or may have been removed (`copies_that_vanished`). A record at an offset at which the
    group got another value does not count, nor does one that was sent when the group had already
    got one above it: the log was cut and its offsets were used again, which inconsistent-offset and
    truncated-read tell. A record that the group did not get does not count if its transaction is
    not known to be committed: the group may have passed over it as aborted, before the log lost the
    marker.

    kind copied-twice: the log has more copies of a value by one group than the input has records
    with that value (other_op, other_offset: another copy); a producer may have written it twice.
    kind copied-out-of-order: of two records of one partition, the later one was copied first, into
    the same partition (other_value: the copy of the later record). Only the first copy of each
    record counts. Both: topic, partition, value, offset of the copy. aspect commit-lost: the group
    got the record again because a commit was lost (lost-commit); input-cut: because the input was
    cut below its place; delivered-again: a member of the group got it more than once. cause_id:
    what may have made a coordinator forget the commit that belongs to the copy before.
    """
    F, engine = frames.engine.functions, frames.engine
    rows = frames.history.where((F.col("f") == F.lit("send")) & F.col("copies").isNotNull())
    copies = frames.none_if_empty(rows.select("op", "copies", "group"))
    if copies is None:
        return
    outcomes = frames.send_outcomes.select(*SEND, "final_offset")
    copies = engine.materialize(outcomes.join(copies, on="op", how="inner"))
    yield from _uncopied(frames, copies)
    place = engine.window.partitionBy("value").orderBy(*TP, "offset")
    log = frames.final_log.where(F.col("value").isNotNull())
    log = log.select(
        *TP,
        "offset",
        "value",
        F.row_number().over(place).alias("nth"),
        F.count("offset").over(engine.window.partitionBy("value")).alias("in_log"),
    )
    sources = log.where(F.col("nth") == F.lit(1)).select(
        F.col("topic").alias("source_topic"),
        F.col("partition").alias("source_partition"),
        F.col("offset").alias("source_offset"),
        F.col("value").alias("copies"),
        "in_log",
    )
    # An aborted copy that is there is an aborted-read, and has that one's causes.
    kept = copies.where(F.col("final_offset").isNotNull() & (F.col("type") != F.lit("fail")))
    known = _with_deliveries(frames, left_join(kept, sources, on=["copies"]))
    yield from _twice(frames, known)
    yield from _out_of_order(frames, known)


def _uncopied(frames: Frames, copies: Frame) -> Iterator[Frame]:
    F, engine = frames.engine.functions, frames.engine
    committed = frames.rare_rows.where(
        (F.col("f") == F.lit("final-committed")) & (F.col("type") == F.lit("ok"))
    )
    committed = committed.select("group", *TP, F.col("offset").alias("committed_offset"))
    log = frames.final_log.where(F.col("value").isNotNull())
    groups = _copied_topics(frames, copies)
    below = log.join(committed.join(groups, on=["group", "topic"], how="left_semi"), on=TP)
    below = below.where(F.col("offset") < F.col("committed_offset"))
    ends = frames.complete.select(*TP, F.lit(1).alias("whole"))
    known = left_join(copies, ends, on=TP)
    unsure = (F.col("type") == F.lit("info")) & F.col("whole").isNull()
    there = known.where(
        F.col("final_offset").isNotNull() | (F.col("type") == F.lit("ok")) | unsure
    ).select("group", F.col("copies").alias("value"))
    found = frames.none_if_empty(below.join(there, on=["group", "value"], how="left_anti"))

    def not_copied(frames: Frames, records: Frame) -> Frame:
        vanished = copies_that_vanished(frames, records, copies)
        return records.join(vanished, on=["group", "value"], how="left_anti")

    for but_excused in (_at_offsets_used_once, _got_or_committed, _written_in_time, not_copied):
        if found is not None:
            found = frames.none_if_empty(but_excused(frames, found))
    if found is not None:
        other = F.col("committed_offset")
        yield evidence(engine, found, kind=F.lit(UNCOPIED), other_offset=other)


def _got_or_committed(frames: Frames, records: Frame) -> Frame:
    """Return the records that the group got, and those that it had to get (`known_committed`)."""
    place = [*GROUP, "offset", "value"]
    got = deliveries(frames).select(*place)
    passed = frames.engine.materialize(records.join(got, on=place, how="left_anti"))
    given = records.join(got, on=place, how="left_semi")
    return given.unionByName(known_committed(frames, passed))


def _written_in_time(frames: Frames, records: Frame) -> Frame:
    return written_before(frames, records, around(frames, records))


def _at_offsets_used_once(frames: Frames, records: Frame) -> Frame:
    """Return the records without those at whose offset the group got another value."""
    F = frames.engine.functions
    polls = frames.history.where((F.col("f") == F.lit("poll")) & F.col("group").isNotNull())
    got = polls.where(F.col("value").isNotNull()).select(
        "group", *TP, "offset", F.col("value").alias("got")
    )
    place = ["group", *TP, "offset"]
    replaced = records.select(*place, "value").join(got, on=place, how="inner")
    replaced = frames.engine.materialize(replaced.where(F.col("got") != F.col("value")))
    return records.join(replaced.select(*place).distinct(), on=place, how="left_anti")


def _copied_topics(frames: Frames, copies: Frame) -> Frame:
    """Return group, topic: which group copied records of which topic."""
    F = frames.engine.functions
    log = frames.final_log.select("topic", F.col("value").alias("copies"))
    found = log.join(copies.select("group", "copies"), on="copies", how="inner")
    return frames.engine.materialize(found.select("group", "topic").distinct())


def _with_deliveries(frames: Frames, copies: Frame) -> Frame:
    """Add deliveries: at how many offsets the group got the copied value; and aspect: whether, and
    why, it got one of them more than once."""
    F = frames.engine.functions
    polls = frames.history.where(
        (F.col("f") == F.lit("poll")) & F.col("group").isNotNull() & F.col("value").isNotNull()
    )
    places = polls.groupBy("group", "value", *TP, "offset").agg(
        F.min("op").alias("first"), F.max("op").alias("last")
    )
    again = F.when(F.col("first") < F.col("last"), F.lit(DELIVERED_AGAIN))
    got = _with_lost_commits(frames, _with_cuts(frames, places.withColumn("again", again)))
    got = got.select("group", F.col("value").alias("copies"), "offset", "again", "cut", "lost")
    got = got.groupBy("group", "copies").agg(
        F.count("offset").alias("deliveries"),
        F.coalesce(F.max("lost"), F.max("cut"), F.max("again")).alias("aspect"),
    )
    return frames.engine.materialize(
        left_join(copies, frames.engine.materialize(got), on=["group", "copies"])
    )


def _with_cuts(frames: Frames, places: Frame) -> Frame:
    """Add cut (see `with_cuts`) to the places that the group got again."""
    F = frames.engine.functions
    again = frames.none_if_empty(places.where(F.col("again").isNotNull()))
    once = places.where(F.col("again").isNull())
    once = once.withColumn("cut", F.lit(None).cast("string"))
    return once if again is None else once.unionByName(with_cuts(frames, again))


def _with_lost_commits(frames: Frames, places: Frame) -> Frame:
    """Add lost: commit-lost, if the group got the offset again after a lost commit."""
    F, engine = frames.engine.functions, frames.engine
    owned = ownership(engine, frames.rare_rows, frames.client_lifetimes)
    lost = frames.none_if_empty(lost_ranges(engine, owned, commits(engine, frames.rare_rows)))
    if lost is None:
        return places.withColumn("lost", F.lit(None).cast("string"))
    within = (F.col("position") <= F.col("offset")) & (F.col("offset") < F.col("floor"))
    place = ["group", *TP, "offset"]
    hit = places.select(*place).join(lost, on=["group", *TP], how="inner").where(within)
    hit = engine.materialize(hit.select(*place, F.lit(COMMIT_LOST).alias("lost")).distinct())
    return left_join(places, hit, on=place)


def _twice(frames: Frames, copies: Frame) -> Iterator[Frame]:
    F = frames.engine.functions
    order = frames.engine.window.partitionBy("group", "copies").orderBy("op")
    line = copies.select(
        *copies.columns,
        F.lag("op").over(order).alias("other_op"),
        F.lag("invoke_ns").over(order).alias("since_ns"),
        F.lag("final_offset").over(order).alias("other_offset"),
        F.row_number().over(order).alias("copy_number"),
    )
    # The input may have lost records to retention that the group got before.
    written = F.greatest(
        F.coalesce(F.col("in_log"), F.lit(1)), F.coalesce(F.col("deliveries"), F.lit(1))
    )
    found = frames.none_if_empty(line.where(F.col("copy_number") > written))
    if found is not None:
        found = _with_forgotten(frames, found.withColumn("before_op", F.col("other_op")))
        yield evidence(frames.engine, found, kind=F.lit(TWICE), offset=F.col("final_offset"))


def _with_forgotten(frames: Frames, again: Frame) -> Frame:
    """Fill `cause_id` of copies of records that the group got again: a coordinator may have
    forgotten the commit that belongs to an earlier copy, or its transaction.

    The cause came after that copy was sent (before_op, since_ns), and before the last delivery of
    the record that this copy can be of.
    """
    F, engine = frames.engine.functions, frames.engine
    concerned = frames.none_if_empty(again.where(F.col("aspect") == F.lit(DELIVERED_AGAIN)))
    if concerned is None:
        return again
    names = frames.history.where(F.col("f") == F.lit("send")).select(
        F.col("op").alias("before_op"), "transactional_id"
    )
    names = names.join(concerned.select("before_op"), on="before_op", how="left_semi")
    cases = left_join(concerned, engine.materialize(names), on=["before_op"])
    got = deliveries(frames).select(
        "group", F.col("value").alias("copies"), F.col("invoke_ns").alias("got_ns")
    )
    seen = cases.select("op", "group", "copies", "invoke_ns").join(got, on=["group", "copies"])
    seen = seen.where(F.col("got_ns") <= F.col("invoke_ns")).groupBy("op")
    seen = engine.materialize(seen.agg(F.max("got_ns").alias("seen_ns")))
    cases = cases.join(seen, on="op", how="inner")
    cases = engine.materialize(
        cases.select("op", "group", "transactional_id", "since_ns", "seen_ns")
    )
    caused = with_lost_state(frames, cases, ["op"], of_transactions=True)
    if "cause_id" not in caused.columns:
        return again
    return left_join(engine.materialize(again), caused.select("op", "cause_id"), on=["op"])


def _out_of_order(frames: Frames, copies: Frame) -> Iterator[Frame]:
    F, window = frames.engine.functions, frames.engine.window
    known = copies.where(F.col("source_offset").isNotNull())
    copy = window.partitionBy("group", "copies", *TP).orderBy("final_offset")
    numbered = known.withColumn("nth", F.row_number().over(copy))
    firsts = numbered.where(F.col("nth") == F.lit(1))
    order = window.partitionBy("group", *_INPUT, *TP).orderBy("final_offset")
    line = firsts.select(
        *firsts.columns,
        F.lag("source_offset").over(order).alias("before"),
        F.lag("value").over(order).alias("other_value"),
        F.lag("op").over(order).alias("before_op"),
        F.lag("invoke_ns").over(order).alias("since_ns"),
    )
    found = frames.none_if_empty(line.where(F.col("source_offset") < F.col("before")))
    if found is not None:
        kind, offset = F.lit(OUT_OF_ORDER), F.col("final_offset")
        yield evidence(frames.engine, _with_forgotten(frames, found), kind=kind, offset=offset)
