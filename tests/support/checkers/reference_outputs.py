"""The detector of a tested program's output again, in plain Python."""

import itertools
from collections import Counter, defaultdict
from typing import Any

Row = dict[str, Any]
KEYS_OF_PARTITION = 8


def find_in_outputs(history: list[Row], topic: str) -> Counter[tuple[str, str | None]]:
    """{(kind, aspect): count} of what the output says of the inputs in a topic."""
    found: Counter[tuple[str, str | None]] = Counter()
    log: dict[int, tuple[int, int]] = {}
    in_log: Counter[int] = Counter()
    for row in sorted(_of(history, "final-read"), key=lambda r: (r["partition"], r["offset"])):
        if row["topic"] == topic and row["value"] is not None:
            log.setdefault(row["value"], (row["partition"], row["offset"]))
            in_log[row["value"]] += 1
    sent = {r["value"] for r in _of(history, "send") if r["topic"] == topic}
    again = max((r["op"] for r in _of(history, "app-reread")), default=-1)
    counted = [row for row in _of(history, "app-output") if row["op"] > again]
    outputs = sorted(counted, key=lambda r: (r["invoke_ns"], r["op"]))
    written: Counter[int] = Counter()
    firsts: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in outputs:
        value = row.get("value")
        if value is None:
            torn = row.get("error") == "torn"
            found["torn-output" if torn else "unknown-output", None if torn else "unreadable"] += 1
            continue
        if value not in sent:
            found["unknown-output", None] += 1
        if value not in log:
            continue
        written[value] += 1
        if written[value] == 1:
            partition, offset = log[value]
            key = (partition, value % KEYS_OF_PARTITION, row["partition"])
            firsts[key].append((row["offset"], offset))
        if written[value] > in_log[value]:
            found["duplicated-output", None] += 1
    for line in firsts.values():
        offsets = [offset for _, offset in sorted(line)]
        found["reordered-output", None] += sum(
            after < before for before, after in itertools.pairwise(offsets)
        )
    if not any(row["type"] == "ok" for row in _of(history, "app-end")):
        return +found  # what is missing may be beyond what was read
    reached: dict[int, int] = {}
    for value, (partition, offset) in log.items():
        if written[value]:
            reached[partition] = max(reached.get(partition, -1), offset)
    for value, (partition, offset) in log.items():
        if not written[value]:
            passed = offset < reached.get(partition, -1)
            found["lost-output" if passed else "late-output", None] += 1
    return +found


def _of(history: list[Row], f: str) -> list[Row]:
    return [row for row in history if row["f"] == f]
