"""In Jepsen's form and back, every golden history shows the same anomalies in the same partitions.

What Jepsen's form has no place for stands in WITHOUT_A_FORM and LEFT_BEHIND, with the reason.
"""

from collections.abc import Collection
from dataclasses import replace

import pytest

from checkers.check import check
from checkers.history.history import HISTORY, table
from checkers.interchange.imported import Imported
from checkers.interchange.jepsen_export import Exported, to_ops
from checkers.interchange.jepsen_fields import NOTHING
from checkers.interchange.jepsen_import import to_history
from checkers.interchange.jepsen_ops import Notation, Op, Send, read, write
from checkers.verdict import Verdict
from tests.checkers.test_golden import ALONE, SHARED
from tests.support.checkers.jepsen_histories import PROMISED
from tests.support.checkers.jepsen_rules import errors
from tests.support.checkers.judge_imports import judged, judged_together
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.multiplex import multiplex, prefix
from tests.support.histories.story import Story
from tests.support.tiers import in_turn, share

TIMES = {"unavailable", "recovery", "stale-read"}
"""What every run has."""

CLUSTERS = {"divergent-replicas", "isr-broken", "metadata-rollback", "two-leaders", "unequal-ends"}
ENDS = {"uncommitted-read", "watermark-regression"}
KEYS = {"lost-key", "resurrected-key", "missing-key", "reverted-key"}
WITHOUT_A_FORM = {
    **dict.fromkeys(CLUSTERS, "nodes say what they hold, who leads and who is in sync"),
    **dict.fromkeys(ENDS, "a client asks where a log ends"),
    **dict.fromkeys(KEYS, "a record has a key"),
    "hanging-transaction": "what nodes hold, and after which time a transaction ends",
    "refused-head": "a client says why it left its producer epoch",
    "contradicted-evidence": "nodes answer where leader epochs begin, and who is in sync",
    "stuck": "faults have times",
}
"""By the kind of anomaly, what shows it, and is said of no operation."""

