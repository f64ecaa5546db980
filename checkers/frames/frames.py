"""The frames that detectors judge: a run's tables, and frames that several detectors derive.

Every frame is lazy and computed once. A detector takes `Frames` and yields frames of evidence: one
row per instance of an anomaly, with the columns of EVIDENCE. It does not decide what is right or
wrong. Most runs have no anomaly, so a detector first finds suspicious rows with little work
(`none_if_empty`) and collects the evidence only if there are any.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from checkers.causes.cause import Cause
from checkers.causes.causes import Causes, read_causes
from checkers.causes.explanations import NUMBERED, Explanations
from checkers.causes.matching import first_leader_change, possible_causes
from checkers.causes.retention import LogStart
from checkers.engines.engine import Engine, Frame, as_frame, left_join
from checkers.frames import client_counts, log_starts, polls, transactions
from checkers.frames.changed_logs import with_changed_bytes
from checkers.frames.disputes import disputed
from checkers.frames.ended import Transactions
from checkers.frames.epoch_answers import Contradiction, read_contradictions
from checkers.frames.epoch_bumps import EpochBumps
from checkers.frames.holders import Holders, holders
from checkers.frames.lost_state import StateLosses
from checkers.frames.read_ends import read_ends
from checkers.frames.repeats import split
from checkers.frames.send_outcomes import (
    PLACES,
    SEND,
    MatchedSends,
    at_several_offsets,
    match_sends,
    placements_of_repeated,
    placements_of_unique,
)
from checkers.frames.slices import Slice, slices
from checkers.history.history import (
    CLUSTER,
    ENDS,
    FAULTS,
    FREQUENT,
    HISTORY,
    REPLICA_ENDS,
    REPLICAS,
    TP,
    RunSources,
)
from checkers.history.recorded_faults import delays
from checkers.history.settings import (
    FOREVER_NS,
    MIN_ISR,
    Change,
    Settings,
    read_changes,
    topic_settings,
    weakest,
)


class Frames:
    """One run's frames on one engine, and the plan it followed.

    plan: the fields of plan.json. Raises nothing by itself; computing a frame may raise the
    engine's errors.
    """

    def __init__(self, engine: Engine, sources: RunSources, plan: Mapping[str, Any]) -> None:
        self.engine = engine
        self.plan = plan
        self.sources = sources

    @cached_property
    def history(self) -> Frame:
        """The operations: HISTORY."""
        return self.engine.load(self.sources.history, HISTORY)

    @cached_property
    def cluster(self) -> Frame:
        """The cluster's own reports: CLUSTER."""
        return self.engine.load(self.sources.cluster, CLUSTER)

    @cached_property
    def faults(self) -> Frame:
        """The faults that were injected: FAULTS."""
        return self.engine.load(self.sources.faults, FAULTS)

    @cached_property
    def fault_rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows of `faults`; there are few."""
        return self.engine.rows(self.faults)

    @cached_property
    def replicas(self) -> Frame:
        """The batches in the replicas' files: REPLICAS."""
        return self.engine.load(self.sources.replicas, REPLICAS)

    @cached_property
    def replica_ends(self) -> Frame:
        """Where the replicas ended: REPLICA_ENDS."""
        return self.engine.load(self.sources.replica_ends, REPLICA_ENDS)

    @cached_property
    def slices(self) -> Sequence[Slice]:
        """The slices of the history by offset, each as large as the engine can handle."""
        return slices(self.engine, self.sources.history)

    @cached_property
    def send_outcomes(self) -> Frame:
        """One row per send, with txn, and with first_offset and final_offset of `placements`: null
        if its value was never read."""
        apart = self._unmatched.where(self.engine.functions.col("op").isNotNull())
        return self._matched.matched.unionByName(apart)

    @cached_property
    def unsent(self) -> Frame | None:
        """The rows of `placements` with values that no client sent to that partition; None without
        any."""
        unsent = self._unmatched.where(self.engine.functions.col("op").isNull())
        return self.none_if_empty(unsent.select(*TP, "value", *PLACES))

    @cached_property
    def _unmatched(self) -> Frame:
        """The sends and records that were not matched by offset."""
        return self._matched.unmatched(self._maybe_repeated, self.sent_twice)

    @cached_property
    def _matched(self) -> MatchedSends:
        """Every send, with the record of its value at the acknowledged offset."""
        return match_sends(self.engine, self.slices, self.history, self._by_value[1])

    @cached_property
    def sends(self) -> Frame:
        """One row per send."""
        return self._matched.sends

    @cached_property
    def acked(self) -> Frame:
        """The sends that succeeded."""
        F = self.engine.functions
        return self.sends.where(F.col("type") == F.lit("ok"))

    @cached_property
    def beyond_final_read(self) -> Frame | None:
        """The `required_sends` that were acknowledged at an offset that the final read of their
        partition did not reach; None without any."""
        F = self.engine.functions
        acked = self.required_sends.where(F.col("offset").isNotNull())
        open_ = acked.join(self.complete.select(*TP), on=TP, how="left_anti")
        ends = left_join(open_, self.read_ends.select(*TP, "reached"), on=TP)
        beyond = F.col("reached").isNull() | (F.col("offset") >= F.col("reached"))
        return self.none_if_empty(ends.where(beyond).drop("reached"))

    @cached_property
    def in_transactions(self) -> Frame | None:
        """The sends in transactions: see `transactions.placed`; None without any."""
        return transactions.placed(self.engine, self.send_outcomes)

    @cached_property
    def ended_transactions(self) -> Transactions:
        """The transactions with a recorded end."""
        return Transactions(self)

    @cached_property
    def required_sends(self) -> Frame:
        """The rows of `send_outcomes` that must be in the log: acknowledged sends, and sends of
        unknown outcome whose transaction was committed (one of its writes was read)."""
        F = self.engine.functions
        acked = self.send_outcomes.where(F.col("type") == F.lit("ok"))
        if self.in_transactions is None:
            return acked
        proved = transactions.proved(self.engine, self.in_transactions)
        return acked.unionByName(self.send_outcomes.join(proved, on="op", how="left_semi"))

    @cached_property
    def sent_twice(self) -> Frame | None:
        """The values that were sent more than once; None without any."""
        F = self.engine.functions
        several, _ = split(self.engine, self.sends.select("value"), "value")
        if several is None:
            return None
        sends = several.groupBy("value").agg(F.count(F.lit(1)).alias("sends"))
        return self.none_if_empty(sends.where(F.col("sends") > F.lit(1)).select("value"))

    @cached_property
    def sends_in_place(self) -> Frame:
        """The acknowledged sends that the final log holds at the acknowledged offset."""
        F = self.engine.functions
        in_place = self._located.where(F.col("offset") == F.col("final_offset")).select(*SEND)
        if self._in_place_too is None:
            return in_place
        return in_place.unionByName(self._in_place_too.select(*SEND))

    @cached_property
    def sends_at_other_offset(self) -> Frame | None:
        """The rows of `send_outcomes` whose value is in the final log first at another offset than
        the acknowledged one; None without any."""
        F = self.engine.functions
        return self.none_if_empty(self._located.where(F.col("offset") != F.col("final_offset")))

    @cached_property
    def misplaced(self) -> Frame | None:
        """The `sends_at_other_offset` that are not also at the acknowledged offset; None without
        any."""
        if self.sends_at_other_offset is None or self._in_place_too is None:
            return self.sends_at_other_offset
        key = ["op", *TP, "offset", "value"]
        again = self._in_place_too.select(*key)
        return self.none_if_empty(self.sends_at_other_offset.join(again, on=key, how="left_anti"))

    @cached_property
    def _in_place_too(self) -> Frame | None:
        """The `sends_at_other_offset` that are at the acknowledged offset too; None without any."""
        if self.sends_at_other_offset is None:
            return None
        found = self.sends_at_other_offset.join(
            self.final_log, on=[*TP, "offset", "value"], how="left_semi"
        )
        return self.none_if_empty(found)

    @cached_property
    def _located(self) -> Frame:
        """The sends that were acknowledged with an offset and are in the final log, whatever the
        result of their transaction."""
        F = self.engine.functions
        known = F.col("offset").isNotNull() & F.col("final_offset").isNotNull()
        return self.send_outcomes.where((F.col("type") != F.lit("fail")) & known)

    @cached_property
    def reads(self) -> Frame:
        """One row per record that a consumer or a final read returned, without `uncommitted_reads`.
        A polled record was in the log, whatever the result of the transaction that polled."""
        F = self.engine.functions
        columns = ["op", "client", "f", "invoke_ns", "complete_ns", *TP, "value", "offset", "error"]
        polled = F.col("f") == F.lit("poll")
        read = (F.col("f") == F.lit("final-read")) & (F.col("type") == F.lit("ok"))
        rows = self.history.where((polled | read) & F.col("offset").isNotNull())
        return self.ended_transactions.visible(rows).select(*columns)

    @cached_property
    def polls(self) -> Frame:
        """One row per poll and partition: see `polls.polls`."""
        return polls.polls(self.engine, self.reads)

    @cached_property
    def stale_polls(self) -> Frame:
        """The polls that missed a committed record: see `polls.stale_polls`."""
        return polls.stale_polls(self.engine, self.polls, self.acked)

    @cached_property
    def not_in_final_log(self) -> Frame | None:
        """The polled records that the final log does not hold at their offset; None without any."""
        F = self.engine.functions
        polls = self.reads.where((F.col("f") == F.lit("poll")) & F.col("value").isNotNull())
        place = [*TP, "offset", "value"]
        log = self.final_log
        missing = (here(polls).join(here(log), on=place, how="left_anti") for here in self.slices)
        return self.none_if_empty(*missing)

    @cached_property
    def _records_read(self) -> Frame:
        """topic, partition, offset, value, in_final_log (1 or 0) of every record that was read.
        Polled records that equal a record of the final log are not repeated."""
        F = self.engine.functions
        columns = [*TP, "offset", "value"]
        kept = self.final_log.where(F.col("value").isNotNull()).select(
            *columns, F.lit(1).alias("in_final_log")
        )
        if self.not_in_final_log is None:
            return kept
        return kept.unionByName(
            self.not_in_final_log.select(*columns, F.lit(0).alias("in_final_log"))
        )

    @cached_property
    def disputed_offsets(self) -> Frame | None:
        """topic, partition, offset, value, other_value (least and greatest) of offsets where two
        values were read, or where a polled record is not in the final log; None without any."""
        return self.none_if_empty(disputed(self.engine, self._records_read))

    @cached_property
    def other_rows(self) -> Frame:
        """The rows of the history that are neither sends nor records read."""
        return self.rare_rows.unionByName(self.transaction_ends)

    @cached_property
    def rare_rows(self) -> Frame:
        """The few rows of the history that are no sends, records read or ends of transactions."""
        F = self.engine.functions
        frequent = F.col("f").isin(*FREQUENT, *ENDS)
        return self.engine.materialize(self.history.where(~frequent))

    @cached_property
    def transaction_ends(self) -> Frame:
        """One row per request that ended a transaction."""
        F = self.engine.functions
        return self.history.where(F.col("f").isin(*ENDS))

    @cached_property
    def watermark_rows(self) -> Frame:
        """One row per answer to a client's request for an end offset."""
        F = self.engine.functions
        answered = (F.col("type") == F.lit("ok")) & F.col("offset").isNotNull()
        columns = ["op", "client", "invoke_ns", "complete_ns", *TP, "offset", "leader_epoch"]
        rows = self.rare_rows.where((F.col("f") == F.lit("watermark")) & answered)
        return rows.select(*columns, "node")

    @cached_property
    def row_counts(self) -> Frame:
        """The number of rows of each kind: see `client_counts.counts`."""
        return client_counts.counts(self.engine, self.history)

    @cached_property
    def numbering(self) -> Frame:
        """How each writer numbered its operations: see `client_counts.numbering`."""
        return client_counts.numbering(self.engine, self.history)

    @cached_property
    def client_totals(self) -> Frame:
        """How many rows each client recorded: see `client_counts.client_totals`."""
        return client_counts.client_totals(self.engine, self.row_counts)

    @cached_property
    def client_lifetimes(self) -> Frame:
        """When each client recorded: see `client_counts.client_lifetimes`."""
        return client_counts.client_lifetimes(self.engine, self.client_totals)

    @cached_property
    def final_log(self) -> Frame:
        """The log at the end, as the final reads returned it: topic, partition, offset, value."""
        F = self.engine.functions
        rows = self.reads.where(F.col("f") == F.lit("final-read"))
        return rows.select(*TP, "offset", "value")

    @cached_property
    def placements(self) -> Frame:
        """Where each value was read: topic, partition, value, first_offset, final_offset (the first
        offset in the final log; null if it is not there)."""
        single = placements_of_unique(self.engine, self._by_value[1])
        return single if self._maybe_repeated is None else single.unionByName(self._maybe_repeated)

    @cached_property
    def repeated_values(self) -> Frame | None:
        """Values at two or more offsets of one log, see `send_outcomes.at_several_offsets`; None
        without any."""
        several, _ = self._by_value
        if several is None:
            return None
        return self.none_if_empty(at_several_offsets(self.engine, several, self.complete))

    @cached_property
    def _maybe_repeated(self) -> Frame | None:
        """The rows of `placements` with values that may have been read at several offsets."""
        several, _ = self._by_value
        return None if several is None else placements_of_repeated(self.engine, several)

    @cached_property
    def _by_value(self) -> tuple[Frame | None, Frame]:
        """The rows of `_records_read` that may share a value with another row, and all others."""
        return split(self.engine, self._records_read, "value")

    @cached_property
    def read_ends(self) -> Frame:
        """How far the final reads came: see `read_ends.read_ends`."""
        return self.engine.materialize(read_ends(self.engine, self.rare_rows, self.cluster))

    @cached_property
    def first_offsets(self) -> Frame:
        """Where the final logs start: see `log_starts.first_offsets`."""
        found = log_starts.first_offsets(
            self.engine, self.read_ends, self.rare_rows, self.final_log, self.replica_ends
        )
        return self.engine.materialize(found)

    @cached_property
    def log_starts(self) -> Mapping[tuple[str, int], LogStart]:
        """The starts of final logs that do not start at 0: see `log_starts.log_starts`."""
        return log_starts.log_starts(
            self.engine, first_offsets=self.first_offsets, ends=self.read_ends,
            sends=self.send_outcomes, replicas=self.replicas, replica_ends=self.replica_ends,
            cluster=self.cluster, holders=self.holders,
        )  # fmt: skip

    @cached_property
    def holders(self) -> Holders:
        """The nodes that ever held a replica of each partition: see `holders.holders`."""
        return holders(self.engine, self.cluster, self.replica_ends)

    @cached_property
    def complete(self) -> Frame:
        """Partitions whose final read reached the end: topic, partition, end_offset, read_ns."""
        F = self.engine.functions
        whole = self.read_ends.where(F.col("whole") == F.lit(1))
        return self.engine.materialize(
            whole.select(*TP, F.col("reached").alias("end_offset"), "read_ns")
        )

    def none_if_empty(self, *frames: Frame) -> Frame | None:
        """Compute the rows of `frames`; return None if there are none."""
        kept = self.engine.materialize(*frames)
        return None if self.engine.is_empty(kept) else kept

    def count(self, frame: Frame) -> int:
        """Return the number of rows of a frame."""
        F = self.engine.functions
        return int(self.engine.rows(frame.agg(F.count(F.lit(1)).alias("rows")))[0]["rows"])

    @cached_property
    def delays(self) -> Sequence[tuple[int, int]]:
        """When faults may have made requests late; see `recorded_faults`."""
        return delays(self.fault_rows)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Every change of a setting during the run."""
        return read_changes(self.fault_rows)

    def settings(self, topic: str | None, from_ns: int = 0, until_ns: int = FOREVER_NS) -> Settings:
        """Return the weakest settings of a topic during a time span; default: the whole run."""
        planned = topic_settings(self.plan, topic)
        return weakest(planned, topic, self.changes, from_ns, until_ns)

    def took_committed(self, cause: Cause) -> bool:
        """Whether the partition of a cause may have lost committed records by it, with permission:
        by the weakest settings until the cause was over."""
        return cause.took_committed(self.settings(cause.topic, 0, cause.near_until_ns))

    def greatest_min_isr(self, topic: str) -> int:
        """Return the greatest min.insync.replicas that a topic ever had."""
        changed = [c.value for c in self.changes if c.name == MIN_ISR and c.topic in (None, topic)]
        planned = topic_settings(self.plan, topic).min_insync_replicas
        return max([planned, *map(int, changed)])

    @cached_property
    def state_losses(self) -> StateLosses:
        """Which partitions may have lost state by faults."""
        return StateLosses(self.engine, self.fault_rows, self.cluster, self.replica_ends)

    @cached_property
    def contradictions(self) -> Mapping[tuple[str, int], tuple[Contradiction, ...]]:
        """The answers about leader epochs that something contradicts: see `epoch_answers`."""
        return read_contradictions(
            self.engine, cluster=self.cluster, replicas=self.replicas, history=self.history,
            replica_ends=self.replica_ends, first_offsets=self.first_offsets,
            changed=with_changed_bytes(self.fault_rows),
        )  # fmt: skip

    @cached_property
    def causes(self) -> Causes:
        """Every recorded event that can explain a loss."""
        return read_causes(
            self.engine, self.cluster, self.faults, self.complete, self.first_offsets,
            self.settings, self.contradictions,
        )  # fmt: skip

    @cached_property
    def _causes_frame(self) -> Frame:
        return self.engine.materialize(
            as_frame(self.engine, self.causes.rows(), self.causes.schema)
        )

    @cached_property
    def explanations(self) -> Explanations:
        """The meaning of each `cause_id` in evidence."""
        return Explanations(self.causes.causes)

    def with_causes(self, evidence: Frame) -> Frame:
        """Fill `cause_id` of writes, or reads known by their value. evidence: see
        `matching.possible_causes`."""
        placed = transactions.with_marker_bounds(self.engine, self.send_outcomes, evidence)
        found = self.engine.materialize(possible_causes(self.engine, self._causes_frame, placed))
        pairs = self.engine.rows(found.select("cause_id", "possible").distinct())
        known = as_frame(self.engine, self.explanations.number(pairs), NUMBERED)
        key = ["op", *TP, "value"]
        numbered = found.join(known, on=["cause_id", "possible"], how="inner")
        numbered = numbered.select(*key, self.engine.functions.col("number").alias("cause_id"))
        return left_join(evidence, numbered, on=key)

    @cached_property
    def epoch_bumps(self) -> EpochBumps:
        """Every time that a client left its producer epoch."""
        return EpochBumps(self)

    def with_leader_change(
        self, evidence: Frame, *, since: str = "invoke_ns", up_to: str | None = None
    ) -> Frame:
        """Fill `cause_id` with the first leader change near the row. evidence: see
        `matching.first_leader_change`."""
        best = first_leader_change(self.engine, self._causes_frame, evidence, since, up_to)
        return left_join(evidence, best, on=["op", *TP])


Detect: TypeAlias = Callable[[Frames], Iterator[Frame]]
"""A detector: frames in, frames of evidence out."""
