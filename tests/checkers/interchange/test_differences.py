"""Where Jepsen's rules and ours differ, as docs/interchange.md says it."""

from collections.abc import Callable

from checkers.elle.graph import check_graph
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from tests.support.checkers.jepsen_histories import Told
from tests.support.checkers.jepsen_rules import errors
from tests.support.checkers.judge_imports import Found, found, judged_together, sources

F, U = "forbidden", "unknown"


def _from_the_beginning(told: Told, process: int, keys: str) -> None:
    told.assign(process, keys)
    told.lines[-2:] = [line.replace("}", ", :seek-to-beginning? true}") for line in told.lines[-2:]]


def duplicate_that_was_cut() -> Told:
    """A value is read twice, and the second of the two is gone when all is read at last."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).send(0, 1, 3, 3)
    told.poll(2, "{1 [[0 1] [1 2] [2 1] [3 3]]}")
    _from_the_beginning(told, 3, "[1]")
    return told.poll(3, "{1 [[0 1] [1 2] [3 3]]}")


def reordered_send_of_a_lost_value() -> Told:
    """The second of two sends was acknowledged below the first, and is not there."""
    return Told().send(0, 1, 1, 1).send(0, 1, 2, 0).poll(2, "{1 [[1 1]]}")


def skip_over_what_nobody_read() -> Told:
    """A consumer passes over a record that was acknowledged, and so does everybody else."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).send(0, 1, 3, 2)
    return told.poll(2, "{1 [[0 1]]}").poll(2, "{1 [[2 3]]}")


def read_by_a_failed_poll_only() -> Told:
    """Nobody else read the first record; others read on behind it."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).poll(2, "{1 [[0 1]]}", "fail")
    return told.poll(3, "{1 [[1 2]]}")


def seek_to_the_beginning() -> Told:
    """A process goes back to the beginning of what it was assigned all the time."""
    told = Told().assign(2, "[1]").send(0, 1, 1, 0).send(0, 1, 2, 1).poll(2, "{1 [[0 1] [1 2]]}")
    _from_the_beginning(told, 2, "[1]")
    return told.poll(2, "{1 [[0 1] [1 2]]}")


def write_against_real_time() -> Told:
    """A write begins after another is over, and lies before it."""
    return Told().send(0, 1, 1, 1).send(1, 1, 2, 0).poll(2, "{1 [[0 2] [1 1]]}")


def torn_with_an_unknown_half() -> Told:
    """Of a transaction of unknown outcome one half is read; nobody knows where the other lies."""
    told = Told().txn(0, "[[:send 1 1] [:send 2 2]]", "[[:send 1 1] [:send 2 2]]", "info")
    return told.poll(2, "{1 [[0 1]]}")


DIFFERENT: list[tuple[Callable[[], Told], set[str], Found]] = [
    (duplicate_that_was_cut,
     {"duplicate", "int-nonmonotonic-poll", "int-poll-skip", "nonmonotonic-send"},
     {("truncated-read", None): (F, 1), ("poll-skip", None): (F, 1)}),
    (reordered_send_of_a_lost_value, {"nonmonotonic-send", "lost-write", "unseen"},
     {("lost-write", "prefix"): (F, 1)}),
    (skip_over_what_nobody_read, {"poll-skip", "lost-write", "unseen"},
     {("lost-write", "middle"): (F, 1)}),
    (read_by_a_failed_poll_only, {"lost-write", "unseen"}, {}),
    (seek_to_the_beginning, {"nonmonotonic-poll"}, {}),
    (write_against_real_time, set(), {("reordered-ack", None): (F, 1)}),
    (torn_with_an_unknown_half, set(), {("unseen", None): (U, 1)}),
]  # fmt: skip


def test_jepsens_rules_and_ours_differ_where_the_documents_say() -> None:
    """Each history by both."""
    told = {tell.__name__: tell().imported(topic=tell.__name__) for tell, _, _ in DIFFERENT}
    verdict = judged_together(told)
    for tell, theirs, ours in DIFFERENT:
        assert errors(tell().ops()) == theirs, tell.__name__
        assert found(verdict, tell.__name__) == ours, tell.__name__


def test_precommitted_reads_are_counted_by_record() -> None:
    """Jepsen counts a transaction and key once, whichever of its records it read."""
    told = Told().txn(
        0, "[[:send 1 1] [:send 1 2] [:poll]]",
        "[[:send 1 [0 1]] [:send 1 [1 2]] [:poll {1 [[0 1] [1 2]]}]]",
    )  # fmt: skip
    imported = told.imported()
    engine = DuckDbEngine()
    try:
        answer = check_graph(Frames(engine, sources(imported), imported.plan), timeout_s=60)
    finally:
        engine.close()
    counts = {a.name: a.count for a in answer.anomalies}
    assert counts["precommitted-read"] == 2
    assert errors(told.ops()) == {"precommitted-read"}
