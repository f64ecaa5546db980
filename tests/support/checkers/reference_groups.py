"""The detectors of copies and groups again, in plain Python: see `reference`."""

import itertools
from collections import Counter, defaultdict
from typing import Any

from tests.support.checkers.reference_deliveries import after_a_cut, floor_of

Row = dict[str, Any]
Counts = Counter[tuple[str, str | None, str, int]]
ENDS = ("commit-transaction", "abort-transaction")


def find_in_groups(history: list[Row]) -> Counts:
    """What a history shows of groups, and of the copies that they made."""
    found: Counts = Counter()
    if any(r["f"] == "final-committed" for r in history):
        _copies(history, found)
    _lost_commits(history, found)
    _stale_commits(history, found)
    _phantom_commits(history, found)
    return found


def _same(one: Row, other: Row) -> bool:
    return (one["group"], *_at(one)) == (other["group"], *_at(other))


def _commits(history: list[Row]) -> list[Row]:
    return [r for r in history if r["f"] == "offset-commit" and r["type"] != "fail"]


def _lost_commits(history: list[Row], found: Counts) -> None:
    for seen in history:
        aspect = {"final-committed": "final", "assigned": "assigned"}.get(seen["f"])
        if aspect is None or seen["type"] != "ok":
            continue
        if seen["offset"] is None:
            if aspect == "assigned":
                continue
            seen = {**seen, "offset": -1}
        here = [r for r in _commits(history) if _same(r, seen)]
        above = [
            r["invoke_ns"]
            for r in here
            if r["type"] == "ok"
            and r["offset"] > seen["offset"]
            and r["complete_ns"] < seen["invoke_ns"]
        ]
        if aspect == "final":
            above += [
                r["invoke_ns"]
                for r in here
                if r["offset"] > seen["offset"] and _is_proved(r, seen, history)
            ]
        explained = [
            r["complete_ns"] or 1 << 62
            for r in here
            if r["offset"] == seen["offset"] and r["invoke_ns"] < seen["complete_ns"]
        ]
        if above and max(explained, default=-1) < max(above):
            found["lost-commit", aspect, *_at(seen)] += 1


def _is_proved(commit: Row, seen: Row, history: list[Row]) -> bool:
    """Whether a commit without an answer belongs to a transaction that was committed, and whose
    commit was asked for between the two."""
    txn = commit.get("txn")
    if txn is None or commit["type"] != "info":
        return False
    read = {r["value"] for r in history if r["f"] == "final-read"}
    ends = [r for r in history if r["f"] in ENDS and r["txn"] == txn]
    asked = [r["invoke_ns"] for r in ends if all(each["f"] == ENDS[0] for each in ends)]
    return bool(
        asked
        and commit["invoke_ns"] < min(asked) < seen["invoke_ns"]
        and any(
            (r["f"], r.get("txn"), r["type"]) == ("send", txn, "info") and r["value"] in read
            for r in history
        )
    )


def _stale_commits(history: list[Row], found: Counts) -> None:
    assigned = [r for r in history if r["f"] == "assigned"]
    for commit in _commits(history):
        before = [r for r in assigned if _same(r, commit) and _precedes(r, commit)]
        newer = [
            r
            for r in before
            if r["client"] != commit["client"]
            and r["generation"] > commit["generation"]
            and r["complete_ns"] < commit["invoke_ns"]
        ]
        if commit["type"] != "ok" or not newer:
            continue
        own = [r["complete_ns"] for r in before if r["client"] == commit["client"]]
        aspect = None if commit.get("txn") is None else "transaction"
        if own and max(own) > max(r["complete_ns"] for r in newer):
            aspect = "generation-went-back"
        found["stale-commit", aspect, *_at(commit)] += 1


def _phantom_commits(history: list[Row], found: Counts) -> None:
    commits = [r for r in history if r["f"] == "offset-commit"]
    ended = {r["client"] for r in history if r["f"] == "end"}
    for seen in history:
        if (seen["f"], seen["type"]) != ("final-committed", "ok") or seen["offset"] in (None, -1):
            continue
        group = [r for r in commits if r["group"] == seen["group"]]
        equal = [r for r in group if _same(r, seen) and r["offset"] == seen["offset"]]
        if not group or any(r["type"] != "fail" for r in equal):
            continue
        members = [*group, *(r for r in history if r["f"] == "assigned" and _in(r, seen))]
        aspect = "refused" if equal else None
        if any(r.get("transactional_id") is not None for r in equal):
            aspect = "transaction"
        if any(r["client"] not in ended for r in members):
            aspect = "member-cut"
        found["phantom-commit", aspect, *_at(seen)] += 1


def _in(row: Row, seen: Row) -> bool:
    return bool(row["group"] == seen["group"])


