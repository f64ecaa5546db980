"""Did a transaction stay open though nobody has it open any more?"""

from collections.abc import Iterator
from typing import Final

from checkers.contract.transaction_rules import HANGING
from checkers.detectors.durability import FLUSH_SLACK_MS
from checkers.detectors.forgotten import with_forgotten_transactions
from checkers.engines.engine import Frame, left_join
from checkers.frames.ended import READ_COMMITTED
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.history.history import ABORT, COMMIT, TP
from checkers.history.settings import transaction_timeout_ms

COMPLETION_MS: Final = 10_000
"""How long a coordinator may need to write all markers, or to find a transaction that timed out
(transaction.abort.timed.out.transaction.cleanup.interval.ms)."""
TIMED_OUT: Final = "timeout"
"""The error of a final read that waited in vain for more records."""


def hanging_transactions(frames: Frames) -> Iterator[Frame]:
    """kind hanging-transaction: the final read at read_committed waited in vain below the high
    watermark, although by the record no transaction can be open in the partition.

    offset: the position that it reached, which is the last stable offset; other_offset: the high
    watermark. By the record a transaction is open until COMPLETION_MS after its end was answered.
    Without an answered end it is open until COMPLETION_MS after its timeout. A client whose record
    was cut may have had a transaction open in any partition.
    """
    F, engine = frames.engine.functions, frames.engine
    waited = F.coalesce(F.col("error"), F.lit(TIMED_OUT)) == F.lit(TIMED_OUT)
    rows = frames.other_rows.where(
        (F.col("f") == F.lit("final-read-end"))
        & (F.col("isolation") == F.lit(READ_COMMITTED))
        & waited
    )
    reads = rows.select("op", "client", *TP, "offset", "invoke_ns", "complete_ns")
    ends = left_join(engine.materialize(reads), _high_watermarks(frames), on=TP)
    short = frames.none_if_empty(ends.where(F.col("offset") < F.col("other_offset")))
    if short is None:
        return
    clear = short.join(_open(frames, short), on=["op", *TP], how="left_anti")
    cut = engine.rows(_cut_producers(frames).agg(F.max("open_until_ns").alias("open_until_ns")))
    hidden_until_ns = cut[0]["open_until_ns"]
    if hidden_until_ns is not None:
        clear = clear.where(F.col("complete_ns") > F.lit(hidden_until_ns))
    hanging = frames.none_if_empty(clear)
    if hanging is not None:
        found = with_forgotten_transactions(frames, hanging)
        yield evidence(engine, found, kind=F.lit(HANGING))


def _high_watermarks(frames: Frames) -> Frame:
    """Return topic, partition, other_offset: the greatest high watermark that is known."""
    F, engine = frames.engine.functions, frames.engine
    epochs = frames.cluster.where(F.col("kind") == F.lit("epoch"))
    known = epochs.select(*TP, F.col("end_offset").alias("end")).unionByName(
        frames.replica_ends.select(*TP, F.col("high_watermark").alias("end"))
    )
    return engine.materialize(known.groupBy(*TP).agg(F.max("end").alias("other_offset")))


def _open(frames: Frames, reads: Frame) -> Frame:
    """Return op, TP of the final reads that a transaction may have held up, by the record."""
    F, engine = frames.engine.functions, frames.engine
    sends = frames.history.where((F.col("f") == F.lit("send")) & F.col("txn").isNotNull())
    sends = sends.join(reads.select(*TP).distinct(), on=TP, how="left_semi")
    begun = sends.groupBy("txn", *TP).agg(F.max("invoke_ns").alias("begun_ns"))
    ended = frames.other_rows.where(
        F.col("f").isin(COMMIT, ABORT) & (F.col("type") != F.lit("info"))
    )
    ended = ended.groupBy("txn").agg(F.max("complete_ns").alias("ended_ns"))
    known = left_join(engine.materialize(begun), engine.materialize(ended), on=["txn"])
    timeout_ns = transaction_timeout_ms(frames.plan) * 1_000_000
    over = F.coalesce(F.col("ended_ns"), F.col("begun_ns") + F.lit(timeout_ns))
    until = known.select(*TP, (over + F.lit(COMPLETION_MS * 1_000_000)).alias("open_until_ns"))
    until = engine.materialize(until.groupBy(*TP).agg(F.max("open_until_ns").alias("until_ns")))
    held = reads.join(until, on=TP, how="inner")
    return held.where(F.col("complete_ns") <= F.col("until_ns")).select("op", *TP)


def _cut_producers(frames: Frames) -> Frame:
    """Return open_until_ns of each client with a transactional id whose record was cut."""
    F = frames.engine.functions
    cut = frames.client_lifetimes.where(F.col("ended") == F.lit(0)).select("client", "last_ns")
    producers = frames.history.where(F.col("transactional_id").isNotNull()).select("client")
    lived_ms = transaction_timeout_ms(frames.plan) + FLUSH_SLACK_MS + COMPLETION_MS
    found = cut.join(producers.distinct(), on="client", how="left_semi")
    return found.select((F.col("last_ns") + F.lit(lived_ms * 1_000_000)).alias("open_until_ns"))