WITHOUT_END = ["transaction_is_torn", "transaction_is_torn_nobody_knows_where"]
KEYED = [
    "another_record_is_at_an_acknowledged_offset_that_was_superseded",
    "compacted_topic_has_a_refused_write",
    "compacted_topic_has_what_nobody_wrote",
    "compaction_swaps_two_offsets",
    "idempotent_producer_writes_a_key_twice",
    "key_is_beyond_the_final_read",
    "older_offset_of_a_write_holds_another_record",
    "older_write_of_a_key_is_the_last_one",
    "pass_goes_back",
    "pass_is_given_a_refused_write",
    "pass_is_given_what_nobody_wrote",
    "passes_are_given_a_second_copy",
    "passes_are_given_different_records_at_one_offset",
    "producer_of_a_key_expires_while_it_sends_again",
    "record_of_a_compacted_topic_is_damaged",
    "second_copy_of_a_producer_that_expired",
    "second_copy_of_the_last_record_of_a_key",
    "second_copy_supersedes_what_came_after_the_first",
    "second_copy_without_idempotence",
    "second_tombstone_deletes_what_came_after_the_first",
    "second_tombstone_is_of_one_of_two_deletions",
]
READ_WHILE_OPEN = [
    "consumer_passes_over_an_open_transaction_of_unknown_end",
    "open_old_transaction_was_read_after_a_delay",
    "open_old_transaction_was_read_long_after_a_delay",
    "open_transaction_of_unknown_end_was_read_at_read_committed",
    "open_transaction_was_read_at_read_committed",
    "record_behind_an_open_old_transaction_was_read_after_a_delay",
    "record_behind_an_open_transaction_was_read",
    "record_behind_an_open_transaction_was_read_and_nothing_was_lost",
]
COMMITTED_LATE = [
    "commit_of_a_fenced_producer_took_effect",
    "committing_producer_was_fenced_after_the_loss",
    "fenced_producer_committed",
    "fenced_producer_was_forgotten_before_its_commit",
    "late_commit_of_an_old_producer_took_effect_after_a_delay",
    "late_commit_of_an_old_producer_was_acknowledged",
    "records_of_a_fenced_producer_are_there_though_their_marker_was_kept",
]
WITHOUT_OFFSETS = [
    "copies_without_their_offsets_are_there_though_no_marker_was_lost",
    "offsets_of_a_forgotten_transaction_are_not_committed",
    "offsets_of_a_transaction_after_the_loss_are_not_committed",
    "transaction_was_committed_without_its_offsets",
]
PHANTOM_COMMITS = [
    "coordinator_has_an_offset_that_a_lost_member_may_have_committed",
    "coordinator_has_an_offset_of_an_aborted_transaction",
    "coordinator_has_an_offset_that_it_refused",
    "coordinator_has_an_offset_that_nobody_committed",
    "coordinator_of_a_risky_topic_has_an_offset_of_an_aborted_transaction",
    "coordinator_of_a_risky_topic_has_an_offset_that_it_refused",
]
SENT_AGAIN = [
    "offset_of_what_was_read_is_used_again_and_the_final_read_stops",
    "what_was_read_is_written_again_and_the_final_read_stops",
]
UNANSWERED = [
    "later_batch_overtakes_one_without_an_answer",
    "later_batch_without_an_answer_overtakes",
    "epoch_was_left_in_a_transaction_of_unknown_end",
]
REMOVED = [
    "retention_removed_the_first_copy_of_a_repeated_send",
    "retention_removed_the_first_copy_of_an_idempotent_send",
]
LEFT_BEHIND = {
    **dict.fromkeys(KEYED, "writes of keys, and what a compacted topic kept of them"),
    "record_of_another_run": "a record without a value of the run",
    "record_whose_checksum_is_wrong": "a record without a value of the run",
    "record_of_a_client_that_was_cut": "that a client's record was cut",
    **dict.fromkeys(
        [*READ_WHILE_OPEN, *COMMITTED_LATE], "when a client asked to end its transaction"
    ),
    **dict.fromkeys(WITHOUT_OFFSETS, "that the offsets were sent before the commit"),
    **dict.fromkeys(PHANTOM_COMMITS, "that every commit of the group is recorded"),
    **dict.fromkeys(SENT_AGAIN, "that a power loss took the first record"),
    **dict.fromkeys(WITHOUT_END, "that a client did not record how its transactions ended"),
    **dict.fromkeys(UNANSWERED, "when a client leaves its producer epoch"),
    "what_is_not_committed_yet_is_not_lost": "that leaders' logs go on behind what was read",
    "copies_of_unknown_outcome_went_with_power": "what a partition may have lost",
    "transaction_of_copies_was_forgotten": "what a coordinator may have forgotten",
    **dict.fromkeys(REMOVED, "where the replicas' files begin"),
}
"""By golden history, what else has no form."""

ACCUSED_BY_JEPSEN = {
    "consumer_passes_over_a_transaction_of_unknown_end": {"poll-skip"},
    "coordinator_of_copies_without_their_offsets_may_have_lost_power": {"poll-skip"},
    "copies_without_their_offsets_came_back_since_their_marker_was_lost": {"poll-skip"},
    "epoch_was_left_in_a_transaction_of_unknown_end": {"int-nonmonotonic-send"},
    "group_did_not_copy_a_record_of_a_transaction_of_unknown_end": {"int-poll-skip"},
    "records_of_a_fenced_producer_came_back_since_their_marker_was_lost": {"poll-skip"},
}
"""What its rules forbid and ours do not: they do not know that a transaction may have been aborted
when a consumer passed over it, and committed after its log had lost the marker; nor that a client
left its producer epoch."""

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


PARTS = 3


