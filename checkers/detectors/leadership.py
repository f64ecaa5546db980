"""Which node may lead a partition: one leader in an epoch, and in sync when it was elected.

The rules are the controller's and the quorum's (KIP-101, KIP-595, KIP-841, KIP-966). The evidence
comes from the metadata log, from the nodes' reports during the run, and from the replicas' files.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from checkers.engines.engine import Frame, as_frame
from checkers.frames.changed_logs import with_changed_bytes
from checkers.frames.evidence import EVIDENCE, evidence
from checkers.frames.frames import Frames
from checkers.frames.same_bytes import same_bytes
from checkers.history.history import METADATA_LOG, METADATA_TOPIC, TP

_BROKEN = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("aspect", pa.string()),
        ("node", pa.int32()),
        ("invoke_ns", pa.int64()),
        ("complete_ns", pa.int64()),
        ("detail", pa.string()),
    ]
)


def two_leaders(frames: Frames) -> Iterator[Frame]:
    """kind two-leaders: two leaders of one partition, or of the quorum, in one leader epoch.

    aspect told: nodes, or the metadata log, name two leaders. aspect answered: two nodes answered
    as the leader (node, other_op: the second one). aspect unelected: one node answered as the
    leader of an epoch, and all nodes that name its leader name another one. aspect wrote: the files
    of two nodes have different batches of one epoch at one offset, so two leaders wrote them.

    complete_ns: the last claim; null if the time of a claim is not known. Once the quorum has lost
    its data, its log begins anew, so its records are not dated by what was seen of it before.
    """
    F = frames.engine.functions
    rows = frames.cluster.where(
        F.col("kind").isin("leader", "view", "quorum") & (F.col("leader") >= F.lit(0))
    )
    until_ns = F.col("at_ns")
    if frames.state_losses.quorum_before(None):
        told = F.coalesce(F.col("source"), F.lit("")) != F.lit(METADATA_LOG)
        until_ns = F.when(told, until_ns)
    named = rows.select(*TP, "leader_epoch", "leader", "at_ns", until_ns.alias("until_ns"))
    yield from _two_in_one_epoch(frames, named, "told")
    columns = [
        *TP,
        "leader_epoch",
        F.col("node").alias("leader"),
        F.col("invoke_ns").alias("at_ns"),
        F.col("complete_ns").alias("until_ns"),
    ]
    answered = frames.acked.select(*columns).unionByName(frames.watermark_rows.select(*columns))
    yield from _two_in_one_epoch(frames, answered, "answered")
    yield from _unelected(frames, named, answered)
    batches = same_bytes(frames)
    if flipped := with_changed_bytes(frames.fault_rows):
        batches = batches.where(~flipped.condition(frames.engine))
    written = frames.none_if_empty(
        batches.groupBy(*TP, "base_offset", "leader_epoch")
        .agg(
            F.min("crc").alias("crc"),
            F.max("crc").alias("other_crc"),
            F.min("node").alias("node"),
            F.max("node").alias("other_node"),
        )
        .where(F.col("crc") != F.col("other_crc"))
    )
    if written is not None:
        yield evidence(
            frames.engine,
            written,
            kind=F.lit("two-leaders"),
            aspect=F.lit("wrote"),
            offset=F.col("base_offset"),
            detail=_in_epoch(frames, "node", "other_node"),
        )


def _two_in_one_epoch(frames: Frames, claims: Frame, aspect: str) -> Iterator[Frame]:
    """claims: topic, partition, leader_epoch, leader, at_ns, until_ns (null if unknown)."""
    F = frames.engine.functions
    by_epoch = _by_epoch(frames, claims)
    two = frames.none_if_empty(by_epoch.where(F.col("node") < F.col("other_node")))
    if two is not None:
        yield evidence(
            frames.engine,
            two,
            kind=F.lit("two-leaders"),
            aspect=F.lit(aspect),
            detail=_in_epoch(frames, "node", "other_node"),
        )


def _by_epoch(frames: Frames, claims: Frame) -> Frame:
    """Return topic, partition, leader_epoch, node and other_node (the least and the greatest leader
    of the epoch by these claims), invoke_ns and complete_ns (when the first and the last claim were
    made; null if that of a claim is not known)."""
    F = frames.engine.functions
    known = claims.where(F.col("leader_epoch").isNotNull() & F.col("leader").isNotNull())
    return known.groupBy(*TP, "leader_epoch").agg(
        F.min("leader").alias("node"),
        F.max("leader").alias("other_node"),
        F.min("at_ns").alias("invoke_ns"),
        F.when(F.count("until_ns") == F.count(F.lit(1)), F.max("until_ns")).alias("complete_ns"),
    )


def _unelected(frames: Frames, named: Frame, answered: Frame) -> Iterator[Frame]:
    """Where one node answered as the leader of an epoch, and another one alone is named as its
    leader. Both arguments: see `_two_in_one_epoch`, which finds two that answered or are named."""
    F = frames.engine.functions
    single = F.col("node") == F.col("other_node")
    epochs = [*TP, "leader_epoch"]
    leaders = _by_epoch(frames, named).where(single)
    leaders = leaders.select(
        *epochs, F.col("node").alias("leader"), F.col("complete_ns").alias("named_ns")
    )
    mine = _by_epoch(frames, answered).where(single).drop("other_node")
    pairs = mine.join(frames.engine.materialize(leaders), on=epochs, how="inner")
    wrong = frames.none_if_empty(pairs.where(F.col("node") != F.col("leader")))
    if wrong is not None:
        yield evidence(
            frames.engine,
            wrong,
            kind=F.lit("two-leaders"),
            aspect=F.lit("unelected"),
            complete_ns=F.when(
                F.col("named_ns").isNotNull(), F.greatest("named_ns", "complete_ns")
            ),
            detail=_in_epoch(frames, "node", "leader"),
        )


def _in_epoch(frames: Frames, node: str, other: str) -> Any:
    F = frames.engine.functions
    return F.concat(
        F.lit("nodes "), F.col(node).cast("string"), F.lit(" and "), F.col(other).cast("string"),
        F.lit(" in epoch "), F.col("leader_epoch").cast("string"),
    )  # fmt: skip


def broken_isrs(frames: Frames) -> Iterator[Frame]:
    """kind isr-broken: the controllers decided against the rules of in-sync replicas; node: the
    node concerned.

    aspect outside: a node was elected that was neither in sync nor an eligible leader replica;
    absent: the leader is not in sync itself; fenced-leader, fenced-in-sync: a fenced node was made
    leader, or put into the in-sync replicas. Partitions change seldom, so this is plain Python over
    the metadata log; other sources are not exact enough. Beside ZooKeeper no broker is fenced: its
    session ends, and the controller learns of that later. So fenced aspects are not judged there.
    """
    F = frames.engine.functions
    own = frames.cluster.where(F.col("source") == F.lit(METADATA_LOG))
    decided: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    fencing: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for row in sorted(frames.engine.rows(own), key=_order):
        match row["kind"]:
            case "leader":
                decided[row["topic"], row["partition"]].append(row)
            case "fenced" | "unfenced" if row["log_offset"] is not None:
                fencing[row["node"]].append((row["log_offset"], row["kind"] == "fenced"))
    rows = []
    for (topic, partition), rows_of_it in sorted(decided.items()):
        least = frames.greatest_min_isr(topic)
        wrong = list(_outsiders(rows_of_it, least))
        if frames.plan.get("control_plane") != "zookeeper":
            wrong += _fenced(rows_of_it, fencing)
        rows += [{"topic": topic, "partition": partition, **found} for found in wrong]
    if rows:
        made = as_frame(frames.engine, rows, _BROKEN)
        yield evidence(frames.engine, made, kind=F.lit("isr-broken"))


def _order(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return _or_less(row["log_offset"]), _or_less(row["partition_epoch"]), int(row["at_ns"])


def _or_less(number: int | None) -> int:
    return -1 if number is None else number


def _outsiders(rows: Sequence[Mapping[str, Any]], least: int) -> Iterator[dict[str, Any]]:
    """Yield leaders that were not allowed to be elected."""
    in_sync: set[int] | None = None
    eligible: set[int] = set()
    last_leader: int | None = None
    before: Mapping[str, Any] | None = None
    for row in rows:
        leader, isr = row["leader"], set(row["isr"] or ())
        leads = leader is not None and leader >= 0
        if leads and leader not in isr:
            yield _broken(row, "absent", f"leads in epoch {row['leader_epoch']}, not in sync")
        elif leads and in_sync is not None and leader != last_leader:
            had = in_sync | eligible
            if had and leader not in had and not _is_moved_away(before, row):
                yield _broken(
                    row, "outside", f"elected in epoch {row['leader_epoch']}; in sync: "
                    f"{sorted(in_sync)}, eligible: {sorted(eligible)}",
                )  # fmt: skip
        if row["elr"] is not None:
            eligible = set(row["elr"])
        elif len(isr) < least:
            eligible = (eligible | (in_sync or set())) - isr
        else:
            eligible = set()
        in_sync, before = isr, row
        if leads:
            last_leader = leader


def _is_moved_away(before: Mapping[str, Any] | None, row: Mapping[str, Any]) -> bool:
    """Whether a reassignment removed the old leader from the replicas with this record.

    One record then adds the last new replica to the ISR, ends the reassignment, and elects a leader
    from the new ISR (Kafka: PartitionChangeBuilder, KIP-455).
    """
    if before is None or row["replicas"] is None or before["replicas"] is None:
        return False
    old = before["leader"]
    return old in before["isr"] and old in before["replicas"] and old not in row["replicas"]


def _fenced(
    rows: Sequence[Mapping[str, Any]], fencing: Mapping[int, Sequence[tuple[int, bool]]]
) -> Iterator[dict[str, Any]]:
    """Yield fenced brokers that were made leader, or put into the in-sync replicas (KIP-841)."""
    before: set[int] = set()
    last_leader: int | None = None
    for row in rows:
        isr = set(row["isr"] or ())
        at = row["log_offset"]
        for node in sorted(isr - before) if at is not None else ():
            if _is_fenced(fencing.get(node, ()), at):
                yield _broken(row, "fenced-in-sync", "put into the in-sync replicas")
        new = at is not None and row["leader"] not in (None, -1, last_leader)
        if new and _is_fenced(fencing.get(row["leader"], ()), at):
            yield _broken(row, "fenced-leader", f"elected in epoch {row['leader_epoch']}")
        before, last_leader = isr, row["leader"]


def _is_fenced(changes: Sequence[tuple[int, bool]], at: int) -> bool:
    """Whether the last change before the batch at `at` fenced the broker, unless that batch itself
    unfences it."""
    state = False
    for offset, fenced in changes:
        if offset < at or (offset == at and not fenced):
            state = fenced
    return state


def _broken(row: Mapping[str, Any], aspect: str, detail: str) -> dict[str, Any]:
    return {"aspect": aspect, "node": row["leader"], "invoke_ns": row["at_ns"],
            "complete_ns": row["at_ns"], "detail": detail}  # fmt: skip


def forgotten_metadata(frames: Frames) -> Iterator[Frame]:
    """kind metadata-rollback: the metadata log lacks records that nodes had applied.

    aspect leader: a node reported a leader and its epoch before the final read (node, invoke_ns),
    and the log lacks them. Only epochs that the log covers are judged: a trimmed log begins with a
    snapshot. aspect log: every node's copy ends (offset) below a reported high watermark
    (other_offset).
    """
    F = frames.engine.functions
    copies = frames.replica_ends.where(F.col("topic") == F.lit(METADATA_TOPIC)).groupBy(*TP)
    ends = copies.agg(
        F.max("end_offset").alias("offset"), F.max("high_watermark").alias("other_offset")
    )
    cut = frames.none_if_empty(ends.where(F.col("offset") < F.col("other_offset")))
    if cut is not None:
        kind, aspect = F.lit("metadata-rollback"), F.lit("log")
        yield evidence(frames.engine, cut, kind=kind, aspect=aspect)
    log = frames.engine.materialize(
        frames.cluster.where(
            (F.col("source") == F.lit(METADATA_LOG)) & (F.col("kind") == F.lit("leader"))
        ).select(*TP, "leader_epoch", "leader")
    )
    first = log.groupBy(*TP).agg(F.min("leader_epoch").alias("first_epoch"))
    told = (
        frames.cluster.where((F.col("kind") == F.lit("view")) & (F.col("leader") >= F.lit(0)))
        .groupBy(*TP, "leader_epoch", "leader")
        .agg(F.min("at_ns").alias("invoke_ns"), F.min("node").alias("node"))
    )
    covered = told.join(first, on=TP, how="inner").join(frames.complete, on=TP, how="inner")
    covered = covered.where(
        (F.col("leader_epoch") >= F.col("first_epoch")) & (F.col("invoke_ns") <= F.col("read_ns"))
    )
    gone = frames.none_if_empty(
        covered.join(log, on=[*TP, "leader_epoch", "leader"], how="left_anti")
    )
    if gone is not None:
        yield evidence(
            frames.engine,
            gone,
            kind=F.lit("metadata-rollback"),
            aspect=F.lit("leader"),
            complete_ns=F.col("invoke_ns"),
            detail=F.concat(
                F.lit("leader "), F.col("leader").cast("string"), F.lit(" in epoch "),
                F.col("leader_epoch").cast("string"),
            ),
        )  # fmt: skip


assert set(_BROKEN.names) <= EVIDENCE.keys()
