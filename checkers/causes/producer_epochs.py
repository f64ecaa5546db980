"""Producer epochs that clients left, and the writes that were in flight then.

An idempotent producer may leave its epoch by itself, for all its partitions at once, and send again
what is not acknowledged: what the old epoch had appended is then in the log twice, and no broker
can know (KIP-98 promises no duplicates within an epoch; librdkafka issue 4953). That excuses a
duplicate only where

- its own producer recorded that it left an epoch, the write being in flight: begun before, and not
  completed;
- every recorded reason is the client's own: it had given writes up after its own time-out, or it
  had sent ahead of a batch that had failed, and the broker refused what it sent ahead, as it must;
  or the refusing partition had permittedly lost records, and what it knew of the producer;
- the write is none of those that the refusing broker lacked, which are the failed batch and all
  behind it in that partition: had the broker held them, refusing was its fault.

Producers leave epochs seldom, so their rows are read here in plain Python; writes are joined with
them inside the engine. Whether an excuse permits anything is the contract's.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from checkers.engines.engine import Engine, Frame, as_frame
from checkers.history.history import PRODUCER_EPOCH, SKIPPED_AHEAD, TIMED_OUT

IN_FLIGHT = "client-epoch"
"""The aspect of a duplicate that its client's new epoch excuses."""

NAMED = 3
"""Reasons of one bump that are spelled out."""

_INEXCUSABLE = 1 << 20
"""More bumps than any run has: what does not excuse ranks behind all that do."""

