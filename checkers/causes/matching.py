"""Which recorded cause explains which row of evidence: joins of rows with `Causes.rows()`.

If several causes are possible, all of them are named. The contract judges the cause of the lowest
rank. The rank consists of the cause's strength (for a write that only its leader had: only if the
cause may have come before the write), its place in the chain of elections, its strength for a write
that only its leader had, and its number.
"""

from collections.abc import Sequence

from checkers.causes.leadership_terms import LAST_EPOCH
from checkers.causes.state_loss import VIEW_SLACK_NS
from checkers.engines.engine import Column, Engine, Frame, listed
from checkers.history.history import TP

PLACES = (1 << 20) + 1
"""Places in the chain of elections: as many as `causes.LAST_EPOCH` and 0."""

_NUMBERS = 1 << 31
"""More causes than any run has."""

CLEAN = 3
"""The strength of a clean election."""

MARKER, NEXT_NS = "marker_until", "next_ns"
"""Columns of evidence: see `possible_causes`."""
STAYED = ("kept_offset", "seen_ns")
"""Columns of evidence: see `possible_causes`."""
NEIGHBOURS = ("after_offset", "before_offset")
"""Columns of evidence: see `possible_causes`."""


def possible_causes(engine: Engine, causes: Frame, evidence: Frame) -> Frame:
    """Return op, topic, partition, value, cause_id, possible of the rows of `evidence` that some
    cause explains. possible: all causes that the record does not distinguish, as `3,17`. cause_id:
    the best of them for the contract.

    evidence: columns op, topic, partition, value, offset, acks, invoke_ns, complete_ns,
    leader_epoch, node. Reads also have written_ns: when the record was sent (if that is known, and
    before invoke_ns); the cause may come between the two. Sends also have after_offset and
    before_offset: where in the final log the nearest records are that the same client sent before
    and after. Writes in transactions also have marker_until: the greatest offset at which the
    marker may have been, if the producer's next transaction was written behind it; and next_ns:
    when that next transaction's writes were over. Rows about a record that stayed while the marker
    behind it was lost have kept_offset: where the record is, so the loss began above; and seen_ns:
    when the loss was seen.

    Offset: a row with an offset is explained by elections whose leader epoch starts at or below the
    offset, or after which nothing of the old leader's terms is left. The old leader must be able to
    have answered when the operation began; an acks=1 write it answered while its process lived. A
    read of what an election from outside the in-sync replicas, or a state loss, has taken may be
    answered by any leader before that does not know of its successor.
    Among these elections count the first one of which the final log has records, and those before
    it, of which the final log has none.

    Best cause: acks=all writes and reads are explained best by the strongest cause, because a
    deposed leader can have answered neither. An acks=1 write is explained best by a loss of its own
    leader, if offsets do not distinguish causes, or if another cause may have come before the
    write.

    Time: a row without an offset is explained by time alone, by a cause near it; if the row was
    acknowledged, a state loss may come any time later. A lost acks=0 write is explained by a cause
    `_between` its neighbours.
    """
    F = engine.functions
    key = ["op", *TP, "value"]
    columns = ["offset", "acks", "invoke_ns", "complete_ns", "leader_epoch", "node"]
    optional = ("written_ns", MARKER, NEXT_NS, *STAYED, *NEIGHBOURS)
    columns += [name for name in optional if name in evidence.columns]
    pairs = evidence.select(*key, *columns).join(causes, on=TP, how="inner")
    unacknowledged = F.coalesce(
        F.col("offset").isNull() & (F.col("acks") == F.lit(0)), F.lit(False)
    )
    by_place = _by_offset(engine, evidence.columns) | (~unacknowledged & _by_time(engine))
    by_place = by_place | (unacknowledged & _between(engine, evidence.columns))
    strength = F.when(F.col("acks") == F.lit(-1), F.col("strength")).otherwise(F.lit(0))
    alone = F.when(F.col("acks") == F.lit(1), F.col("strength_alone")).otherwise(F.lit(0))
    doubtful = F.when(F.col("elected_ns") < F.col("complete_ns"), alone).otherwise(F.lit(0))
    chain = F.when(F.col("offset").isNotNull(), F.col("chain")).otherwise(F.lit(0)).cast("bigint")
    place = (strength + doubtful) * F.lit(PLACES) + chain
    late = F.when(unacknowledged & (F.col("felt_until_ns") < F.col("invoke_ns")), F.lit(1))
    late = late.when(unacknowledged & F.col("only_delays"), F.lit(2))
    if set(NEIGHBOURS) <= set(evidence.columns):
        # The same client had already sent to that node, perhaps because it had led before.
        late = late.when(unacknowledged & (F.col("start_offset") <= F.col(NEIGHBOURS[0])), F.lit(1))
    # Committed records survive a clean election.
    clean = (F.col("acks") == F.lit(-1)) & (F.col("strength") == F.lit(CLEAN))
    # A node that answered as the new leader had the record in its own epoch.
    own = (F.col("node") == F.col("leader")) & (F.col("elected_ns") < F.col("complete_ns"))
    own = F.coalesce(own & F.col("offset").isNotNull(), F.lit(False))
    rank = (place * F.lit(2) + alone) * F.lit(_NUMBERS) + F.col("number")
    matched = pairs.where(by_place).select(
        *key, "number", chain.alias("chain"), place.alias("place"), rank.alias("rank"),
        late.when(clean | own, F.lit(1)).otherwise(F.lit(0)).alias("doubt"),
    )  # fmt: skip
    row = engine.window.partitionBy(*key)
    likely = matched.withColumn("least_doubt", F.min("doubt").over(row))
    likely = likely.where(F.col("doubt") == F.col("least_doubt")).select(
        *key, "number", "chain", "place", "rank",
        F.min("chain").over(row).alias("least_chain"),
        F.min("place").over(row).alias("least_place"),
    )  # fmt: skip
    first = (F.col("chain") == F.col("least_chain")) | (F.col("place") == F.col("least_place"))
    return (
        likely.where(first)
        .groupBy(*key)
        .agg(
            (F.min("rank") % F.lit(_NUMBERS)).cast("int").alias("cause_id"),
            listed(engine, "number").alias("possible"),
        )
    )


