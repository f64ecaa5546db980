"""Did each transaction happen completely, or not at all, and only by its own producer?

Only transactions whose end is recorded are judged here (rows commit-transaction and
abort-transaction). Dependencies between transactions are left to `checkers.elle`.
"""

from collections.abc import Iterator
from typing import Final

from checkers.contract.conditions import LATE_COMMIT, UNANSWERED_COMMIT
from checkers.detectors.forgotten import since_last_kept, with_lost_transactions
from checkers.detectors.lost_markers import with_lost_markers
from checkers.detectors.surely_kept import in_kept_partitions, with_known_coordinators
from checkers.engines.engine import Frame, left_join
from checkers.frames.ended import NOT_COMMITTED
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.send_outcomes import SEND
from checkers.history.history import COMMIT, INIT
from checkers.history.settings import FOREVER_NS

TORN: Final = "torn-transaction"
FALSE_ABORT: Final = "false-abort"
ZOMBIE: Final = "zombie-write"


def torn_transactions(frames: Frames) -> Iterator[Frame]:
    """kind torn-transaction: the final log has some records of a transaction and lacks others.

    One row for each transaction: its first send that the log lacks. other_value: a record of the
    transaction that the log has. Transactions that are known to be aborted are left to
    aborted-read. cause_id: what may have removed the record.
    """
    missing = frames.ended_transactions.torn
    if missing is None:
        return
    F = frames.engine.functions
    first = missing.groupBy("txn").agg(F.min("op").alias("op"))
    found = frames.engine.materialize(missing.join(first.select("op"), on="op", how="left_semi"))
    caused = frames.with_causes(found.select(*SEND))
    caused = with_lost_transactions(frames, since_last_kept(frames, caused))
    others = found.select("op", "other_value")
    yield evidence(
        frames.engine,
        left_join(frames.engine.materialize(caused), others, on=["op"]),
        kind=F.lit(TORN),
        detail=F.lit("the log has another record of its transaction"),
    )


def false_aborts(frames: Frames) -> Iterator[Frame]:
    """kind false-abort: the client was told that a transaction is not committed (its abort was
    acknowledged, or its commit refused for good), but the final log has all of its records.

    One row for each transaction: its first send.
    """
    told = frames.ended_transactions.not_committed
    if told is None:
        return
    F = frames.engine.functions
    parts = told.groupBy("txn").agg(
        F.count(F.lit(1)).alias("sent"),
        F.count("final_offset").alias("kept"),
        F.min("op").alias("op"),
    )
    whole = parts.where(F.col("sent") == F.col("kept")).select("op")
    found = frames.none_if_empty(told.join(whole, on="op", how="left_semi"))
    if found is not None:
        kind, offset = F.lit(FALSE_ABORT), F.col("final_offset")
        found = with_lost_transactions(frames, with_lost_markers(frames, found))
        yield evidence(frames.engine, found, kind=kind, offset=offset)


def zombie_writes(frames: Frames) -> Iterator[Frame]:
    """kind zombie-write: a record is in the log although its producer had been fenced before it
    sent the record, or before it first asked to commit the transaction of the record.

    The producer was fenced when another client had completed init-producer with its transactional
    id (other_op), unless the producer's own init-producer is not recorded, or may have come later.

    aspect commit: it asked for the commit too late, and that was acknowledged; commit-unanswered:
    it was not answered, and a record of the transaction was read. One row for each of these
    transactions: its first send that was read.
    """
    F, engine = frames.engine.functions, frames.engine
    inits = frames.rare_rows.where(
        (F.col("f") == F.lit(INIT)) & F.col("transactional_id").isNotNull()
    ).where(F.col("type") != F.lit("fail"))
    inits = engine.materialize(
        inits.select("op", "client", "type", "invoke_ns", "complete_ns", "transactional_id")
    )
    rivals = inits.groupBy("transactional_id").agg(
        F.min("client").alias("least"), F.max("client").alias("greatest")
    )
    contested = frames.none_if_empty(
        rivals.where(F.col("least") < F.col("greatest")).select("transactional_id")
    )
    if contested is None:
        return
    sends = frames.history.where(
        (F.col("f") == F.lit("send")) & F.col("transactional_id").isNotNull()
    )
    sends = sends.select("op", "client", "invoke_ns", "transactional_id")
    sends = engine.materialize(sends.join(contested, on="transactional_id", how="left_semi"))
    fenced = frames.none_if_empty(_fenced(frames, sends, inits))
    kind, offset = F.lit(ZOMBIE), F.col("first_offset")
    if fenced is not None:
        read = frames.send_outcomes.where(F.col("first_offset").isNotNull())
        found = with_lost_transactions(frames, read.join(fenced, on="op", how="inner"))
        yield evidence(engine, found, kind=kind, offset=offset)
    late = _commits_of_fenced(frames, contested, inits, fenced)
    if late is not None:
        yield evidence(engine, with_lost_transactions(frames, late), kind=kind, offset=offset)