_SCHEMA = pa.schema(
    [
        ("number", pa.int32()),
        ("client", pa.int32()),
        ("began_ns", pa.int64()),
        ("begun_ns", pa.int64()),
        ("excuses", pa.bool_()),
        ("refused_topic", pa.string()),
        ("refused_partition", pa.int32()),
        ("lacked_value", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why an epoch was left; topic, partition and lacked_value of a batch that was refused."""

    error: str
    topic: str | None
    partition: int | None
    lacked_value: int | None
    bereft: bool = False
    """The partition had permittedly lost records before."""

    @property
    def excuses(self) -> bool:
        """The client left its epoch by itself, or for what nobody could know any more."""
        return self.bereft or self.error.startswith((SKIPPED_AHEAD, TIMED_OUT))

    @property
    def text(self) -> str:
        """Where, and what happened."""
        where = "" if self.topic is None else f"{self.topic}-{self.partition}: "
        if self.error.startswith(SKIPPED_AHEAD):
            failed = self.error.removeprefix(SKIPPED_AHEAD).removeprefix(": ")
            return f"{where}it had itself sent ahead of a batch that had failed ({failed})"
        if self.error.startswith(TIMED_OUT):
            return f"it had itself given up {self.error.removeprefix(TIMED_OUT).removeprefix(': ')}"
        lost = ", where records had been lost that might be" if self.bereft else ""
        return f"{where}{self.error}{lost}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bump:
    """A producer left its epoch.

    Nothing was sent under the old epoch from began_ns on, nothing under the new one before
    begun_ns; where that was not seen it is began_ns.
    """

    client: int
    began_ns: int
    begun_ns: int
    reasons: tuple[Reason, ...]

    @property
    def excuses(self) -> bool:
        """No broker was the reason that should have known better."""
        return all(reason.excuses for reason in self.reasons)

    @property
    def unexcused(self) -> list[tuple[str, int]]:
        """The partitions whose refusals were no client's doing."""
        return [
            (reason.topic, reason.partition)
            for reason in self.reasons
            if not reason.excuses and reason.topic is not None and reason.partition is not None
        ]

    @property
    def text(self) -> str:
        """Who left an epoch when, and why."""
        listed = "; ".join(reason.text for reason in self.reasons[:NAMED])
        more = len(self.reasons) - NAMED
        return (
            f"client {self.client} left its producer epoch at {_seconds(self.began_ns)}, began the "
            f"next at {_seconds(self.begun_ns)} and sent again what was not acknowledged: {listed}"
            + (f"; and {more} more reasons" if more > 0 else "")
        )


def _seconds(at_ns: int) -> str:
    return f"{at_ns / 1e9:.3f} s"


Bereft = Callable[[str, int, int], bool]
"""Whether a partition (topic, number) had permittedly lost records before a moment (ns)."""


def learn_bumps(engine: Engine, history: Frame, bereft: Bereft) -> tuple[Bump, ...]:
    """Every bump in the history, in the order of time."""
    F = engine.functions
    columns = ["op", "client", "invoke_ns", "complete_ns", "topic", "partition", "value", "error"]
    rows = engine.rows(
        history.where(F.col("f") == F.lit(PRODUCER_EPOCH))
        .select(*columns)
        .orderBy("op", "topic", "partition", "error")
    )
    by_op = groupby(rows, key=lambda row: int(row["op"]))
    bumps = [_bump(list(several), bereft) for _, several in by_op]
    return tuple(sorted(bumps, key=lambda bump: (bump.began_ns, bump.client)))


def _bump(rows: Sequence[Mapping[str, Any]], bereft: Bereft) -> Bump:
    first = rows[0]
    ended = first["complete_ns"]
    return Bump(
        client=first["client"],
        began_ns=first["invoke_ns"],
        begun_ns=first["invoke_ns"] if ended is None else ended,
        reasons=tuple(
            Reason(
                error=row["error"] or "no reason told",
                topic=row["topic"],
                partition=row["partition"],
                lacked_value=row["value"],
                bereft=row["topic"] is not None
                and row["partition"] is not None
                and bereft(row["topic"], row["partition"], first["invoke_ns"]),
            )
            for row in rows
        ),
    )


def attribute(engine: Engine, bumps: Sequence[Bump], writes: Frame) -> Frame:
    """Which bump each write was in flight at, the excusing ones first.

    writes: columns op, topic, partition, value, client, invoke_ns, complete_ns. Gives op, topic,
    partition, value, cause_id (index into `bumps`) and aspect: IN_FLIGHT where that excuses; only
    writes that were in flight at some bump.
    """
    F = engine.functions
    key = ["op", "topic", "partition", "value"]
    known = as_frame(engine, _rows(bumps), _SCHEMA)
    pairs = writes.select(*key, "client", "invoke_ns", "complete_ns").join(
        known, on=["client"], how="inner"
    )
    in_flight = (F.col("invoke_ns") < F.col("began_ns")) & (
        F.col("complete_ns").isNull() | (F.col("complete_ns") > F.col("begun_ns"))
    )
    lacked = (
        (F.col("topic") == F.col("refused_topic"))
        & (F.col("partition") == F.col("refused_partition"))
        & (F.col("value") >= F.coalesce(F.col("lacked_value"), F.lit(0)))
    )
    excuses = F.when(F.col("excuses") & ~F.coalesce(lacked, F.lit(False)), F.lit(0))
    rank = F.col("number") + excuses.otherwise(F.lit(_INEXCUSABLE))
    of_each = pairs.where(in_flight).groupBy(*key, "number").agg(F.max(rank).alias("rank"))
    best = of_each.groupBy(*key).agg(F.min("rank").alias("rank"))
    return best.select(
        *key,
        (F.col("rank") % F.lit(_INEXCUSABLE)).cast("int").alias("cause_id"),
        F.when(F.col("rank") < F.lit(_INEXCUSABLE), F.lit(IN_FLIGHT)).alias("aspect"),
    )


def _rows(bumps: Sequence[Bump]) -> Iterable[Mapping[str, Any]]:
    """A row per bump and reason."""
    for number, bump in enumerate(bumps):
        for reason in bump.reasons:
            yield {
                "number": number,
                "client": bump.client,
                "began_ns": bump.began_ns,
                "begun_ns": bump.begun_ns,
                "excuses": bump.excuses,
                "refused_topic": reason.topic,
                "refused_partition": reason.partition,
                "lacked_value": reason.lacked_value,
            }
