"""Histories of Jepsen's Kafka workload are judged as Jepsen judges them, and come back the same.

The histories are those of the workload's own documentation and tests, retold with numbers.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.history.history import HISTORY, table
from checkers.interchange.errors import InterchangeError
from checkers.interchange.imported import Imported, Promises
from checkers.interchange.jepsen_export import to_ops
from checkers.interchange.jepsen_import import to_history
from checkers.interchange.jepsen_ops import Notation, Op, read, write
from tests.support.checkers.jepsen_histories import PROMISED, Told
from tests.support.checkers.judge_imports import Found, found, judged, judged_together
from tests.support.histories import story


def clean() -> Told:
    """Three records, sent by two processes and read by a third."""
    told = Told().assign(9, "[1 2]").send(0, 1, 10, 0).send(1, 1, 11, 1).send(0, 2, 10, 0)
    return told.poll(9, "{1 [[0 10] [1 11]], 2 [[0 10]]}")


def lost() -> Told:
    """a, b and d are acknowledged; c, between b and d, is read, and a and b are not."""
    told = Told().send(0, 1, 1, 0)
    told.op(0, "send", "[[:send 1 2] [:send 1 4]]", "[[:send 1 [1 2]] [:send 1 [3 4]]]")
    return told.send(1, 1, 3).poll(2, "{1 [[2 3]]}")


def duplicated() -> Told:
    """A value is read at two offsets."""
    return Told().send(0, 1, 1, 1).send(1, 1, 2, 2).poll(2, "{1 [[1 1] [2 2] [3 1]]}")


def misplaced() -> Told:
    """A value is acknowledged at 1 and read at 3."""
    return Told().send(0, 1, 1, 1).send(1, 1, 2).poll(2, "{1 [[2 2] [3 1]]}")


def inconsistent() -> Told:
    """Two readers see two values at one offset; a third value has the first's by its send."""
    told = Told().send(0, 1, 1, 0).send(1, 1, 2, 0)
    return told.poll(2, "{1 [[0 1]]}").poll(3, "{1 [[0 2]]}")


def nonmonotonic() -> Told:
    """A consumer goes back between two polls."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).send(0, 1, 3, 2)
    return told.poll(2, "{1 [[0 1] [1 2]]}").poll(2, "{1 [[1 2] [2 3]]}")


def nonmonotonic_inside() -> Told:
    """A consumer goes back inside a poll."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1)
    return told.poll(2, "{1 [[1 2] [0 1]]}")


def skipped() -> Told:
    """A consumer leaves a record out that another one was given."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).send(0, 1, 3, 2)
    return told.poll(2, "{1 [[0 1]]}").poll(3, "{1 [[1 2]]}").poll(2, "{1 [[2 3]]}")


def aborted() -> Told:
    """A send that surely failed is read."""
    told = Told().op(0, "send", "[[:send 1 2]]", "[[:send 1 2]]", "fail")
    return told.send(0, 1, 3, 1).poll(2, "{1 [[0 2] [1 3]]}")


def reordered() -> Told:
    """One process's sends go back in the log."""
    return Told().send(0, 1, 1, 1).send(0, 1, 2, 0).poll(2, "{1 [[0 2] [1 1]]}")


def aborted_poll_duplicates() -> Told:
    """Only a poll that failed saw the value twice; what it saw was in the log all the same."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).poll(2, "{1 [[0 1] [1 2]]}")
    return told.poll(3, "{1 [[0 1] [5 1]]}", "fail")


def unseen() -> Told:
    """Nobody read as far as the last record; Jepsen counts that as an error of its own."""
    return Told().send(0, 1, 1, 0).send(0, 1, 2, 1).poll(2, "{1 [[0 1]]}")


def gone_in_the_end() -> Told:
    """A record that was read is not there when all is read from the beginning at last."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).send(0, 1, 3, 2)
    told.poll(2, "{1 [[0 1] [1 2] [2 3]]}").assign(3, "[1]")
    told.lines[-2:] = [line.replace("}", ", :seek-to-beginning? true}") for line in told.lines[-2:]]
    return told.poll(3, "{1 [[0 1] [2 3]]}")


