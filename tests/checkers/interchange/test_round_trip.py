"""In Jepsen's form and back, every golden history shows the same anomalies in the same partitions.

What Jepsen's form has no place for stands in WITHOUT_A_FORM and LEFT_BEHIND, with the reason.
"""

from collections.abc import Collection

import pytest

from checkers.check import check
from checkers.history.history import HISTORY, table
from checkers.interchange.imported import Imported
from checkers.interchange.jepsen_export import Exported, to_ops
from checkers.interchange.jepsen_import import to_history
from checkers.interchange.jepsen_ops import Notation, Op, read, write
from checkers.verdict import Verdict
from tests.checkers.test_golden import ALONE, SHARED
from tests.support.checkers.jepsen_histories import PROMISED
from tests.support.checkers.jepsen_rules import errors
from tests.support.checkers.judge_imports import judged, judged_together
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.multiplex import multiplex, prefix
from tests.support.histories.story import Story
from tests.support.tiers import in_turn

TIMES = {"unavailable", "recovery", "stale-read"}
"""What every run has."""

CLUSTERS = {"divergent-replicas", "isr-broken", "metadata-rollback", "two-leaders", "unequal-ends"}
ENDS = {"uncommitted-read", "watermark-regression"}
COPIES = {"uncopied", "copied-twice", "copied-out-of-order"}
COMMITS = {"lost-commit", "stale-commit"}
DELIVERIES = {"skipped-record", "delivered-again", "two-owners"}
ENDED = {"torn-transaction", "hanging-transaction", "false-abort", "zombie-write"}
KEYS = {"lost-key", "resurrected-key"}
WITHOUT_A_FORM = {
    **dict.fromkeys(CLUSTERS, "nodes say what they hold, who leads and who is in sync"),
    **dict.fromkeys(ENDS, "a client asks where a log ends"),
    **dict.fromkeys(COPIES, "a send says from which record it was made"),
    **dict.fromkeys(COMMITS, "members of a group say which offsets they committed, and when"),
    **dict.fromkeys(DELIVERIES, "polls name a group, and members what they were assigned"),
    **dict.fromkeys(ENDED, "how a transaction ended is said apart from its sends"),
    **dict.fromkeys(KEYS, "a record has a key"),
    "refused-head": "a client says why it left its producer epoch",
    "contradicted-evidence": "nodes answer where leader epochs begin, and who is in sync",
    "stuck": "faults have times",
}
"""By the kind of anomaly, what shows it, and is said of no operation."""

TORN = [
    "committed_transaction_is_torn",
    "new_transaction_is_torn_after_a_delay",
    "old_transaction_is_torn_after_a_delay",
    "old_transaction_is_torn_without_a_delay",
    "transaction_of_unknown_end_is_torn",
]
KEYED = [
    "compacted_topic_has_a_refused_write",
    "compacted_topic_has_what_nobody_wrote",
    "compaction_swaps_two_offsets",
    "key_is_beyond_the_final_read",
    "record_of_a_compacted_topic_is_damaged",
]
LEFT_BEHIND = {
    **dict.fromkeys(KEYED, "writes of keys, and what a compacted topic kept of them"),
    "record_of_another_run": "a record without a value of the run",
    "record_whose_checksum_is_wrong": "a record without a value of the run",
    "record_of_a_client_that_was_cut": "that a client's record was cut",
    **dict.fromkeys(TORN, "that the sends of one transaction were lost together"),
    "aborted_transaction_was_read_at_read_uncommitted": "at which isolation level a client reads",
    "open_transaction_was_read_at_read_uncommitted": "at which isolation level a client reads",
    "what_is_not_committed_yet_is_not_lost": "that leaders' logs go on behind what was read",
}
"""By golden history, what else has no form."""

Places = set[tuple[str, int]]
"""Kinds of anomalies, and the number of the key."""


def numbered(name: str) -> Story:
    """A golden history whose operations are numbered in the order of their times, as a recorder
    does; Jepsen's operations have no other."""
    story = ALL_GOLDEN[name].story()
    first: dict[int, int] = {}
    for row in story.history:
        first[row["op"]] = min(first.get(row["op"], row["invoke_ns"]), row["invoke_ns"])
    order = sorted(first, key=lambda op: (first[op], op))
    numbers = {op: number for number, op in enumerate(order, 1)}
    for row in story.history:
        for column in ("op", "txn"):
            if row.get(column) is not None:
                row[column] = numbers[row[column]]
    return story


def exported(story: Story) -> Exported:
    """What it is in Jepsen's form."""
    return to_ops(table(HISTORY, story.history).to_pylist(), story.plan)


def back(ops: Collection[Op], topic: str) -> Imported:
    """Written, read and taken over."""
    text = write(ops, Notation.EDN)
    return to_history(read(text, Notation.EDN), topic=topic, promises=PROMISED, files=["x"])


def places(verdict: Verdict, keys: Collection[tuple[str, int]]) -> Places:
    """What was found, by the number that the partition has among `keys`."""
    numbers = {partition: number for number, partition in enumerate(sorted(keys))}
    return {
        (a.kind, numbers[a.topic or "", a.partition or 0])
        for a in verdict.anomalies
        if a.kind not in {*TIMES, *WITHOUT_A_FORM} and (a.topic, a.partition) in numbers
    }


def assert_same(name: str, before: Places, after: Places) -> None:
    """Nothing is lost and nothing is new, but where the form has no place for it."""
    assert (before == after) == (name not in LEFT_BEHIND), (name, before, after)


@pytest.mark.slow
def test_golden_histories_there_and_back() -> None:
    """Those that can share a run, in one."""
    stories = {name: numbered(name) for name in SHARED}
    before = check((run := multiplex([*stories.values()])).sources(), run.plan)
    there = {name: exported(story) for name, story in stories.items()}
    after = judged_together({name: back(each.ops, name) for name, each in there.items()})
    for number, name in enumerate(SHARED):
        keys = there[name].keys
        shared = [(prefix(number) + topic, partition) for topic, partition in keys]
        here = [(name, key) for key in range(len(keys))]
        assert_same(name, places(before, shared), places(after, here))


@pytest.mark.parametrize(
    "name",
    in_turn(
        "checkers/interchange/test_round_trip.py::test_golden_history_there_and_back", ALONE, of=6
    ),
)
def test_golden_history_there_and_back(name: str) -> None:
    """The others, one by one."""
    story = numbered(name)
    there = exported(story)
    before, after = check(story.sources(), story.plan), judged(back(there.ops, "t"))
    here = [("t", key) for key in range(len(there.keys))]
    assert_same(name, places(before, there.keys), places(after, here))


def test_what_is_valid_is_valid_for_jepsen() -> None:
    """Its own rules find nothing in a golden history in which we find nothing; jumps to elsewhere
    are no steps back, and what never completed completes as :info."""
    for name, golden in ALL_GOLDEN.items():
        ops = exported(numbered(name)).ops
        invoked = sum(op.type == "invoke" for op in ops)
        assert invoked * 2 == len(ops), name
        kinds = {kind for kind, _ in golden.expect}
        if golden.outcome == "VALID" and kinds <= WITHOUT_A_FORM.keys() - COPIES:
            assert errors(ops) <= {"unseen"}, (name, errors(ops))
