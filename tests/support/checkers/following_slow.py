"""The suspects of a history the plain way: row by row, in dicts and sets that forget nothing.

It follows the docstrings of `checkers.following`, and shares nothing with its state but the form of
a suspect. It is for small histories only.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from checkers.following.suspects import Row, Suspect, finding, of_offset, of_values
from checkers.history.settings import FOREVER_NS

Place = tuple[str, int]


def suspects(pieces: Iterable[Sequence[Row]]) -> list[Suspect]:
    """The suspects of the pieces of a history; `settle` after each piece. Within a piece what
    producers and members of groups begin or get counts as earlier than the rest; so do the ends of
    transactions."""
    slow, found = _Slow(), []
    for rows in pieces:
        slow.inits += [row for row in rows if row["f"] == "init-producer" and row["type"] != "fail"]
        slow.open_reads.begin(rows)
        placed = [row for row in rows if None not in (row["topic"], row["partition"])]
        for row in placed:
            if row["type"] == "ok" and row["group"] is not None:
                found += slow.groups.take(row)
        for row in placed:
            found += slow.take(row)
        found += slow.open_reads.take(placed)
        found += slow.settle()
    return found


class _Slow:
    def __init__(self) -> None:
        self.inits: list[Row] = []
        self.read: dict[Place, dict[int, int]] = defaultdict(dict)
        self.acked: dict[Place, list[Row]] = defaultdict(list)
        self.positions: dict[tuple[Place, int], tuple[int, int]] = {}
        self.values: dict[tuple[Place, int], list[int]] = defaultdict(list)
        self.seen: set[tuple[str, int]] = set()
        self.failed: dict[tuple[str, int], int | None] = {}
        self.fenced: dict[int, str] = {}
        self.aborted: dict[int, dict[int, bool]] = defaultdict(dict)
        self.of_value: dict[int, int] = {}
        self.groups = _Groups(self)
        self.open_reads = _OpenReads()

    def take(self, row: Row) -> Iterator[Suspect]:
        place, f, ok = (row["topic"], row["partition"]), row["f"], row["type"] == "ok"
        if f == "send":
            if row["value"] is not None:
                yield from self._sent(row)
            if ok and row["offset"] is not None and row["acks"] != 0:
                self._acknowledged(row, place)
        elif ok:
            if f == "poll" and row["offset"] is not None:
                yield from self._polled(row, place)
            if f in ("assign", "assigned"):
                self.positions.pop((place, row["client"]), None)
                if row["offset"] is not None and row["offset"] >= 0:
                    self.positions[place, row["client"]] = (row["offset"], row["op"])

    def settle(self) -> Iterator[Suspect]:
        yield from self.groups.settle()

    def _sent(self, row: Row) -> Iterator[Suspect]:
        value, txn, at = row["value"], row["txn"], (row["topic"], row["value"])
        seen = at in self.seen
        if txn is not None:
            if self._is_fenced(row):
                self.fenced[value] = row["transactional_id"]
                yield from self._zombie(row) if seen else ()
            if row["type"] == "fail":
                self.aborted[txn][value] = seen
                self.of_value[value] = txn
                yield from self._false_abort(row, txn)
        if row["copies"] is not None and row["type"] != "fail":
            yield from self.groups.copied(row, seen)
        if row["type"] == "fail":
            self.failed[at] = txn
            if seen:
                yield of_values("aborted-read", row, value).about(txn=txn)

    def _is_fenced(self, send: Row) -> bool:
        inits = [r for r in self.inits if r["transactional_id"] == send["transactional_id"]]
        own = [
            _fences_ns(r)
            for r in inits
            if r["client"] == send["client"] and r["invoke_ns"] <= send["invoke_ns"]
        ]
        return send["transactional_id"] is not None and any(
            own
            and r["client"] != send["client"]
            and r["type"] == "ok"
            and max(own) < r["invoke_ns"]
            and _fences_ns(r) < send["invoke_ns"]
            for r in inits
        )

    def _acknowledged(self, row: Row, place: Place) -> None:
        """What was read before may be gone: a write there is not judged."""
        if row["offset"] > max(self.read[place], default=-1):
            self.acked[place].append(row)

    def _polled(self, row: Row, place: Place) -> Iterator[Suspect]:
        offset, value, read = row["offset"], row["value"], self.read[place]
        position, op = self.positions.get((place, row["client"]), (None, None))
        self.positions[place, row["client"]] = (offset + 1, row["op"])
        if position is not None and offset < position and row["op"] != op:
            yield finding("nonmonotonic-poll", {**row, "other_offset": position, "other_op": op})
        if value is None:
            yield of_offset("phantom", row)
        elif offset in read:
            if read[offset] != value:
                yield of_offset("inconsistent-offset", row)
        else:
            if offset > max(read, default=-1):
                yield from self._appeared(row, place, position)
            if (row["topic"], value) in self.failed:
                txn = self.failed[row["topic"], value]
                yield of_values("aborted-read", row, value).about(txn=txn)

    def _appeared(self, row: Row, place: Place, position: int | None) -> Iterator[Suspect]:
        offset, value, high = row["offset"], row["value"], max(self.read[place], default=-1)
        for write in self.acked[place]:
            passed = position is not None and max(position, high + 1) <= write["offset"] < offset
            if passed or (write["offset"] == offset and write["value"] != value):
                yield _lost(write)
        self.acked[place] = [write for write in self.acked[place] if write["offset"] > offset]
        self.read[place][offset] = value
        yield from self._zombie(row) if value in self.fenced else ()
        if (txn := self.of_value.get(value)) is not None:
            self.aborted[txn][value] = True
            yield from self._false_abort(row, txn)
        yield from self.groups.read(row)
        sent = self.values[place, value >> 32]
        if (row["topic"], value) in self.seen:
            yield of_values("duplicate", row, value)
        elif sent and value < max(sent):
            yield of_values("reordered-send", row, value, max(sent))
        sent.append(value)
        self.seen.add((row["topic"], value))

    def _zombie(self, row: Row) -> Iterator[Suspect]:
        found = of_values("zombie-write", row, row["value"])
        yield found.about(transactional_id=self.fenced[row["value"]])

    def _false_abort(self, row: Row, txn: int) -> Iterator[Suspect]:
        if all(self.aborted[txn].values()):
            yield of_values("false-abort", row, *self.aborted[txn]).about(txn=txn)


class _OpenReads:
    """Within a piece sends count as earlier than records."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.reads: dict[int, list[int]] = defaultdict(list)
        self.sent: dict[int, int] = {}

    def begin(self, rows: Sequence[Row]) -> None:
        for row in rows:
            txn = row["txn"]
            if row["f"] in ("commit-transaction", "abort-transaction") and txn is not None:
                self.ends[txn] = min(row["invoke_ns"], self.ends.get(txn, row["invoke_ns"]))

    def take(self, placed: Sequence[Row]) -> Iterator[Suspect]:
        for row in placed:
            value, txn = row["value"], row["txn"]
            sent = row["f"] == "send" and row["type"] != "fail" and None not in (value, txn)
            if sent and any(at_ns < self.ends.get(txn, -1) for at_ns in self.reads[value]):
                yield of_values("aborted-read", row, value).about(txn=txn)
        for row in placed:
            if row["f"] == "send" and row["type"] != "fail" and row["txn"] is not None:
                self.sent[row["value"]] = row["txn"]
        for row in placed:
            told = None not in (row["value"], row["offset"], row["complete_ns"])
            if (row["f"], row["type"], row["isolation"]) == ("poll", "ok", 1) and told:
                txn = self.sent.get(row["value"])
                if txn is not None and row["complete_ns"] < self.ends.get(txn, -1):
                    yield of_values("aborted-read", row, row["value"]).about(txn=txn)
                self.reads[row["value"]].append(row["complete_ns"])


