"""Which anomalies of transactions may a late request explain?

Before transaction version 2 all transactions of a producer have one epoch (KIP-890). So a request
of an earlier transaction (its end, or a marker) that arrives in a later one may end the later one,
and a record that arrives after its transaction has ended belongs to the next one, or to none. The
late request arrived in the transaction of the anomaly, or was sent in it. So a fault that makes
requests late was in force between the first send of that transaction and its end, or had just been
healed. The contract asks whether there was one.
"""

import functools
import operator
from typing import Final

from checkers.contract.conditions import UNANSWERED_COMMIT
from checkers.contract.transaction_rules import HANGING
from checkers.detectors.transactions import FALSE_ABORT, TORN, ZOMBIE
from checkers.engines.engine import Column, Frame, left_join
from checkers.frames.frames import Frames
from checkers.history.history import ENDS, TP
from checkers.history.settings import FOREVER_NS, transaction_timeout_ms

DELAYED: Final = "delayed"
"""The column that says so: 1, else null."""
MARKERS_MS: Final = 10_000
"""How long after the answer to the end of a transaction its markers may still be written."""
NS_PER_MS: Final = 1_000_000
_OF_SENDS: Final = (TORN, FALSE_ABORT, "aborted-read")
_PLACE: Final = ["op", *TP]


def with_delays(frames: Frames, found: Frame) -> Frame:
    """Add the column DELAYED to evidence (see `evidence`)."""
    F, engine = frames.engine.functions, frames.engine
    kinds = engine.rows(found.select("kind").distinct()) if frames.delays else []
    late = []
    if any(row["kind"] in (*_OF_SENDS, ZOMBIE) for row in kinds):
        late_commit = F.coalesce(F.col("aspect") == F.lit(UNANSWERED_COMMIT), F.lit(False))
        concerned = F.col("kind").isin(*_OF_SENDS) | late_commit
        late.append(_late_sends(frames, found.where(concerned)))
    if any(row["kind"] == HANGING for row in kinds):
        late.append(_late_reads(frames, found.where(F.col("kind") == F.lit(HANGING))))
    if not late:
        return found.withColumn(DELAYED, F.lit(None).cast("int"))
    marks = engine.materialize(*late).withColumn(DELAYED, F.lit(1))
    return engine.materialize(left_join(found, engine.materialize(marks), on=_PLACE))


def _late_sends(frames: Frames, sends: Frame) -> Frame:
    """Return _PLACE of sends in transactions that a late request may have changed. If the rows of
    the transaction are not there, nothing but its end is known."""
    F, engine = frames.engine.functions, frames.engine
    place = engine.materialize(sends.select(*_PLACE, "complete_ns").distinct())
    rows = frames.history.where(F.col("txn").isNotNull())
    ours = rows.where(F.col("f") == F.lit("send")).join(place, on=_PLACE, how="left_semi")
    ours = engine.materialize(ours.select(*_PLACE, "txn"))
    rows = rows.join(ours.select("txn").distinct(), on="txn", how="left_semi")
    ended = F.col("f").isin(*ENDS) & (F.col("type") == F.lit("ok"))
    spans = rows.groupBy("txn").agg(
        F.min("invoke_ns").alias("first_ns"),
        F.max("invoke_ns").alias("last_ns"),
        F.max(F.when(ended, F.col("complete_ns"))).alias("ended_ns"),
    )
    found = engine.materialize(left_join(place, ours, on=_PLACE))
    found = left_join(found, engine.materialize(spans), on=["txn"])
    # Without an answer the coordinator ends the transaction by its timeout.
    timed_out = F.col("last_ns") + F.lit(transaction_timeout_ms(frames.plan) * NS_PER_MS)
    over = F.coalesce(F.col("ended_ns"), timed_out, F.col("complete_ns"))
    return found.where(_in_force(frames, F.col("first_ns"), over)).select(*_PLACE)


def _late_reads(frames: Frames, reads: Frame) -> Frame:
    """Return _PLACE of final reads before which a late record may have begun a transaction that
    nobody ends: at any time after the first send in a transaction to their partition."""
    F, engine = frames.engine.functions, frames.engine
    sends = frames.history.where((F.col("f") == F.lit("send")) & F.col("txn").isNotNull())
    sends = sends.join(reads.select(*TP).distinct(), on=TP, how="left_semi")
    firsts = engine.materialize(sends.groupBy(*TP).agg(F.min("invoke_ns").alias("first_ns")))
    found = left_join(reads.select(*_PLACE, "complete_ns"), firsts, on=TP)
    late = _in_force(frames, F.col("first_ns"), F.col("complete_ns"))
    return found.where(late).select(*_PLACE).distinct()


def _in_force(frames: Frames, first_ns: Column, over_ns: Column) -> Column:
    """The condition that a fault may have made requests late between two moments. A moment that is
    not known excludes no fault."""
    F = frames.engine.functions
    begun = F.coalesce(first_ns, F.lit(0))
    over = F.coalesce(over_ns, F.lit(FOREVER_NS - MARKERS_MS * NS_PER_MS))
    ended = over + F.lit(MARKERS_MS * NS_PER_MS)
    spans = ((begun <= F.lit(end)) & (ended >= F.lit(start)) for start, end in frames.delays)
    return functools.reduce(operator.or_, spans)