def _precedes(row: Row, commit: Row) -> bool:
    return bool(row["complete_ns"] <= commit["invoke_ns"])


def _at(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _after_a_lost_commit(place: tuple[str, int, str, int, int], history: list[Row]) -> bool:
    """Whether a member went on at or below this record, and below a commit above it."""
    group, _, topic, partition, offset = place
    rows = [r for r in history if r.get("group") == group and _at(r) == (topic, partition)]
    for row in rows:
        if row["f"] == "assigned" and row["type"] != "fail" and row["offset"] is not None:
            floor = floor_of(row, rows)
            if floor is not None and 0 <= row["offset"] <= offset < floor:
                return True
    return False


def _sent_too_late(group: str, record: Row, history: list[Row]) -> bool:
    """Whether the group had got a record above before this one was sent."""
    sent = [
        r["invoke_ns"] for r in history if (r["f"], r.get("value")) == ("send", record["value"])
    ]
    above = [
        r["complete_ns"]
        for r in history
        if (r["f"], r.get("group")) == ("poll", group)
        and _at(r) == _at(record)
        and r["offset"] is not None
        and r["offset"] > record["offset"]
    ]
    return bool(sent and above) and min(sent) > min(above)


def _copies(history: list[Row], found: Counts) -> None:
    rows = [r for r in history if r["f"] == "final-read" and r["value"] is not None]
    rows.sort(key=lambda r: (*_at(r), r["offset"]), reverse=True)
    log = {r["value"]: r for r in rows}
    copies = [r for r in history if r["f"] == "send" and r.get("copies") is not None]
    whole = {_at(r) for r in history if (r["f"], r["type"]) == ("final-read-end", "ok")}
    known = {
        (r["group"], r["copies"])
        for r in copies
        if r["value"] in log or r["type"] == "ok" or (r["type"] == "info" and _at(r) not in whole)
    }
    got = {
        (r["group"], *_at(r), r["offset"], r["value"])
        for r in history
        if r["f"] == "poll" and r.get("group") and r["value"] is not None
    }
    ended = any(r["f"] in ("commit-transaction", "abort-transaction") for r in history)
    doubtful = {
        r["value"]
        for r in history
        if ended and r["f"] == "send" and r.get("txn") is not None and r["type"] != "ok"
    }
    topics = {(c["group"], r["topic"]) for c in copies for r in rows if r["value"] == c["copies"]}
    for end in history:
        if end["f"] == "final-committed" and (end["group"], end["topic"]) in topics:
            for row in rows:
                below = _at(row) == _at(end) and row["offset"] < (end["offset"] or 0)
                place = (end["group"], *_at(row), row["offset"])
                again = any(each[:-1] == place and each[-1] != row["value"] for each in got)
                again = again or _sent_too_late(end["group"], row, history)
                again = again or ((*place, row["value"]) not in got and row["value"] in doubtful)
                if below and (end["group"], row["value"]) not in known and not again:
                    found["uncopied", None, *_at(row)] += 1
    polls = {
        (r["group"], r["value"], *_at(r), r["offset"], r["op"])
        for r in history
        if r["f"] == "poll" and r.get("group") and r["value"] is not None
    }
    times = Counter(poll[:-1] for poll in polls)
    places = Counter(place[:2] for place in times)
    repeated = {place[:2] for place, count in times.items() if count > 1}
    in_log = Counter(r["value"] for r in rows)
    lines = defaultdict(list)
    kept = defaultdict(list)
    for copy in copies:
        if copy["value"] in log and copy["type"] != "fail":
            kept[copy["group"], copy["copies"]].append(copy)
    for key, several in kept.items():
        aspect = "delivered-again" if key in repeated else None
        twice = [place for place, count in times.items() if place[:2] == key and count > 1]
        if any(after_a_cut(place[0], place[2:4], place[4], history) for place in twice):
            aspect = "input-cut"
        if any(_after_a_lost_commit(place, history) for place in times if place[:2] == key):
            aspect = "commit-lost"
        written = max(in_log[key[1]], places[key], 1)
        for copy in sorted(several, key=lambda r: r["op"])[written:]:
            found["copied-twice", aspect, *_at(copy)] += 1
        by_place = defaultdict(list)
        for copy in several:
            by_place[_at(copy)].append(log[copy["value"]]["offset"])
        if key[1] in log:
            source = log[key[1]]
            for place, offsets in by_place.items():
                line = (key[0], _at(source), place)
                lines[line].append((min(offsets), source["offset"], aspect))
    for (_, _, place), line in lines.items():
        for (_, before, _), (_, after, aspect) in itertools.pairwise(sorted(line)):
            if after < before:
                found["copied-out-of-order", aspect, *place] += 1
