"""Following a run: alarms that the whole run confirms, with a state that stays small."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from checkers.check import check
from checkers.contract.contract import Judgement
from checkers.following.state import HistoryState, Limits
from checkers.history.history import HISTORY, table
from checkers.verdict import Anomaly, Outcome
from tests.support.checkers import followed
from tests.support.checkers.followed import in_time, recorded
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.golden.ended_transactions import old_transactions
from tests.support.histories.story import ALL, ONE, TOPICS, Story, healthy, v, value
from tests.support.tiers import a_third_fast, in_turn

SEGMENTS = 3


def follow(folder: Path, story: Story, segments: int = SEGMENTS) -> tuple[Anomaly, ...]:
    """Look after each of so many equal pieces; the first alarm."""
    rows = recorded(story)
    size = -(-len(rows) // segments)
    return followed.follow(
        folder, story, (rows[n * size : (n + 1) * size] for n in range(segments))
    )


EXCUSED_AT_THE_END = {
    "retention_does_not_remove_what_the_files_have",
    "retention_hides_where_an_epoch_began",
    "snapshot_hides_what_led_to_a_loss",
}
"""What speaks for the broker there is where the replicas' logs start. An alarm comes before they
are read, at the end."""


@pytest.mark.parametrize(
    "name",
    in_turn(
        "checkers/following/test_follow.py::test_an_alarm_is_confirmed_by_the_whole",
        sorted(ALL_GOLDEN.keys() - EXCUSED_AT_THE_END),
        of=12,
    ),
)
def test_an_alarm_is_confirmed_by_the_whole(name: str, tmp_path: Path) -> None:
    """Whatever a golden history raises an alarm for, the one check of it all is INVALID too."""
    story = ALL_GOLDEN[name].story()
    in_time(story)
    if found := follow(tmp_path, story):
        assert check(story.sources(), story.plan).outcome is Outcome.INVALID, found


OF_TRANSACTIONS_AND_GROUPS = {
    "aborted-read", "false-abort", "zombie-write", "uncopied", "copied-twice",
    "copied-out-of-order", "lost-commit", "stale-commit", "skipped-record", "delivered-again",
}  # fmt: skip


def read_early(story: Story) -> None:
    """Another consumer reads before the end what the final reads return."""
    follower = 99
    story.row("start", follower, 0)
    for topic in TOPICS:
        place = {"topic": topic, "partition": 0}
        story.row("assign", follower, 29, offset=0, **place)
        for row in sorted(story.rows("final-read", topic), key=lambda row: row["offset"]):
            told = {name: row.get(name) for name in ("value", "offset", "isolation", "error")}
            story.row("poll", follower, 30 + row["offset"] / 1000, **place, **told)
    story.row("end", follower, 61)


def kinds(anomalies: Iterable[Anomaly]) -> set[tuple[str, str | None]]:
    """What of transactions and groups is forbidden, of what is known before the final commits."""
    return {
        (each.kind, each.aspect)
        for each in anomalies
        if each.kind in OF_TRANSACTIONS_AND_GROUPS
        and each.judgement is Judgement.FORBIDDEN
        and each.aspect != "final"
    }


def of_groups(story: Story) -> bool:
    """Whether it has a group, or a transaction."""
    kinds = {row["f"] for row in story.history}
    return bool(kinds & {"offset-commit", "init-producer"}) or any(
        row.get("txn") is not None for row in story.history
    )


KNOWN_AT_THE_END = {
    "member_was_told_of_a_cut_before_it_was_permitted",
    "member_was_told_of_a_cut_that_nothing_permits",
    "copies_of_unknown_outcome_are_not_there",
    "copies_of_unknown_outcome_were_on_a_replica_that_kept_power",
    "copies_of_unknown_outcome_were_sent_after_the_loss_of_power",
    "retention_left_older_records_than_the_copies",
    "transaction_of_copies_began_after_the_loss",
    "records_were_read_before_their_marker_was_lost",
    "records_were_aborted_above_the_cut",
    "marker_lies_below_what_was_cut",
    "marker_was_on_a_replica_that_kept_power",
    "copies_were_first_made_after_the_loss",
    "member_was_not_told_of_a_cut",
    "commit_of_a_fenced_producer_took_effect",
    "committing_producer_was_fenced_after_the_loss",
    "consumer_passes_over_an_open_transaction_of_unknown_end",
    "fenced_producer_committed",
    "late_commit_of_an_old_producer_was_acknowledged",
    "record_behind_an_open_transaction_was_read",
    "record_behind_an_open_transaction_was_read_and_nothing_was_lost",
    "records_of_a_fenced_producer_are_there_though_their_marker_was_kept",
    "member_went_back_before_its_commit_was_forgotten",
}
"""Only the end of a log shows that it was not cut. Until then it excuses who was told so. Only
there it is seen that copies of unknown outcome are not in it, and what lies behind an open
transaction. When fenced producers asked for commits is compared in the end. And only the leaders of
internal topics and the leader epochs, which are read in the end, show that no commit and no marker
was lost."""
OF_GROUPS = [name for name, golden in sorted(ALL_GOLDEN.items()) if of_groups(golden.story())]


@pytest.mark.parametrize(
    "name",
    a_third_fast(
        "checkers/following/test_follow.py::test_following_agrees_with_the_check_of_the_whole",
        OF_GROUPS,
        of=3,
    ),
)
def test_following_agrees_with_the_check_of_the_whole(name: str, tmp_path: Path) -> None:
    """Of transactions and groups each alarm is what the whole run shows, and none is missed."""
    story = ALL_GOLDEN[name].story()
    read_early(story)
    in_time(story)
    told = kinds(follow(tmp_path, story, segments=1))
    shown = kinds(check(story.sources(), story.plan).anomalies)
    assert told == (set() if name in KNOWN_AT_THE_END else shown)


def twice(s: Story) -> None:
    """A value is read again, far behind."""
    s.poll(ALL, 30, {20: v(ALL, 3)})


def another_value(s: Story) -> None:
    """Two consumers get other values from one offset."""
    s.row("start", 99, 0)
    s.poll(ALL, 30, {10: v(ALL, 20)}, client=99)


def corrupt(s: Story) -> None:
    """A record whose payload is damaged."""
    s.poll(ALL, 30, {20: None}, error="checksum")


def back(s: Story) -> None:
    """A consumer goes back by itself."""
    s.poll(ALL, 30, {12: v(ALL, 13)})


def failed(s: Story) -> None:
    """A send that surely failed is read."""
    s.send(ALL, 21, None, 25, type="fail", error="INVALID_RECORD")
    s.poll(ALL, 30, {20: v(ALL, 21)})


def overwritten(s: Story) -> None:
    """Where a write was acknowledged, another one is read."""
    s.send(ALL, 21, 20, 25)
    s.poll(ALL, 30, {20: v(ALL, 22)})


def told_again(s: Story) -> None:
    """A deposed leader and its successor acknowledge one offset before anybody reads it."""
    s.send(ALL, 21, 20, 25)
    s.send(ALL, 22, 20, 26)
    s.poll(ALL, 30, {20: v(ALL, 22)})


def passed_over(s: Story) -> None:
    """A consumer passes an acknowledged offset and is given nothing."""
    s.send(ALL, 21, 20, 25)
    s.poll(ALL, 30, {21: v(ALL, 22)})


def reordered(s: Story) -> None:
    """Of an idempotent producer, what was sent first lies behind."""
    s.send(ALL, 21, 21, 25)
    s.send(ALL, 22, 20, 25.5)
    s.poll(ALL, 30, {20: v(ALL, 22), 21: v(ALL, 21)})


def torn(s: Story) -> None:
    """A consumer passes an acknowledged record of a committed transaction."""
    for sequence, offset in ((21, 20), (22, 21)):
        s.send(ALL, sequence, offset, 25, txn=1, transactional_id="id")
    s.row("commit-transaction", 3, 26, txn=1, transactional_id="id")
    s.poll(ALL, 30, {20: v(ALL, 21), 22: v(ALL, 23)}, isolation=1)


@pytest.mark.parametrize(
    ("bend", "kind"),
    [
        (twice, "duplicate"),
        (another_value, "inconsistent-offset"),
        (corrupt, "phantom"),
        (back, "nonmonotonic-poll"),
        (failed, "aborted-read"),
        (overwritten, "lost-write"),
        (told_again, "lost-write"),
        (passed_over, "lost-write"),
        (reordered, "reordered-send"),
        (torn, "torn-transaction"),
    ],
)
def test_alarms(bend: object, kind: str, tmp_path: Path) -> None:
    """What the contract forbids whatever comes is told before the end of the run."""
    story = healthy()
    assert callable(bend)
    bend(story)
    assert kind in {anomaly.kind for anomaly in follow(tmp_path, story)}
    assert check(story.sources(), story.plan).outcome is Outcome.INVALID


def test_permitted_anomaly_raises_no_alarm(tmp_path: Path) -> None:
    """Without idempotence a value may be there twice."""
    story = healthy()
    story.poll(ONE, 30, {20: v(ONE, 3)})
    assert follow(tmp_path, story) == ()


def test_permitted_torn_transaction_raises_no_alarm(tmp_path: Path) -> None:
    """Before transaction version 2, after a fault that delays requests."""
    story = healthy()
    torn(story)
    old_transactions(story)
    assert follow(tmp_path, story) == ()


@pytest.mark.parametrize("power", [True, False])
def test_forgotten_transaction_raises_no_alarm(tmp_path: Path, *, power: bool) -> None:
    """While the run goes on, the leaders of the internal topic are not recorded. If a node lost
    power, its coordinator may have forgotten the epoch of a producer with permission."""
    story = ALL_GOLDEN["epoch_of_a_producer_was_forgotten"].story()
    story.plan["broker"] = {}
    story.cluster = [row for row in story.cluster if row["topic"] in TOPICS]
    if not power:
        story.faults = story.faults[:1]
    read = story.final(ALL)[20]
    story.poll(ALL, 25, {20: read["value"]}, isolation=1)
    in_time(story)
    found = {each.kind for each in follow(tmp_path, story)}
    assert found == (set() if power else {"zombie-write"})


def test_member_that_may_still_record_a_delivery_raises_no_alarm(tmp_path: Path) -> None:
    """A skipped record is no alarm while a member's rows end before the group went on."""
    story = ALL_GOLDEN["group_skipped_records_or_a_member_did_not_record_them"].story()
    read_early(story)
    in_time(story)
    assert follow(tmp_path, story) == ()