def torn() -> Told:
    """Nobody knows what became of a transaction; its second record is read, the first passed."""
    told = Told().txn(0, "[[:send 1 1] [:send 1 2]]", "[[:send 1 [0 1]] [:send 1 [1 2]]]", "info")
    return told.poll(2, "{1 [[1 2]]}")


def torn_without_offsets() -> Told:
    """Nor their offsets, but a producer writes in order."""
    told = Told().txn(0, "[[:send 1 1] [:send 1 2]]", "[[:send 1 1] [:send 1 2]]", "info")
    return told.poll(2, "{1 [[1 2]]}")


def torn_in_the_middle() -> Told:
    """The commit of a transaction was acknowledged, and the log has a half of it."""
    told = Told().send(0, 1, 1, 0)
    told.txn(0, "[[:send 1 2] [:send 1 3]]", "[[:send 1 [1 2]] [:send 1 [2 3]]]")
    return told.send(0, 1, 4, 4).poll(2, "{1 [[0 1] [1 2] [4 4]]}")


ABORTED = ":fail, :error {:type :abort, :abort-ok? true, :body-error {:type :intentional-abort}}"


def aborted_and_written(type_: str = ABORTED) -> Told:
    """A transaction was aborted, or its commit surely failed, and the log has all of it."""
    sends = "[[:send 1 2] [:send 1 3]]"
    told = Told().send(0, 1, 1, 0).txn(0, sends, sends, "fail")
    told.lines[-1] = told.lines[-1].replace(":fail", type_)
    return told.poll(2, "{1 [[0 1] [1 2] [2 3]]}")


def committed_in_vain() -> Told:
    """The same, of a commit that was refused."""
    return aborted_and_written(':fail, :error [:invalid-producer-epoch "old"]')


def aborted_in_part() -> Told:
    """A part of an aborted transaction is read."""
    told = aborted_and_written()
    told.lines[-1] = told.lines[-1].replace(" [2 3]", "")
    return told


def skipped_inside_a_transaction() -> Told:
    """A group moves no partition between two polls of one transaction without saying so."""
    told = Told().assign(2, "[1]", "subscribe").send(0, 1, 1, 0).send(0, 1, 2, 1).send(0, 1, 3, 2)
    told.txn(2, "[[:poll] [:poll]]", "[[:poll {1 [[0 1]]}] [:poll {1 [[2 3]]}]]")
    return told.poll(3, "{1 [[0 1] [1 2] [2 3]]}")


def rewound_inside_a_transaction() -> Told:
    """The same, backwards, and the transaction failed."""
    told = Told().assign(2, "[1]", "subscribe").send(0, 1, 1, 0).send(0, 1, 2, 1)
    return told.txn(
        2, "[[:poll] [:poll]]", "[[:poll {1 [[0 1] [1 2]]}] [:poll {1 [[1 2]]}]]", "fail"
    )


