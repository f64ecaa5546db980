"""What the tables beside a history show, counted in the plainest Python; see `reference`."""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable

from checkers.history.history import METADATA_TOPIC
from tests.support.checkers.reference import Counts, Row
from tests.support.checkers.reference_hanging import find_hanging
from tests.support.checkers.reference_keys import find_in_compacted
from tests.support.checkers.reference_passes import find_in_passes
from tests.support.checkers.reference_unanswered import find_unanswered
from tests.support.histories.story import S, Story

PATIENCE_NS = 10 * S


def find_in_cluster(story: Story) -> Counts:
    """Every instance of every anomaly that is in the cluster's and the replicas' tables, and of
    those that only all tables together show."""
    found: Counts = Counter()
    rows = [r for r in story.cluster + story.replica_ends if r.get("topic") is not None]
    partitions = {(r["topic"], r["partition"]) for r in rows}
    for topic, partition in sorted(partitions):
        of = (topic, partition)
        cluster = [r for r in story.cluster if (r.get("topic"), r.get("partition")) == of]
        batches = [r for r in story.replicas if (r["topic"], r["partition"]) == of]
        if any(r["f"] == "keyed-write" and r["topic"] == topic for r in story.history):
            batches = []  # each broker cleans its own log
        ends = [r for r in story.replica_ends if (r["topic"], r["partition"]) == of]
        history = [r for r in story.history if (r.get("topic"), r.get("partition")) == of]
        for kind, aspect in (
            *_leaders(cluster, history, batches),
            *_replicas(batches, ends, _known_end(cluster, history), copied=topic == METADATA_TOPIC),
            *_stuck(story, cluster, history),
            *_contradicted(story, cluster, history, batches, ends),
            *_isrs(cluster, history, trimmed=_trimmed(story)),
            *_gone_ends(story, cluster, history, ends),
        ):
            found[kind, aspect, topic, partition] += 1
    for topic, partition in find_hanging(story):
        found["hanging-transaction", None, topic, partition] += 1
    found.update(find_in_compacted(story))
    found.update(find_in_passes(story))
    found.update(find_unanswered(story))
    return found


def _leaders(
    cluster: list[Row], history: list[Row], batches: list[Row]
) -> Iterable[tuple[str, str | None]]:
    told, answered, wrote = defaultdict(set), defaultdict(set), defaultdict(set)
    for row in cluster:
        if row["kind"] in ("leader", "view") and row["leader"] not in (None, -1):
            told[row["leader_epoch"]].add(row["leader"])
    for row in history:
        told_by = row.get("node"), row.get("leader_epoch")
        if row["f"] in ("send", "watermark") and row["type"] == "ok" and None not in told_by:
            answered[row["leader_epoch"]].add(row["node"])
    for row in batches:
        wrote[row["leader_epoch"], row["base_offset"]].add(row["crc"])
    for aspect, claims in (("told", told), ("answered", answered), ("wrote", wrote)):
        for several in claims.values():
            if len(several) > 1:
                yield "two-leaders", aspect
    for epoch, nodes in answered.items():
        if len(nodes) == len(told[epoch]) == 1 and nodes != told[epoch]:
            yield "two-leaders", "unelected"


def _known_end(cluster: list[Row], history: list[Row]) -> int | None:
    """Where the log ended when the nodes were stopped."""
    told = [r.get("end_offset") for r in cluster if r["kind"] == "epoch"]
    told = [end for end in told if end is not None]
    read = [
        r.get("offset") for r in history if r["f"] == "final-read-end" and r.get("error") is None
    ]
    return max(told + [end for end in read if end is not None]) if told else None


def _replicas(
    batches: list[Row], ends: list[Row], known_end: int | None, *, copied: bool
) -> Iterable[tuple[str, str | None]]:
    if not ends:
        return
    best = min(ends, key=lambda r: (-r["high_watermark"], r["node"]))
    held: dict[int, dict[int, Row]] = defaultdict(dict)
    for row in batches:
        held[row["node"]][row["base_offset"]] = row
    theirs = held[best["node"]]
    due = best["high_watermark"] if known_end is None else min(best["high_watermark"], known_end)
    for end in ends:
        if end is best:
            continue
        if end["end_offset"] < due and not copied:
            yield "divergent-replicas", "short"
        elif end["end_offset"] != best["end_offset"]:
            yield "unequal-ends", None
        mine = held[end["node"]]
        for offset in sorted(mine.keys() | theirs.keys()):
            row = mine.get(offset) or theirs[offset]
            if row["last_offset"] >= end["high_watermark"]:
                continue
            if offset not in mine:
                yield "divergent-replicas", "missing"
            elif offset not in theirs:
                yield "divergent-replicas", "extra"
            elif mine[offset]["digest"] != theirs[offset]["digest"]:
                yield "divergent-replicas", "bytes"


