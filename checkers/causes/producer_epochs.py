"""Producer epochs that clients left, and the writes that were in flight then.

An idempotent producer may leave its epoch by itself, for all its partitions at once, and send all
unacknowledged writes again. Writes that were appended under the old epoch are then in the log
twice, and no broker can know it (KIP-98 promises no duplicates within an epoch; librdkafka issue
4953). That excuses a duplicate only if all of the following hold:

- The producer recorded that it left an epoch while the write was in flight: begun before, and not
  completed.
- Every recorded reason is on the client's side: the client had given up writes after its own
  time-out; or the client had sent more behind a failed batch, and the broker refused those, as it
  must; or the refusing partition had lost records with permission, and the producer's state with
  them; or a leader that may not have known the producer had accepted a later batch first (KIP-360),
  and had to refuse the one before.
- The write is not one that the refusing broker lacked: the failed batch and all later batches in
  that partition. If the broker had these writes, the refusal was its fault. Only what was accepted
  first, by a leader that may not have known the producer, was there with right.

Producers leave epochs seldom, so their rows are read here in plain Python; writes are joined with
them inside the engine. The contract decides whether an excuse permits a duplicate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from checkers.engines.engine import Engine, Frame, as_frame, left_join
from checkers.history.history import PRODUCER_EPOCH, REFUSED_HEAD, SKIPPED_AHEAD, TIMED_OUT
from checkers.history.recorded_faults import seconds

IN_FLIGHT = "client-epoch"
"""The aspect of a duplicate that the client's new producer epoch excuses."""

NAMED = 3
"""How many reasons of one epoch bump are written out."""

_INEXCUSABLE = 1 << 20
"""More epoch bumps than any run has; bumps that excuse nothing rank behind this number."""

