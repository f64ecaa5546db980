"""Why a coordinator may have forgotten a commit, a generation, or the result of a transaction.

Each function fills `cause_id` of evidence: the cause that removed committed records of the internal
topic that keeps what was forgotten. It came after the decision and before its loss was seen.
"""

import pyarrow as pa

from checkers.causes.coordinators import forgetting
from checkers.causes.matching import forgotten_between, strongest
from checkers.detectors.lost_markers import holding_up
from checkers.engines.engine import Frame, as_frame, left_join
from checkers.frames.frames import Frames
from checkers.history.history import TP
from checkers.history.settings import FOREVER_NS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC

_CAUSES = pa.schema(
    [
        ("kept_key", pa.string()),
        ("number", pa.int32()),
        ("elected_ns", pa.int64()),
        ("until_ns", pa.int64()),
        ("strength", pa.int32()),
    ]
)


def with_lost_state(
    frames: Frames, evidence: Frame, key: list[str], *, of_transactions: bool = False
) -> Frame:
    """Fill `cause_id` of evidence about groups.

    evidence: the columns `key`, group, since_ns (the coordinator had made its decision, or made it
    later), seen_ns (the decision is not known any more); with of_transactions also transactional_id
    (null: none), whose coordinator may have forgotten the decision instead.
    """
    F = frames.engine.functions
    sources = [(OFFSETS_TOPIC, "group")]
    if of_transactions:
        sources.append((TRANSACTIONS_TOPIC, "transactional_id"))
    found = [
        _first_causes(
            frames, topic,
            evidence.select(*key, F.col(name).alias("kept_key"), "since_ns", "seen_ns"), key,
        )
        for topic, name in sources
    ]  # fmt: skip
    known = [each for each in found if each is not None]
    if not known:
        return evidence
    united = frames.engine.materialize(*known).groupBy(*key)
    united = frames.engine.materialize(united.agg(F.min("cause_id").alias("cause_id")))
    return left_join(frames.engine.materialize(evidence), united, on=key)


def with_lost_transactions(frames: Frames, evidence: Frame) -> Frame:
    """Return evidence about sends with another `cause_id` where nothing took committed records of
    their own partition, and the coordinator of their transaction may have forgotten it.

    evidence: op, topic, partition, invoke_ns, and perhaps cause_id and since_ns. The loss counts if
    it came after since_ns (default: the send), and before the final read of the partition.
    """
    F, engine = frames.engine.functions, frames.engine
    names = frames.history.where(
        (F.col("f") == F.lit("send")) & F.col("transactional_id").isNotNull()
    ).select("op", F.col("transactional_id").alias("kept_key"))
    since = "since_ns" if "since_ns" in evidence.columns else "invoke_ns"
    ours = evidence.select("op", *TP, F.col(since).alias("since_ns"))
    cases = engine.materialize(ours.join(names, on="op", how="inner"))
    if engine.is_empty(cases):
        return evidence
    cases = left_join(cases, frames.complete.select(*TP, "read_ns"), on=TP)
    seen = F.coalesce("read_ns", F.lit(FOREVER_NS)).alias("seen_ns")
    cases = cases.select("op", *TP, "kept_key", "since_ns", seen)
    found = _first_causes(frames, TRANSACTIONS_TOPIC, cases, ["op", *TP])
    if found is None:
        return evidence
    found = found.withColumnRenamed("cause_id", "forgotten")
    joined = left_join(engine.materialize(evidence), engine.materialize(found), on=["op", *TP])
    if "cause_id" not in evidence.columns:
        return joined.withColumnRenamed("forgotten", "cause_id")
    enough = taking_committed(frames, evidence)
    cause = F.when(F.col("cause_id").isin(*enough), F.col("cause_id")).otherwise(
        F.coalesce("forgotten", "cause_id")
    )
    return joined.withColumn("cause_id", cause).drop("forgotten")