def _contradicted(
    story: Story, cluster: list[Row], history: list[Row], batches: list[Row], ends: list[Row]
) -> Iterable[tuple[str, str | None]]:
    starts: dict[int, list[int]] = defaultdict(list)
    told = [r for r in cluster if r["kind"] == "epoch"]
    for row in told:
        starts[row["leader_epoch"]].append(row["start_offset"])
    if not starts:
        return
    begins = {epoch: min(starts[epoch]) for epoch in sorted(starts)}
    over = dict(zip(begins, [*begins.values()][1:], strict=False))
    for row in told:
        if row.get("end_offset") is not None and row["leader_epoch"] in over:
            over[row["leader_epoch"]] = min(over[row["leader_epoch"]], row["end_offset"])
    for several in starts.values():
        if len(set(several)) > 1:
            yield "contradicted-evidence", "answers"
    for one, next_one in itertools.pairwise(begins.values()):
        if next_one < one:
            yield "contradicted-evidence", "answers"
    read = {r["offset"]: r.get("leader_epoch") for r in history if r["f"] == "final-read"}
    first = max([min(read, default=0), *(r["start_offset"] for r in ends)])
    if first > 0 and not ends:
        oldest = min(told, key=lambda r: r["leader_epoch"])
        first = max(first, oldest.get("end_offset") or 0)
    changed = _with_changed_bytes(story, (told[0]["topic"], told[0]["partition"]))
    known = [r for r in ends if r["node"] not in changed]
    known.sort(key=lambda r: (r["node"] != told[0].get("node"), -r["high_watermark"], r["node"]))
    held: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for row in batches:
        if known and row["node"] == known[0]["node"]:
            offsets = range(row["base_offset"], row["last_offset"] + 1)
            held["files"] |= {(row["leader_epoch"], offset) for offset in offsets}
    held["reads"] = {(epoch, offset) for offset, epoch in read.items() if epoch is not None}
    for source, records in held.items():
        wrong = {
            epoch
            for epoch, offset in records
            if offset >= first
            and epoch <= max(begins)
            and not (epoch in begins and begins[epoch] <= offset < over.get(epoch, 1 << 62))
        }
        for _ in wrong:
            held = [{r["leader"], *r["isr"], *(r.get("replicas") or ())} for r in cluster
                    if r["kind"] == "leader" and r.get("isr") is not None]  # fmt: skip
            on_it = changed & {r["node"] for r in ends}.union(*held)
            yield "contradicted-evidence", "changed-bytes" if on_it else source
    reaches = [*begins.values(), *(r["end_offset"] for r in told if r.get("end_offset"))]
    if known and max(reaches) > known[0]["end_offset"]:
        yield "contradicted-evidence", "files"


def _with_changed_bytes(story: Story, partition: tuple[str, int]) -> set[int]:
    """The nodes in whose log of the partition bytes were changed."""
    found: set[int] = set()
    for row in story.faults:
        targets = json.loads(row["targets"])
        if row["fault"] == "disk.bit-flip" and targets["details"].get("file", "log") == "log":
            damaged = json.loads(row.get("damaged") or "{}")
            name = "{}-{}".format(*partition)
            for node in targets["nodes"]:
                paths = damaged.get(str(node), [name])
                found |= {node} if any(name in path for path in paths) else set()
    return found


