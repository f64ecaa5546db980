"""What became of each send: it is brought together with the record that was read of its value.

Nearly every send lies where it was acknowledged to lie. So sends and records meet place by place,
slice by slice of a long history; only what stays alone then is looked for by its value everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.engines.engine import Column, Engine, Frame
from checkers.frames.slices import Narrow

TP = ["topic", "partition"]

SEND = ["op", "client", "type", "invoke_ns", "complete_ns", *TP]
SEND += ["value", "offset", "leader_epoch", "node", "acks"]
"""The columns of a send."""

PLACES = ["first_offset", "final_offset"]
"""Where a value was read first, and where first in the final log; null where it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Sends and records, each there once, beside each other where they are of one value in one
    place: the columns of SEND (op: null without a send), and kept (null without a record; 1: it is
    in the final log, else 0)."""

    engine: Engine
    rows: Frame

    @property
    def sends(self) -> Frame:
        """All sends."""
        F = self.engine.functions
        return self.rows.where(F.col("op").isNotNull()).select(*SEND)

    @property
    def together(self) -> Frame:
        """The sends that met a record, and where that is: SEND and PLACES."""
        F = self.engine.functions
        both = self.rows.where(F.col("op").isNotNull() & F.col("kept").isNotNull())
        return both.select(*SEND, *_places(self.engine))

    def apart(self, often: Frame | None, sent_twice: Frame | None) -> Frame:
        """All other sends and records, beside each other where they are of one value: SEND and
        PLACES. often: what `often` gives; sent_twice: the values that were sent more than once;
        None: there are none."""
        F = self.engine.functions
        sends = self.rows.where(F.col("kept").isNull()).select(*SEND)
        alone = self.rows.where(F.col("op").isNull())
        records = alone.select(*TP, "value", *_places(self.engine))
        if often is not None:
            records = records.unionByName(often.select(*records.columns))
        if sent_twice is not None:
            # The record of its value may have met another send of it.
            again = sends.join(sent_twice, on="value", how="left_semi").select(*TP, "value")
            taken = self.together.join(
                self.engine.materialize(again), on=[*TP, "value"], how="left_semi"
            )
            records = records.unionByName(taken.select(*records.columns).distinct())
        return self.engine.materialize(sends.join(records, on=[*TP, "value"], how="full"))


def meet(engine: Engine, slices: Sequence[Narrow], history: Frame, records: Frame) -> Meeting:
    """Let the sends of a history (of HISTORY) and records (topic, partition, offset, value, kept)
    meet. Of the records each has a value of its own."""
    F = engine.functions
    plain = [name for name in SEND if name != "acks"]
    sends = history.where(F.col("f") == F.lit("send"))
    sends = sends.select(*plain, F.col("acks").cast("int").alias("acks"))
    place = [*TP, "offset", "value"]
    beside = (here(sends).join(here(records), on=place, how="full") for here in slices)
    return Meeting(engine=engine, rows=engine.materialize(*beside))


def once(engine: Engine, records: Frame) -> Frame:
    """topic, partition, value and PLACES of records each of which has its value."""
    return records.select(*TP, "value", *_places(engine))


def often(engine: Engine, records: Frame) -> Frame:
    """The same of records some of which may be of one value."""
    F = engine.functions
    first, final = _places(engine)
    return engine.materialize(
        records.select(*TP, "value", first, final)
        .groupBy(*TP, "value")
        .agg(*(F.min(name).alias(name) for name in PLACES))
    )


def twice(engine: Engine, records: Frame, complete: Frame) -> Frame:
    """topic, partition, value, first_offset, last_offset of values at two or more offsets of one
    log: the final one of `complete` partitions, or of others all that was read.

    What was read and is not in the final log was cut, and may have been sent again since.
    """
    F = engine.functions
    unsure = (
        records.where(F.col("kept") == F.lit(0))
        .join(complete.select(*TP), on=TP, how="left_anti")
        .select(*TP, "value", "offset")
    )
    kept = records.where(F.col("kept") == F.lit(1)).select(*TP, "value", "offset")
    places = (
        kept.unionByName(unsure)
        .groupBy(*TP, "value")
        .agg(F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset"))
    )
    return places.where(F.col("first_offset") < F.col("last_offset"))


def _places(engine: Engine) -> list[Column]:
    F = engine.functions
    in_the_end = F.when(F.col("kept") == F.lit(1), F.col("offset"))
    return [F.col("offset").alias("first_offset"), in_the_end.alias("final_offset")]
