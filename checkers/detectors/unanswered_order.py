"""Are sends of unknown outcome in the log in the order of the sends?

A send without an answer may arrive late, when its client has begun another producer epoch. So it is
compared only with a send that surely has its producer id and epoch:

- Another send of its transaction. The next epoch begins with the end of a transaction.
- A send outside of transactions by an idempotent producer, if the client had not given up the
  earlier one when it was told that the later one had been appended.

No broker appends a batch of an epoch when it lacks the batch before (KIP-98), unless it has nothing
of the producer (KIP-360): then the producer leaves the epoch, which a client records.
"""

import functools
from collections.abc import Iterator

from checkers.causes.cause import SLACK_NS
from checkers.contract.conditions import IN_TRANSACTION
from checkers.detectors.durability import cut_clients
from checkers.engines.engine import Column, Frame
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.unknown_producers import remembered_ns
from checkers.history.history import PRODUCER_EPOCH, TP
from checkers.history.plan_file import IMPORTED, planned_partitions
from checkers.history.settings import FOREVER_NS

_LINE = ["client", *TP]
_SENT = ["value", "type", "txn", "invoke_ns", "complete_ns"]
_ENDS = ["complete_ns", "other_complete_ns"]


def reordered_unanswered(frames: Frames) -> Iterator[Frame]:
    """kind reordered-send of pairs with a send of unknown outcome that the final log has, which was
    read to its end: see `ordering.reordered_sends`. Pairs with a value that is there twice, or was
    sent twice, do not count."""
    F, engine = frames.engine.functions, frames.engine
    there = _located(frames)
    lines = _judged_lines(frames, there)
    if lines is None:
        return
    sends = there.join(lines, on=_LINE, how="left_semi")
    pairs = frames.none_if_empty(_steps_back(frames, sends))
    if pairs is None:
        return
    sends = _named(frames, sends, pairs)
    for name in ("", "other_", "known_"):
        told = [F.col(column).alias(f"{name}{column}") for column in ("op", *_SENT)]
        pairs = pairs.join(
            sends.select(*told, *([] if name else ["acks"])),
            on=f"{name}op", how="left" if name == "known_" else "inner",
        )  # fmt: skip
        pairs = engine.materialize(pairs)
    inside = F.coalesce(F.col("txn") == F.col("other_txn"), F.lit(False))
    pairs = pairs.where(inside | _of_one_epoch(frames))
    found = frames.none_if_empty(_without_epoch_bumps(frames, _once(frames, pairs)))
    if found is not None:
        aspect = F.when(inside, F.lit(IN_TRANSACTION))
        yield evidence(engine, found, kind=F.lit("reordered-send"), aspect=aspect)


def _located(frames: Frames) -> Frame:
    """Return op, client, TP, _SENT, acks, offset (in the final log) of the sends that are not known
    to have failed. There may be hundreds of millions: nothing is computed yet."""
    F = frames.engine.functions
    known = F.col("final_offset").isNotNull() & F.col("type").isin("ok", "info")
    judged = F.col("txn").isNotNull() | F.col("topic").isin(*_idempotent(frames))
    known = known & ((F.col("type") == F.lit("ok")) | judged)
    there = frames.send_outcomes.where(known)
    there = there.join(frames.complete.select(*TP), on=TP, how="left_semi")
    return there.select("op", *_LINE, *_SENT, "acks", F.col("final_offset").alias("offset"))


def _judged_lines(frames: Frames, there: Frame) -> Frame | None:
    """Return the clients and partitions with a send of unknown outcome; None without any."""
    open_ = there.where(frames.engine.functions.col("type") == frames.engine.functions.lit("info"))
    return frames.none_if_empty(open_.select(*_LINE).distinct())


def _named(frames: Frames, sends: Frame, pairs: Frame) -> Frame:
    """Return the sends that the pairs name."""
    F, engine = frames.engine.functions, frames.engine
    names = ("op", "other_op", "known_op")
    ops = functools.reduce(
        lambda a, b: a.unionByName(b), (pairs.select(F.col(name).alias("op")) for name in names)
    )
    ops = engine.materialize(ops.where(F.col("op").isNotNull()).distinct())
    return engine.materialize(sends.join(ops, on="op", how="left_semi"))


