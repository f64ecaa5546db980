"""Markers that a partition lost while the records of the transaction stayed, and near misses.

Nodes 1 and 2, which are in sync, lose power by 9.6 s. The partition is cut at offset 10.
"""

from checkers.history.settings import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.support.histories.golden.base import F, P, U, golden
from tests.support.histories.golden.state_losses import led, taken, wiped
from tests.support.histories.story import ALL, CONSUMER, ONE, PRODUCER, S, Story, v

ID = "writer"
EXCUSED = {("aborted-read", "transaction"): (P, 2), ("false-abort", None): (P, 1)}
ACCUSED = {("aborted-read", "transaction"): (F, 2), ("false-abort", None): (F, 1)}


def _transaction(s: Story, number: int, values: set[int], end: str, at_s: float) -> None:
    """These sends of the topic's producer are one transaction."""
    ended = {"txn": number, "transactional_id": ID}
    for row in s.rows("send", ALL):
        if row["value"] in {v(ALL, each) for each in values}:
            row |= ended
            if end == "abort-transaction":
                row |= {"type": "fail", "offset": None}
    s.row(end, PRODUCER[ALL], at_s, **ended)


def _cut(s: Story, *nodes: int) -> None:
    """The nodes lose power, and readers ask for committed records."""
    wiped(s)
    taken(s, *nodes)
    s.history = [r for r in s.history if r.get("value") != v(ALL, 99)]
    for row in (*s.rows("poll", ALL), *s.rows("final-read", ALL)):
        row["isolation"] = 1


def _come_back(s: Story, *nodes: int, aborted: set[int], next_: int = 11) -> None:
    """A transaction is aborted, and the next one of the producer commits its records, too. Nobody
    had got them before that."""
    _cut(s, *nodes)
    sent_s = {row["value"]: row["invoke_ns"] / S for row in s.rows("send", ALL)}
    ended_s = sent_s[v(ALL, max(aborted))] + 0.01
    _transaction(s, 1, aborted, "abort-transaction", ended_s)
    _transaction(s, 2, {next_}, "commit-transaction", sent_s[v(ALL, next_)] + 0.01)
    values = {v(ALL, each) for each in aborted}
    s.history = [r for r in s.history if r["f"] != "poll" or r.get("value") not in values]


@golden("VALID", EXCUSED, cause="lost power by 9.600 s")
def records_came_back_since_their_marker_was_lost(s: Story) -> None:
    """The marker was at 10, or behind the end of what stayed."""
    _come_back(s, 1, 2, aborted={9, 10})


@golden("INVALID", ACCUSED)
def marker_was_on_a_replica_that_kept_power(s: Story) -> None:
    """Near miss: one power loss is too few."""
    _come_back(s, 1, aborted={9, 10})


@golden("INVALID", ACCUSED)
def marker_lies_below_what_was_cut(s: Story) -> None:
    """Near miss: the producer's next record stayed, and the marker comes before it."""
    _come_back(s, 1, 2, aborted={8, 9}, next_=10)


@golden("INVALID", ACCUSED)
def records_were_aborted_above_the_cut(s: Story) -> None:
    """Near miss: they were appended by the next leader, and so was their marker."""
    _come_back(s, 1, 2, aborted={11, 12}, next_=13)
    for row in s.rows("send", ALL):
        if row["value"] in (v(ALL, 11), v(ALL, 12)):
            row["invoke_ns"] = round(9.3 * S)


@golden("INVALID", ACCUSED)
def records_were_read_before_their_marker_was_lost(s: Story) -> None:
    """Near miss: a reader of committed records had got them already."""
    _come_back(s, 1, 2, aborted={9, 10})
    s.row("start", 99, 1)
    s.poll(ALL, 6, {8: v(ALL, 9), 9: v(ALL, 10)}, client=99, isolation=1)
    s.row("end", 99, 9)


