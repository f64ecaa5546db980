"""The outcome of each send: sends are matched with the records that were read, by value.

Nearly every record is at the offset that its acknowledgement named. So sends and records are
matched by offset first, slice by slice of a long history. Only the unmatched rest is searched for
by value in all partitions' offsets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.engines.engine import Column, Engine, Frame
from checkers.frames.slices import Slice
from checkers.history.history import TP

SEND = ["op", "client", "type", "invoke_ns", "complete_ns", *TP]
SEND += ["value", "offset", "leader_epoch", "node", "acks"]
"""The columns of a send."""

SENT = [*SEND, "txn"]
"""The same, and the transaction; null outside of one."""

PLACES = ["first_offset", "final_offset"]
"""The first offset where a value was read, and the first in the final log; null if there is none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedSends:
    """All sends and records, each once. A send and a record share a row if their value and offset
    are equal. Columns: SENT (op: null without a send) and in_final_log (null without a record; 1:
    the record is in the final log, else 0)."""

    engine: Engine
    rows: Frame

    @property
    def sends(self) -> Frame:
        """All sends."""
        F = self.engine.functions
        return self.rows.where(F.col("op").isNotNull()).select(*SEND)

    @property
    def matched(self) -> Frame:
        """The sends that share a row with a record: SENT and PLACES."""
        F = self.engine.functions
        both = self.rows.where(F.col("op").isNotNull() & F.col("in_final_log").isNotNull())
        return both.select(*SENT, *_places(self.engine))

    def unmatched(self, often: Frame | None, sent_twice: Frame | None) -> Frame:
        """All other sends and records, joined by value: SENT and PLACES. often: the result of
        `placements_of_repeated`. sent_twice: the values that were sent more than once. Both: None
        without any."""
        F = self.engine.functions
        sends = self.rows.where(F.col("in_final_log").isNull()).select(*SENT)
        alone = self.rows.where(F.col("op").isNull())
        records = alone.select(*TP, "value", *_places(self.engine))
        if often is not None:
            records = records.unionByName(often.select(*records.columns))
        if sent_twice is not None:
            # The record of this value may have been matched with another send.
            again = sends.join(sent_twice, on="value", how="left_semi").select(*TP, "value")
            taken = self.matched.join(
                self.engine.materialize(again), on=[*TP, "value"], how="left_semi"
            )
            records = records.unionByName(taken.select(*records.columns).distinct())
        return self.engine.materialize(sends.join(records, on=[*TP, "value"], how="full"))


def match_sends(
    engine: Engine, slices: Sequence[Slice], history: Frame, records: Frame
) -> MatchedSends:
    """Match the sends of a history (of HISTORY) with records (topic, partition, offset, value,
    in_final_log). Each record has a different value."""
    F = engine.functions
    plain = [name for name in SENT if name != "acks"]
    sends = history.where(F.col("f") == F.lit("send"))
    sends = sends.select(*plain, F.col("acks").cast("int").alias("acks"))
    place = [*TP, "offset", "value"]
    beside = (here(sends).join(here(records), on=place, how="full") for here in slices)
    return MatchedSends(engine=engine, rows=engine.materialize(*beside))


def placements_of_unique(engine: Engine, records: Frame) -> Frame:
    """Return topic, partition, value and PLACES of records with different values."""
    return records.select(*TP, "value", *_places(engine))


def placements_of_repeated(engine: Engine, records: Frame) -> Frame:
    """Return the same for records that may share values."""
    F = engine.functions
    first, final = _places(engine)
    return engine.materialize(
        records.select(*TP, "value", first, final)
        .groupBy(*TP, "value")
        .agg(*(F.min(name).alias(name) for name in PLACES))
    )


def at_several_offsets(engine: Engine, records: Frame, complete: Frame) -> Frame:
    """Return topic, partition, value, first_offset, last_offset of values at two or more offsets of
    one log. In `complete` partitions the final log counts, in others all records that were read.

    A record that was read and is not in the final log was truncated. Its value may have been sent
    again since.
    """
    F = engine.functions
    unsure = (
        records.where(F.col("in_final_log") == F.lit(0))
        .join(complete.select(*TP), on=TP, how="left_anti")
        .select(*TP, "value", "offset")
    )
    kept = records.where(F.col("in_final_log") == F.lit(1)).select(*TP, "value", "offset")
    places = (
        kept.unionByName(unsure)
        .groupBy(*TP, "value")
        .agg(F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset"))
    )
    return places.where(F.col("first_offset") < F.col("last_offset"))


def _places(engine: Engine) -> list[Column]:
    F = engine.functions
    in_the_end = F.when(F.col("in_final_log") == F.lit(1), F.col("offset"))
    return [F.col("offset").alias("first_offset"), in_the_end.alias("final_offset")]
