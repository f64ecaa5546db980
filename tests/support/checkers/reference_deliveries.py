"""The detectors of deliveries to groups again, in plain Python: see `reference`."""

import itertools
from collections import Counter, defaultdict
from typing import Any

Row = dict[str, Any]
Counts = Counter[tuple[str, str | None, str, int]]
FOREVER = 1 << 62


def find_deliveries(history: list[Row]) -> Counts:
    """What a history shows of the records that groups got, and of who owned their partitions."""
    found: Counts = Counter()
    places = {(r["group"], *_at(r)) for r in history if r.get("group") and r.get("topic")}
    for place in sorted(places):
        rows = [r for r in history if r.get("topic") and (r.get("group"), *_at(r)) == place]
        owned = _owned(rows, history)
        for kind, aspect in (
            *_skipped(place, rows, owned, history),
            *_again(place, rows, owned, history),
            *_shared(rows, owned),
        ):
            found[kind, aspect, place[1], place[2]] += 1
    return found


def _at(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _owned(rows: list[Row], history: list[Row]) -> list[Row]:
    """The assignments, with until, how."""
    calls = [r for r in rows if r["f"] in ("assigned", "revoked", "lost") and r["type"] != "fail"]
    found = []
    for row in calls:
        mine = [r for r in calls if r["client"] == row["client"] and r["op"] > row["op"]]
        after = min(mine, key=lambda r: r["op"], default=None)
        lived = [r for r in history if r["client"] == row["client"]]
        ended = any(r["f"] == "end" for r in lived)
        last = max(r["complete_ns"] or r["invoke_ns"] for r in lived)
        if row["f"] == "assigned":
            how = after["f"] if after else "end" if ended else "cut"
            until = after["invoke_ns"] if after else last
            found.append(row | {"until": until, "how": how})
    return found


def _skipped(
    place: tuple[str, str, int], rows: list[Row], owned: list[Row], history: list[Row]
) -> list[tuple[str, str | None]]:
    polls = [r for r in rows if r["f"] == "poll" and r["offset"] is not None]
    commits = [r for r in rows if (r["f"], r["type"]) == ("offset-commit", "ok")]
    known = [r["offset"] for r in owned if r["offset"] is not None and r["offset"] >= 0]
    begins = [r["offset"] for r in polls] + known
    reads = [r for r in history if r["f"] == "final-read" and _at(r) == place[1:]]
    log = {r["offset"] for r in reads}
    got = {r["offset"] for r in polls}
    top = max((r["offset"] for r in commits), default=0)
    found: list[tuple[str, str | None]] = []
    for offset in sorted(o for o in log - got if min(begins, default=FOREVER) <= o < top):
        first: dict[int, int] = {}
        for poll in polls:
            first[poll["offset"]] = min(first.get(poll["offset"], FOREVER), poll["complete_ns"])
        before = max((at for o, at in first.items() if o < offset), default=-1)
        after = min((at for o, at in first.items() if o > offset), default=FOREVER)
        values = {r["value"] for r in reads if r["offset"] == offset} - {None}
        sends = [r for r in history if r["f"] == "send" and r["value"] in values]
        if sends and min(r["invoke_ns"] for r in sends) > after:
            continue  # the log was cut before it was sent
        if any(r.get("txn") and r["type"] != "ok" for r in sends):
            continue  # it may be aborted
        how = {r["how"] for r in owned if before <= r["until"] <= after}
        ended = {r["client"] for r in history if r["f"] == "end"}
        cut = [
            max(r["complete_ns"] or r["invoke_ns"] for r in history if r["client"] == client)
            for client in {r["client"] for r in history if r.get("group") == place[0]} - ended
        ]
        aspect = "member-cut" if any(at <= after for at in cut) else None
        if aspect is None and how & {"end", "cut"}:
            aspect = "member-ended"
        if aspect is None and how & {"revoked", "lost"}:
            aspect = "rebalanced"
        found.append(("skipped-record", aspect))
    return found


def after_a_cut(group: str, at: tuple[str, int], offset: int, history: list[Row]) -> bool:
    """Whether a member got the record again since the log was cut below its place."""
    rows = [r for r in history if r.get("group") == group and _at(r) == at]
    log = {(r["offset"], r["value"]) for r in history if r["f"] == "final-read" and _at(r) == at}
    ends = [r["type"] for r in history if r["f"] == "final-read-end" and _at(r) == at]
    polls = [r for r in rows if r["f"] == "poll" and r["offset"] is not None]
    gone = [r for r in polls if "ok" not in ends or (r["offset"], r["value"]) not in log]
    lost = max((r["offset"] for r in gone), default=-1) >= offset
    since = min((r["complete_ns"] for r in gone), default=FOREVER)
    for poll in polls:
        mine = [r for r in rows if r["client"] == poll["client"]]
        mine = [r for r in mine if (r["op"], r.get("offset") or 0) < (poll["op"], offset)]
        begun = [r for r in mine if r["f"] == "assigned" and r["type"] != "fail"]
        last = max(begun, key=lambda r: r["op"], default=None)
        reached = [r["offset"] for r in mine if r in polls and (not last or r["op"] > last["op"])]
        if last and (last.get("offset") or -1) >= 0:
            reached.append(last["offset"] - 1)
        back = poll["offset"] == offset <= max(reached, default=-1)
        if back and lost and since <= poll["complete_ns"]:
            return True
    return False


def _again(
    place: tuple[str, str, int], rows: list[Row], owned: list[Row], history: list[Row]
) -> list[tuple[str, str | None]]:
    by_offset: dict[int, dict[int, Row]] = defaultdict(dict)
    for poll in rows:
        if poll["f"] == "poll" and poll["offset"] is not None:
            mine = [r for r in owned if r["client"] == poll["client"] and r["op"] < poll["op"]]
            if mine:
                last = max(mine, key=lambda r: r["op"])
                by_offset[poll["offset"]][last["op"]] = last
    found: list[tuple[str, str | None]] = []
    for offset, assignments in by_offset.items():
        line = sorted(assignments.values(), key=lambda r: (r["complete_ns"], r["op"]))
        for earlier, later in itertools.pairwise(line):
            floor = floor_of(later, rows)
            aspect = "member-ended" if earlier["how"] in ("end", "cut") else "rebalanced"
            if floor is not None and offset < floor:
                position = later["offset"]
                lost = position is not None and 0 <= position < floor
                aspect = "commit-lost" if lost else "below-commit"
            if aspect != "commit-lost" and after_a_cut(place[0], place[1:], offset, history):
                aspect = "input-cut"
            found.append(("delivered-again", aspect))
    return found


def floor_of(assigned: Row, rows: list[Row]) -> int | None:
    commits = [r for r in rows if r["f"] == "offset-commit" and r["type"] != "fail"]
    over = [
        r for r in commits
        if r["type"] == "ok" and r["complete_ns"] < assigned["invoke_ns"]
    ]  # fmt: skip
    if not over:
        return None
    last = max(r["invoke_ns"] for r in over)
    return min(
        r["offset"]
        for r in commits
        if (r["complete_ns"] or FOREVER) >= last and r["invoke_ns"] < assigned["complete_ns"]
    )


def _shared(rows: list[Row], owned: list[Row]) -> list[tuple[str, str | None]]:
    commits = [r for r in rows if (r["f"], r["type"]) == ("offset-commit", "ok")]
    found: list[tuple[str, str | None]] = []
    line = sorted(owned, key=lambda r: (r["complete_ns"], r["op"]))
    for number, later in enumerate(line):
        for earlier in line[:number]:
            over = min(earlier["until"], later["until"])
            if earlier["client"] == later["client"] or later["complete_ns"] >= over:
                continue
            both = {
                r["client"]
                for r in commits
                for mine, other in ((later, earlier), (earlier, later))
                if r["client"] == mine["client"]
                and later["complete_ns"] < r["invoke_ns"]
                and r["complete_ns"] < over
                and r["generation"] >= other["generation"]
            }
            found.append(("two-owners", "both-committed" if len(both) == 2 else None))
    return found