def _by_offset(engine: Engine, columns: Sequence[str]) -> Column:
    """For rows with an offset: the cause may have removed the record there, or its marker."""
    F = engine.functions
    last = F.coalesce(MARKER, "offset") if MARKER in columns else F.col("offset")
    beyond = F.col("start_offset") <= last
    if NEXT_NS in columns:
        # The next leader may have written the next transaction where the marker had been.
        in_its_place = (F.col("start_offset") == last + F.lit(1)) & (
            F.col("from_ns") <= F.col(NEXT_NS)
        )
        beyond = beyond | F.coalesce(in_its_place, F.lit(False))
    vanished = F.col("vanished_ns") <= F.col("complete_ns")
    # What a reader got may have been waiting in the reader for long.
    lived = (F.col("acks") != F.lit(1)) | (F.col("invoke_ns") <= F.col("dead_from_ns"))
    if set(STAYED) <= set(columns):
        kept, seen_ns = (F.col(name) for name in STAYED)
        of_quorum = F.col("epoch") == F.lit(LAST_EPOCH)
        beyond = beyond & ((kept < F.col("start_offset")) | of_quorum)
        vanished = vanished & (kept < F.col("start_offset"))
        lived = lived & (F.col("elected_ns") <= seen_ns + F.lit(VIEW_SLACK_NS))
    return (
        F.col("offset").isNotNull()
        & F.coalesce(lived, F.lit(True))
        & (beyond | F.coalesce(vanished, F.lit(False)))
        & _was_there(engine, columns)
        & (F.col("leader_epoch").isNull() | (F.col("leader_epoch") < F.col("epoch")))
        & (
            F.col("node").isNull()
            | (F.col("node") != F.col("leader"))
            | (F.col("invoke_ns") <= F.col("elected_ns"))
        )
    )