def _known_coordinator(s: Story) -> None:
    """The topic with the states of transactions lost nothing."""
    led(s, TRANSACTIONS_TOPIC, (0, 3, 0, (1, 2, 3)), (16, 3, 0, (1, 2, 3)))


def _fenced(s: Story, *nodes: int) -> None:
    """A producer is fenced in a transaction, and asks for its commit later. Nobody answers. Its
    records are in the final log, and were not read before."""
    _cut(s, *nodes)
    _known_coordinator(s)
    values = {v(ALL, 9), v(ALL, 10)}
    s.row("init-producer", PRODUCER[ALL], 0.2, transactional_id=ID)
    s.row("init-producer", PRODUCER[ONE], 5.5, transactional_id=ID)
    for row in s.rows("send", ALL):
        if row["value"] in values:
            row |= {"txn": 1, "transactional_id": ID, "type": "info", "offset": None}
    s.row("commit-transaction", PRODUCER[ALL], 9, type="info", txn=1, transactional_id=ID)
    s.history = [r for r in s.history if r["f"] != "poll" or r.get("value") not in values]


@golden("VALID")
def records_of_a_fenced_producer_came_back_since_their_marker_was_lost(s: Story) -> None:
    """The take-over aborted them. The next marker of the producer id committed them."""
    _fenced(s, 1, 2)


@golden("INVALID", {("zombie-write", "commit-unanswered"): (F, 1)})
def records_of_a_fenced_producer_are_there_though_their_marker_was_kept(s: Story) -> None:
    """Near miss: one power loss is too few."""
    _fenced(s, 1)


def _copied(s: Story, *nodes: int) -> None:
    """A group copies two records in a transaction whose commit nobody answers. The copies are in
    the final log, and were not read before; the offsets are not committed."""
    _cut(s, *nodes)
    _known_coordinator(s)
    led(s, OFFSETS_TOPIC, (0, 3, 0, (1, 2, 3)), (16, 3, 0, (1, 2, 3)))
    s.plan["workload"]["processing"] = "exactly-once"
    s.plan["broker"] = {"min.insync.replicas": "2"}
    ended = {"type": "info", "txn": 1, "transactional_id": ID}
    here = {"topic": ONE, "partition": 0, "group": "copiers"}
    s.poll(ONE, 4.2, {o: v(ONE, o + 1) for o in range(2)}, client=31, group="copiers")
    copies = {v(ALL, 9): v(ONE, 1), v(ALL, 10): v(ONE, 2)}
    for row in s.rows("send", ALL):
        if row["value"] in copies:
            row |= {"offset": None, "copies": copies[row["value"]], "group": "copiers"} | ended
    s.row("offset-commit", CONSUMER[ONE], 5.1, offset=2, generation=1, **here, **ended)
    s.rows("offset-commit")[-1]["complete_ns"] = None
    s.row("commit-transaction", PRODUCER[ALL], 5.2, **ended)
    s.row("final-committed", CONSUMER[ONE], 60, offset=None, **here)
    s.history = [r for r in s.history if r["f"] != "poll" or r.get("value") not in copies]


@golden("VALID")
def copies_without_their_offsets_came_back_since_their_marker_was_lost(s: Story) -> None:
    """The transaction was aborted. The next marker of the producer committed its copies."""
    _copied(s, 1, 2)


@golden("INVALID", {("lost-commit", "final"): (F, 1)})
def copies_without_their_offsets_are_there_though_no_marker_was_lost(s: Story) -> None:
    """Near miss: one power loss is too few."""
    _copied(s, 1)


@golden("VALID")
def coordinator_of_copies_without_their_offsets_may_have_lost_power(s: Story) -> None:
    """Near miss: the record does not show who led the topic with the states of transactions."""
    _copied(s, 1)
    led(s, TRANSACTIONS_TOPIC)


