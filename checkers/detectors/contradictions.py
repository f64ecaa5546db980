"""Do the answers of brokers agree with other brokers, with the logs, and with the metadata log?

A verdict rests on such answers: the final leader epochs say which leader change may have removed a
write. An answer that something else contradicts is an anomaly, because clients get the same answers
and truncate or resume by them (KIP-101, KIP-320). It excuses no loss: `Frames.contradictions`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from checkers.detectors.leadership import METADATA_LOG
from checkers.engines.engine import Frame, as_frame
from checkers.frames.epoch_answers import ANSWERS
from checkers.frames.evidence import EVIDENCE, evidence
from checkers.frames.frames import Frames
from checkers.history.history import TP
from checkers.history.recorded_faults import with_changed_bytes

KIND: Final = "contradicted-evidence"
CHANGED: Final = "changed-bytes"
ISR: Final = "isr"

_FOUND: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("aspect", pa.string()),
        ("node", pa.int32()),
        ("offset", pa.int64()),
        ("other_offset", pa.int64()),
        ("invoke_ns", pa.int64()),
        ("complete_ns", pa.int64()),
        ("detail", pa.string()),
    ]
)


def contradicted_evidence(frames: Frames) -> Iterator[Frame]:
    """kind contradicted-evidence: an answer of a broker (node, invoke_ns) is contradicted.

    aspect answers, files, reads: an answer about a leader epoch, contradicted by another answer, by
    the files of the node, by the records that the final reads returned (offset: of the
    contradicting record; other_offset: in the answer). changed-bytes: the same as files or reads,
    and a fault had changed bytes in the log of a replica. isr: an answer names in-sync replicas
    that the metadata log never had in that leader epoch.
    """
    changed = _with_changed_bytes(frames)
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "aspect": CHANGED if partition in changed and each.source != ANSWERS else each.source,
            "node": each.node,
            "offset": each.offset,
            "other_offset": each.answered,
            "invoke_ns": each.at_ns,
            "complete_ns": each.at_ns,
            "detail": each.text,
        }
        for partition, contradictions in frames.contradictions.items()
        for each in contradictions
    ]
    rows += _unknown_isrs(frames)
    if rows:
        made = as_frame(frames.engine, rows, _FOUND)
        yield evidence(frames.engine, made, kind=frames.engine.functions.lit(KIND))


def _with_changed_bytes(frames: Frames) -> frozenset[tuple[str, int]]:
    """Return the partitions with a replica in whose log a fault changed bytes."""
    F = frames.engine.functions
    changed = with_changed_bytes(frames.fault_rows)
    if not changed:
        return frozenset()
    replicas = frames.replica_ends.where(F.col("node").isin(*changed)).select(*TP).distinct()
    return frozenset((row["topic"], row["partition"]) for row in frames.engine.rows(replicas))


def _unknown_isrs(frames: Frames) -> list[dict[str, Any]]:
    """Return the first of the equal answers with in-sync replicas that the metadata log never had
    in the same epoch of the same leader.

    Only epochs that the log has from their beginning are judged, and only answers before the final
    read. A leader that the log does not have is a metadata-rollback.
    """
    F = frames.engine.functions
    columns = [*TP, "leader_epoch", "leader", "isr", "at_ns"]
    decided = frames.cluster.where(
        (F.col("source") == F.lit(METADATA_LOG)) & (F.col("kind") == F.lit("leader"))
    )
    had: dict[tuple[Any, ...], set[frozenset[int]]] = defaultdict(set)
    first: dict[tuple[str, int], int] = {}
    for row in frames.engine.rows(decided.select(*columns)):
        if row["isr"] is not None and row["leader_epoch"] is not None:
            had[_term(row)].add(frozenset(row["isr"]))
            place = row["topic"], row["partition"]
            first[place] = min(first.get(place, row["leader_epoch"]), row["leader_epoch"])
    if not had:
        return []
    since_beginning = frames.state_losses.metadata_start == 0
    views = frames.cluster.where((F.col("kind") == F.lit("view")) & F.col("isr").isNotNull())
    views = views.join(frames.complete.select(*TP, "read_ns"), on=TP, how="inner")
    views = views.where(F.col("at_ns") <= F.col("read_ns")).select("node", *columns)
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(frames.engine.rows(views), key=lambda row: (row["at_ns"], row["node"])):
        place, isr = (row["topic"], row["partition"]), frozenset(row["isr"])
        known = had.get(_term(row))
        whole = since_beginning or row["leader_epoch"] != first.get(place)
        if known is not None and isr not in known and whole:
            found.setdefault((*_term(row), row["node"], isr), _unknown_isr(row, known))
    return [found[key] for key in sorted(found, key=str)]


def _term(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the partition, its leader epoch, and its leader; -1 for none."""
    leader = -1 if row["leader"] is None else row["leader"]
    return row["topic"], row["partition"], row["leader_epoch"], leader


def _unknown_isr(row: Mapping[str, Any], known: set[frozenset[int]]) -> dict[str, Any]:
    had = " or ".join(map(str, sorted(sorted(each) for each in known)))
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "aspect": ISR,
        "node": row["node"],
        "invoke_ns": row["at_ns"],
        "complete_ns": row["at_ns"],
        "detail": f"node {row['node']} answered that {sorted(row['isr'])} are in sync in epoch "
        f"{row['leader_epoch']}; the metadata log has {had}",
    }


assert set(_FOUND.names) <= EVIDENCE.keys()