def _gone_ends(
    story: Story, cluster: list[Row], history: list[Row], ends: list[Row]
) -> Iterable[tuple[str, str | None]]:
    """End offsets below which something is gone in the end; nothing if other files were changed."""
    aims = [json.loads(row["targets"]) for row in story.faults]
    details = [aim["details"] for aim in aims if isinstance(aim, dict) and aim.get("details")]
    if any(each.get("file", "log") != "log" for each in details):
        return
    read = [r for r in history if r["f"] == "final-read-end"]
    whole = [r for r in read if r.get("error") is None and r.get("offset") is not None]
    epochs = [r for r in cluster if r["kind"] == "epoch"]
    reached = max((r["offset"] for r in whole), default=-1)
    log_end = max((r["end_offset"] for r in epochs if r.get("end_offset")), default=-1)
    if not any(r["type"] == "ok" for r in whole) or log_end > reached:
        return
    last = max([reached, *(r["end_offset"] for r in ends)])
    for ask in history:
        if ask["f"] == "watermark" and ask["complete_ns"] < min(r["invoke_ns"] for r in read):
            epoch = ask.get("leader_epoch")
            later = {r["leader_epoch"] for r in epochs if epoch is not None}
            starts = [
                max(r["start_offset"] for r in epochs if r["leader_epoch"] == each)
                for each in later
                if each > (epoch or 0)
            ]
            if ask["offset"] > min([last, *starts]):
                yield "watermark-regression", "final"


def _trimmed(story: Story) -> bool:
    """Whether no node has the metadata log from its beginning."""
    copies = [r for r in story.replica_ends if r["topic"] == METADATA_TOPIC]
    return bool(copies) and min(r["start_offset"] for r in copies) > 0


def _isrs(
    cluster: list[Row], history: list[Row], *, trimmed: bool
) -> Iterable[tuple[str, str | None]]:
    decided = [r for r in cluster if (r["kind"], r.get("source")) == ("leader", "metadata-log")]
    read = [r["complete_ns"] for r in history if r["f"] == "final-read-end" and r["type"] == "ok"]
    if not decided or not read:
        return
    known = {r["leader_epoch"] for r in decided}
    first = min(known)
    wrong = set()
    for row in cluster:
        if row["kind"] == "view" and row.get("isr") is not None and row["at_ns"] <= max(read):
            term = row["leader_epoch"], row["leader"]
            mine = [r["isr"] for r in decided if (r["leader_epoch"], r["leader"]) == term]
            same = any(set(isr) == set(row["isr"]) for isr in mine)
            aspect = "isr" if mine and not same else None
            if row["leader"] is None and row["leader_epoch"] not in known:
                aspect = "leader"
            if aspect and row["leader_epoch"] >= first + trimmed:
                wrong.add((aspect, *term, row["node"], *sorted(row["isr"])))
    for aspect, *_ in wrong:
        yield "contradicted-evidence", aspect


def _stuck(
    story: Story, cluster: list[Row], history: list[Row]
) -> Iterable[tuple[str, str | None]]:
    took = [r for r in story.faults if r["took_effect"]]
    if any(r["healed_ns"] is None for r in took):
        return
    healed = max((r["healed_ns"] for r in story.faults if r["healed_ns"] is not None), default=0)
    ended = {r["client"]: r["invoke_ns"] for r in story.history if r["f"] == "end"}
    for client, over in ended.items():
        sends = [
            r for r in history
            if (r["client"], r["f"]) == (client, "send")
            and r["acks"] != 0
            and (r["complete_ns"] is None or r["complete_ns"] > healed)
        ]  # fmt: skip
        late = [r["invoke_ns"] for r in sends if r["invoke_ns"] >= healed]
        futile = late and all(r["type"] != "ok" and r["offset"] is None for r in sends)
        if futile and _time_to_write(story, cluster, sends, min(late), over) >= PATIENCE_NS:
            yield "stuck", "producer"
        polls = [r for r in history if (r["client"], r["f"]) == (client, "poll")]
        if polls and max(r["complete_ns"] for r in polls) < healed:
            after = max(r["offset"] for r in polls) + 1
            log = {(r["offset"], r["value"]) for r in history if r["f"] == "final-read"}
            acked = [
                r["complete_ns"] for r in history
                if (r["f"], r["type"], r.get("acks")) == ("send", "ok", -1)
                and r["offset"] == after
                and (after, r["value"]) in log
            ]  # fmt: skip
            calls = [
                r for r in history
                if r["client"] == client and r["type"] != "fail"
                and r["f"] in ("assigned", "revoked", "lost")
            ]  # fmt: skip
            since, until = healed, over
            if calls:
                call = max(calls, key=lambda r: r["op"])
                if call["f"] == "assigned":
                    since = max(since, call["complete_ns"] or call["invoke_ns"])
                else:
                    until = min(until, call["invoke_ns"])
            if acked and until - max(since, min(acked)) >= PATIENCE_NS:
                yield "stuck", "consumer"
    read = [r["complete_ns"] for r in history if r["f"] == "final-read-end"]
    rows = [r for r in cluster if r["kind"] == "leader" and read and r["at_ns"] <= max(read)]
    if rows:
        last = max(rows, key=_newest)
        nobody = last["leader"] is None or last["leader"] < 0
        if nobody and max(read) - max(healed, last["at_ns"]) >= PATIENCE_NS:
            yield "stuck", "election"
    told = [r for r in rows if r.get("replicas") is not None]
    if told:
        last = max(told, key=_newest)
        (planned,) = [t for t in story.plan["topics"] if t["name"] == last["topic"]]
        moving = len(last["replicas"]) > planned["replication_factor"]
        if moving and max(read) - max(healed, last["at_ns"]) >= PATIENCE_NS:
            yield "stuck", "reassignment"


