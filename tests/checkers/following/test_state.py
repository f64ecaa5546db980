"""The state by columns shows the suspects that a look at row after row shows."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from checkers.following.state import HistoryState
from checkers.following.suspects import Suspect
from checkers.history.history import HISTORY, table
from tests.support.checkers.following_slow import suspects
from tests.support.histories.golden import ALL_GOLDEN

KEPT = (
    "op", "client", "value", "offset", "invoke_ns", "complete_ns", "acks", "txn", "other_op",
    "other_offset",
)  # fmt: skip
"""What is compared of evidence."""
EVERY_KIND = {
    "phantom", "nonmonotonic-poll", "inconsistent-offset", "lost-write", "torn-transaction",
    "duplicate", "reordered-send", "aborted-read", "false-abort", "zombie-write", "lost-commit",
    "stale-commit", "delivered-again", "skipped-record", "uncopied", "copied-twice",
    "copied-out-of-order",
}  # fmt: skip


def history(rng: Random) -> list[dict[str, Any]]:
    """Rows of few clients, values and offsets, so that most of them have to do with others. The
    offsets grow slowly, as those of a log; in some histories nothing is as it should be."""
    wild, made, copies = rng.random() < 0.3, list[dict[str, Any]](), set[int]()
    for number in range(rng.randint(5, 80)):
        now = rng.randint(0, 8) if wild else number
        near = rng.randint(0, 6) if wild else max(0, number // 8 + rng.randint(-2, 2))
        row = {
            "f": rng.choice(("poll", "poll", "poll", "send", "send", "init-producer", "assign",
                                "assigned", "offset-commit", "commit-transaction")),
            "type": rng.choice(("ok", "ok", "ok", "ok", "fail", "info")),
            "op": rng.randint(0, 6) if wild else number,
            "client": rng.randint(1, 3),
            "invoke_ns": now,
            "complete_ns": rng.choice((now + 1, now + 3, None)),
        }  # fmt: skip
        if row["f"] == "init-producer":
            row["transactional_id"] = rng.choice(("id-1", "id-2", None))
            made.append(row)
            continue
        if row["f"] == "commit-transaction":
            row["txn"] = rng.choice((None, now // 8, 1))
            made.append(row)
            continue
        row |= {
            "topic": rng.choice(("one", "one", "one", "two", None) if wild else ("one", "two")),
            "partition": rng.randint(0, 1),
            "offset": near if rng.random() < 0.9 else None,
            "group": rng.choice(("g", "g", "h", None)),
            "generation": rng.choice((1, 2, 3, None)),
        }
        if row["f"] in ("poll", "send"):
            row["value"] = rng.randint(1, 2) << 32 | (near if rng.random() < 0.8 else 3)
        if row["f"] == "poll":
            row["isolation"] = rng.choice((None, 0, 1, 1))
            row["value"] = None if rng.random() < 0.05 else row["value"]
        if row["f"] == "assigned" and rng.random() < 0.05:
            row["offset"] = -1
        if row["f"] == "send":
            row["acks"] = rng.choice((-1, -1, 1, 0, None))
            row["txn"] = rng.choice((None, near, 1))
            row["transactional_id"] = rng.choice(("id-1", "id-2", None))
            copied = rng.randint(1, 2) << 32 | rng.randint(0, near + 1)
            # A value is sent once: it is the copy of one record.
            row["copies"] = None if row["value"] in copies else rng.choice((None, copied))
            copies.add(row["value"])
        made.append(row)
    return made


def told(found: Sequence[Suspect]) -> Counter[Suspect | tuple[object, ...]]:
    """Suspects in a form that can be compared."""
    return Counter(
        each
        if each.evidence is None
        else (each.kind, each.topic, each.partition, *map(each.evidence.get, KEPT))
        for each in found
    )


def both(rows: Sequence[dict[str, Any]], rng: Random) -> tuple[list[Suspect], list[Suspect]]:
    """The suspects of a history that is cut into segments anywhere: by columns, and row by row."""
    cuts = [rng.randint(0, len(rows)) for _ in range(rng.randint(0, 5))]
    bounds = sorted((0, *cuts, len(rows)))
    segments = [table(HISTORY, rows[begin:end]) for begin, end in pairwise(bounds)]
    state, found = HistoryState(), list[Suspect]()
    for segment in segments:
        found += [*state.take(segment), *state.settle()]
    return found, suspects(segment.to_pylist() for segment in segments)


def test_suspects_are_those_of_row_after_row() -> None:
    """Of histories by chance, in which every kind of suspect shows."""
    kinds: set[str] = set()
    for seed in range(400):
        rng = Random(seed)
        found, expected = both(history(rng), rng)
        assert told(found) == told(expected), f"seed {seed}"
        kinds |= {each.kind for each in expected}
    assert kinds == EVERY_KIND


@pytest.mark.parametrize("name", sorted(ALL_GOLDEN))
def test_suspects_of_golden_histories(name: str) -> None:
    """The same of every golden history, cut in several ways."""
    rows = ALL_GOLDEN[name].story().history
    for seed in range(3):
        rng = Random(f"{name} {seed}")
        found, expected = both(rows, rng)
        assert told(found) == told(expected), f"seed {seed}"
