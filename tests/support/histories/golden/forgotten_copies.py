"""What a group copies again because a coordinator forgot its transaction or its commit.

Each story has a group that copies ONE to ALL, exactly once. The copies are at 20 and above.
"""

from checkers.history.settings import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.support.histories.golden.base import INFO, F, P, golden
from tests.support.histories.golden.internal_topics import lose
from tests.support.histories.golden.state_losses import led
from tests.support.histories.story import ALL, CONSUMER, ONE, PRODUCER, S, Story, v

GROUP = "copiers"
HERE = {"topic": ONE, "partition": 0, "group": GROUP}
FIRST, SECOND = 31, 41
ID = "copy-0"


def _copy(s: Story, first: int, copied: range, at_s: float, **more: object) -> None:
    """Records of ONE, by offset, are copied to ALL, to its offset `first` and above."""
    for offset, source in enumerate(copied, first):
        copy = s.send(ALL, 30 + offset, offset, at_s + (offset - first) / 10)
        copy |= {"copies": v(ONE, source + 1), "group": GROUP, "offset": None} | more
        s.read_in_the_end(ALL, offset, v(ALL, 30 + offset))


def _get(s: Story, client: int, at_s: float, got: range) -> None:
    s.poll(ONE, at_s, {o: v(ONE, o + 1) for o in got}, group=GROUP, client=client)


def _copied_in_an_aborted_transaction(s: Story, outcome: str = "fail") -> None:
    """The copies of a transaction come back with the next transaction of its producer. The group
    has lost no commit."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1", min_insync_replicas="2")
    led(s, OFFSETS_TOPIC, (0, 3, 0, (1, 2, 3)), (16, 3, 0, (1, 2, 3)))
    s.plan["workload"]["processing"] = "exactly-once"
    s.row("start", SECOND, 6)
    s.row("assigned", FIRST, 6, offset=0, generation=1, **HERE)
    _get(s, FIRST, 9, range(2))
    _copy(s, 20, range(2), 9.1, type=outcome, txn=1, transactional_id=ID)
    end = "abort-transaction" if outcome == "fail" else "commit-transaction"
    s.row(end, PRODUCER[ALL], 9.3, txn=1, transactional_id=ID)
    s.row("lost", FIRST, 9.8, **HERE)
    s.row("assigned", SECOND, 20, offset=0, generation=2, **HERE)
    _get(s, SECOND, 21, range(2))
    ended = {"txn": 2, "transactional_id": ID}
    _copy(s, 22, range(2), 21.1, **ended)
    s.row("offset-commit", SECOND, 21.5, offset=2, generation=2, **HERE, **ended)
    s.row("commit-transaction", PRODUCER[ALL], 22, **ended)
    s.row("final-committed", CONSUMER[ONE], 60, offset=2, **HERE)
    s.row("end", SECOND, 61)


AGAIN = {("delivered-again", "rebalanced"): (INFO, 2)}


@golden("VALID", {("aborted-read", "transaction"): (P, 2), ("false-abort", None): (P, 1), **AGAIN},
        cause="__transaction_state-0")  # fmt: skip
def copies_of_a_forgotten_transaction_came_back(s: Story) -> None:
    """Its coordinator lost it before it had written a marker."""
    _copied_in_an_aborted_transaction(s)


@golden(
    "INVALID", {("aborted-read", "transaction"): (F, 2), ("false-abort", None): (F, 1), **AGAIN}
)
def copies_of_an_aborted_transaction_came_back(s: Story) -> None:
    """Near miss: its coordinator lost nothing, so the aborted read is held against it."""
    _copied_in_an_aborted_transaction(s)
    s.faults.clear()


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 2), **AGAIN})
def copies_of_two_committed_transactions_are_there(s: Story) -> None:
    """Near miss: the first transaction was committed, too."""
    _copied_in_an_aborted_transaction(s, "ok")
    s.faults.clear()


def _committed_without_offsets(s: Story, at_s: float) -> None:
    """Nobody answers the commit of a transaction. Its copies are there, and its offsets are not."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1", min_insync_replicas="2")
    led(s, OFFSETS_TOPIC, (0, 3, 0, (1, 2, 3)), (16, 3, 0, (1, 2, 3)))
    s.plan["workload"]["processing"] = "exactly-once"
    ended = {"txn": 1, "transactional_id": ID}
    s.row("assigned", FIRST, 6, offset=0, generation=1, **HERE)
    _get(s, FIRST, 9, range(2))
    _copy(s, 20, range(2), at_s, type="info", **ended)
    s.row("offset-commit", FIRST, at_s + 0.2, offset=2, generation=1, **HERE, **ended)
    s.rows("offset-commit")[-1].update(type="info", complete_ns=None)
    s.row("commit-transaction", PRODUCER[ALL], at_s + 0.3, type="info", **ended)
    s.row("final-committed", CONSUMER[ONE], 60, offset=None, **HERE)


