"""Did a transaction stay open though nobody has it open any more?"""

from collections.abc import Iterator
from typing import Final

from checkers.contract.transaction_rules import HANGING
from checkers.detectors.durability import FLUSH_SLACK_MS
from checkers.detectors.forgotten import with_forgotten_transactions
from checkers.detectors.unled_coordinators import UnledCoordinators
from checkers.engines.engine import Frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.log_starts import clock_span_ns
from checkers.frames.read_ends import held_up
from checkers.history.history import ABORT, COMMIT, TP
from checkers.history.recorded_faults import LostState, read_fault
from checkers.history.settings import TRANSACTIONS_TOPIC, transaction_timeout_ms

COMPLETION_MS: Final = 10_000
"""How long a coordinator may need to write all markers, or to find a transaction that timed out
(transaction.abort.timed.out.transaction.cleanup.interval.ms)."""


def hanging_transactions(frames: Frames) -> Iterator[Frame]:
    """kind hanging-transaction: the final read at read_committed waited in vain below the high
    watermark, although by the record no transaction can be open in the partition.

    offset: the position that it reached, which is the last stable offset; other_offset: the high
    watermark. By the record a transaction is open until COMPLETION_MS after its end was answered.
    Without an answered end it is open until COMPLETION_MS after its timeout, by whatever clock of a
    coordinator that faults set. A client whose record was cut may have had a transaction open in
    any partition. Nothing is judged while a coordinator may have been missing because logs of its
    topic were damaged.
    """
    F, engine = frames.engine.functions, frames.engine
    short = frames.none_if_empty(
        held_up(engine, frames.other_rows, frames.cluster, frames.replica_ends)
    )
    if short is None:
        return
    clear = short.join(_open(frames, short), on=["op", *TP], how="left_anti")
    cut = engine.rows(_cut_producers(frames).agg(F.max("open_until_ns").alias("open_until_ns")))
    hidden_until_ns = cut[0]["open_until_ns"]
    if hidden_until_ns is not None:
        clear = clear.where(F.col("complete_ns") > F.lit(hidden_until_ns))
    if missing := _without_coordinator(frames, clear):
        clear = clear.where(~F.col("op").isin(*missing))
    hanging = frames.none_if_empty(clear)
    if hanging is not None:
        found = with_forgotten_transactions(frames, hanging)
        yield evidence(engine, found, kind=F.lit(HANGING))


def _without_coordinator(frames: Frames, reads: Frame) -> list[int]:
    """Return the ops of the reads at whose end a coordinator may have been missing."""
    F, engine = frames.engine.functions, frames.engine
    faults = [fault for row in frames.fault_rows if (fault := read_fault(row)) is not None]
    damage = [fault for fault in faults if fault.loses is LostState.DISK]
    if not damage:
        return []
    leaders = frames.cluster.where(
        (F.col("kind") == F.lit("leader"))
        & (F.col("topic") == F.lit(TRANSACTIONS_TOPIC))
        & F.col("partition").isNotNull()
    ).select("partition", "leader", "leader_epoch", "partition_epoch", "isr", "elr", "at_ns")
    unled = UnledCoordinators(TRANSACTIONS_TOPIC, engine.rows(leaders), damage)
    ends = engine.rows(reads.select("op", "complete_ns"))
    return [read["op"] for read in ends if unled.any_at(read["complete_ns"])]


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
    over = F.coalesce(F.col("ended_ns"), F.col("begun_ns") + F.lit(_timeout_ns(frames)))
    until = known.select(*TP, (over + F.lit(COMPLETION_MS * 1_000_000)).alias("open_until_ns"))
    until = engine.materialize(until.groupBy(*TP).agg(F.max("open_until_ns").alias("until_ns")))
    held = reads.join(until, on=TP, how="inner")
    return held.where(F.col("complete_ns") <= F.col("until_ns")).select("op", *TP)


def _cut_producers(frames: Frames) -> Frame:
    """Return open_until_ns of each client with a transactional id whose record was cut."""
    F = frames.engine.functions
    cut = frames.client_lifetimes.where(F.col("ended") == F.lit(0)).select("client", "last_ns")
    producers = frames.history.where(F.col("transactional_id").isNotNull()).select("client")
    lived_ns = _timeout_ns(frames) + (FLUSH_SLACK_MS + COMPLETION_MS) * 1_000_000
    found = cut.join(producers.distinct(), on="client", how="left_semi")
    return found.select((F.col("last_ns") + F.lit(lived_ns)).alias("open_until_ns"))


def _timeout_ns(frames: Frames) -> int:
    """Return how long a transaction is open at most, if nobody ends it. Its coordinator dates it by
    a wall clock, and another coordinator may look for it by another one."""
    timeout_ns = transaction_timeout_ms(frames.plan) * 1_000_000
    return timeout_ns + clock_span_ns(frames.engine, frames.cluster)
