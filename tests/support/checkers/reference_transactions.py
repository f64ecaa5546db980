"""The detectors of transactions again, in plain Python: see `reference`."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
Counts = Counter[tuple[str, str | None, str, int]]
ENDS = ("commit-transaction", "abort-transaction")


def find_in_transactions(history: list[Row]) -> tuple[Counts, list[Row], set[int]]:
    """What a history shows of transactions; the history without reads that came before a commit,
    its sends marked `ended` if the end of their transaction is recorded, and `inside` if they are
    in any; the lost sends that are
    counted here, by operation."""
    found: Counts = Counter()
    outcomes = _outcomes(history)
    history = [r | _of_transaction(r.get("txn"), outcomes) if _sent(r) else r for r in history]
    sends = [r for r in history if _sent(r)]
    open_ = {r["value"]: r for r in sends if r["type"] != "ok" and r.get("txn") is not None}
    early = [r for r in history if r.get("isolation") == 0 and r.get("value") in open_]
    for value in {r["value"] for r in early}:
        if open_[value]["type"] == "fail":
            found["aborted-read", "read-uncommitted", *_at(open_[value])] += 1
    found += _replaced(early, history)
    history = [r for r in history if r not in early]
    for send in sends:
        if send["type"] != "fail" and _read_while_open(history, send):
            found["aborted-read", "open", *_at(send)] += 1
    torn: set[int] = set()
    parts = defaultdict(list)
    for send in sends:
        if send["ended"]:
            parts[send["txn"]].append(send)
    there = {r["value"] for r in history if r["f"] == "final-read"}
    for txn, part in parts.items():
        gone = [r for r in part if r["value"] not in there]
        if outcomes[txn] == "fail" and not gone:
            found["false-abort", None, *_at(part[0])] += 1
        if outcomes[txn] != "fail" and 0 < len(gone) < len(part):
            known = [r for r in gone if _complete(history, r)]
            torn |= {r["op"] for r in known}
            if known:
                found["torn-transaction", None, *_at(min(known, key=lambda r: r["op"]))] += 1
    read = {r["value"] for r in history if r["f"] in ("poll", "final-read")}
    for send in sends:
        if send["value"] in read and _fenced(history, send):
            found["zombie-write", None, *_at(send)] += 1
    for aspect, send in _late_commits(history, sends, read):
        found["zombie-write", aspect, *_at(send)] += 1
    for send in _passed_while_open(history, sends):
        found["aborted-read", "behind-open", *_at(send)] += 1
    return found, history, torn


def _replaced(early: list[Row], history: list[Row]) -> Counts:
    """The offsets that had another record too, unless the other reads show two by themselves."""
    found: Counts = Counter()
    for place in {(*_at(r), r["offset"]) for r in early}:
        here = [
            r for r in history
            if r["f"] in ("poll", "final-read") and (*_at(r), r["offset"]) == place
        ]  # fmt: skip
        others = {r["value"] for r in here if r not in early} - {None}
        if len({r["value"] for r in here} - {None}) > 1 and len(others) <= 1:
            found["inconsistent-offset", "read", place[0], place[1]] += 1
    return found


def _of_transaction(txn: int | None, outcomes: dict[int, str]) -> Row:
    return {"ended": txn in outcomes, "inside": txn is not None}


def _sent(row: Row) -> bool:
    return bool(row["f"] == "send")


def _at(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _outcomes(history: list[Row]) -> dict[int, str]:
    outcomes: dict[int, str] = {}
    for row in history:
        if row["f"] in ENDS:
            answer = "fail" if (row["f"], row["type"]) == (ENDS[1], "ok") else row["type"]
            if row["f"] == ENDS[1] and row["type"] != "ok":
                answer = "info"
            outcomes[row["txn"]] = answer
    return outcomes


def _complete(history: list[Row], send: Row) -> bool:
    """Whether the send's partition was read to its end, and its place is not below the start."""
    ends = [r for r in history if r["f"] == "final-read-end" and _at(r) == _at(send)]
    reads = [r["offset"] for r in history if r["f"] == "final-read" and _at(r) == _at(send)]
    whole = any(r["type"] == "ok" and r.get("error") is None for r in ends)
    return whole and (send["offset"] or 0) >= min(reads, default=0)


def _read_while_open(history: list[Row], send: Row) -> bool:
    """Whether a reader of committed records got it before anybody asked to end its transaction."""
    asked = [r["invoke_ns"] for r in history if r["f"] in ENDS and r["txn"] == send.get("txn")]
    return any(
        (r["f"], r.get("isolation"), r.get("value")) == ("poll", 1, send["value"])
        and _at(r) == _at(send)
        and r["complete_ns"] < min(asked, default=0)
        for r in history
    )


def _passed_while_open(history: list[Row], sends: list[Row]) -> Iterator[Row]:
    """Of each transaction and partition the first send in the final log, if a reader of committed
    records got a later record of the log, and none of the transaction, before anybody asked to end
    it."""
    final = [r for r in history if r["f"] == "final-read" and r["value"] is not None]
    log = {(*_at(r), r["offset"], r["value"]) for r in final}
    parts = defaultdict(list)
    for send in sends:
        if send["ended"] and send["type"] != "fail":
            parts[send["txn"], _at(send)].append(send)
    for (txn, at), part in parts.items():
        asked = min(r["invoke_ns"] for r in history if r["f"] in ENDS and r["txn"] == txn)
        values = {r["value"]: r for r in part}
        places = [(r["offset"], r["value"]) for r in final if _at(r) == at and r["value"] in values]
        if not places or any(_read_while_open(history, send) for send in part):
            continue
        first, value = min(places)
        if any(
            (r["f"], r.get("isolation")) == ("poll", 1)
            and r["complete_ns"] < asked
            and r["offset"] > first
            and (*at, r["offset"], r["value"]) in log
            for r in history
            if (r.get("topic"), r.get("partition")) == at
        ):
            yield values[value]


def _late_commits(
    history: list[Row], sends: list[Row], read: set[int]
) -> Iterator[tuple[str, Row]]:
    """The transactions whose producer had been fenced before it asked for the commit: the first
    send of each that was read."""
    for txn in {r["txn"] for r in sends if r["ended"]}:
        ends = [r for r in history if r["f"] in ENDS and r["txn"] == txn]
        part = [r for r in sends if r.get("txn") == txn]
        there = [r for r in part if r["value"] in read and r["type"] != "fail"]
        asked = {**ends[0], "invoke_ns": min(r["invoke_ns"] for r in ends)}
        answers = {(r["f"], r["type"]) for r in ends}
        if not there or not answers <= {(ENDS[0], "ok"), (ENDS[0], "info")}:
            continue
        if _fenced(history, asked) and not any(_fenced(history, r) for r in part):
            aspect = "commit" if (ENDS[0], "ok") in answers else "commit-unanswered"
            yield aspect, min(there, key=lambda r: r["op"])


def _fenced(history: list[Row], send: Row) -> bool:
    """Whether another client had surely taken the transactional id over before this began."""
    inits = [
        r
        for r in history
        if r["f"] == "init-producer"
        and r["type"] != "fail"
        and r["transactional_id"] == send.get("transactional_id")
    ]
    own = [
        (r["complete_ns"] if r["type"] == "ok" else 1 << 62)
        for r in inits
        if r["client"] == send["client"] and r["invoke_ns"] <= send["invoke_ns"]
    ]
    return bool(own) and any(
        r["client"] != send["client"]
        and r["type"] == "ok"
        and r["complete_ns"] < send["invoke_ns"]
        and r["invoke_ns"] > max(own)
        for r in inits
    )