@golden("VALID", {("lost-commit", "final"): (P, 1)}, cause="__transaction_state-0")
def offsets_of_a_forgotten_transaction_are_not_committed(s: Story) -> None:
    """Its coordinator lost the decision when some of its markers were written."""
    _committed_without_offsets(s, 9.1)


@golden("INVALID", {("lost-commit", "final"): (F, 1)})
def offsets_of_a_transaction_after_the_loss_are_not_committed(s: Story) -> None:
    """Near miss: it began in the next epoch."""
    _committed_without_offsets(s, 12)


TWICE = {("copied-twice", "delivered-again"): (P, 4)}
HELD_AGAINST = {("copied-twice", "delivered-again"): (F, 4)}
ONCE_MORE = {("delivered-again", "rebalanced"): (INFO, 4)}


def _commit(s: Story, client: int, at_s: float, offset: int, until_s: float | None = 0) -> None:
    """until_s: when the commit was acknowledged, if not at once; None if it never was."""
    generation = 1 if client == FIRST else 2
    row = s.row("offset-commit", client, at_s, offset=offset, generation=generation, **HERE)
    if until_s is None:
        row |= {"type": "info", "complete_ns": None}
    elif until_s:
        row["complete_ns"] = round(until_s * S)


def _begin(s: Story, *, lost: bool) -> None:
    """The first member copies six records, and the group commits 2."""
    lose(s)
    if not lost:
        s.faults.clear()
    s.plan["workload"]["processing"] = "exactly-once"
    s.row("start", SECOND, 6)
    s.row("assigned", FIRST, 6, offset=0, generation=1, **HERE)
    _get(s, FIRST, 7, range(6))
    _copy(s, 20, range(6), 7.1)
    _commit(s, FIRST, 7.25, 2)


def _copy_again(s: Story, client: int, at_s: float = 13) -> None:
    """A member gets four records again, copies them, and commits."""
    _get(s, client, at_s, range(2, 6))
    _copy(s, 26, range(2, 6), at_s + 0.1)
    _commit(s, client, at_s + 1, 6)
    s.row("final-committed", CONSUMER[ONE], 60, offset=6, **HERE)
    s.row("end", SECOND, 61)


def _move(s: Story, at_s: float = 12) -> None:
    """Another member goes on at 2."""
    s.row("lost", FIRST, at_s - 2.2, **HERE)
    s.row("assigned", SECOND, at_s, offset=2, generation=2, **HERE)
    _copy_again(s, SECOND, at_s + 1)


def _unanswered(s: Story, *, lost: bool) -> None:
    """Nobody was told of the commit of 6."""
    _begin(s, lost=lost)
    _commit(s, FIRST, 9, 6, None)
    _move(s)


@golden("VALID", TWICE | ONCE_MORE, cause="became leader of __consumer_offsets-0")
def copies_of_an_unanswered_commit_were_made_again(s: Story) -> None:
    """The coordinator lost the commit with power."""
    _unanswered(s, lost=True)


