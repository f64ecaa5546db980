"""Which recorded cause explains which row of evidence: joins of rows with `Causes.rows()`.

A cause is chosen by a rank, of which the least is taken: its strength (of what a leader alone had:
where the cause may have come before the write), its place in the chain of elections, its strength
where the leader alone had the write, and its number.
"""

from checkers.engine import Engine, Frame

TP = ["topic", "partition"]

PLACES = (1 << 20) + 1
"""Places in the chain of elections: as many as `causes.LAST_EPOCH` and 0."""

NUMBERS = 1 << 31
"""More causes than any run has."""


def first_cause(engine: Engine, causes: Frame, evidence: Frame) -> Frame:
    """op, topic, partition, value, cause_id of the rows of `evidence` that some cause explains.

    evidence: columns op, topic, partition, value, offset, acks, invoke_ns, complete_ns,
    leader_epoch, node; of reads also written_ns, when the earlier of what was read was sent (if
    that is known, and before invoke_ns): a state loss may come between the two. A row with an
    offset is explained by the first election whose leader starts at or below it, or after which
    nothing is left of its predecessor's reign, and whose predecessor may still have answered when
    the operation began. What acks=all acknowledged, and what was read, is explained by the
    strongest such cause: a deposed leader can have answered neither. What acks=1 acknowledged, by
    a loss of that leader's own, if offsets do not tell it from others, or if another's may have
    come before the write. A row without an offset is explained by time alone: by what was near, and
    where it was acknowledged by a state loss however much later.
    """
    F = engine.functions
    key = ["op", *TP, "value"]
    columns = ["offset", "acks", "invoke_ns", "complete_ns", "leader_epoch", "node"]
    was_there_ns = F.col("invoke_ns")
    if "written_ns" in evidence.columns:
        columns.append("written_ns")
        late = ~F.col("of_state") | (F.col("near_until_ns") < F.col("invoke_ns"))
        was_there_ns = F.when(late, F.col("invoke_ns")).otherwise(F.col("written_ns"))
    pairs = evidence.select(*key, *columns).join(causes, on=TP, how="inner")
    beyond = F.col("start_offset") <= F.col("offset")
    vanished = F.col("vanished_ns") <= F.col("complete_ns")
    until_ns = F.when(F.col("node") != F.col("deposed"), F.col("others_until_ns")).otherwise(
        F.col("until_ns")
    )
    by_offset = (
        F.col("offset").isNotNull()
        & (beyond | F.coalesce(vanished, F.lit(False)))
        & (was_there_ns <= until_ns)
        & (F.col("leader_epoch").isNull() | (F.col("leader_epoch") < F.col("epoch")))
        & (
            F.col("node").isNull()
            | (F.col("node") != F.col("leader"))
            | (F.col("invoke_ns") <= F.col("elected_ns"))
        )
    )
    by_time = (
        F.col("offset").isNull()
        & (F.col("from_ns") <= F.col("invoke_ns"))
        & (F.col("invoke_ns") <= F.col("near_until_ns"))
    )
    # A batch that a leader knew already is acknowledged without its offset.
    nearby = (F.col("acks") == F.lit(0)) | ~F.col("of_state")
    by_reach = (
        F.col("offset").isNull()
        & F.col("of_state")
        & (F.col("acks") != F.lit(0))
        & (F.col("invoke_ns") <= F.col("until_ns"))
    )
    strength = F.when(F.col("acks") == F.lit(-1), F.col("strength")).otherwise(F.lit(0))
    chain = F.when(by_offset, F.col("chain")).otherwise(F.lit(0)).cast("bigint")
    alone = F.when(F.col("acks") == F.lit(1), F.col("strength_alone")).otherwise(F.lit(0))
    doubtful = F.when(F.col("elected_ns") < F.col("complete_ns"), alone).otherwise(F.lit(0))
    place = ((strength + doubtful) * F.lit(PLACES) + chain) * F.lit(2) + alone
    rank = place * F.lit(NUMBERS) + F.col("number")
    return (
        pairs.where(by_offset | (by_time & nearby) | by_reach)
        .groupBy(*key)
        .agg((F.min(rank) % F.lit(NUMBERS)).cast("int").alias("cause_id"))
    )


def first_change(
    engine: Engine, causes: Frame, evidence: Frame, since: str, up_to: str | None
) -> Frame:
    """op, topic, partition, cause_id: the first change of leadership around a row's `invoke_ns`, or
    from the column `since` on; of those into epochs beyond the column `up_to`, if known, none.

    evidence: columns op, topic, partition, invoke_ns, at most one row per op and partition.
    """
    F = engine.functions
    key = ["op", *TP]
    near = (F.col("from_ns") <= F.col("invoke_ns")) & (F.col(since) <= F.col("near_until_ns"))
    if up_to is not None:
        near = near & F.coalesce(F.col("epoch") <= F.col(up_to), F.lit(True))
    rank = F.col("strength").cast("bigint") * F.lit(NUMBERS) + F.col("number")
    return (
        evidence.select(*dict.fromkeys([*key, "invoke_ns", since, *filter(None, [up_to])]))
        .join(causes, on=TP, how="inner")
        .where(near & F.col("epoch").isNotNull())
        .groupBy(*key)
        .agg((F.min(rank) % F.lit(NUMBERS)).cast("int").alias("cause_id"))
    )