def _commits_of_fenced(
    frames: Frames, contested: Frame, inits: Frame, written: Frame | None
) -> Frame | None:
    """Return the first send that was read of each transaction whose producer had been fenced before
    it first asked for the commit, with aspect, and other_op, since_ns (see `_fenced`); None without
    any. written: the sends of fenced producers, whose transactions do not count.

    A record of a commit without an answer says nothing if its partition may have lost the marker
    that aborted the transaction.
    """
    F, engine = frames.engine.functions, frames.engine
    ends = frames.transaction_ends.where(F.col("txn").isNotNull())
    ends = ends.join(contested, on="transactional_id", how="left_semi")
    asked = (F.col("f") == F.lit(COMMIT)) & (F.col("type") != F.lit("fail"))
    ends = ends.groupBy("txn", "client", "transactional_id").agg(
        F.min("op").alias("op"),
        F.min("invoke_ns").alias("invoke_ns"),
        F.max(F.when(asked, F.lit(0)).otherwise(F.lit(1))).alias("others"),
        F.max(F.when(F.col("type") == F.lit("ok"), F.lit(1)).otherwise(F.lit(0))).alias("answered"),
    )
    ends = engine.materialize(ends.where(F.col("others") == F.lit(0)).drop("others"))
    late = frames.none_if_empty(_fenced(frames, ends, inits))
    if late is None:
        return None
    late = ends.join(late, on="op", how="inner")
    late = late.select("txn", "transactional_id", "answered", "other_op", "since_ns")
    here = F.col("first_offset").isNotNull() & (F.col("type") != F.lit(NOT_COMMITTED))
    read = frames.send_outcomes.where(here).join(engine.materialize(late), on="txn", how="inner")
    if written is not None:
        sent = frames.send_outcomes.join(written, on="op", how="left_semi").select("txn").distinct()
        read = read.join(engine.materialize(sent), on="txn", how="left_anti")
    found = frames.none_if_empty(read)
    if found is None:
        return None
    told = found.where(F.col("answered") == F.lit(1))
    untold = in_kept_partitions(frames, found.where(F.col("answered") == F.lit(0)))
    found = frames.none_if_empty(with_known_coordinators(frames, told.unionByName(untold)))
    if found is None:
        return None
    first = engine.materialize(found.groupBy("txn").agg(F.min("op").alias("op")).select("op"))
    aspect = F.when(F.col("answered") == F.lit(1), F.lit(LATE_COMMIT))
    found = found.withColumn("aspect", aspect.otherwise(F.lit(UNANSWERED_COMMIT)))
    return engine.materialize(found.join(first, on="op", how="left_semi"))


def _fenced(frames: Frames, sends: Frame, inits: Frame) -> Frame:
    """Return op, other_op, since_ns of the `sends` (or what else a producer began: op, client,
    invoke_ns, transactional_id) whose client was surely fenced: the init-producer `other_op` of
    another client had completed before, and begun (since_ns) after the client's own last one."""
    F = frames.engine.functions
    mine = inits.select(
        "transactional_id", "client", F.col("invoke_ns").alias("begun_ns"),
        F.when(F.col("type") == F.lit("ok"), F.col("complete_ns"))
        .otherwise(F.lit(FOREVER_NS)).alias("own_ns"),
    )  # fmt: skip
    own = sends.join(mine, on=["transactional_id", "client"], how="inner")
    own = own.where(F.col("begun_ns") <= F.col("invoke_ns"))
    own = frames.engine.materialize(own.groupBy("op").agg(F.max("own_ns").alias("own_ns")))
    others = inits.where(F.col("type") == F.lit("ok")).select(
        "transactional_id",
        F.col("op").alias("other_op"),
        F.col("client").alias("other_client"),
        F.col("invoke_ns").alias("fencing_ns"),
        F.col("complete_ns").alias("fenced_ns"),
    )
    pairs = sends.join(own, on="op", how="inner").join(others, on="transactional_id", how="inner")
    later = F.col("own_ns") < F.col("fencing_ns")
    after = (F.col("fenced_ns") < F.col("invoke_ns")) & later
    fenced = pairs.where((F.col("other_client") != F.col("client")) & after)
    return fenced.groupBy("op").agg(
        F.min("other_op").alias("other_op"), F.min("fencing_ns").alias("since_ns")
    )