def _was_there(engine: Engine, columns: Sequence[str]) -> Column:
    """For rows with an offset: the record was written before the cause took it, and read while a
    node that did not know of the cause, or of an earlier one, may have had it."""
    F = engine.functions
    until_ns = F.when(F.col("node") != F.col("deposed"), F.col("others_until_ns")).otherwise(
        F.col("until_ns")
    )
    if "written_ns" not in columns:
        return F.col("invoke_ns") <= until_ns
    late = ~F.col("of_state") | (F.col("near_until_ns") < F.col("invoke_ns"))
    was_there_ns = F.when(late, F.col("invoke_ns")).otherwise(F.col("written_ns"))
    shown = (F.col("written_ns") <= until_ns) & (F.col("invoke_ns") <= F.col("shown_until_ns"))
    unknown = F.col("shown_until_ns").isNull()
    return F.when(unknown, was_there_ns <= until_ns).otherwise(shown)


def _by_time(engine: Engine) -> Column:
    """For rows that were acknowledged without an offset (a leader knew the batch already): the
    cause is near in time, or it removes records however old they are."""
    F = engine.functions
    near = (F.col("from_ns") <= F.col("invoke_ns")) & (F.col("invoke_ns") <= F.col("near_until_ns"))
    reached = (F.col("invoke_ns") <= F.col("until_ns")) & F.col("acks").isNotNull()
    of_state = F.col("of_state")
    return F.col("offset").isNull() & ((near & ~of_state) | (reached & of_state))


def _between(engine: Engine, columns: Sequence[str]) -> Column:
    """For rows that no leader acknowledged: an election or a state loss whose leader epoch starts
    between the nearest records that the same client sent before and after, if the write may have
    been sent to the leader before it; or a fault, or a cause without a place in the final log, that
    was near in time."""
    F = engine.functions
    placed = F.col("start_offset").isNotNull() & (F.col("chain") > F.lit(0))
    fits = F.col("chain_from_ns") <= F.col("complete_ns") + F.lit(VIEW_SLACK_NS)
    if set(NEIGHBOURS) <= set(columns):
        after, before = (F.col(name) for name in NEIGHBOURS)
        fits = fits & (after.isNull() | (after < F.col("start_offset")) | F.col("returns"))
        fits = fits & (before.isNull() | (F.col("start_offset") <= before))
    near = (F.col("from_ns") <= F.col("complete_ns")) & (
        F.col("invoke_ns") <= F.col("felt_until_ns")
    )
    return (placed & fits) | (~placed & near)


def first_leader_change(
    engine: Engine, causes: Frame, evidence: Frame, since: str, up_to: str | None
) -> Frame:
    """Return op, topic, partition, cause_id: the first leader change around a row's `invoke_ns`, or
    from the column `since` on. Changes into epochs beyond the column `up_to`, if known, do not
    count; a quorum loss may change any epoch.

    evidence: columns op, topic, partition, invoke_ns, at most one row per op and partition.
    """
    F = engine.functions
    key = ["op", *TP]
    near = (F.col("from_ns") <= F.col("invoke_ns")) & (F.col(since) <= F.col("near_until_ns"))
    if up_to is not None:
        of_quorum = F.col("epoch") == F.lit(LAST_EPOCH)
        near = near & (of_quorum | F.coalesce(F.col("epoch") <= F.col(up_to), F.lit(True)))
    pairs = evidence.select(*dict.fromkeys([*key, "invoke_ns", since, *filter(None, [up_to])]))
    pairs = pairs.join(causes, on=TP, how="inner").where(near & F.col("epoch").isNotNull())
    return strongest(engine, pairs, key)


def forgotten_between(engine: Engine) -> Column:
    """Whether the cause may have come after since_ns, when something was decided, and before
    seen_ns, when it was not known any more."""
    F = engine.functions
    return (F.col("since_ns") <= F.col("until_ns") + F.lit(VIEW_SLACK_NS)) & (
        F.col("elected_ns") <= F.col("seen_ns") + F.lit(VIEW_SLACK_NS)
    )


def strongest(engine: Engine, pairs: Frame, key: Sequence[str]) -> Frame:
    """Return key, cause_id: the strongest cause of each key, of several the first. pairs: key,
    strength, number."""
    F = engine.functions
    rank = F.col("strength").cast("bigint") * F.lit(_NUMBERS) + F.col("number")
    best = (F.min(rank) % F.lit(_NUMBERS)).cast("int").alias("cause_id")
    return pairs.groupBy(*key).agg(best)
