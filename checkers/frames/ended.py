"""Transactions whose end is recorded: which records they left in the log, and who read too early.

A record that was read counts as visible at read_committed. The exception is a read at
read_uncommitted of a record whose transaction is not known to be committed: it is kept apart
(`Transactions.uncommitted_reads`), so that no detector takes it as a proof of the commit.
"""

from functools import cached_property
from typing import Any, Final, Protocol

from checkers.engines.engine import Column, Engine, Frame, left_join
from checkers.frames.send_outcomes import PLACES, SENT
from checkers.history.history import ABORT, COMMIT, ENDS, TP

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

COMMITTED: Final = "ok"
NOT_COMMITTED: Final = "fail"
_OUTCOMES: Final = ("info", NOT_COMMITTED, COMMITTED)
"""Of a transaction; of several answers about one, the last of these counts."""


class Run(Protocol):
    """What is needed of `Frames`."""

    engine: Engine

    @property
    def history(self) -> Any:
        """Of HISTORY."""

    @property
    def row_counts(self) -> Any:
        """See `client_counts.counts`."""

    @property
    def send_outcomes(self) -> Any:
        """One row per send."""

    @property
    def transaction_ends(self) -> Any:
        """One row per request that ended a transaction."""

    @property
    def complete(self) -> Any:
        """Partitions that were read to their end."""

    @property
    def first_offsets(self) -> Any:
        """Where the final logs start."""


