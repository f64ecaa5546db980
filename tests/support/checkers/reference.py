"""The detectors again, in the plainest Python there is, for histories of a few rows.

Takes rows (dicts) and counts instances: {(kind, aspect, topic, partition): count}. Shares nothing
with the code under test but the definitions of the anomalies. What the cluster's tables show is
counted by `reference_cluster`, what the contract says of it by `reference_contract`.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tests.support.checkers.reference_deliveries import find_deliveries
from tests.support.checkers.reference_groups import find_in_groups
from tests.support.checkers.reference_transactions import find_in_transactions
from tests.support.histories.story import S

Row = dict[str, Any]
Counts = Counter[tuple[str, str | None, str, int]]


def find(history: list[Row], cluster: Iterable[Row] = ()) -> Counts:
    """Every instance of every anomaly that a history shows; of `cluster` only where logs end."""
    found, history, torn = find_in_transactions(history)
    log_ends = [r for r in cluster if r["kind"] == "epoch" and r.get("end_offset") is not None]
    partitions = {(r["topic"], r["partition"]) for r in history if r.get("topic") is not None}
    for topic, partition in partitions:
        rows = [r for r in history if (r.get("topic"), r.get("partition")) == (topic, partition)]
        excused = {r["value"] for r in rows if r["f"] == "send" and _excused(r, history)}
        log_end = max(
            (
                r["end_offset"]
                for r in log_ends
                if (r["topic"], r["partition"]) == (topic, partition)
            ),
            default=0,
        )
        proved = [r for r in _proved(history) if (r["topic"], r["partition"]) == (topic, partition)]
        for kind, aspect in _of_partition(rows, excused, log_end, proved, torn):
            found[kind, aspect, topic, partition] += 1
    found += find_in_groups(history)
    found += find_deliveries(history)
    for topic, partition in _refused(history):
        found["refused-head", None, topic, partition] += 1
    return found


def _refused(history: list[Row]) -> Iterable[tuple[str, int]]:
    bumps = defaultdict(list)
    for row in history:
        if row["f"] == "producer-epoch":
            bumps[row["op"]].append(row)
    for reasons in bumps.values():
        if not any(r["error"].startswith("timed-out") for r in reasons):
            for row in reasons:
                if row["error"].startswith("refused at the head of the line"):
                    yield row["topic"], row["partition"]


def _excused(send: Row, history: list[Row]) -> bool:
    """Whether its client left an epoch by its own doing elsewhere, with this send in flight."""
    bumps = defaultdict(list)
    for row in history:
        if row["f"] == "producer-epoch" and row["client"] == send["client"]:
            bumps[row["op"]].append(row)
    here = (send["topic"], send["partition"])
    return any(
        send["invoke_ns"] < reasons[0]["invoke_ns"]
        and (send["complete_ns"] or 1 << 62)
        > (reasons[0]["complete_ns"] or reasons[0]["invoke_ns"])
        and all(r["error"].startswith(("skipped-ahead", "timed-out")) for r in reasons)
        and not any(
            (r["topic"], r["partition"]) == here and (r.get("value") or 0) <= send["value"]
            for r in reasons
        )
        for reasons in bumps.values()
    )


def _of_partition(
    rows: list[Row], excused: set[int], log_end: int, proved: list[Row], torn: set[int]
) -> Iterable[tuple[str, str | None]]:
    sends = [r for r in rows if r["f"] == "send"]
    acked = [r for r in sends if r["type"] == "ok"]
    final = [r for r in rows if r["f"] == "final-read"]
    polls = [r for r in rows if r["f"] == "poll"]
    complete = any(r["f"] == "final-read-end" and r["type"] == "ok" for r in rows)
    ends = [r for r in rows if r["f"] == "final-read-end" and r.get("error") is None]
    reached = max((r["offset"] for r in ends if r["offset"] is not None), default=0)
    complete = complete and log_end <= reached
    whole = [r for r in acked + proved if r["op"] not in torn]
    yield from _lost(whole, final, complete, reached, _bounds(sends, final + polls))
    known = [r for r in acked + proved if r["offset"] is not None and not complete]
    beyond = [r for r in known if r["offset"] >= reached]
    yield from _claims(beyond, final, polls)
    inside = {r["value"] for r in sends if r.get("inside")}
    yield from _order(acked, final, polls, excused, complete, beyond, inside)
    found = {r["offset"] for r in final}
    told = [r for r in sends if r["type"] != "fail" and r["offset"] is not None]
    passed = [r for r in told if complete or r["offset"] in found or r["offset"] < reached]
    yield from _offsets(passed, final, polls)
    yield from _reads(sends, final, polls, complete)
    asks = [r for r in rows if r["f"] == "watermark"] + (
        _refused_positions(rows, final) if complete else []
    )
    yield from _real_time(acked, told, final, _lasting(polls, final, complete), polls, asks)
    doubtful = {r["value"] for r in sends if r.get("txn") and r["type"] != "ok"}
    held = {r["offset"] for r in final + polls if r["value"] not in doubtful}
    of_client = {c: [r for r in rows if r["client"] == c] for c in {r["client"] for r in rows}}
    ways = {client: _ways(mine, final) for client, mine in of_client.items()}
    for client, mine in of_client.items():
        others = [way for other, several in ways.items() if other != client for way in several]
        yield from _jumps(mine, held, others)
        yield from _watermarks([r for r in rows if r["client"] == client and r["f"] == "watermark"])


def _proved(history: list[Row]) -> list[Row]:
    """The sends of unknown outcome of whose transaction something was read."""
    read = {r["value"] for r in history if r["f"] in ("poll", "final-read")}
    unknown = [r for r in history if (r["f"], r["type"]) == ("send", "info") and r.get("txn")]
    written = {r["txn"] for r in unknown if r["value"] in read}
    return [r for r in unknown if r["txn"] in written]


def _bounds(sends: list[Row], reads: list[Row]) -> dict[int, int]:
    """By operation, where a send lies at most."""
    found: dict[int, int] = {}
    for send in sends:
        later = [
            place
            for other in sends
            if send.get("txn") and other.get("txn") == send["txn"] and other["op"] > send["op"]
            for place in [*(r["offset"] for r in reads if r["value"] == other["value"]),
                          other["offset"]][:1]
            if place is not None
        ]  # fmt: skip
        if send["offset"] is not None or later:
            found[send["op"]] = min(later) if send["offset"] is None else send["offset"]
    return found


def _claims(
    beyond: list[Row], final: list[Row], polls: list[Row]
) -> Iterable[tuple[str, str | None]]:
    """Offsets of which acknowledgements say more than one value, or another than was read."""
    log = {(r["offset"], r["value"]) for r in final}
    there = {value for _, value in log}
    for offset in {r["offset"] for r in beyond}:
        here = [r for r in beyond if r["offset"] == offset]
        told = {r["value"] for r in here}
        read = {r["value"] for r in final + polls if r["offset"] == offset} - {None}
        # Told of already: the final read found it elsewhere, and another here.
        moved = any(r["value"] in there and (offset, r["value"]) not in log for r in here)
        if len(told | read) > 1 and not (moved and any(r["offset"] == offset for r in final)):
            yield "inconsistent-offset", "acknowledged"


def _lost(
    acked: list[Row], final: list[Row], complete: bool, reached: int, bounds: dict[int, int]
) -> Iterable[tuple[str, str | None]]:
    there = {r["value"] for r in final}
    offsets = [r["offset"] for r in final]
    for send in acked:
        if send["value"] in there:
            continue
        if not complete and bounds.get(send["op"], reached) >= reached:
            yield "unseen", None
        elif send["offset"] is None:
            yield "lost-write", None
        elif not offsets or send["offset"] > max(offsets):
            yield "lost-write", "tail"
        elif send["offset"] < min(offsets):
            yield "lost-write", "prefix"
        else:
            yield "lost-write", "middle"


def _order(
    acked: list[Row],
    final: list[Row],
    polls: list[Row],
    excused: set[int],
    complete: bool,
    beyond: list[Row],
    inside: set[int],
) -> Iterable[tuple[str, str | None]]:
    in_the_end, anywhere = defaultdict(set), defaultdict(set)
    read_ns: dict[int, int] = {}
    for row in final:
        in_the_end[row["value"]].add(row["offset"])
    for row in final + polls:
        if row["value"] is not None:
            anywhere[row["value"]].add(row["offset"])
            read_ns[row["value"]] = min(read_ns.get(row["value"], 1 << 62), row["complete_ns"])
    for value, offsets in (in_the_end if complete else anywhere).items():
        if value is not None and len(offsets) > 1:
            of_transaction = "transaction" if value in inside else None
            yield "duplicate", "client-epoch" if value in excused else of_transaction
    for client in {r["client"] for r in acked}:
        mine = sorted((r for r in acked if r["client"] == client), key=lambda r: r["op"])
        unread = {r["op"] for r in beyond if r["value"] not in anywhere}
        places = [
            (min(found), read_ns[r["value"]], r) if found else (r["offset"], None, r)
            for r in mine
            if (found := in_the_end[r["value"]] or (not complete and anywhere[r["value"]]))
            or r["op"] in unread
        ]
        for (before, before_ns, first), (after, after_ns, second) in itertools.pairwise(places):
            if after < before and None in (after_ns, before_ns):
                yield "reordered-send", "acknowledged"
            elif after < before and (complete or after_ns <= before_ns):
                both = {first["value"], second["value"]} <= inside
                yield "reordered-send", "transaction" if both else None


def _offsets(
    acked: list[Row], final: list[Row], polls: list[Row]
) -> Iterable[tuple[str, str | None]]:
    values = defaultdict(set)
    for row in final + polls:
        if row["value"] is not None:
            values[row["offset"]].add(row["value"])
    for several in values.values():
        if len(several) > 1:
            yield "inconsistent-offset", "read"
    log = {(r["offset"], r["value"]) for r in final}
    for send in acked:
        survives = any(value == send["value"] for _, value in log)
        if survives and send["offset"] is not None and (send["offset"], send["value"]) not in log:
            yield "inconsistent-offset", "acknowledged"


def _reads(
    sends: list[Row], final: list[Row], polls: list[Row], complete: bool
) -> Iterable[tuple[str, str | None]]:
    log = {(r["offset"], r["value"]) for r in final}
    start = min((r["offset"] for r in final), default=0)
    if complete:
        for row in polls:
            if row["value"] is not None and (row["offset"], row["value"]) not in log:
                yield "truncated-read", "prefix" if row["offset"] < start else None
    read = {r["value"] for r in final + polls if r["value"] is not None}
    for send in sends:
        if send["type"] == "fail" and send["value"] in read:
            yield "aborted-read", "transaction" if send.get("inside") else None
    for _ in read - {r["value"] for r in sends}:
        yield "phantom", "unsent"
    for row in final + polls:
        if row["value"] is None:
            yield "phantom", row["error"] or "foreign"


Way = list[tuple[int, int | None]]
"""Offsets and values that one client read in order, without an assignment between."""


def _moves(rows: list[Row]) -> list[Row]:
    given = [r for r in rows if r["f"] in ("assign", "assigned") and r["type"] == "ok"]
    moves = [r for r in rows if r["f"] == "poll"] + given
    return sorted(moves, key=lambda r: (r["op"], r["offset"] or 0))


def _ways(rows: list[Row], final: list[Row]) -> list[Way]:
    ways: list[Way] = [[]]
    for row in _moves(rows):
        if row["f"] != "poll":
            ways.append([])
        else:
            ways[-1].append((row["offset"], row["value"]))
    ends = {id(row) for row in final}
    read = sorted((r for r in rows if id(r) in ends), key=lambda r: r["offset"])
    return [*ways, [(r["offset"], r["value"]) for r in read]]


def _jumps(rows: list[Row], held: set[int], others: list[Way]) -> Iterable[tuple[str, str | None]]:
    expected = None
    for row in _moves(rows):
        if row["f"] != "poll":
            known = row["offset"] is not None and row["offset"] >= 0
            expected = row["offset"] if known else None
            continue
        if expected is not None and row["offset"] < expected:
            yield "nonmonotonic-poll", None
        before = max((o for o in held if o < row["offset"]), default=-1)
        here = row["offset"], row["value"]
        if expected is not None and expected <= before:
            passed = (way[: way.index(here)] for way in others if here in way)
            if any(offset == before for way in passed for offset, _ in way):
                yield "poll-skip", None
        expected = row["offset"] + 1


def _watermarks(rows: list[Row]) -> Iterable[tuple[str, str | None]]:
    asks = sorted(rows, key=lambda r: (r["complete_ns"], r["op"]))
    for before, after in itertools.pairwise(asks):
        if after["offset"] < before["offset"] and before["complete_ns"] <= after["invoke_ns"]:
            yield "watermark-regression", None


def _refused_positions(rows: list[Row], final: list[Row]) -> list[Row]:
    """The positions that a broker refused although the log has the record below; as told ends."""
    log = {(r["offset"], r["value"]) for r in final}
    if min((offset for offset, _ in log), default=-1) != 0:
        return []
    asks, last = [], {}
    for row in sorted(rows, key=lambda r: (r["op"], r.get("offset") or 0)):
        if row["f"] == "poll":
            last[row["client"]] = row["offset"], row["value"]
        elif row["f"] in ("assign", "assigned"):
            before = last.pop(row["client"], None)
            if row.get("error") == "OFFSET_OUT_OF_RANGE" and before in log:
                asks.append(row | {"offset": before[0]})
    return asks


def _lasting(polls: list[Row], final: list[Row], complete: bool) -> list[Row]:
    """The polled records that were not taken back."""
    told = defaultdict(set)
    for row in final + polls:
        if row["value"] is not None:
            told[row["offset"]].add(row["value"])
    there = {r["offset"] for r in final if r["value"] is not None}
    return [
        r
        for r in polls
        if len(told[r["offset"]]) <= 1
        and (r["offset"] in there or not complete or not told[r["offset"]])
    ]


def _real_time(
    acked: list[Row],
    told: list[Row],
    final: list[Row],
    lasting: list[Row],
    polls: list[Row],
    asks: list[Row],
) -> Iterable[tuple[str, str | None]]:
    log = {(r["offset"], r["value"]) for r in final}
    kept = [r for r in told if (r["offset"], r["value"]) in log]
    for send in kept:
        if any(r["offset"] > send["offset"] for r in kept if r["complete_ns"] < send["invoke_ns"]):
            yield "reordered-ack", None
    marks = [(r["complete_ns"], r["offset"]) for r in lasting] + _committed(kept, final + polls)
    for ask in asks:
        if any(at < ask["invoke_ns"] and offset >= ask["offset"] for at, offset in marks):
            yield "uncommitted-read", None
    if any(_behind(poll, acked) for poll in _ends(polls)):
        yield "stale-read", None


def _committed(kept: list[Row], reads: list[Row]) -> list[tuple[int, int]]:
    """Of each tenth of a second in which acks=all writes were acknowledged that the log still has:
    the last answer, and the last of these writes."""
    told = defaultdict(set)
    for row in reads:
        told[row["offset"]].add(row["value"])
    found = defaultdict(list)
    for row in kept:
        if (row["type"], row["acks"]) == ("ok", -1) and len(told[row["offset"]] - {None}) <= 1:
            found[row["complete_ns"] // (S // 10)].append(row)
    return [
        (max(r["complete_ns"] for r in some), max(r["offset"] for r in some))
        for some in found.values()
    ]


def _ends(polls: list[Row]) -> Iterable[Row]:
    """The last record of every poll."""
    by_op: dict[int, Row] = {}
    for row in polls:
        if row["op"] not in by_op or row["offset"] > by_op[row["op"]]["offset"]:
            by_op[row["op"]] = row
    return by_op.values()


def _behind(poll: Row, acked: list[Row]) -> bool:
    return any(
        r["acks"] == -1
        and r["offset"] == poll["offset"] + 1
        and r["complete_ns"] < poll["invoke_ns"]
        for r in acked
    )
