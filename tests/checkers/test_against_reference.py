"""Generated histories with planted anomalies: the detectors count what plain Python counts."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers.check import check
from checkers.detectors.outputs import program_of
from checkers.engines.engine import DuckDbEngine, Engine, SparkEngine
from checkers.verdict import Status
from tests.support.checkers.reference import Counts, find
from tests.support.checkers.reference_cluster import find_in_cluster
from tests.support.checkers.reference_outputs import find_in_outputs
from tests.support.checkers.small_spark import BriefSparkEngine
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.golden.client_epochs import OWN
from tests.support.histories.multiplex import multiplex
from tests.support.histories.story import (
    ASKER,
    CONSUMER,
    PRODUCER,
    READER,
    TOPICS,
    S,
    Story,
    healthy,
    v,
)
from tests.tools.checker_agreement import Tally, compare

ALWAYS_THERE = {"unavailable", "recovery"}
SEQUENCES = st.integers(min_value=0, max_value=24)  # 0 and 21.. were never sent
OFFSETS = st.integers(min_value=0, max_value=23)


@st.composite
def bends(draw: st.DrawFn) -> list[tuple[str, str, int, int]]:
    """A few changes to the healthy run: (what, topic, sequence, offset)."""
    kinds = ("drop", "drop-final", "send", "fail", "read", "corrupt", "poll", "assign", "mark",
             "move", "swap", "cut-read", "end-early", "again", "transaction",
             "failed-poll", "refused", "ended", "taken-over", "early", "copied",
             "committed", "assigned", "revoked", "got", "hung")  # fmt: skip
    change = st.tuples(st.sampled_from(kinds), st.sampled_from(TOPICS), SEQUENCES, OFFSETS)
    return draw(st.lists(change, max_size=8))


def bent(changes: list[tuple[str, str, int, int]]) -> Story:
    """The healthy run with the changes made."""
    story = healthy()
    for number, (what, topic, sequence, offset) in enumerate(changes):
        at_s = 20 + number
        sent = [r for r in story.rows("send", topic) if r["value"] == v(topic, sequence)]
        match what:
            case "drop":
                story.forget(topic=topic, values={v(topic, sequence)})
            case "drop-final":
                story.forget(topic=topic, values={v(topic, sequence)}, but_polls=True)
            case "send" if not sent:
                story.send(topic, sequence, offset, at_s)
            case "fail":
                for row in sent:
                    row["type"] = "fail"
            case "read":
                story.read_in_the_end(topic, offset, v(topic, sequence))
            case "corrupt":
                story.read_in_the_end(topic, offset, None, error="checksum")
            case "poll":
                story.poll(topic, at_s, {offset: v(topic, sequence)})
            case "assign":
                story.assign(topic, at_s, offset - 1)
            case "refused":
                story.assign(topic, at_s, offset - 1, error="OFFSET_OUT_OF_RANGE")
            case "mark":
                story.watermark(topic, at_s, offset)
            case "move":
                for row in sent:
                    row["offset"] = None if row["offset"] is None else offset
            case "swap":
                for row in sent:
                    row["op"] = story.next_op()
            case "again":
                for row in sent:
                    row["complete_ns"] = round((20 + offset) * S)
                story.read_in_the_end(topic, offset, v(topic, sequence))
                own = (OWN, OWN, "message sequence gap")[sequence % 3]
                lacked = v(topic, sequence + (-1, 1)[offset % 2])
                more = {"topic": topic, "partition": offset % 3, "value": lacked}
                story.new_epoch(PRODUCER[topic], at_s, at_s + 2, own, **more)
            case "transaction":
                pair = {v(topic, sequence), v(topic, sequence + 1)}
                for row in story.rows("send", topic):
                    if row["value"] in pair:
                        row.update(type="info", txn=v(topic, sequence))
                        row["offset"] = row["offset"] if offset % 2 else None
            case "ended":
                _end_transaction(story, topic, sequence, offset)
            case "copied":
                source = TOPICS[offset % 3]
                for row in sent:
                    row.update(copies=v(source, offset % 5 + 1), group="copiers")
                where = {"topic": source, "partition": 0, "offset": offset, "group": "copiers"}
                story.row("final-committed", CONSUMER[source], 60, **where)
            case "got":
                member = (CONSUMER[topic], ASKER)[sequence % 2]
                records = {offset % 4: v(topic, offset % 4 + 1)}
                story.poll(topic, at_s, records, client=member, group="copiers")
            case "hung":
                for row in story.rows("final-read-end", topic):
                    row.update(type="info", error="timeout", offset=offset, isolation=1)
            case "committed" | "assigned" | "revoked":
                member = (CONSUMER[topic], ASKER)[sequence % 2]
                where = {"topic": topic, "partition": 0, "offset": offset % 4, "group": "copiers"}
                f = {"committed": "offset-commit"}.get(what, what)
                type_ = "info" if sequence % 5 == 4 else "ok"
                story.row(f, member, at_s, type=type_, generation=sequence % 3, **where)
            case "taken-over":
                story.row("init-producer", offset % 3 + 1, offset, transactional_id="id")
            case "early":
                for row in story.rows("poll", topic) + story.rows("final-read", topic):
                    row["isolation"] = int(row["offset"] < offset)
            case "failed-poll":
                story.poll(topic, at_s, {offset: v(topic, sequence)}, type="fail")
            case "end-early":
                for row in story.rows("final-read-end", topic):
                    row.update(type="info", offset=offset)
            case "cut-read":
                for row in story.rows("final-read-end", topic):
                    row.update(type="info", error="timeout")
    return story


def _end_transaction(story: Story, topic: str, sequence: int, offset: int) -> None:
    """Two sends are of one transaction, with a recorded end."""
    f, answer = (
        ("commit-transaction", "ok"),
        ("commit-transaction", "info"),
        ("commit-transaction", "fail"),
        ("abort-transaction", "ok"),
        ("abort-transaction", "info"),
    )[offset % 5]
    txn = v(topic, sequence)
    pair = {v(topic, sequence), v(topic, sequence + 1)}
    outcome = answer if f == "commit-transaction" else {"ok": "fail"}.get(answer, answer)
    sends = [row for row in story.rows("send", topic) if row["value"] in pair]
    if any(row.get("txn") is not None for row in sends):
        return
    for row in sends:
        row.update(type=outcome, txn=txn, transactional_id="id")
    story.row(f, PRODUCER[topic], 30, type=answer, txn=txn, transactional_id="id")


def detected(story: Story, engine: Engine) -> Counts:
    """What the detectors count."""
    verdict = check(story.sources(), story.plan, engine)
    assert not [r for r in verdict.detectors if r.status is Status.CRASHED]
    assert not verdict.extra_reasons
    counts: Counts = Counter()
    for anomaly in verdict.anomalies:
        if anomaly.kind not in ALWAYS_THERE:
            assert anomaly.topic is not None
            assert anomaly.partition is not None
            key = (anomaly.kind, anomaly.aspect, anomaly.topic, anomaly.partition)
            counts[key] += anomaly.count
    return counts


Changes = list[tuple[str, str, int, int]]
RUNS = st.lists(bends(), min_size=10, max_size=10)
SLOWLY = settings(
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def assert_counts_as_the_reference(runs: list[Changes], engine: Engine) -> None:
    """Ten bent runs side by side, checked as one."""
    story = multiplex([bent(changes) for changes in runs])
    try:
        assert detected(story, engine) == find(story.history, story.cluster) + find_in_cluster(
            story
        )
    finally:
        engine.close()


@settings(SLOWLY, max_examples=3)
@given(runs=RUNS)
def test_generated_histories(runs: list[Changes]) -> None:
    """Exact counts of every kind, whatever is planted where."""
    assert_counts_as_the_reference(runs, DuckDbEngine())


@pytest.mark.slow
@pytest.mark.nightly("checkers/test_against_reference.py::test_generated_histories")
@settings(SLOWLY, max_examples=30)
@given(runs=RUNS)
def test_more_generated_histories(runs: list[Changes]) -> None:
    """The same, more often."""
    assert_counts_as_the_reference(runs, DuckDbEngine())


@pytest.mark.slow
@pytest.mark.nightly("checkers/test_golden.py::test_engines_agree_on_many_golden_histories")
@settings(SLOWLY, max_examples=2)
@given(runs=RUNS)
def test_generated_histories_on_spark(spark: Any, runs: list[Changes]) -> None:
    """Spark counts the same."""
    assert_counts_as_the_reference(runs, SparkEngine(spark))


def test_planted_anomalies_are_found() -> None:
    """Whatever shape a run has: all that was planted is found, and in the others nothing."""
    tally = Tally()
    compare(range(40), [DuckDbEngine], tally)
    assert not tally.differences
    assert tally.clean


@pytest.mark.slow
@pytest.mark.nightly("checkers/test_golden.py::test_engines_agree_on_many_golden_histories")
def test_planted_anomalies_are_found_on_both_engines(spark: Any) -> None:
    """The same on Spark, which says the same as DuckDB to the last example row."""
    tally = Tally()
    compare(range(1000, 1150), [DuckDbEngine, lambda: BriefSparkEngine(spark)], tally)
    assert not tally.differences
    assert len(tally.planted) > 12


# Excuses of cut clients, and of producer epochs by causes, are beyond the reference; so is what the
# controllers decided, what the replicas' files say, what was sent twice, and what was lost for a
# while, and the version of transactions.
BEYOND = {
    "record_of_a_client_that_was_cut",
    "old_record_of_a_client_that_was_cut",
    "client_began_again_since_a_partition_lost_power",
    "client_began_again_and_epochs_were_not_read",
    "later_send_came_first_and_came_again",
    "later_send_came_first_before_what_is_not_told",
    "retention_by_age_leaves_nothing",
    "retention_overtakes_the_final_read",
    "second_copy_since_the_first_went_with_the_deposed_leader",
    "pass_was_given_what_an_unclean_election_took",
    "what_was_read_is_written_again_and_the_final_read_stops",
    "offset_of_what_was_read_is_used_again_and_the_final_read_stops",
    "old_transaction_was_committed_without_its_offsets_after_a_delay",
    "record_behind_an_open_transaction_was_read_before_a_loss",
    "record_was_copied_again_after_its_input_lost_power",
    "record_was_sent_again_in_another_transaction",
    "records_of_a_fenced_producer_came_back_since_their_marker_was_lost",
    "coordinator_of_a_fenced_producer_may_have_lost_power",
    "coordinator_of_copies_without_their_offsets_may_have_lost_power",
    "copies_of_unknown_outcome_went_with_power",
    "copies_without_their_offsets_came_back_since_their_marker_was_lost",
    "offset_of_an_aborted_transaction_became_a_part_of_the_next_one",
    "retention_removed_copies_of_unknown_outcome",
    "retention_removed_the_first_copy_of_a_repeated_send",
    "retention_removed_the_first_copy_of_an_idempotent_send",
    "transaction_of_copies_was_forgotten",
}
BEYOND_KINDS = {*ALWAYS_THERE, "isr-broken", "metadata-rollback"}
COARSE = {"deposed": None, "advanced": None, "newest": None, "bereft": None, "overtaken": None,
          "outlasted": None, "answered-at-once": None, "damaged": "bytes",
          "sent-again": "final"}  # fmt: skip
"""Aspects that need a cause, and what the reference calls them."""


@pytest.mark.parametrize("name", sorted(ALL_GOLDEN.keys() - BEYOND))
def test_reference_knows_the_golden_histories(name: str) -> None:
    """The reference itself finds in each golden history what it was written to show."""
    golden = ALL_GOLDEN[name]
    story = golden.story()
    counts: Counter[tuple[str, str | None]] = Counter()
    for (kind, aspect, _, _), count in (
        find(story.history, story.cluster) + find_in_cluster(story)
    ).items():
        if kind != "stale-read":
            counts[kind, aspect] += count
    if (program := program_of(story.plan)) is not None:
        counts += find_in_outputs(story.history, program["input"])
    expected: Counter[tuple[str, str | None]] = Counter()
    for (kind, aspect), (_, count) in golden.expect.items():
        if kind not in BEYOND_KINDS | {"stale-read"}:
            expected[kind, COARSE.get(aspect or "", aspect)] += count
    assert counts == expected


def test_clients_of_the_story_do_not_collide() -> None:
    """Every client of the healthy run has a number of its own."""
    clients = [*PRODUCER.values(), *CONSUMER.values(), READER]
    assert len(set(clients)) == len(clients)