def since_last_kept(frames: Frames, missing: Frame) -> Frame:
    """Return sends that the final log lacks with since_ns: the last earlier send of their
    transactional id to the partition that is in the final log, else the first earlier one, else the
    send itself. Only sends of other transactions count.

    A coordinator that lost the latest epochs of a producer gives them again. A broker then takes
    the first batch of such an epoch for the batch that it has of it, and answers with that offset
    (KIP-98). After the next batch that it appends it does not.

    missing: op, topic, partition, invoke_ns.
    """
    F, engine = frames.engine.functions, frames.engine
    names = frames.history.where(
        (F.col("f") == F.lit("send")) & F.col("transactional_id").isNotNull()
    ).select("op", "txn", "transactional_id")
    ours = engine.materialize(missing.select("op", *TP).join(names, on="op", how="inner"))
    if engine.is_empty(ours):
        return missing
    place = ["transactional_id", *TP]
    sends = frames.send_outcomes.select("op", *TP, "invoke_ns", "final_offset")
    sends = sends.join(names, on="op", how="inner")
    sends = sends.join(ours.select(*place).distinct(), on=place, how="left_semi")
    kept_ns = F.when(F.col("final_offset").isNotNull(), F.col("invoke_ns"))
    transactions = engine.materialize(
        sends.groupBy(*place, "txn").agg(
            F.min("invoke_ns").alias("begun_ns"), F.max(kept_ns).alias("kept_ns")
        )
    )
    window = engine.window
    order = window.partitionBy(*place).orderBy("begun_ns", "txn")
    before = order.rowsBetween(window.unboundedPreceding, -1)
    earlier_ns = F.coalesce(F.max("kept_ns").over(before), F.min("begun_ns").over(before))
    known = engine.materialize(transactions.select(*place, "txn", earlier_ns.alias("earlier_ns")))
    found = ours.join(known, on=[*place, "txn"], how="inner").select("op", *TP, "earlier_ns")
    dated = left_join(engine.materialize(missing), engine.materialize(found), on=["op", *TP])
    since = F.coalesce("earlier_ns", "invoke_ns").alias("since_ns")
    return dated.select(*missing.columns, since)


def with_forgotten_transactions(frames: Frames, reads: Frame) -> Frame:
    """Fill `cause_id` of final reads that a transaction holds up: the coordinator of a transaction
    in the partition may have forgotten it, or the partition may have lost its marker
    (`holding_up`). reads: op, topic, partition, offset, complete_ns."""
    F, engine = frames.engine.functions, frames.engine
    sends = frames.history.where(
        (F.col("f") == F.lit("send")) & F.col("transactional_id").isNotNull()
    )
    begun = sends.groupBy(*TP, "transactional_id").agg(F.min("invoke_ns").alias("since_ns"))
    begun = engine.materialize(begun.withColumnRenamed("transactional_id", "kept_key"))
    cases = reads.select("op", *TP, F.col("complete_ns").alias("seen_ns"))
    cases = engine.materialize(cases.join(begun, on=TP, how="inner"))
    found = _first_causes(frames, TRANSACTIONS_TOPIC, cases, ["op", *TP])
    unmarked = holding_up(frames, reads)
    if found is None or unmarked is None:
        only = unmarked if found is None else found
        return reads if only is None else left_join(reads, only, on=["op", *TP])
    unmarked = unmarked.withColumnRenamed("cause_id", "unmarked")
    both = left_join(engine.materialize(left_join(reads, found, on=["op", *TP])), unmarked,
                     on=["op", *TP])  # fmt: skip
    return both.withColumn("cause_id", F.coalesce("cause_id", "unmarked")).drop("unmarked")


def taking_committed(frames: Frames, evidence: Frame) -> list[int]:
    """Return the causes in evidence that took committed records; never an empty list."""
    named = frames.engine.rows(evidence.select("cause_id").distinct())
    numbers = [row["cause_id"] for row in named if row["cause_id"] is not None]
    return [-1, *(n for n in numbers if frames.took_committed(frames.explanations[n].judged))]


def _first_causes(frames: Frames, topic: str, cases: Frame, key: list[str]) -> Frame | None:
    """Return `key`, cause_id of the cases that a cause explains; None without any. cases: `key`,
    kept_key, since_ns, seen_ns."""
    F, engine = frames.engine.functions, frames.engine
    concerned = F.col("kept_key").isNotNull() & F.col("since_ns").isNotNull()
    keys = engine.rows(cases.where(concerned).select("kept_key").distinct())
    rows = [
        {
            "kept_key": each["kept_key"], "number": number, "strength": cause.strength,
            "elected_ns": cause.elected_ns, "until_ns": cause.until_ns,
        }
        for each in keys
        for number in forgetting(frames.causes, frames.took_committed, topic, each["kept_key"])
        for cause in [frames.causes.causes[number]]
    ]  # fmt: skip
    if not rows:
        return None
    pairs = cases.join(as_frame(engine, rows, _CAUSES), on="kept_key", how="inner")
    return engine.materialize(strongest(engine, pairs.where(forgotten_between(engine)), key))