class Transactions:
    """The transactions of one run; each frame is computed once, at its first use, and costs nothing
    in a run without such rows."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._engine = run.engine

    @cached_property
    def _recorded(self) -> dict[str, int | None]:
        """The kinds of rows in the history, with the lowest isolation of each kind."""
        F = self._engine.functions
        kinds = self._run.row_counts.groupBy("f").agg(F.min("isolation").alias("isolation"))
        return {row["f"]: row["isolation"] for row in self._engine.rows(kinds)}

    @property
    def recorded(self) -> bool:
        """Whether the end of any transaction is recorded."""
        return bool(self._recorded.keys() & {*ENDS})

    def outcomes(self, txns: Frame) -> Frame:
        """Return txn, outcome (as its end was answered: ok, fail, info) of those transactions in
        `txns` (column txn) whose end is recorded."""
        F = self._engine.functions
        answer = F.when(self._committed(), F.lit(2)).when(self._refused(), F.lit(1))
        ends = self._ends.join(txns.select("txn").distinct(), on="txn", how="left_semi")
        answers = ends.groupBy("txn").agg(F.max(answer.otherwise(F.lit(0))).alias("answer"))
        outcome = F.when(F.col("answer") == F.lit(2), F.lit(_OUTCOMES[2]))
        outcome = outcome.when(F.col("answer") == F.lit(1), F.lit(_OUTCOMES[1]))
        named = outcome.otherwise(F.lit(_OUTCOMES[0])).alias("outcome")
        return self._engine.materialize(answers.select("txn", named))

    @property
    def _ends(self) -> Frame:
        F = self._engine.functions
        return self._run.transaction_ends.where(F.col("txn").isNotNull())

    def _committed(self) -> Column:
        F = self._engine.functions
        return (F.col("f") == F.lit(COMMIT)) & (F.col("type") == F.lit("ok"))

    def _refused(self) -> Column:
        """The condition for an answer that the transaction is not committed."""
        F = self._engine.functions
        refused = (F.col("f") == F.lit(COMMIT)) & (F.col("type") == F.lit("fail"))
        return refused | ((F.col("f") == F.lit(ABORT)) & (F.col("type") == F.lit("ok")))

    @cached_property
    def not_committed(self) -> Frame | None:
        """SEND, PLACES, txn of the sends in transactions that are known not to be committed; None
        without any."""
        if not self.recorded:
            return None
        F = self._engine.functions
        refused = self.outcomes(self._ends.where(self._refused()))
        told = refused.where(F.col("outcome") == F.lit(NOT_COMMITTED)).select("txn")
        sends = self._inside.join(told, on="txn", how="left_semi")
        found = self._engine.materialize(sends.select(*SENT, *PLACES))
        return None if self._engine.is_empty(found) else found

    @property
    def _inside(self) -> Frame:
        """The sends in transactions."""
        F = self._engine.functions
        return self._run.send_outcomes.where(F.col("txn").isNotNull())

    @cached_property
    def torn(self) -> Frame | None:
        """SEND, txn, other_value of the sends that the final log lacks although it has other
        records of their transaction (other_value: the least of these), and the transaction is not
        known to be aborted. Only partitions that were read to their end count, and nothing below
        the start of a log. None without any."""
        if not self.recorded:
            return None
        F, engine = self._engine.functions, self._engine
        there = F.col("final_offset").isNotNull()
        incomplete = engine.materialize(self._inside.where(~there).select("txn").distinct())
        if engine.is_empty(incomplete):
            return None
        known = self.outcomes(incomplete)
        judged = known.where(F.col("outcome") != F.lit(NOT_COMMITTED)).select("txn")
        sends = engine.materialize(self._inside.join(judged, on="txn", how="left_semi"))
        kept = sends.where(there).groupBy("txn").agg(F.min("value").alias("other_value"))
        missing = sends.where(~there).select(*SENT).join(kept, on="txn", how="inner")
        missing = missing.join(self._run.complete.select(*TP), on=TP, how="left_semi")
        start = F.coalesce("first_kept", "first_read").alias("log_start")
        missing = left_join(missing, self._run.first_offsets.select(*TP, start), on=TP)
        removed = F.coalesce("offset", F.lit(0)) < F.coalesce("log_start", F.lit(0))
        found = engine.materialize(missing.where(~removed).select(*SENT, "other_value"))
        return None if engine.is_empty(found) else found

    @cached_property
    def uncommitted_reads(self) -> Frame | None:
        """topic, partition, value, type, op of reads at read_uncommitted, with type and op of the
        send, whose transaction is not known to be committed; None without any."""
        if self._open_sends is None:
            return None
        F = self._engine.functions
        reads = self._run.history.where(
            F.col("f").isin("poll", "final-read") & (F.col("isolation") == F.lit(READ_UNCOMMITTED))
        ).select(*TP, "value", F.col("offset").alias("first_offset"))
        found = self._engine.materialize(
            reads.join(self._open_sends, on=[*TP, "value"], how="inner")
        )
        return None if self._engine.is_empty(found) else found

    @cached_property
    def hidden(self) -> Frame | None:
        """op, topic, partition, offset, value, invoke_ns, complete_ns of the reads that `visible`
        leaves out; None without any."""
        if self._open_sends is None:
            return None
        F = self._engine.functions
        read = (F.col("f") == F.lit("final-read")) & (F.col("type") == F.lit("ok"))
        early = F.col("isolation") == F.lit(READ_UNCOMMITTED)
        rows = self._run.history.where(((F.col("f") == F.lit("poll")) | read) & early)
        rows = rows.where(F.col("offset").isNotNull()).join(
            self._open_sends.select(*TP, "value"), on=[*TP, "value"], how="left_semi"
        )
        columns = ["op", *TP, "offset", "value", "invoke_ns", "complete_ns"]
        found = self._engine.materialize(rows.select(*columns))
        return None if self._engine.is_empty(found) else found

    @cached_property
    def _open_sends(self) -> Frame | None:
        """topic, partition, value, type, op of sends in transactions that are not known to be
        committed; None without any, or if nothing was read at read_uncommitted."""
        if READ_UNCOMMITTED not in (self._recorded.get(f) for f in ("poll", "final-read")):
            return None
        F = self._engine.functions
        inside = (F.col("f") == F.lit("send")) & F.col("txn").isNotNull()
        sends = self._run.history.where(inside & (F.col("type") != F.lit("ok")))
        found = self._engine.materialize(sends.select(*TP, "value", "type", "op"))
        return None if self._engine.is_empty(found) else found

    def visible(self, reads: Frame) -> Frame:
        """Return the rows of `reads` (of HISTORY) that are not among the uncommitted reads."""
        if self._open_sends is None:
            return reads
        F = self._engine.functions
        early = F.col("isolation") == F.lit(READ_UNCOMMITTED)
        known = self._open_sends.select(*TP, "value")
        committed = reads.where(early).join(known, on=[*TP, "value"], how="left_anti")
        later = reads.where(F.coalesce(~early, F.lit(True)))
        return later.unionByName(committed.select(*later.columns))