def _time_to_write(
    story: Story, cluster: list[Row], sends: list[Row], since: int, until: int
) -> int:
    """The longest time in which the partition had a leader, and enough in-sync replicas."""
    all_in_sync = all(r["acks"] == -1 for r in sends)
    (topic,) = [t for t in story.plan["topics"] if t["name"] == sends[0]["topic"]]
    able = []
    for row in sorted((r for r in cluster if r["kind"] == "leader"), key=lambda r: r["at_ns"]):
        if all_in_sync and row["isr"] is None:
            continue
        enough = not all_in_sync or len(row["isr"]) >= topic["min_insync_replicas"]
        able.append((row["at_ns"], enough and row["leader"] not in (None, -1)))
    if not able or not able[-1][1]:
        return until - since
    edges = sorted({since, until} | {at for at, _ in able if since < at < until})
    longest = lasted = 0
    for begin, end in itertools.pairwise(edges):
        now = [writable for at, writable in able if at <= begin]
        lasted = lasted + end - begin if not now or now[-1] else 0
        longest = max(longest, lasted)
    return longest


def _newest(row: Row) -> tuple[int, int, int]:
    """By what the last of a partition's rows is found; nodes do not tell partition epochs."""
    epoch = row["partition_epoch"]
    return row["leader_epoch"], -1 if epoch is None else epoch, row["at_ns"]


def elections(story: Story, topic: str) -> list[tuple[int, int, int, int]]:
    """(start offset, elected_ns, until_ns, deposed node) of every change of leadership. A node that
    was killed in its term accepted nothing more, nor one that had led before and knew the term."""
    rows = [r for r in story.cluster if r["kind"] == "leader" and r["topic"] == topic]
    first: dict[int, Row] = {}
    for row in sorted(rows, key=lambda r: (r["leader_epoch"], r["at_ns"])):
        first.setdefault(row["leader_epoch"], row)
    starts = [r for r in story.cluster if r["kind"] == "epoch" and r["topic"] == topic]
    found = []
    views = [r for r in story.cluster if r["kind"] == "view" and r["topic"] == topic]
    for before, after in itertools.pairwise(first.values()):
        if before["leader"] == after["leader"]:
            continue
        start = min(r["start_offset"] for r in starts if r["leader_epoch"] >= after["leader_epoch"])
        learned = [
            r["at_ns"] for r in story.cluster
            if r["kind"] == "view" and r["topic"] == topic and r["node"] == before["leader"]
            and r["leader_epoch"] >= after["leader_epoch"]
        ]  # fmt: skip
        until = max(min(learned), after["at_ns"]) + S // 4
        epoch = before["leader_epoch"]
        led = {r["leader"] for r in first.values() if r["leader_epoch"] <= epoch}
        knew = {
            node: min((r["at_ns"] for r in views
                       if r["node"] == node and r["leader_epoch"] >= epoch), default=1 << 62)
            for node in led
        }  # fmt: skip
        mine = knew.pop(before["leader"])
        for fault in story.faults:
            struck = json.loads(fault["targets"])["nodes"] == [before["leader"]]
            died = fault["effective_ns"]
            if struck and fault["fault"] == "kill" and mine <= died and died - S // 10 <= until:
                until = min(until, max(died, *knew.values(), 0) + 2 * S)
        found.append((start, after["at_ns"], until, before["leader"]))
    return found