@pytest.mark.parametrize(
    "part",
    in_turn(
        "checkers/interchange/test_round_trip.py::test_golden_histories_there_and_back",
        range(PARTS),
        of=PARTS,
    ),
)
def test_golden_histories_there_and_back(part: int) -> None:
    """Those that can share a run, a third of them in one."""
    stories = {name: numbered(name) for name in share(SHARED, PARTS, turn=part)}
    before = check((run := multiplex([*stories.values()])).sources(), run.plan)
    there = {name: exported(story) for name, story in stories.items()}
    after = judged_together({name: back(each.ops, name) for name, each in there.items()})
    for number, name in enumerate(stories):
        keys = there[name].keys
        shared = [(prefix(number) + topic, partition) for topic, partition in keys]
        here = [(name, key) for key in range(len(keys))]
        assert_same(name, places(before, shared), places(after, here))


@pytest.mark.parametrize(
    "name",
    in_turn(
        "checkers/interchange/test_round_trip.py::test_golden_history_there_and_back", ALONE, of=18
    ),
)
def test_golden_history_there_and_back(name: str) -> None:
    """The others, one by one."""
    story = numbered(name)
    there = exported(story)
    before, after = check(story.sources(), story.plan), judged(back(there.ops, "t"))
    here = [("t", key) for key in range(len(there.keys))]
    assert_same(name, places(before, there.keys), places(after, here))


GROUPS_AND_TRANSACTIONS = [
    "record_was_copied_again_since_its_commit_was_lost",
    "group_skipped_records_at_most_once",
    "two_owners_committed",
    "transaction_with_group_metadata_committed_offsets",
    "transaction_was_committed_and_said_to_be_aborted",
    "fenced_producer_came_back",
    "aborted_transaction_was_read_at_read_uncommitted",
]


@pytest.mark.parametrize("name", GROUPS_AND_TRANSACTIONS)
def test_import_of_groups_and_transactions_is_exported_again(name: str) -> None:
    """The second export says what the first one says, with its own fields."""
    first = exported(numbered(name)).ops
    imported = back(first, "t")
    again = to_ops(imported.table().to_pylist(), imported.plan).ops
    assert [told(op) for op in again] == [told(op) for op in first]
    assert any(op.fields != NOTHING for op in first)


def told(op: Op) -> Op:
    """An operation without its time, which a consumer may have waited for, and without the error of
    a single row. A transaction of sends only may come back as a send."""
    sends = op.f == "txn" and all(isinstance(step, Send) for step in op.steps)
    return replace(op, error=None, time_ns=0, f="send" if sends else op.f)


PROCESSED = [
    ("group_skipped_records_at_most_once", "at-most-once", "VALID"),
    ("group_skipped_records_at_most_once", "at-least-once", "INVALID"),
    ("record_was_copied_again_at_least_once", "at-least-once", "VALID"),
    ("record_was_copied_again_at_least_once", "exactly-once", "INVALID"),
    ("final_committed_offset_is_below_a_commit", None, "INVALID"),
]


def test_groups_of_an_import_are_judged_by_their_promise() -> None:
    """What a group may skip or do twice depends on how it processes records."""
    for name, processing, outcome in PROCESSED:
        ops = exported(numbered(name)).ops
        promises = replace(PROMISED, acks=1, idempotence=False, processing=processing)
        verdict = judged(to_history(ops, topic="t", promises=promises, files=["x"]))
        assert verdict.outcome.value == outcome, (name, processing, verdict.reasons)


def test_what_is_valid_is_valid_for_jepsen() -> None:
    """Its own rules find nothing in a golden history in which we find nothing; jumps to elsewhere
    are no steps back, and what never completed completes as :info."""
    for name, golden in ALL_GOLDEN.items():
        ops = exported(numbered(name)).ops
        invoked = sum(op.type == "invoke" for op in ops)
        assert invoked * 2 == len(ops), name
        kinds = {kind for kind, _ in golden.expect}
        if golden.outcome == "VALID" and kinds <= WITHOUT_A_FORM.keys():
            known = {"unseen"} | ACCUSED_BY_JEPSEN.get(name, set())
            assert errors(ops) <= known, (name, errors(ops))
