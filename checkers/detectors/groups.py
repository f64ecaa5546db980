"""Did the committed offsets of groups hold, and did each member act only for its own generation?

Rows of a group are its members' rebalance callbacks (assigned, revoked, lost), the acknowledged
commits, and the offsets that the coordinator has after the run.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from checkers.causes.cause import SLACK_NS
from checkers.contract.conditions import (
    IN_TRANSACTION,
    MEMBER_CUT,
    REFUSED_COMMIT,
    SENT_AGAIN,
    WENT_BACK,
)
from checkers.contract.processing_rules import LOST_COMMIT, PHANTOM_COMMIT
from checkers.detectors.durability import cut_clients
from checkers.detectors.forgotten import with_lost_state
from checkers.detectors.proved_commits import with_proofs
from checkers.engines.engine import Frame, as_frame, left_join
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.frames.ownership import ASSIGNED
from checkers.history.history import TP
from checkers.history.plan_file import IMPORTED
from checkers.history.recorded_faults import read_fault
from checkers.history.settings import FOREVER_NS, TRANSACTIONS_TOPIC, repeating_groups

STALE: Final = "stale-commit"
NOTHING: Final = -1
_GROUP: Final = ["group", *TP]
_AGAIN: Final = pa.schema(
    [
        ("op", pa.int64()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("again", pa.bool_()),
    ]
)


def _commits(frames: Frames) -> Frame:
    """Every commit that may have happened."""
    F = frames.engine.functions
    rows = frames.rare_rows
    return rows.where((F.col("f") == F.lit("offset-commit")) & (F.col("type") != F.lit("fail")))


def lost_commits(frames: Frames) -> Iterator[Frame]:
    """kind lost-commit: a group's position is below an offset whose commit had been acknowledged,
    and no commit of that lower position can explain it (a commit that did not end before the
    acknowledged one began).

    offset: the position (-1: the coordinator has none); other_offset: the greatest acknowledged
    offset above it. aspect final: the coordinator's answer after the run; assigned: the position
    from which a member went on; sent-again: either, if the client may have sent the commit of that
    position twice, and the first request may have arrived last. For aspect final a commit in a
    transaction counts as acknowledged, too, if the final log proves that it was committed.
    """
    F, engine = frames.engine.functions, frames.engine
    seen = frames.rare_rows.where(F.col("f").isin("final-committed", "assigned"))
    is_final = F.col("f") == F.lit("final-committed")
    known = is_final | (F.col("offset") >= F.lit(0))
    seen = seen.where((F.col("type") == F.lit("ok")) & known)
    seen = engine.materialize(
        seen.select(
            "op", "client", *_GROUP, "invoke_ns", "complete_ns",
            F.coalesce(F.col("offset"), F.lit(NOTHING)).alias("offset"),
            F.when(is_final, F.lit("final")).otherwise(F.lit("assigned")).alias("aspect"),
        )
    )  # fmt: skip
    commits = engine.materialize(
        _commits(frames).select(
            *_GROUP, "type", "txn", "transactional_id",
            F.col("offset").alias("committed"),
            F.col("invoke_ns").alias("begun_ns"),
            F.coalesce(F.col("complete_ns"), F.lit(FOREVER_NS)).alias("ended_ns"),
        )
    )  # fmt: skip
    commits = with_proofs(frames, commits)
    pairs = seen.join(commits, on=_GROUP, how="inner")
    before = F.col("begun_ns") < F.coalesce(F.col("complete_ns"), F.lit(FOREVER_NS))
    above = (F.col("type") == F.lit("ok")) & (F.col("ended_ns") < F.col("invoke_ns"))
    proved = (F.col("aspect") == F.lit("final")) & (F.col("asked_ns") < F.col("invoke_ns"))
    above = (above | proved) & (F.col("committed") > F.col("offset"))
    equal = before & (F.col("committed") == F.col("offset"))
    summed = pairs.groupBy("op", *_GROUP).agg(
        F.max(F.when(above, F.col("begun_ns"))).alias("acknowledged_ns"),
        F.max(F.when(above, F.col("committed"))).alias("other_offset"),
        F.max(F.when(equal, F.col("ended_ns"))).alias("explained_ns"),
    )
    lost = summed.where(
        F.coalesce("explained_ns", F.lit(-1)) < F.coalesce("acknowledged_ns", F.lit(-1))
    ).select("op", *_GROUP, "other_offset", F.col("acknowledged_ns").alias("since_ns"))
    found = frames.none_if_empty(seen.join(lost, on=["op", *_GROUP], how="inner"))
    if found is not None:
        known = (F.col("type") == F.lit("ok")) | F.col("asked_ns").isNotNull()
        ids = commits.where(known).groupBy(*_GROUP, "begun_ns")
        ids = ids.agg(F.min("transactional_id").alias("transactional_id"))
        ids = engine.materialize(ids.withColumnRenamed("begun_ns", "since_ns"))
        found = left_join(found, ids, on=[*_GROUP, "since_ns"])
        found = found.withColumn("seen_ns", F.coalesce("complete_ns", F.lit(FOREVER_NS)))
        found = _with_commits_sent_again(frames, engine.materialize(found), commits)
        found = with_lost_state(frames, found, ["op", *_GROUP], of_transactions=True)
        yield evidence(engine, found, kind=F.lit(LOST_COMMIT))


def _with_commits_sent_again(frames: Frames, found: Frame, commits: Frame) -> Frame:
    """Set the aspect of lost commits that a commit sent twice explains: a fault held up requests
    while the client waited for its answer, and until the acknowledged one above it began."""
    F, engine = frames.engine.functions, frames.engine
    faults = [fault for row in frames.fault_rows if (fault := read_fault(row)) is not None]
    holding = [fault for fault in faults if fault.holds_up]
    repeating = repeating_groups(frames.plan)
    if not holding or not repeating:
        return found
    sent = commits.where(F.col("type") == F.lit("ok")).drop("transactional_id")
    pairs = found.select("op", *_GROUP, "offset", "since_ns").join(sent, on=_GROUP, how="inner")
    pairs = pairs.where(
        (F.col("committed") == F.col("offset")) & F.col("group").isin(*sorted(repeating))
    )
    again = {
        tuple(row[name] for name in ("op", *_GROUP))
        for row in engine.rows(pairs)
        if any(
            fault.started_ns < row["ended_ns"]
            and row["begun_ns"] < fault.healed_ns
            and row["since_ns"] <= fault.healed_ns + SLACK_NS
            for fault in holding
        )
    }
    if not again:
        return found
    rows = [{**dict(zip(_AGAIN.names, key, strict=False)), "again": True} for key in sorted(again)]
    marked = left_join(found, as_frame(engine, rows, _AGAIN), on=["op", *_GROUP])
    aspect = F.when(F.col("again").isNotNull(), F.lit(SENT_AGAIN)).otherwise(F.col("aspect"))
    return engine.materialize(marked.withColumn("aspect", aspect).drop("again"))


def stale_commits(frames: Frames) -> Iterator[Frame]:
    """kind stale-commit: a commit was acknowledged although the partition had been assigned to
    another member in a later generation (other_op) before the commit began.

    aspect generation-went-back: the member got the partition after that other member, so the
    coordinator has forgotten generations; transaction: the commit was sent in a transaction.
    """
    F, engine = frames.engine.functions, frames.engine
    commits = _commits(frames).where(
        (F.col("type") == F.lit("ok")) & F.col("generation").isNotNull()
    )
    commits = commits.select(
        "op", "client", *_GROUP, "offset", "generation", "invoke_ns", "complete_ns", "txn"
    )
    assigned = frames.rare_rows.where(F.col("f") == F.lit("assigned")).select(
        *_GROUP,
        F.col("client").alias("other_client"),
        F.col("generation").alias("other_generation"),
        F.col("complete_ns").alias("assigned_ns"),
        F.col("op").alias("other_op"),
    )
    pairs = commits.join(assigned, on=_GROUP, how="inner")
    pairs = pairs.where(F.col("assigned_ns") <= F.col("invoke_ns"))
    own = F.col("other_client") == F.col("client")
    before = F.col("assigned_ns") < F.col("invoke_ns")
    later = (F.col("other_generation") > F.col("generation")) & ~own & before
    newer = pairs.groupBy("op", *_GROUP).agg(
        F.min(F.when(later, F.col("other_op"))).alias("other_op"),
        F.max(F.when(later, F.col("assigned_ns"))).alias("other_ns"),
        F.max(F.when(own, F.col("assigned_ns"))).alias("own_ns"),
    )
    newer = frames.none_if_empty(newer.where(F.col("other_op").isNotNull()))
    if newer is not None:
        found = commits.join(newer, on=["op", *_GROUP], how="inner")
        aspect = F.when(F.col("own_ns") > F.col("other_ns"), F.lit(WENT_BACK))
        aspect = aspect.when(F.col("txn").isNotNull(), F.lit(IN_TRANSACTION))
        found = found.withColumn("aspect", aspect).withColumn("seen_ns", F.col("complete_ns"))
        # The generation was written before the other member knew it.
        found = found.withColumn("since_ns", F.col("other_ns") - F.lit(SLACK_NS))
        found = with_lost_state(frames, found, ["op", *_GROUP])
        yield evidence(engine, found, kind=F.lit(STALE))


def phantom_commits(frames: Frames) -> Iterator[Frame]:
    """kind phantom-commit: after the run the coordinator has an offset that nobody committed.

    aspect refused: there were commits of it, and each was surely refused (other_op: the first one);
    transaction: the same, and one was sent in a transaction, which was not committed; member-cut:
    the record of a member ends before the member did, so its last commit may be missing. Groups
    without any commit are not judged, nor other tools' histories, which may lack commits that
    clients made by themselves. Before transaction version 2 a delayed request may make the offsets
    of an aborted transaction a part of the next one (KIP-890), so they may count then.
    """
    if IMPORTED in frames.plan:
        return
    F, engine = frames.engine.functions, frames.engine
    rows = frames.rare_rows
    commits = rows.where((F.col("f") == F.lit("offset-commit")) & F.col("group").isNotNull())
    commits = commits.select(
        *_GROUP, "type", "offset", "transactional_id",
        F.col("op").alias("other_op"),
        F.col("invoke_ns").alias("begun_ns"),
    )  # fmt: skip
    told = rows.where((F.col("f") == F.lit("final-committed")) & (F.col("type") == F.lit("ok")))
    told = told.where(F.col("offset") >= F.lit(0))
    told = told.select("op", "client", *_GROUP, "offset", "invoke_ns", "complete_ns")
    told = told.join(commits.select("group").distinct(), on="group", how="left_semi")
    place = [*_GROUP, "offset"]
    late = frames.settings(TRANSACTIONS_TOPIC).transaction_version < 2 and frames.delays
    possible = F.col("type") != F.lit("fail")
    if late:
        possible = possible | F.col("transactional_id").isNotNull()
    made = commits.where(possible).select(*place).distinct()
    found = frames.none_if_empty(told.join(engine.materialize(made), on=place, how="left_anti"))
    if found is None:
        return
    refused = engine.materialize(
        commits.where(F.col("type") == F.lit("fail"))
        .groupBy(*place)
        .agg(
            F.min("other_op").alias("other_op"),
            F.min("begun_ns").alias("since_ns"),
            F.min("transactional_id").alias("transactional_id"),
        )
    )
    found = left_join(found, refused, on=place)
    found = left_join(engine.materialize(found), _cut_groups(frames), on=["group"])
    aspect = F.when(F.col("cut").isNotNull(), F.lit(MEMBER_CUT))
    aspect = aspect.when(F.col("transactional_id").isNotNull(), F.lit(IN_TRANSACTION))
    aspect = aspect.when(F.col("other_op").isNotNull(), F.lit(REFUSED_COMMIT))
    found = found.withColumn("aspect", aspect).withColumn("seen_ns", F.col("complete_ns"))
    found = engine.materialize(found)
    found = with_lost_state(frames, found, ["op", *_GROUP], of_transactions=True)
    yield evidence(engine, found, kind=F.lit(PHANTOM_COMMIT))


def _cut_groups(frames: Frames) -> Frame:
    """Return group, cut (1) of every group with a member without an end."""
    F, engine = frames.engine.functions, frames.engine
    acts = F.col("f").isin(ASSIGNED, "offset-commit") & F.col("group").isNotNull()
    members = frames.rare_rows.where(acts).select("client", "group")
    cut = members.join(cut_clients(frames), on="client", how="left_semi")
    cut = cut.select("group").distinct()
    return engine.materialize(cut.withColumn("cut", F.lit(1)))