def failed_poll_skipped() -> Told:
    """A failed poll goes on where the last one that did not fail ended; this one does not."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).send(0, 1, 3, 2)
    return told.poll(2, "{1 [[0 1]]}").poll(3, "{1 [[1 2]]}").poll(2, "{1 [[2 3]]}", "fail")


def acknowledged_twice() -> Told:
    """Two processes were told of one offset, and nobody read as far."""
    return Told().send(0, 1, 1, 0).poll(2, "{1 [[0 1]]}").send(0, 1, 2, 5).send(1, 1, 3, 5)


def acknowledged_backwards() -> Told:
    """One process was told of offsets that go back, and nobody read as far."""
    return Told().send(0, 1, 1, 0).poll(2, "{1 [[0 1]]}").send(0, 1, 2, 6).send(0, 1, 3, 5)


F, P, U = "forbidden", "permitted", "unknown"


JUDGED_ALIKE: list[tuple[Callable[[], Told], Found]] = [
    (clean, {}),
    (lost, {("lost-write", "prefix"): (F, 2), ("unseen", None): (U, 1)}),
    (duplicated, {("duplicate", None): (F, 1)}),
    (misplaced, {("inconsistent-offset", "acknowledged"): (F, 1)}),
    (inconsistent, {("inconsistent-offset", "read"): (F, 1)}),
    (nonmonotonic, {("nonmonotonic-poll", None): (F, 1)}),
    (nonmonotonic_inside, {("nonmonotonic-poll", None): (F, 1)}),
    (skipped, {("poll-skip", None): (F, 1)}),
    (aborted, {("aborted-read", None): (F, 1)}),
    (reordered, {("reordered-send", None): (F, 1), ("reordered-ack", None): (F, 1)}),
    (aborted_poll_duplicates, {("duplicate", None): (F, 1), ("poll-skip", None): (F, 1)}),
    (unseen, {("unseen", None): (U, 1)}),
    (torn, {("lost-write", "prefix"): (F, 1)}),
    (torn_without_offsets, {("lost-write", None): (F, 1)}),
    (torn_in_the_middle, {("torn-transaction", None): (F, 1)}),
    (aborted_and_written, {("false-abort", None): (F, 1), ("aborted-read", "transaction"): (F, 2)}),
    (committed_in_vain, {("false-abort", None): (F, 1), ("aborted-read", "transaction"): (F, 2)}),
    (aborted_in_part, {("aborted-read", "transaction"): (F, 1)}),
    (skipped_inside_a_transaction, {("poll-skip", None): (F, 1)}),
    (rewound_inside_a_transaction, {("nonmonotonic-poll", None): (F, 1)}),
    (failed_poll_skipped, {("poll-skip", None): (F, 1)}),
    (acknowledged_twice, {("inconsistent-offset", "acknowledged"): (F, 1),
                          ("unseen", None): (U, 2)}),
    (acknowledged_backwards, {("reordered-send", "acknowledged"): (F, 1),
                              ("unseen", None): (U, 2)}),
    (gone_in_the_end, {("lost-write", "middle"): (F, 1),
                                  ("truncated-read", None): (F, 1),
                                  ("poll-skip", None): (F, 1)}),
]  # fmt: skip


def test_judges_as_jepsen() -> None:
    """Nothing is forgiven that Jepsen does not forgive."""
    told = {tell.__name__: tell().imported(topic=tell.__name__) for tell, _ in JUDGED_ALIKE}
    verdict = judged_together(told)
    for tell, expected in JUDGED_ALIKE:
        assert found(verdict, tell.__name__) == expected, tell.__name__


@pytest.mark.parametrize(
    ("tell", "outcome"), [(clean, "VALID"), (lost, "INVALID"), (unseen, "UNKNOWN")]
)
def test_outcome(tell: Callable[[], Told], outcome: str) -> None:
    """What is whole is valid, as in Jepsen; what was not read to the end is unknown."""
    assert judged(tell().imported()).outcome.value == outcome


JUDGED_BY_PROMISES: list[tuple[Callable[[], Told], Promises, str]] = [
    (lost, Promises(acks=1), U),
    (lost, Promises(acks=0), P),
    (lost, Promises(min_insync_replicas=1), U),
    (duplicated, Promises(idempotence=False), P),
    (reordered, Promises(idempotence=False), F),
]


def test_loss_that_only_an_unrecorded_cause_excuses_is_unknown() -> None:
    """What only an unrecorded cause would excuse is unknown, not invalid."""
    told = {
        f"t{number}": tell().imported(promises, topic=f"t{number}")
        for number, (tell, promises, _) in enumerate(JUDGED_BY_PROMISES)
    }
    verdict = judged_together(told)
    for topic, (_, promises, judgement) in zip(told, JUDGED_BY_PROMISES, strict=True):
        judgements = [how for how, _ in found(verdict, topic).values()]
        assert judgement in judgements, (promises, judgements)
        assert (judgement == F) == (F in judgements), (promises, judgements)


def test_position_follows_assignments() -> None:
    """A key that is assigned again is read on from where it was; one that is new is somewhere."""
    told = clean().send(0, 1, 12, 2).assign(9, "[1]").poll(9, "{1 [[2 12]]}")
    told.assign(9, "[2 1]").poll(9, "{2 [[0 10]]}")
    assert judged(told.imported()).outcome.value == "VALID"
    back = clean().assign(9, "[1]").poll(9, "{1 [[0 10]]}")
    assert found(judged(back.imported())) == {("nonmonotonic-poll", None): (F, 1)}


def test_a_group_may_move_partitions() -> None:
    """Subscribed, a consumer may find itself elsewhere between polls, and inside one where its
    rebalance log says so; elsewhere inside one it may not."""
    told = nonmonotonic()
    told.lines[:0] = Told().assign(2, "[1]", "subscribe").lines
    assert judged(told.imported()).outcome.value == "VALID"
    inside = nonmonotonic_inside()
    inside.lines[:0] = Told().assign(2, "[1]", "subscribe").lines
    assert judged(inside.imported()).outcome.value == "INVALID"
    inside.lines[-1] = inside.lines[-1].replace("]}]]", "]}]], :rebalance-log [{:keys [1]}]")
    assert judged(inside.imported()).outcome.value == "VALID"


def test_failed_transactions_do_not_move_a_consumer() -> None:
    """What failed, or may have, is read once more; and then not again."""
    told = Told().send(0, 1, 1, 0).send(0, 1, 2, 1).poll(1, "{1 [[0 1]]}")
    told.poll(1, "{1 [[1 2]]}", "fail").poll(1, "{1 [[1 2]]}")
    assert judged(told.imported()).outcome.value == "VALID"
    assert judged(told.poll(1, "{1 [[1 2]]}").imported()).outcome.value == "INVALID"


def test_values_stay_their_own() -> None:
    """Two keys may share a value; what is one to one in the file is so in the history."""
    rows = clean().imported().table().to_pylist()
    values = [row["value"] for row in rows if row["f"] == "send"]
    assert values == [10, 11, 1 << 32 | 10]
    apart = Told().send(0, 1, 5, 0).send(0, 2, 6, 0).imported()
    assert [row["value"] for row in apart.table().to_pylist() if row["f"] == "send"] == [5, 6]
    with pytest.raises(InterchangeError, match="two keys share a value"):
        Told().send(0, 1, 1 << 62, 0).send(0, 2, 1 << 62, 0).imported()
    great = Told().send(0, 1, 1 << 40, 0).send(0, 2, 1 << 40, 0)
    values = [row["value"] for row in great.imported().table().to_pylist() if row["f"] == "send"]
    assert values == [1 << 40, 1 << 62 | 1 << 40]
    assert back(great.imported()) == great.ops()


@pytest.mark.parametrize(
    ("drop", "said"),
    [
        (0, "operation 1: process 9 completes what it never invoked"),
        (1, "operation 8: process 9 invokes while its operation 1 is not completed"),
    ],
)
def test_unpaired_completions_are_refused(drop: int, said: str) -> None:
    """Half an operation is a file that is cut, or not of one test."""
    told = clean()
    del told.lines[drop]
    with pytest.raises(InterchangeError, match=said):
        told.imported()


def test_refuses_another_completion() -> None:
    """A poll does not complete a send."""
    told = Told().send(0, 1, 1, 0)
    told.lines[-1] = told.lines[-1].replace(":f :send", ":f :txn")
    with pytest.raises(InterchangeError, match="completes the :send of operation 1 as :txn"):
        told.imported()


def back(imported: Imported) -> list[Op]:
    """The operations of an import, written out and read again."""
    rows = imported.table().to_pylist()
    text = write(to_ops(rows, imported.plan).ops, Notation.JSON)
    return read(text, Notation.JSON)


@pytest.mark.parametrize("tell", [clean, lost, duplicated, inconsistent, aborted, gone_in_the_end])
def test_round_trip(tell: Callable[[], Told]) -> None:
    """What comes in goes out the same."""
    told = tell()
    assert back(told.imported()) == told.ops()


def test_round_trip_of_transactions() -> None:
    """Transactions, subscriptions and their logs, pending and empty operations come back."""
    told = clean().assign(8, "[1]", "subscribe")
    told.op(
        8, "txn", "[[:send 2 11] [:poll]]", "[[:send 2 [1 11]] [:poll {1 [[0 10] [1 11]]}]]"
    ).poll(8, "{}").poll(8, "{1 [[1 11]]}", "fail")
    told.lines[-3] = told.lines[-3].replace("[[:poll {}]]", '[[:poll {}]], :error "none"')
    told.lines.append(
        "{:index 99, :time 900000, :process 7, :type :invoke, :f :poll, :value [[:poll]]}"
    )
    ops = told.ops()
    ops = [replace(op, number=place) for place, op in enumerate(ops, 1)]
    unknown = replace(ops[-1], number=len(ops) + 1, type="info")
    assert back(told.imported()) == [*ops, unknown]


STEPS = st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(0, 3), st.booleans())


@settings(max_examples=40)
@given(st.lists(STEPS, max_size=12))
def test_round_trip_of_anything(steps: list[tuple[int, int, int, bool]]) -> None:
    """Sends and polls in any order and with any offsets come back."""
    told = Told()
    for value, (process, key, offset, sends) in enumerate(steps):
        if sends:
            told.send(process, key, value, offset or None)
        else:
            told.poll(process, f"{{{key} [[{offset} {value}] [{offset + 1} {value + 1}]]}}")
    assert [replace(op, process=0, client=None) for op in back(told.imported())] == [
        replace(op, process=0) for op in told.ops()
    ]


def test_exports_runs_of_ours() -> None:
    """A run of ours, written out and taken over again, says the same of what it lost."""
    told = story.healthy()
    told.forget(topic=story.ALL, values={story.v(story.ALL, 5)})
    exported = to_ops(table(HISTORY, told.history).to_pylist(), told.plan)
    assert exported.left_out == 0
    assert list(exported.keys) == [("all", 0), ("none", 0), ("one", 0)]
    verdict = judged(to_history(exported.ops, topic="t", promises=PROMISED, files=["run"]))
    lost = {a.partition: a.count for a in verdict.anomalies if a.kind == "lost-write"}
    assert lost == {0: 1}


def test_exports_what_clients_do_at_once() -> None:
    """What overlaps, and what comes after something that never ended, is of other processes."""
    told = story.Story(plan={})
    common = {"topic": "t", "partition": 0, "acks": -1}
    told.row("send", 1, 0.0, value=1, offset=0, **common)["complete_ns"] = 5 * story.S
    told.row("send", 1, 1.0, value=2, offset=1, **common)
    told.row("send", 1, 2.0, value=3, type="info", **common)["complete_ns"] = None
    told.row("send", 1, 6.0, value=4, offset=2, **common)
    ops = to_ops(table(HISTORY, told.history).to_pylist(), {}).ops
    assert [(op.process, op.type) for op in ops] == [
        (1, "invoke"), (2, "invoke"), (2, "ok"), (2, "invoke"), (1, "ok"), (1, "invoke"), (1, "ok"),
        (2, "info"),
    ]  # fmt: skip
    assert [op.client for op in ops] == [None, 1, 1, 1, None, None, None, 1]
