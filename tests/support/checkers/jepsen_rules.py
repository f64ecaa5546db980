"""What jepsen.tests.kafka finds in operations, in the plainest Python: its rules, retold.

Takes operations and answers with the names of Jepsen's errors. What its checker permits by itself
(cycles of writes, skips between sends) is left out.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from checkers.interchange.jepsen_ops import Op, Poll, Record, Send
from checkers.interchange.jepsen_values import Key

Log = dict[Key, dict[int, set[int]]]


def errors(ops: Sequence[Op], *, read_by: Collection[str] = ("ok",)) -> set[str]:
    """The names of all that is wrong. read_by: how polls ended whose records count as read."""
    done = [op for op in ops if op.type != "invoke"]
    read = {(r.key, r.value) for op in done if op.type in read_by for r in reads(op)}
    log = _log(done, read)
    index = {key: _index(offsets) for key, offsets in log.items()}
    return {
        *_of_log(log),
        *_lost(done, log, read),
        *_aborted(done),
        *_precommitted(done),
        *_inside(done, index),
        *(each for ops in _by_process(done) for each in _between(ops, index)),
        *_unseen(done, read),
    }


def reads(op: Op) -> Iterator[Record]:
    """All records that its polls returned."""
    for step in op.steps:
        if isinstance(step, Poll):
            yield from step.records


def writes(op: Op) -> list[Send]:
    """All its sends."""
    return [step for step in op.steps if isinstance(step, Send)]


def _committed(op: Op, read: set[tuple[Key, int]]) -> bool:
    seen = any((send.key, send.value) in read for send in writes(op))
    return op.type == "ok" or (op.type == "info" and seen)


def _log(done: Iterable[Op], read: set[tuple[Key, int]]) -> Log:
    log: Log = defaultdict(lambda: defaultdict(set))
    for op in done:
        for record in reads(op):
            log[record.key][record.offset].add(record.value)
        for send in writes(op) if _committed(op, read) else ():
            if send.offset is not None:
                log[send.key][send.offset].add(send.value)
    return log


def _index(offsets: dict[int, set[int]]) -> dict[int, int]:
    return {min(offsets[offset]): place for place, offset in enumerate(sorted(offsets))}


def _of_log(log: Log) -> Iterator[str]:
    for offsets in log.values():
        if any(len(values) > 1 for values in offsets.values()):
            yield "inconsistent-offsets"
        told = [value for values in offsets.values() for value in values]
        if len(told) > len(set(told)):
            yield "duplicate"


def _lost(done: Iterable[Op], log: Log, read: set[tuple[Key, int]]) -> Iterator[str]:
    writers = {(s.key, s.value): op for op in done for s in writes(op)}
    for key, offsets in log.items():
        places = defaultdict(list)
        for offset, values in offsets.items():
            for value in values:
                places[value].append(offset)
        seen = [min(found) for value, found in places.items() if (key, value) in read]
        for value, found in places.items():
            if max(found) <= max(seen, default=-1) and (key, value) not in read:
                writer = writers.get((key, value))
                if writer is None or _committed(writer, read):
                    yield "lost-write"


def _aborted(done: Iterable[Op]) -> Iterator[str]:
    failed = {(s.key, s.value) for op in done if op.type == "fail" for s in writes(op)}
    if any((r.key, r.value) in failed for op in done if op.type == "ok" for r in reads(op)):
        yield "G1a"


def _precommitted(done: Iterable[Op]) -> Iterator[str]:
    for op in done:
        if {(s.key, s.value) for s in writes(op)} & {(r.key, r.value) for r in reads(op)}:
            yield "precommitted-read"


def _inside(done: Iterable[Op], index: dict[Key, dict[int, int]]) -> Iterator[str]:
    for op in done:
        for key in {r.key for r in reads(op)} - set(op.rebalanced):
            yield from _steps([r.value for r in reads(op) if r.key == key], index[key], "int-")
        for key in {s.key for s in writes(op)}:
            sent = [s.value for s in writes(op) if s.key == key]
            if "back" in _steps(sent, index.get(key, {}), ""):
                yield "int-nonmonotonic-send"


def _steps(values: Sequence[int], index: dict[int, int], prefix: str) -> Iterator[str]:
    for one, other in pairwise(values):
        if one in index and other in index:
            if index[other] - index[one] > 1:
                yield f"{prefix}poll-skip"
            elif index[other] <= index[one]:
                yield f"{prefix}nonmonotonic-poll" if prefix else "back"


def _by_process(done: Iterable[Op]) -> Iterable[list[Op]]:
    found = defaultdict(list)
    for op in done:
        found[op.process].append(op)
    return found.values()


def _between(ops: Iterable[Op], index: dict[Key, dict[int, int]]) -> Iterator[str]:
    """Of one process; whoever subscribes may be moved by the group."""
    last_read: dict[Key, int] = {}
    last_sent: dict[Key, int] = {}
    subscribed = False
    for op in ops:
        if op.f in ("assign", "subscribe") and op.type != "fail":
            subscribed = op.f == "subscribe"
            last_read = {key: value for key, value in last_read.items() if key in op.keys}
            last_sent = {key: value for key, value in last_sent.items() if key in op.keys}
        for key in {r.key for r in reads(op)}:
            values = [r.value for r in reads(op) if r.key == key]
            if key in last_read and not subscribed:
                for each in _steps([last_read[key], values[0]], index[key], "*"):
                    yield each.removeprefix("*")
            if op.type == "ok":
                last_read[key] = values[-1]
        for key in {s.key for s in writes(op)} if op.type != "fail" else ():
            sent = [s.value for s in writes(op) if s.key == key]
            if key in last_sent and "back" in _steps(
                [last_sent[key], sent[0]], index.get(key, {}), ""
            ):
                yield "nonmonotonic-send"
            last_sent[key] = sent[-1]


def _unseen(done: Iterable[Op], read: set[tuple[Key, int]]) -> Iterator[str]:
    acked = {(s.key, s.value) for op in done if op.type == "ok" for s in writes(op)}
    if acked - read:
        yield "unseen"