_SCHEMA = pa.schema(
    [
        ("number", pa.int32()),
        ("client", pa.int32()),
        ("began_ns", pa.int64()),
        ("begun_ns", pa.int64()),
        ("excuses", pa.bool_()),
        ("here_alone", pa.bool_()),
        ("refused_topic", pa.string()),
        ("refused_partition", pa.int32()),
        ("lacked_value", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why an epoch was left. topic, partition, lacked_value: of a batch that was refused."""

    error: str
    topic: str | None
    partition: int | None
    lacked_value: int | None
    lost_records: bool = False
    """The partition had lost records before, with permission."""
    overtaken: bool = False
    """A later batch had been accepted before, by a leader that may not have known the client."""

    @property
    def refused_head(self) -> bool:
        """The batch was refused although it was the next one."""
        return self.error.startswith(REFUSED_HEAD)

    @property
    def timed_out(self) -> bool:
        """The client had given up writes."""
        return self.error.startswith(TIMED_OUT)

    @property
    def excuses(self) -> bool:
        """The client left its epoch by itself, or because the broker had lost its state, or may not
        have had any of it.
        """
        own = self.timed_out or self.error.startswith(SKIPPED_AHEAD)
        return own or self.lost_records or self.overtaken

    @property
    def here_alone(self) -> bool:
        """It excuses nothing in other partitions: the client that names the broker's answer behind
        REFUSED_HEAD leaves its epoch in one partition only.
        """
        return self.overtaken and not self.lost_records and self.error != REFUSED_HEAD

    @property
    def text(self) -> str:
        """The partition, and what happened there."""
        where = "" if self.topic is None else f"{self.topic}-{self.partition}: "
        if self.error.startswith(SKIPPED_AHEAD):
            failed = self.error.removeprefix(SKIPPED_AHEAD).removeprefix(": ")
            return f"{where}the client had sent more behind a batch that failed ({failed})"
        if self.timed_out:
            gave_up = self.error.removeprefix(TIMED_OUT).removeprefix(": ")
            return f"the client had given up {gave_up}"
        why = ""
        if self.lost_records:
            why = ", a partition that had lost records with permission"
        elif self.overtaken:
            why = ", by a leader that may not have known the client when a later batch came first"
        return f"{where}{self.error}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBump:
    """A producer left its epoch.

    began_ns: from then on nothing was sent under the old epoch. begun_ns: before that nothing was
    sent under the new epoch (began_ns if not seen).
    """

    client: int
    began_ns: int
    begun_ns: int
    reasons: tuple[Reason, ...]

    @property
    def excuses(self) -> bool:
        """No reason was the fault of a broker."""
        return all(reason.excuses for reason in self.reasons)

    @property
    def unexcused(self) -> list[tuple[str, int]]:
        """The partitions that refused batches without the client's fault."""
        return [
            (reason.topic, reason.partition)
            for reason in self.reasons
            if not reason.excuses and reason.topic is not None and reason.partition is not None
        ]

    @property
    def text(self) -> str:
        """Which client left an epoch, when and why."""
        listed = "; ".join(reason.text for reason in self.reasons[:NAMED])
        more = len(self.reasons) - NAMED
        return (
            f"Client {self.client} left its producer epoch at {seconds(self.began_ns)}, began the "
            f"next one at {seconds(self.begun_ns)}, and sent its unacknowledged writes again. "
            f"Reason: {listed}" + (f"; and {more} more reasons" if more > 0 else "") + "."
        )


def read_bumps(engine: Engine, history: Frame) -> tuple[EpochBump, ...]:
    """Return every epoch bump in the history, in the order of time, as the clients recorded it."""
    F = engine.functions
    columns = ["op", "client", "invoke_ns", "complete_ns", "topic", "partition", "value", "error"]
    rows = engine.rows(
        history.where(F.col("f") == F.lit(PRODUCER_EPOCH))
        .select(*columns)
        .orderBy("op", "topic", "partition", "error")
    )
    by_op = groupby(rows, key=lambda row: int(row["op"]))
    bumps = [_bump(list(several)) for _, several in by_op]
    return tuple(sorted(bumps, key=lambda bump: (bump.began_ns, bump.client)))


def _bump(rows: Sequence[Mapping[str, Any]]) -> EpochBump:
    first = rows[0]
    ended = first["complete_ns"]
    return EpochBump(
        client=first["client"],
        began_ns=first["invoke_ns"],
        begun_ns=first["invoke_ns"] if ended is None else ended,
        reasons=tuple(
            Reason(
                error=row["error"] or "no reason recorded",
                topic=row["topic"],
                partition=row["partition"],
                lacked_value=row["value"],
            )
            for row in rows
        ),
    )


def attribute(
    engine: Engine, bumps: Sequence[EpochBump], writes: Frame, overtaking: Frame | None
) -> Frame:
    """Find the epoch bump during which each write was in flight; bumps that excuse come first.

    writes: columns op, topic, partition, value, client, invoke_ns, complete_ns. overtaking: number
    (index into `bumps`), op of the writes that may have been accepted first; None without any.
    Returns only writes that were in flight during some bump, with op, topic, partition, value,
    cause_id (index into `bumps`) and aspect (IN_FLIGHT if the bump excuses the write).
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
    pairs = pairs.where(in_flight)
    if overtaking is None:
        pairs = pairs.withColumn("first", F.lit(None).cast("int"))
    else:
        first = overtaking.select("number", "op", F.lit(1).alias("first")).distinct()
        pairs = left_join(engine.materialize(pairs), engine.materialize(first), ["number", "op"])
    here = F.col("topic") == F.col("refused_topic")
    here = F.coalesce(here & (F.col("partition") == F.col("refused_partition")), F.lit(False))
    lacked = F.col("value") >= F.coalesce(F.col("lacked_value"), F.lit(0))
    lacked = (here & lacked & F.col("first").isNull()) | (F.col("here_alone") & ~here)
    excuses = F.when(F.col("excuses") & ~lacked, F.lit(0))
    rank = F.col("number") + excuses.otherwise(F.lit(_INEXCUSABLE))
    of_each = pairs.groupBy(*key, "number").agg(F.max(rank).alias("rank"))
    best = of_each.groupBy(*key).agg(F.min("rank").alias("rank"))
    return best.select(
        *key,
        (F.col("rank") % F.lit(_INEXCUSABLE)).cast("int").alias("cause_id"),
        F.when(F.col("rank") < F.lit(_INEXCUSABLE), F.lit(IN_FLIGHT)).alias("aspect"),
    )


def _rows(bumps: Sequence[EpochBump]) -> Iterable[Mapping[str, Any]]:
    """A row per bump and reason."""
    for number, bump in enumerate(bumps):
        for reason in bump.reasons:
            yield {
                "number": number,
                "client": bump.client,
                "began_ns": bump.began_ns,
                "begun_ns": bump.begun_ns,
                "excuses": bump.excuses,
                "here_alone": reason.here_alone,
                "refused_topic": reason.topic,
                "refused_partition": reason.partition,
                "lacked_value": reason.lacked_value,
            }
