"""Where leaders' answers about their leader epochs contradict each other, or the records.

The final leader epochs are what leaders answer (OffsetForLeaderEpoch): each epoch with its first
offset and its end. The records have the same fact in themselves, because each batch has the leader
epoch of its append: the batches in the files of the node that answered, and the records that the
final reads returned. So every record must lie in the epoch that the answers give its offset to.

Differences that are no contradictions: an epoch without records (nothing lies in it); epochs and
records that are newer than the answer; records below the start of the log, because after retention
the oldest epoch is answered to begin at the start of the log.

Epochs are few beside records, so the comparison is plain Python over aggregates.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from checkers.engines.engine import Engine, Frame
from checkers.frames.changed_logs import ChangedLogs
from checkers.history.history import TP

Partition = tuple[str, int]

ANSWERS: Final = "answers"
FILES: Final = "files"
READS: Final = "reads"
_HOLDERS: Final = {FILES: "its files hold", READS: "the final reads returned"}


class Answer(NamedTuple):
    """A leader's answer about one epoch of a partition: records of the epoch are at the offsets
    from `start` up to, but not including, `end` (None: not answered). most: the greatest of several
    answered starts."""

    epoch: int
    start: int
    most: int
    end: int | None
    node: int | None
    at_ns: int


class Held(NamedTuple):
    """The first and the last offset of the records of one epoch."""

    epoch: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """An answer about one epoch of a partition, and what contradicts it.

    source: ANSWERS (another answer), FILES or READS. offset: where the contradicting record is, or
    where the log ends. answered: the offset in the answer; None if it does not name the epoch.
    node: which node answered, at at_ns.
    """

    topic: str
    partition: int
    source: str
    epoch: int
    offset: int
    answered: int | None
    node: int | None
    at_ns: int
    text: str


def read_contradictions(
    engine: Engine,
    *,
    cluster: Frame,
    replicas: Frame,
    replica_ends: Frame,
    history: Frame,
    first_offsets: Frame,
    changed: ChangedLogs,
) -> dict[Partition, tuple[Contradiction, ...]]:
    """Return the contradictions of each partition that has any, by source, then by epoch.

    cluster, replicas, replica_ends, history: frames of their schemas. first_offsets: see
    `log_starts.first_offsets`. changed: logs in which faults changed bytes; they prove nothing.
    """
    answers = _answers(engine, cluster)
    if not answers:
        return {}
    ends = _ends(engine, replica_ends, changed)
    in_files, read = _in_files(engine, replicas), _read(engine, history)
    starts = {(row["topic"], row["partition"]): row for row in engine.rows(first_offsets)}
    found = {}
    for partition, answered in sorted(answers.items()):
        lower = _judged_from(starts.get(partition, {}), answered)
        contradictions = [*_among(partition, answered)]
        replica = _replica(ends.get(partition, {}), answered)
        if replica is not None:
            node, end_offset = replica
            held = _above(in_files.get((node, *partition), ()), lower)
            contradictions += _compared(partition, answered, held, FILES)
            contradictions += _beyond(partition, answered, end_offset)
        held = _above(read.get(partition, ()), lower)
        contradictions += _compared(partition, answered, held, READS)
        if contradictions:
            found[partition] = tuple(contradictions)
    return found


# -- what was recorded


def _answers(engine: Engine, cluster: Frame) -> dict[Partition, list[Answer]]:
    """Return the answers about each partition, epochs ascending."""
    F = engine.functions
    known = F.col("topic").isNotNull() & F.col("partition").isNotNull()
    known = known & F.col("leader_epoch").isNotNull() & F.col("start_offset").isNotNull()
    rows = cluster.where((F.col("kind") == F.lit("epoch")) & known)
    told = rows.groupBy(*TP, "leader_epoch").agg(
        F.min("start_offset").alias("start_offset"),
        F.max("start_offset").alias("most"),
        F.min("end_offset").alias("end_offset"),
        F.min("node").alias("node"),
        F.min("at_ns").alias("at_ns"),
    )
    found: dict[Partition, list[Answer]] = defaultdict(list)
    for row in engine.rows(told):
        found[row["topic"], row["partition"]].append(
            Answer(
                epoch=row["leader_epoch"], start=row["start_offset"], most=row["most"],
                end=row["end_offset"], node=row["node"], at_ns=row["at_ns"],
            )
        )  # fmt: skip
    return {partition: sorted(answered) for partition, answered in found.items()}


def _in_files(engine: Engine, replicas: Frame) -> dict[tuple[int, str, int], list[Held]]:
    """Return the epochs in the files of each replica, by node, topic and partition."""
    F = engine.functions
    batches = replicas.groupBy("node", *TP, "leader_epoch").agg(
        F.min("base_offset").alias("first"), F.max("last_offset").alias("last")
    )
    found: dict[tuple[int, str, int], list[Held]] = defaultdict(list)
    for row in engine.rows(batches):
        held = Held(row["leader_epoch"], row["first"], row["last"])
        found[row["node"], row["topic"], row["partition"]].append(held)
    return found


def _read(engine: Engine, history: Frame) -> dict[Partition, list[Held]]:
    """Return the epochs of the records that the final reads returned, where clients know them."""
    F = engine.functions
    known = (F.col("f") == F.lit("final-read")) & (F.col("type") == F.lit("ok"))
    known = known & F.col("offset").isNotNull() & (F.col("leader_epoch") >= F.lit(0))
    records = history.where(known).groupBy(*TP, "leader_epoch")
    records = records.agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
    found: dict[Partition, list[Held]] = defaultdict(list)
    for row in engine.rows(records):
        held = Held(row["leader_epoch"], row["first"], row["last"])
        found[row["topic"], row["partition"]].append(held)
    return found


def _ends(
    engine: Engine, replica_ends: Frame, changed: ChangedLogs
) -> dict[Partition, dict[int, Mapping[str, Any]]]:
    """Return the rows of undamaged replicas, by partition and node."""
    found: dict[Partition, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in engine.rows(replica_ends):
        if not changed.has(row["node"], row["topic"], row["partition"]):
            found[row["topic"], row["partition"]][row["node"]] = row
    return found


# -- what is compared with what


def _replica(
    ends: Mapping[int, Mapping[str, Any]], answered: Sequence[Answer]
) -> tuple[int, int] | None:
    """Return the node whose files are compared, and where its log ends: the node that answered; if
    its files were not read, the one with the highest high watermark."""
    for answer in answered:
        if answer.node is not None and answer.node in ends:
            return answer.node, ends[answer.node]["end_offset"]
    if not ends:
        return None
    best = min(ends.values(), key=lambda row: (-row["high_watermark"], row["node"]))
    return best["node"], best["end_offset"]


def _judged_from(start: Mapping[str, Any], answered: Sequence[Answer]) -> int:
    """Return the first offset that is compared: the start of the log at the time of the answer, or
    a later offset. Without files, retention may have moved the start after the final reads; the end
    of the oldest answered epoch is then not below it."""
    read, kept = start.get("log_start") or 0, start.get("first_kept")
    if kept is not None or not read:
        return max(read, kept or 0)
    return max(read, answered[0].end or 0)


def _above(held: Sequence[Held], lower: int) -> list[Held]:
    """Return the epochs with records at or above an offset, epochs ascending."""
    cut = (Held(each.epoch, max(each.first, lower), each.last) for each in held)
    return sorted(each for each in cut if each.first <= each.last)


# -- contradictions


def _among(partition: Partition, answered: Sequence[Answer]) -> Iterator[Contradiction]:
    """Yield answers that contradict another answer about the same partition."""
    for answer in answered:
        if answer.start != answer.most:
            yield _contradiction(
                partition, answer, ANSWERS, answer.most, answer.start,
                f"that epoch {answer.epoch} begins at {answer.start}; another answer says "
                f"{answer.most}",
            )  # fmt: skip
    for answer, following in pairwise(answered):
        if following.start < answer.start:
            yield _contradiction(
                partition, following, ANSWERS, answer.start, following.start,
                f"that epoch {following.epoch} begins at {following.start}; another answer says "
                f"that epoch {answer.epoch} begins at {answer.start}",
            )  # fmt: skip


def _compared(
    partition: Partition, answered: Sequence[Answer], held: Sequence[Held], source: str
) -> Iterator[Contradiction]:
    """Yield the epochs whose records do not lie where the answers say."""
    by_epoch = {answer.epoch: answer for answer in answered}
    ends = {
        answer.epoch: following.start if answer.end is None else min(answer.end, following.start)
        for answer, following in pairwise(answered)
    }  # the last epoch may have grown since
    for epoch, first, last in held:
        if epoch > answered[-1].epoch:
            continue  # it began after the answer
        answer, end = by_epoch.get(epoch), ends.get(epoch)
        holds = f"{_HOLDERS[source]} records of epoch {epoch}"
        if answer is None:
            yield _contradiction(
                partition, answered[-1]._replace(epoch=epoch), source, first, None,
                f"about its epochs and left out epoch {epoch}; {holds} at {first} to {last}",
            )  # fmt: skip
        elif first < answer.start:
            yield _contradiction(
                partition, answer, source, first, answer.start,
                f"that epoch {epoch} begins at {answer.start}; {holds} from {first} on",
            )  # fmt: skip
        elif end is not None and last >= end:
            yield _contradiction(
                partition, answer, source, last, end,
                f"that epoch {epoch} ends at {end}; {holds} up to {last}",
            )  # fmt: skip


def _beyond(
    partition: Partition, answered: Sequence[Answer], end_offset: int
) -> Iterator[Contradiction]:
    """Yield the first answer with an offset beyond the end of the log."""
    for answer in answered:
        reaches = max(answer.start, answer.end or 0)
        if reaches > end_offset:
            yield _contradiction(
                partition, answer, FILES, end_offset, reaches,
                f"that epoch {answer.epoch} reaches {reaches}; its log ends at {end_offset}",
            )  # fmt: skip
            return


def _contradiction(
    partition: Partition, answer: Answer, source: str, offset: int, answered: int | None, what: str
) -> Contradiction:
    who = "the leader" if answer.node is None else f"node {answer.node}"
    return Contradiction(
        topic=partition[0],
        partition=partition[1],
        source=source,
        epoch=answer.epoch,
        offset=offset,
        answered=answered,
        node=answer.node,
        at_ns=answer.at_ns,
        text=f"{who} answered {what}",
    )