def _idempotent(frames: Frames) -> list[str]:
    """Return the topics whose producers are idempotent, and an empty name."""
    topics = {topic for topic, _ in planned_partitions(frames.plan)}
    return ["", *sorted(topic for topic in topics if frames.settings(topic).idempotence)]


def _steps_back(frames: Frames, sends: Frame) -> Frame:
    """Return op, _LINE, offset of the sends that lie below the client's send before (other_op,
    other_offset), one of both of unknown outcome; known_op, known_offset: the send before that."""
    F = frames.engine.functions
    order = frames.engine.window.partitionBy(*_LINE).orderBy("op")
    steps = sends.select(
        "op", *_LINE, "offset", "type",
        F.lag("offset").over(order).alias("other_offset"),
        F.lag("op").over(order).alias("other_op"),
        F.lag("type").over(order).alias("other_type"),
        F.lag("offset", 2).over(order).alias("known_offset"),
        F.lag("op", 2).over(order).alias("known_op"),
    )  # fmt: skip
    open_ = (F.col("type") == F.lit("info")) | (F.col("other_type") == F.lit("info"))
    back = steps.where((F.col("offset") < F.col("other_offset")) & open_)
    return back.drop("type", "other_type")


def _of_one_epoch(frames: Frames) -> Column:
    """Return whether two sends outside of transactions are of one producer epoch. The leader knew
    the producer: the log has a record of it before both. An imported record says nothing of it."""
    F = frames.engine.functions
    if frames.sources.cut or frames.plan.get("system") == IMPORTED:
        return F.lit(False)
    cut = [row["client"] for row in frames.engine.rows(cut_clients(frames))]
    given_up_ns = F.coalesce("other_complete_ns", F.lit(FOREVER_NS))
    waited = F.col("complete_ns") + F.lit(SLACK_NS) < given_up_ns
    answered = (F.col("type") == F.lit("ok")) & waited
    answered = answered | (F.col("other_type") == F.lit("ok"))
    # The later one of unknown outcome was appended before the earlier one was acknowledged.
    until = F.when(F.col("type") == F.lit("ok"), F.col("complete_ns"))
    until = F.coalesce(until.otherwise(F.col("other_complete_ns")), F.lit(FOREVER_NS))
    recent = until - F.col("known_invoke_ns") < F.lit(remembered_ns(frames))
    known = (F.col("known_offset") < F.col("offset")) & recent
    return (
        F.col("topic").isin(*_idempotent(frames))
        & F.col("txn").isNull()
        & F.col("other_txn").isNull()
        & ~F.col("client").isin(-1, *cut)
        & answered
        & F.coalesce(known, F.lit(False))
    )


def _once(frames: Frames, pairs: Frame) -> Frame:
    """Return the pairs whose values were both sent once, and are there once."""
    F, engine = frames.engine.functions, frames.engine
    for several in (frames.sent_twice, frames.repeated_values):
        if several is not None:
            for name in ("value", "other_value"):
                told = engine.materialize(several.select(F.col("value").alias(name)).distinct())
                pairs = engine.materialize(pairs).join(told, on=name, how="left_anti")
    return engine.materialize(pairs)


def _without_epoch_bumps(frames: Frames, pairs: Frame) -> Frame:
    """Return the pairs without those during which their client left a producer epoch."""
    F = frames.engine.functions
    bumps = frames.rare_rows.where(F.col("f") == F.lit(PRODUCER_EPOCH)).select(
        "client",
        (F.col("invoke_ns") - F.lit(SLACK_NS)).alias("began_ns"),
        F.coalesce(F.col("complete_ns"), F.lit(FOREVER_NS)).alias("begun_ns"),
    )
    over = F.greatest(*(F.coalesce(name, F.lit(FOREVER_NS)) for name in _ENDS)).alias("over_ns")
    met = pairs.select("op", "client", "other_invoke_ns", over)
    met = met.join(bumps, on="client", how="inner")
    met = met.where(
        (F.col("began_ns") <= F.col("over_ns")) & (F.col("begun_ns") >= F.col("other_invoke_ns"))
    )
    left = frames.engine.materialize(met.select("op").distinct())
    return pairs.join(left, on="op", how="left_anti")