def _read_behind(s: Story, *nodes: int) -> None:
    """A reader is given offset 9 at 6 s. The transaction of offset 8 is committed at 9 s."""
    _cut(s, *nodes)
    _known_coordinator(s)
    _transaction(s, 1, {9}, "commit-transaction", 9)
    for row in s.rows("poll", ALL):
        if row["offset"] < 10:
            row |= {"invoke_ns": round(9.2 * S), "complete_ns": round(9.3 * S)}
    s.row("start", 99, 1)
    s.poll(ALL, 6, {9: v(ALL, 10)}, client=99, isolation=1)
    s.row("end", 99, 9)


@golden("VALID")
def record_behind_an_open_transaction_was_read_before_a_loss(s: Story) -> None:
    """Both may have been written again since, in another order."""
    _read_behind(s, 1, 2)


@golden("INVALID", {("aborted-read", "behind-open"): (F, 1)})
def record_behind_an_open_transaction_was_read_and_nothing_was_lost(s: Story) -> None:
    """Near miss: one power loss is too few."""
    _read_behind(s, 1)


@golden("INVALID", {("aborted-read", None): (F, 2), ("poll-skip", None): (F, 1)})
def refused_records_without_a_transaction_need_no_marker(s: Story) -> None:
    """Near miss: they were not in a transaction."""
    _come_back(s, 1, 2, aborted={9, 10})
    for row in s.rows("send", ALL):
        if row["type"] == "fail":
            row |= {"txn": None, "transactional_id": None}
    s.history = [r for r in s.history if r["f"] != "abort-transaction"]


def _hang(s: Story, *nodes: int, stable: int) -> None:
    """The last two records that stayed are of a committed transaction. The final read ends at the
    last stable offset. The topic with the states of transactions lost nothing."""
    _cut(s, *nodes)
    led(s, TRANSACTIONS_TOPIC, (0, 3, 0, (1, 2, 3)), (16, 3, 0, (1, 2, 3)))
    s.row("init-producer", PRODUCER[ALL], 0.2, transactional_id=ID)
    _transaction(s, 1, {9, 10}, "commit-transaction", 5.01)
    s.history = [
        r
        for r in s.history
        if r["f"] not in ("poll", "final-read") or r["topic"] != ALL or r["offset"] < stable
    ]
    s.rows("final-read-end", ALL)[0].update(
        type="info", offset=stable, isolation=1, error="timeout"
    )


HANGING = ("hanging-transaction", None)
UNREAD = "readers of committed records stop at offset 8: a transaction is open"


@golden("UNKNOWN", {HANGING: (P, 1), ("unseen", None): (U, 12)},
        because=f"{UNREAD}, and its marker may be lost: all-0 lost records")  # fmt: skip
def transaction_hangs_since_its_marker_was_lost(s: Story) -> None:
    """It begins below the cut, and nobody with its producer id wrote there again."""
    _hang(s, 1, 2, stable=8)


@golden("UNKNOWN", {HANGING: (P, 1), ("unseen", None): (U, 12)},
        because=f"{UNREAD}, and its marker may be lost: all-0 lost records")  # fmt: skip
def transaction_hangs_since_the_lone_replica_lost_its_marker(s: Story) -> None:
    """The topic had min.insync.replicas=1 for a while. That of transaction states has 2."""
    _hang(s, 1, stable=8)
    details = {"topic": ALL, "name": "min.insync.replicas", "value": "1"}
    taken(s, fault="config", by_s=9.2, details=details)
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1,)), (10, 1, 1, (1,)), (16, 1, 1, (1, 2, 3)))


@golden("INVALID", {HANGING: (F, 1), ("unseen", None): (U, 12)}, because=f"{UNREAD})")
def transaction_hangs_though_its_marker_was_kept(s: Story) -> None:
    """Near miss: one power loss is too few."""
    _hang(s, 1, stable=8)


@golden("INVALID", {HANGING: (F, 1), ("unseen", None): (U, 8)})
def transaction_hangs_that_begins_above_the_cut(s: Story) -> None:
    """Near miss: its marker came after the loss, too."""
    _hang(s, 1, 2, stable=12)
