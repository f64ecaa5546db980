"""Do the answers of brokers agree with other brokers, with the logs, and with the metadata log?

A verdict rests on such answers: the final leader epochs say which leader change may have removed a
write. An answer that something else contradicts is an anomaly, because clients get the same answers
and truncate or resume by them (KIP-101, KIP-320). It excuses no loss: `Frames.contradictions`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from checkers.engines.engine import Frame, as_frame
from checkers.frames.changed_logs import with_changed_bytes
from checkers.frames.epoch_answers import ANSWERS
from checkers.frames.evidence import EVIDENCE, evidence
from checkers.frames.frames import Frames
from checkers.history.history import METADATA_LOG, TP

KIND: Final = "contradicted-evidence"
CHANGED: Final = "changed-bytes"
ISR: Final = "isr"
LEADER: Final = "leader"
_TERM: Final = (*TP, "leader_epoch", "leader")

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
    that the metadata log never had in that leader epoch. leader: an answer names a leader epoch
    without a leader, and the metadata log lacks the epoch.
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
    rows += _not_decided(frames)
    if rows:
        made = as_frame(frames.engine, rows, _FOUND)
        yield evidence(frames.engine, made, kind=frames.engine.functions.lit(KIND))


def _with_changed_bytes(frames: Frames) -> frozenset[tuple[str, int]]:
    """Return the partitions that had a replica in whose log a fault changed bytes."""
    changed = with_changed_bytes(frames.fault_rows)
    return changed.partitions(frames.holders) if changed else frozenset()


def _not_decided(frames: Frames) -> list[dict[str, Any]]:
    """Return the first of equal answers to Metadata requests that name what the metadata log never
    had: in-sync replicas in an epoch of a leader, or an epoch without a leader.

    Only epochs that the log has from their beginning are judged, and only answers before the final
    read. An epoch with a leader that the log does not have is a metadata-rollback.
    """
    decisions = _decisions(frames)
    if not decisions:
        return []
    since_beginning = frames.state_losses.metadata_start == 0
    F = frames.engine.functions
    views = frames.cluster.where((F.col("kind") == F.lit("view")) & F.col("isr").isNotNull())
    views = views.join(frames.complete.select(*TP, "read_ns"), on=TP, how="inner")
    views = views.where(F.col("at_ns") <= F.col("read_ns")).select("node", *_TERM, "isr", "at_ns")
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(frames.engine.rows(views), key=lambda row: (row["at_ns"], row["node"])):
        epochs = decisions.get((row["topic"], row["partition"]))
        if epochs is None or row["leader_epoch"] is None:
            continue
        begun = min(epochs) + (not since_beginning)
        wrong = _unknown(row, epochs) if row["leader_epoch"] >= begun else None
        if wrong is not None:
            key = (*(row[name] for name in _TERM), row["node"], *sorted(row["isr"]))
            found.setdefault(key, wrong)
    return [found[key] for key in sorted(found, key=str)]


_Isrs = Mapping[int, set[frozenset[int]]]
"""The in-sync replicas that the metadata log had in one epoch, by leader; -1: without one."""


def _decisions(frames: Frames) -> Mapping[tuple[str, int], Mapping[int, _Isrs]]:
    """Return what the metadata log had, by partition and leader epoch."""
    F = frames.engine.functions
    decided = frames.cluster.where(
        (F.col("source") == F.lit(METADATA_LOG)) & (F.col("kind") == F.lit("leader"))
    )
    found: dict[tuple[str, int], dict[int, dict[int, set[frozenset[int]]]]] = {}
    for row in frames.engine.rows(decided.select(*_TERM, "isr")):
        if row["isr"] is not None and row["leader_epoch"] is not None:
            epochs = found.setdefault((row["topic"], row["partition"]), {})
            isrs = epochs.setdefault(row["leader_epoch"], {})
            isrs.setdefault(_leader(row), set()).add(frozenset(row["isr"]))
    return found


def _leader(row: Mapping[str, Any]) -> int:
    return -1 if row["leader"] is None else int(row["leader"])


def _unknown(row: Mapping[str, Any], epochs: Mapping[int, _Isrs]) -> dict[str, Any] | None:
    """Return the evidence of an answer that names what the metadata log never had; None if it had
    it, or if a leader is unknown."""
    leader, epoch, isr = _leader(row), row["leader_epoch"], frozenset(row["isr"])
    known = epochs.get(epoch)
    if known is None and leader < 0:
        aspect, what = LEADER, f"an epoch {epoch} without a leader; the metadata log lacks it"
    elif known is not None and leader in known and isr not in known[leader]:
        had = " or ".join(map(str, sorted(sorted(each) for each in known[leader])))
        aspect = ISR
        what = f"that {sorted(isr)} are in sync in epoch {epoch}; the metadata log has {had}"
    else:
        return None
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "aspect": aspect,
        "node": row["node"],
        "invoke_ns": row["at_ns"],
        "complete_ns": row["at_ns"],
        "detail": f"node {row['node']} answered {what}",
    }


assert set(_FOUND.names) <= EVIDENCE.keys()