@golden("VALID", TWICE | ONCE_MORE, cause="became leader of __transaction_state-0")
def copies_of_an_unanswered_transaction_were_made_again(s: Story) -> None:
    """The coordinator of the transaction lost its end before the offsets had a marker."""
    _unanswered(s, lost=True)
    s.faults.clear()
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1", min_insync_replicas="2")
    led(s, OFFSETS_TOPIC, (0, 3, 0, (1, 2, 3)), (16, 3, 0, (1, 2, 3)))
    for row in s.history:
        if row.get("copies") and row["invoke_ns"] < 9 * S:
            row |= {"txn": 1, "transactional_id": ID}


@golden("INVALID", HELD_AGAINST | ONCE_MORE)
def copies_of_an_unanswered_commit_were_made_again_without_a_loss(s: Story) -> None:
    """Near miss: the coordinator lost nothing, so the copies are not of a committed transaction."""
    _unanswered(s, lost=False)


@golden("VALID", TWICE)
def member_went_back_to_a_forgotten_commit(s: Story) -> None:
    """It went on in its generation after an abort, from where its coordinator said."""
    _begin(s, lost=True)
    _commit(s, FIRST, 8, 6)
    s.row("assign", FIRST, 12, topic=ONE, partition=0, offset=2)
    _copy_again(s, FIRST)


@golden("INVALID", HELD_AGAINST)
def member_went_back_before_its_commit_was_forgotten(s: Story) -> None:
    """Near miss: the power was lost after it had got the records again. It gets them once more
    after the copies."""
    _begin(s, lost=True)
    _commit(s, FIRST, 8, 6)
    s.row("assign", FIRST, 8.5, topic=ONE, partition=0, offset=2)
    _copy_again(s, FIRST, 8.6)
    for row in s.history:
        if row.get("copies") and row["invoke_ns"] > 8.6 * S:
            row |= {"invoke_ns": 11 * S, "complete_ns": 12 * S}
    s.row("assign", FIRST, 12.9, topic=ONE, partition=0, offset=2)
    _get(s, FIRST, 13, range(2, 6))


@golden("INVALID", {("copied-twice", None): (F, 4)})
def copies_were_made_twice_of_records_that_were_got_once(s: Story) -> None:
    """Near miss: a lost commit delivers the records again."""
    _begin(s, lost=True)
    _commit(s, FIRST, 8, 6)
    _copy_again(s, FIRST)
    s.history = [r for r in s.history if r["f"] != "poll" or r["client"] != FIRST or
                 r["invoke_ns"] < 8 * S]  # fmt: skip


@golden("VALID", TWICE | ONCE_MORE)
def commit_of_copies_ended_after_the_next_member_began(s: Story) -> None:
    """Its pending offsets were lost, so the next member did not wait for it."""
    _begin(s, lost=True)
    _commit(s, FIRST, 9, 6, 13)
    _move(s)


@golden("INVALID", HELD_AGAINST | ONCE_MORE)
def copies_were_first_made_after_the_loss(s: Story) -> None:
    """Near miss: their commit was written in the next epoch."""
    _begin(s, lost=True)
    for row in s.history:
        if row.get("copies"):
            row |= {"invoke_ns": row["invoke_ns"] + 5 * S, "complete_ns": 13 * S}
    _commit(s, FIRST, 12.9, 6, None)
    _move(s, 16)


@golden("VALID", {("lost-commit", "assigned"): (P, 1)} | TWICE | ONCE_MORE)
def unanswered_commit_came_before_those_that_were_lost(s: Story) -> None:
    """It may still be the last one, by the record; the acknowledged ones were lost all the same."""
    _begin(s, lost=True)
    _commit(s, FIRST, 7.2, 1, None)
    _commit(s, FIRST, 8, 6)
    _move(s)
