"""The list-append view: what Elle is given of a history."""

import json
from typing import Any

from checkers.elle.list_append import STRETCH, to_list_append
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from checkers.interchange.imported import Imported, Promises
from tests.support.checkers.jepsen_histories import Told
from tests.support.checkers.judge_imports import sources


def events(imported: Imported) -> list[dict[str, Any]]:
    """The array, read back."""
    engine = DuckDbEngine()
    try:
        text = to_list_append(Frames(engine, sources(imported), imported.plan))
    finally:
        engine.close()
    found: list[dict[str, Any]] = json.loads(text)
    return found


def test_sends_append_and_polls_read() -> None:
    """Every form there is: single and several steps, failed, unknown and unread sends."""
    told = (
        Told()
        .send(0, 1, 5, 0)
        .txn(0, "[[:send 1 6] [:poll]]", "[[:send 1 [1 6]] [:poll {1 [[0 5]]}]]")
    )
    told.op(1, "send", "[[:send 1 7]]", "[[:send 1 7]]", "fail").send(1, 2, 8)
    told.poll(2, "{1 [[1 6]]}").poll(2, "{1 [[1 6]]}", "fail").poll(2, "{}")
    made = events(told.imported())
    assert all("index" not in event for event in made)
    assert {event["f"] for event in made} == {"txn"}
    a = "jepsen-0/0"
    assert [(event["process"], event["type"], event["value"]) for event in made] == [
        (0, "invoke", [["append", a, 5]]),
        (0, "ok", [["append", a, 5]]),
        (1, "invoke", [["append", a, 6], ["r", a, None]]),
        (1, "ok", [["append", a, 6], ["r", a, [5]]]),
        (2, "invoke", [["append", "jepsen-0/unread", 7]]),
        (2, "fail", [["append", "jepsen-0/unread", 7]]),
        (3, "invoke", [["append", "jepsen-1/unread", 8]]),
        (3, "info", [["append", "jepsen-1/unread", 8]]),
        (4, "invoke", [["r", a, None]]),
        (4, "ok", [["r", a, [5, 6]]]),
        (5, "invoke", [["r", a, None]]),
        (5, "fail", [["r", a, None]]),
    ]


def test_acks_0_send_has_unknown_outcome() -> None:
    """It was over before any broker had it: nothing is behind it in real time."""
    told = Told().send(0, 1, 5, 0).poll(1, "{1 [[0 5]]}")
    made = events(told.imported(Promises(acks=0)))
    assert [event["type"] for event in made] == ["invoke", "info", "invoke", "ok"]


def test_open_operation_completes_at_the_end() -> None:
    """Of an append without a completion Elle says that no transaction wrote what was read."""
    told = Told().send(0, 1, 5, 0)
    del told.lines[1]
    made = events(told.poll(1, "{1 [[0 5]]}").imported())
    assert [(event["process"], event["type"]) for event in made] == [
        (0, "invoke"), (1, "invoke"), (1, "ok"), (0, "info"),
    ]  # fmt: skip
    assert made[-1]["value"] == [["append", "jepsen-0/0", 5]]


def test_long_partitions_are_several_lists() -> None:
    """A poll reads the lists that its records are in, whole but for the last one."""
    many = 2 * STRETCH + 3
    pairs = " ".join(f"[{n} {n}]" for n in range(many))
    told = Told()
    sends = " ".join(f"[:send 1 [{n} {n}]]" for n in range(many))
    told.op(0, "send", sends.join("[]"), sends.join("[]")).poll(1, f"{{1 [{pairs}]}}")
    told.poll(2, f"{{1 [[{STRETCH - 1} {STRETCH - 1}] [{STRETCH} {STRETCH}]]}}")
    read = [event["value"] for event in events(told.imported()) if event["type"] == "ok"][1:]
    assert [[(key, len(values)) for _, key, values in steps] for steps in read] == [
        [("jepsen-0/0", STRETCH), ("jepsen-0/1", STRETCH), ("jepsen-0/2", 3)],
        [("jepsen-0/0", STRETCH), ("jepsen-0/1", 1)],
    ]
