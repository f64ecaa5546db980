"""The detector of second copies in compacted topics again, in plain Python: see `reference`. What a
cause may have taken is beyond it."""

from collections import defaultdict
from collections.abc import Iterator

from checkers.frames.unknown_producers import NS_PER_MS
from tests.support.histories.story import Row, S, Story

_DAY_MS = 86_400_000


def find_copies(story: Story, rows: list[Row]) -> Iterator[Row]:
    """The writes that a partition has twice; rows: of the partition."""
    writes = [r for r in rows if r["f"] in ("keyed-write", "keyed-delete")]
    log = [r for r in rows if r["f"] == "keyed-read" and not r.get("error")]
    given = [r for r in rows if r["f"] == "keyed-poll" and not r.get("error")]
    whole = any(r["f"] == "final-read-end" and r["type"] == "ok" for r in rows)
    [planned] = [each for each in story.plan["topics"] if each["name"] == rows[0]["topic"]]
    idempotent = bool(planned.get("idempotence"))
    told = [w for w in writes if w["type"] == "ok" and (w["offset"] or 0) >= 0]
    told = [w for w in told if w["offset"] is not None]
    held = defaultdict(set)
    for row in [*told, *log, *given]:
        held[row["offset"]].add(None if row["f"] == "keyed-delete" else row["value"])
    for write in writes:
        if write["f"] != "keyed-write":
            continue
        there = {r["offset"] for r in log if r["value"] == write["value"]}
        seen = {r["offset"] for r in given if r["value"] == write["value"]}
        seen = seen if _leaders_known(story, rows[0]) else set()
        others = {at for at in there | seen if at != write["offset"] and len(held[at]) == 1}
        known = write in told and len(held[write["offset"]]) == 1 and whole
        if len(there) > 1 or (known and others):
            yield write
    if not whole or not idempotent or _cut(story):
        return
    for row in log:
        if row["value"] is None and len(held[row["offset"]]) == 1:
            of_key = [w for w in writes if w["key"] == row["key"] and w["type"] != "fail"]
            of_key = [w for w in of_key if w["f"] == "keyed-delete"]
            elsewhere = [w for w in of_key if w in told and w["offset"] != row["offset"]]
            if of_key and elsewhere == of_key and not _outlasted(story, of_key):
                yield max(of_key, key=lambda w: int(w["op"]))


def _leaders_known(story: Story, place: Row) -> bool:
    of = (place["topic"], place["partition"])
    epochs = [r for r in story.cluster if r["kind"] == "epoch"]
    return any((r.get("topic"), r.get("partition")) == of for r in epochs)


def _cut(story: Story) -> bool:
    clients = {r["client"] for r in story.history}
    return bool(clients - {r["client"] for r in story.history if r["f"] == "end"})


def _outlasted(story: Story, deletions: list[Row]) -> bool:
    broker = story.plan.get("broker") or {}
    kept_ns = int(broker.get("producer.id.expiration.ms", _DAY_MS)) * NS_PER_MS - S
    return any(w["complete_ns"] - w["invoke_ns"] >= kept_ns for w in deletions)
