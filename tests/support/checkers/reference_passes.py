"""The detector of passes over compacted topics again, in plain Python: see `reference`."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.histories.story import Row, S, Story

_DAY_NS = 86_400 * S
Found = tuple[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    began_ns: int
    ended_ns: int
    reached: int
    final: bool
    records: list[Row]

    def last(self, key: int) -> int:
        """The last offset of a key; -1 without one."""
        return max((r["offset"] for r in self.records if r.get("key") == key), default=-1)


def find_in_passes(story: Story) -> Iterator[tuple[str, str | None, str, int]]:
    """Every instance of every anomaly that passes show."""
    rows = [r for r in story.history if r["f"] in ("keyed-poll", "keyed-pass")]
    for topic, partition in sorted({(r["topic"], r["partition"]) for r in rows}):
        here = [
            r for r in story.history if (r.get("topic"), r.get("partition")) == (topic, partition)
        ]
        for kind, aspect in _of_partition(here, _stays_ns(story, topic)):
            yield kind, aspect, topic, partition


def _stays_ns(story: Story, topic: str) -> int:
    [planned] = [each for each in story.plan["topics"] if each["name"] == topic]
    told = (planned.get("configs") or {}).get("delete.retention.ms")
    ahead = max((r["ahead_ms"] for r in story.cluster if r["kind"] == "clock"), default=0)
    return (_DAY_NS if told is None else int(told) * 1_000_000) - round(ahead * 1_000_000)


def _of_partition(rows: list[Row], stays_ns: int) -> Iterator[Found]:
    writes = [r for r in rows if r["f"] in ("keyed-write", "keyed-delete")]
    polled = [r for r in rows if r["f"] == "keyed-poll"]
    final = [r for r in rows if r["f"] == "keyed-read"]
    passes = _passes(rows, polled, final)
    pairs = [(p, q) for p, q in itertools.pairwise(passes) if p.ended_ns <= q.began_ns]
    alone = [*pairs, *((p, p) for p in passes if p.final)]
    for key in sorted({r["key"] for r in writes + polled if r["key"] is not None}):
        mine = [w for w in writes if w["key"] == key and w["type"] != "fail"]
        acked = [w for w in mine if w["type"] == "ok" and w["offset"] is not None]
        told = [(w["complete_ns"], w["offset"]) for w in acked]
        during = [(p, q) for p, q in pairs if not q.final]
        for offset, q in _missed(key, during, told, mine, stays_ns):
            [write] = [w for w in acked if w["offset"] == offset]
            deleted, older = write["f"] == "keyed-delete", q.last(key) >= 0
            deletion = "resurrected" if older else "tombstone"
            yield "missing-key", deletion if deleted else "stale" if older else None
        told = [(p.ended_ns, p.last(key)) for p in passes if not p.final and p.last(key) >= 0]
        for _, q in _missed(key, alone, told, mine, stays_ns):
            yield "reverted-key", "stale" if q.last(key) >= 0 else None
    for offset in {r["offset"] for r in polled}:
        given = [r for r in polled + final if r["offset"] == offset and not r.get("error")]
        if len({(r["key"], r["value"]) for r in given}) > 1:
            yield "inconsistent-offset", "read"
    for op in {r["op"] for r in polled}:
        given = sorted((r for r in polled if r["op"] == op), key=lambda r: r["invoke_ns"])
        for before, after in itertools.pairwise(given):
            if after["offset"] <= before["offset"]:
                yield "nonmonotonic-poll", None


def _passes(rows: list[Row], polled: list[Row], final: list[Row]) -> list[_Pass]:
    found = []
    for row in rows:
        last = row["f"] == "final-read-end"
        if row["type"] != "ok" or not (last or row["f"] == "keyed-pass"):
            continue
        found.append(
            _Pass(
                began_ns=row["invoke_ns"],
                ended_ns=row["complete_ns"],
                reached=row["offset"],
                final=last,
                records=final if last else [r for r in polled if r["op"] == row["op"]],
            )
        )
    return sorted(found, key=lambda each: each.began_ns)


def _missed(
    key: int,
    pairs: list[tuple[_Pass, _Pass]],
    told: list[tuple[int, int]],
    writes: list[Row],
    stays_ns: int,
) -> Iterator[tuple[int, _Pass]]:
    """The records that two passes missed, and the second pass. told: when records became known, and
    their offsets."""
    shown = set()
    for p, q in pairs:
        newest = max((offset for at_ns, offset in told if at_ns < p.began_ns), default=-1)
        missed = max(p.last(key), q.last(key)) < newest < min(p.reached, q.reached)
        if missed and newest not in shown and not _excused(newest, p, q, writes, stays_ns):
            shown.add(newest)
            yield newest, q


def _excused(newest: int, p: _Pass, q: _Pass, writes: list[Row], stays_ns: int) -> bool:
    for write in writes:
        if write["invoke_ns"] >= q.ended_ns:
            continue
        place, over_ns = write["offset"], write["complete_ns"]
        if place is None and (over_ns is None or over_ns >= p.began_ns):
            return True
        if place is not None and place >= q.reached:
            return True
        old = q.ended_ns - write["invoke_ns"] >= stays_ns
        if write["f"] == "keyed-delete" and old and (place is None or place >= newest):
            return True
    return False