def test_members_whose_rows_come_after_a_commit_have_skipped_nothing() -> None:
    """One member commits what another one got; its writer's rows are read first."""
    at = {"type": "ok", "topic": "t", "partition": 0, "group": "g", "invoke_ns": 1, "op": 1}
    commit = {**at, "f": "offset-commit", "client": 1, "offset": 5, "complete_ns": 2}
    polls = [
        {**at, "f": "poll", "client": client, "offset": offset, "value": offset, "complete_ns": 2}
        for client in (3, 2)
        for offset in range(5)
        if client == 3 or offset
    ]
    for row in polls:
        row["group"] = "g" if row["client"] == 2 else None
    carried = HistoryState()
    assert list(carried.take(table(HISTORY, [commit]))) == []
    assert list(carried.settle()) == []
    begin = {**at, "f": "assigned", "client": 2, "offset": 0, "complete_ns": 1, "generation": 1}
    assert list(carried.take(table(HISTORY, [begin, *polls]))) == []
    assert [(each.kind, each.offset) for each in carried.settle()] == [("skipped-record", 0)]
    assert list(carried.settle()) == []


def segment(number: int, sends: int = 400) -> pa.Table:
    """A part of an endless run: two producers, two partitions, every seventh write is lost."""
    rows = []
    for sequence in range(number * sends, (number + 1) * sends):
        for producer in (1, 2):
            partition = sequence % 2
            at = {"topic": "all", "partition": partition, "value": value(producer, sequence)}
            times = {"invoke_ns": sequence, "complete_ns": sequence, "op": sequence, "type": "ok"}
            offset = 2 * (sequence // 2) + producer - 1
            sent = {**at, **times, "f": "send", "client": producer, "acks": 1, "offset": offset}
            rows.append(sent)
            if sequence % 7:
                rows.append({**at, **times, "f": "poll", "client": 9, "offset": offset})
    return table(HISTORY, rows)


def test_the_state_does_not_grow_with_time() -> None:
    """Fifty segments: from the moment when its bounds are reached, the state keeps its size."""
    carried = HistoryState(limits=Limits(offsets=500, intervals=50))
    sizes = []
    for number in range(50):
        list(carried.take(segment(number)))
        sizes.append(carried.size())
    assert max(sizes[10:]) <= sizes[9] * 1.05, sizes


def group_segment(number: int, records: int = 400) -> pa.Table:
    """A part of an endless run: a group copies a topic in transactions. Every seventh transaction
    is aborted, every ninth record is skipped, and every eleventh is not copied."""
    rows = []
    for at in range(number * records, (number + 1) * records):
        times = {"invoke_ns": at, "complete_ns": at, "op": at, "type": "ok", "group": "g"}
        place = {"topic": "in", "partition": 0, "offset": at}
        read = {**times, **place, "value": value(1, at)}
        rows.append({**read, "f": "poll", "client": 8, "group": None})
        if at % 9:
            rows.append({**read, "f": "poll", "client": 9})
        outcome = "ok" if at % 7 else "fail"
        ended = {**times, "client": 10, "txn": at, "transactional_id": "id", "type": outcome}
        copy = {"topic": "out", "partition": 0, "offset": at, "value": value(10, at)}
        if at % 11:
            rows.append({**ended, **copy, "f": "send", "acks": -1, "copies": value(1, at)})
        rows.append({**ended, "f": "commit-transaction"})
        rows.append({**ended, **place, "f": "offset-commit", "offset": at + 1, "generation": 1})
        rows.append({**times, **copy, "f": "poll", "client": 8, "group": None})
        if not at % 50:
            for f, client in (("init-producer", at), ("assigned", at)):
                columns = {"client": client, "transactional_id": f"id-{at}", "generation": at}
                rows.append({**times, **place, **columns, "f": f})
    return table(HISTORY, rows)


def test_the_state_of_groups_and_transactions_does_not_grow_with_time() -> None:
    """The same, of a group that makes every mistake."""
    limits = Limits(offsets=600, intervals=75, producers=20, consumers=20)
    carried = HistoryState(limits=limits)
    sizes, kinds_found = [], set()
    for number in range(25):
        kinds_found |= {each.kind for each in carried.take(group_segment(number))}
        kinds_found |= {each.kind for each in carried.settle()}
        sizes.append(carried.size())
    assert max(sizes[15:]) <= sizes[14] * 1.05, sizes
    assert {"skipped-record", "uncopied", "aborted-read", "false-abort"} <= kinds_found
