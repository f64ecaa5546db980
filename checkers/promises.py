"""The numbers per promise: what groups promise of records, and what isolation levels do.

A group processes records at most once, at least once, or exactly once. A reader reads committed
records, or uncommitted ones, too. For each of these that a run has there is one row: how many
records, how many of them were skipped or came twice, and what of that is permitted, with its cause.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from checkers.contract.conditions import AT_READ_UNCOMMITTED
from checkers.contract.contract import Judgement
from checkers.detectors.outputs import program_of
from checkers.frames.ended import READ_COMMITTED, READ_UNCOMMITTED
from checkers.frames.frames import Frames
from checkers.frames.ownership import GROUP
from checkers.history.settings import PROCESSING, of_group, topic_settings
from checkers.verdict import Anomaly

NO_PROMISE: Final = "no promise"
"""The row of groups whose workload does not say how it processes records."""
LEVELS: Final[Mapping[int, str]] = {
    READ_UNCOMMITTED: "read_uncommitted",
    READ_COMMITTED: "read_committed",
}
COUNTED: Final[Mapping[str, tuple[str, ...]]] = {
    "skipped": ("skipped-record", "uncopied", "lost-output", "late-output"),
    "twice": ("delivered-again", "copied-twice", "duplicated-output"),
    "torn": ("torn-transaction",),
    "aborted": ("aborted-read",),
}
"""The kinds of anomalies that each column of a row counts. The first two are of groups, the others
of isolation levels."""
_OF_GROUPS: Final = ("skipped", "twice")
_ORDER: Final = (*PROCESSING, NO_PROMISE, *LEVELS.values())


def promise_statistics(frames: Frames, anomalies: Iterable[Anomaly]) -> list[dict[str, Any]]:
    """Return one row for each promise, as in verdict.json; none without groups and without readers
    whose isolation level is recorded.

    records: records that a group got at least once, or that readers of the level got. groups: who
    promises it. skipped, twice, torn, aborted: counts of COUNTED, null where they mean nothing.
    causes: for each kind, judgement and cause the number of instances. program: whether a tested
    program promises it; then the records are those of its input topic.
    """
    rows: dict[str, dict[str, Any]] = {}
    for group, records in _delivered(frames).items():
        row = _row(rows, _promise(frames, group), _OF_GROUPS)
        row["groups"].append(group)
        row["records"] += records
    tested = program_of(frames.plan)
    if tested is not None:
        row = _row(rows, _promise(frames, tested["group"]), _OF_GROUPS)
        row |= {"groups": [*row["groups"], tested["group"]], "program": True}
        row["records"] += _inputs(frames, tested["input"])
    for level, records in _read(frames).items():
        _row(rows, LEVELS[level], ("torn", "aborted"))["records"] += records
    for column, kinds in COUNTED.items():
        for each in anomalies:
            if each.kind in kinds and (row_of := _row_of(frames, column, each)) is not None:
                columns = _OF_GROUPS if column in _OF_GROUPS else ("torn", "aborted")
                row = _row(rows, row_of, columns)
                row[column] += each.count
                row["causes"].append(_cause(each))
    return [rows[name] | {"causes": _merged(rows[name]["causes"])} for name in _ORDER
            if name in rows]  # fmt: skip


def _inputs(frames: Frames, topic: str) -> int:
    """How many values the final log of a program's input topic has."""
    F = frames.engine.functions
    log = frames.final_log.where((F.col("topic") == F.lit(topic)) & F.col("value").isNotNull())
    return frames.count(log.select("value").distinct())


def _row(rows: dict[str, dict[str, Any]], promise: str, columns: Sequence[str]) -> dict[str, Any]:
    counts = {name: 0 if name in columns else None for name in COUNTED}
    new: dict[str, Any] = {"promise": promise, "groups": [], "records": 0, **counts, "causes": []}
    return rows.setdefault(promise, new)


def _promise(frames: Frames, group: str | None) -> str:
    settings = of_group(topic_settings(frames.plan, None), frames.plan, group)
    return settings.processing or NO_PROMISE


def _row_of(frames: Frames, column: str, anomaly: Anomaly) -> str | None:
    """Return the promise that an anomaly is about; None for an aborted read outside of
    transactions."""
    if column in _OF_GROUPS:
        return _promise(frames, anomaly.group)
    if column == "aborted" and anomaly.aspect is None:
        return None
    uncommitted = anomaly.aspect == AT_READ_UNCOMMITTED
    return LEVELS[READ_UNCOMMITTED if uncommitted else READ_COMMITTED]


def _delivered(frames: Frames) -> dict[str, int]:
    """How many records each group got, in the order of the groups' names."""
    F, engine = frames.engine.functions, frames.engine
    kinds = {row["f"] for row in engine.rows(frames.row_counts.select("f").distinct())}
    if not kinds & {"assigned", "offset-commit", "final-committed"}:
        return {}
    polls = frames.history.where(
        (F.col("f") == F.lit("poll")) & F.col("group").isNotNull() & F.col("offset").isNotNull()
    )
    records = polls.select(*GROUP, "offset").distinct()
    rows = engine.rows(records.groupBy("group").agg(F.count(F.lit(1)).alias("records")))
    return {row["group"]: row["records"] for row in sorted(rows, key=lambda row: row["group"])}


def _read(frames: Frames) -> dict[int, int]:
    """How many records were read at each isolation level that is recorded."""
    F, engine = frames.engine.functions, frames.engine
    known = engine.rows(frames.row_counts.agg(F.max("isolation").alias("known")))
    if known[0]["known"] is None:
        return {}
    reads = frames.history.where(
        F.col("f").isin("poll", "final-read")
        & F.col("isolation").isNotNull()
        & F.col("offset").isNotNull()
    )
    rows = engine.rows(reads.groupBy("isolation").agg(F.count(F.lit(1)).alias("records")))
    return {row["isolation"]: row["records"] for row in rows if row["isolation"] in LEVELS}


def _cause(anomaly: Anomaly) -> dict[str, Any]:
    permission = anomaly.permission
    permitted_by = f"permitted by {permission.permitted_by}" if permission is not None else None
    said = (anomaly.aspect, anomaly.cause, permitted_by)
    graver = anomaly.judgement in (Judgement.FORBIDDEN, Judgement.UNKNOWN)
    return {
        "kind": anomaly.kind,
        "judgement": anomaly.judgement.value,
        "cause": anomaly.rule if graver else "; ".join(filter(None, said)),
        "count": anomaly.count,
    }


def _merged(causes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for each in causes:
        counts[each["kind"], each["judgement"], each["cause"]] += each["count"]
    return [
        {"kind": kind, "judgement": judgement, "cause": cause, "count": count}
        for (kind, judgement, cause), count in counts.items()
    ]