class _Groups:
    def __init__(self, slow: _Slow) -> None:
        self.slow = slow
        self.delivered: dict[Any, dict[int, int | None]] = defaultdict(dict)
        self.commits: dict[Any, list[Row]] = defaultdict(list)
        self.assigned: dict[Any, list[Row]] = defaultdict(list)
        self.due: dict[Any, int] = defaultdict(int)
        self.checked: dict[Any, int] = defaultdict(int)
        self.sources: dict[tuple[str, int], tuple[Any, int]] = {}
        self.copies: dict[int, tuple[str, int]] = {}
        self.copied_by: set[tuple[str, int]] = set()
        self.judged: set[tuple[Any, int]] = set()
        self.example: dict[tuple[str, str], int] = {}
        self.visible: dict[tuple[str, int], int] = {}
        self.lines: dict[Any, tuple[int, int, int, int]] = {}

    def take(self, row: Row) -> Iterator[Suspect]:
        share = (row["group"], row["topic"], row["partition"])
        offset, delivered = row["offset"], self.delivered[share]
        if row["f"] == "assigned":
            self.assigned[share].append(row)
            for commit in self.commits[share]:
                yield from _compared(row, commit)
        elif row["f"] == "offset-commit" and offset is not None:
            self.commits[share].append(row)
            for assigned in self.assigned[share]:
                yield from _compared(assigned, row)
        elif row["f"] == "poll" and offset is not None:
            if offset in delivered:
                if offset < max((each["offset"] for each in self.commits[share]), default=0):
                    yield of_offset("delivered-again", row).about(group=row["group"])
                return
            delivered[offset] = row["value"]
            if row["value"] is not None:
                self.sources[row["group"], row["value"]] = (share, offset)

    def copied(self, row: Row, seen: bool) -> Iterator[Suspect]:
        copied = (row["group"], row["copies"])
        if copied in self.sources:
            share, _ = self.sources[copied]
            self.example[row["group"], share[1]] = row["copies"]
        self.copied_by.add(copied)
        self.copies[row["value"]] = copied
        if seen:
            yield from self.read(row)

    def read(self, row: Row) -> Iterator[Suspect]:
        copied = self.copies.get(row["value"])
        if copied is None:
            return
        if (first := self.visible.setdefault(copied, row["value"])) != row["value"]:
            found = of_values("copied-twice", row, first, row["value"], copied[1])
            yield found.about(group=copied[0])
            return
        if copied not in self.sources or row["offset"] is None:
            return
        share, offset = self.sources[copied]
        line = (share, row["topic"], row["partition"])
        here = (row["offset"], offset, row["value"], copied[1])
        last = self.lines.get(line, here)
        if (last[0] < here[0]) != (last[1] < here[1]):
            found = of_values("copied-out-of-order", row, *last[2:], *here[2:])
            yield found.about(group=copied[0])
        self.lines[line] = max(last, here)

    def settle(self) -> Iterator[Suspect]:
        for share, delivered in self.delivered.items():
            group, topic, partition = share
            at = {"topic": topic, "partition": partition}
            due = self.due[share]
            if due > self.checked[share]:
                begins = [each["offset"] for each in self.assigned[share]]
                known = [*delivered, *(each for each in begins if each is not None and each >= 0)]
                start = max(min(known, default=due), self.checked[share])
                for offset in self.slow.read[topic, partition]:
                    if start <= offset < due and offset not in delivered:
                        yield of_offset("skipped-record", at, offset).about(group=group)
                yield from self._uncopied(share, at, due)
                self.checked[share] = due
            self.due[share] = max((each["offset"] for each in self.commits[share]), default=0)

    def _uncopied(self, share: Any, at: Row, due: int) -> Iterator[Suspect]:
        example = self.example.get(share[:2])
        for offset, value in self.delivered[share].items():
            if example is None or value is None or offset >= due:
                continue
            if (share, offset) in self.judged or (share[0], value) in self.copied_by:
                self.judged.add((share, offset))
                continue
            self.judged.add((share, offset))
            yield of_values("uncopied", at, value, example).about(group=share[0])


def _compared(assigned: Row, commit: Row) -> Iterator[Suspect]:
    position, group = assigned["offset"], commit["group"]
    if _over_ns(commit) < assigned["invoke_ns"]:
        if position is not None and 0 <= position < commit["offset"]:
            yield of_offset("lost-commit", assigned).about(group=group)
    elif _over_ns(assigned) < commit["invoke_ns"]:
        generations = (commit["generation"], assigned["generation"])
        older = None not in generations and generations[0] < generations[1]
        if older and commit["client"] != assigned["client"]:
            yield of_offset("stale-commit", commit).about(group=group)


def _lost(row: Row) -> Suspect:
    return finding("lost-write" if row["txn"] is None else "torn-transaction", row)


def _fences_ns(init: Row) -> int:
    return _over_ns(init) if init["type"] == "ok" else FOREVER_NS


def _over_ns(row: Row) -> int:
    over: int | None = row["complete_ns"]
    return FOREVER_NS if over is None else over
