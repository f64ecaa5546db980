"""The detector of compacted topics again, in plain Python: see `reference`."""

from collections import defaultdict
from collections.abc import Iterator

from tests.support.checkers.reference_copies import find_copies
from tests.support.histories.story import Row, S, Story

_DAY_NS = 86_400 * S


def find_in_compacted(story: Story) -> Iterator[tuple[str, str | None, str, int]]:
    """Every instance of every anomaly of a compacted topic."""
    places = {(r["topic"], r["partition"]) for r in story.history if r["f"].startswith("keyed-")}
    for topic, partition in sorted(places):
        rows = [
            r for r in story.history if (r.get("topic"), r.get("partition")) == (topic, partition)
        ]
        stays_ns = _stays_ns(story, topic)
        for kind, aspect in _of_partition(rows, stays_ns):
            yield kind, aspect, topic, partition
        for _ in find_copies(story, rows):
            yield "duplicate", None, topic, partition


def _stays_ns(story: Story, topic: str) -> int:
    [planned] = [each for each in story.plan["topics"] if each["name"] == topic]
    told = (planned.get("configs") or {}).get("delete.retention.ms")
    ahead = max((r["ahead_ms"] for r in story.cluster if r["kind"] == "clock"), default=0)
    return (_DAY_NS if told is None else int(told) * 1_000_000) - round(ahead * 1_000_000)


def _of_partition(rows: list[Row], stays_ns: int) -> Iterator[tuple[str, str | None]]:
    writes = [r for r in rows if r["f"] in ("keyed-write", "keyed-delete")]
    log = {r["offset"]: r for r in rows if r["f"] == "keyed-read"}
    [end] = [r for r in rows if r["f"] == "final-read-end"]
    by_key = defaultdict(list)
    for write in writes:
        by_key[write["key"]].append(write)
    for key, mine in sorted(by_key.items()):
        there = {at: r for at, r in log.items() if r["key"] == key}
        values = {r["value"] for r in log.values()}
        lost = list(_of_key(mine, there, values, end, stays_ns))
        yield from lost
        for write in mine:
            here = log.get(write["offset"])
            if write["f"] != "keyed-write" or write["type"] != "ok" or here is None:
                continue
            last = write is _last(mine, there)
            if not _is(here, write) and not here.get("error") and not (lost and last):
                yield "inconsistent-offset", "acknowledged"
    yield from _order(writes, log)
    final = {(r["offset"], r["key"], r["value"], r.get("error")): r for r in log.values()}
    polled = {
        (r["offset"], r["key"], r["value"], r.get("error")): r
        for r in rows
        if r["f"] == "keyed-poll"
    }
    for record in (polled | final).values():
        yield from _of_record(record, writes)


def _is(record: Row, write: Row) -> bool:
    """Whether the record can be that of the write."""
    return record["value"] == (write["value"] if write["f"] == "keyed-write" else None)


def _last(writes: list[Row], there: dict[int, Row]) -> Row | None:
    """The last acknowledged write of a key; of several at one offset, one that the log lacks."""
    placed = [r for r in writes if r["type"] == "ok" and r["offset"] is not None]
    return max(
        placed,
        key=lambda r: (r["offset"], r["offset"] in there and not _is(there[r["offset"]], r)),
        default=None,
    )


def _order(writes: list[Row], log: dict[int, Row]) -> Iterator[tuple[str, str | None]]:
    kept = [
        r
        for r in writes
        if (r["f"], r["type"]) == ("keyed-write", "ok")
        and r["offset"] in log
        and log[r["offset"]]["key"] == r["key"]
        and not log[r["offset"]].get("error")
        and _is(log[r["offset"]], r)
    ]
    for write in kept:
        if any(
            r["offset"] > write["offset"] and r["complete_ns"] < write["invoke_ns"] for r in kept
        ):
            yield "reordered-ack", None


def _of_key(
    writes: list[Row], there: dict[int, Row], values: set[int | None], end: Row, stays_ns: int
) -> Iterator[tuple[str, str | None]]:
    last = _last(writes, there)
    if last is None:
        return
    newest = max(there, default=-1)
    if newest > last["offset"]:
        return
    if newest == last["offset"] and (_is(there[newest], last) or there[newest].get("error")):
        return
    open_ = [r for r in writes if r["type"] == "info" and r["value"] not in values]
    deletions = [r for r in open_ if r["f"] == "keyed-delete"]
    deleted = last["f"] == "keyed-delete"
    if deleted:
        deletions.append(last)
    old = [r for r in deletions if end["complete_ns"] - r["invoke_ns"] > stays_ns]
    if old and not there:
        return
    if end["type"] != "ok" and last["offset"] >= end["offset"]:
        yield "unseen", None
    elif there and deleted:
        yield "resurrected-key", "expired" if last in old else None
    elif there:
        yield "lost-key", "stale"
    else:
        yield "lost-key", "tombstone" if deleted else None


def _of_record(record: Row, writes: list[Row]) -> Iterator[tuple[str, str | None]]:
    of_key = [r for r in writes if r["key"] == record["key"]]
    if record.get("error"):
        yield "phantom", record["error"]
    elif record["value"] is None:
        if not any(r["f"] == "keyed-delete" and r["type"] != "fail" for r in of_key):
            yield "phantom", "unsent"
    else:
        sent = [r for r in of_key if r["value"] == record["value"]]
        if not sent:
            yield "phantom", "unsent"
        elif sent[0]["type"] == "fail":
            yield "aborted-read", None
