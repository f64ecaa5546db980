"""What a group copies again because a coordinator forgot its transaction or its commit.

Each story has a group that copies ONE to ALL, exactly once. The copies are at 20 and above.
"""

from checkers.history.settings import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.support.histories.golden.base import INFO, F, P, golden
from tests.support.histories.golden.internal_topics import lose
from tests.support.histories.golden.state_losses import led
from tests.support.histories.story import ALL, CONSUMER, ONE, PRODUCER, Story, v

GROUP = "copiers"
HERE = {"topic": ONE, "partition": 0, "group": GROUP}
FIRST, SECOND = 31, 41
ID = "copy-0"


def _copy(s: Story, first: int, copied: range, at_s: float, **more: object) -> None:
    """Records of ONE, by offset, are copied to ALL, to its offset `first` and above."""
    for offset, source in enumerate(copied, first):
        copy = s.send(ALL, 30 + offset, offset, at_s + (offset - first) / 10)
        copy |= {"copies": v(ONE, source + 1), "group": GROUP} | more
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
    _copy(s, 20, range(2), 9.1, type=outcome, offset=None, txn=1, transactional_id=ID)
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


@golden("VALID", {("aborted-read", "transaction"): (P, 2), **AGAIN}, cause="__transaction_state-0")
def copies_of_a_forgotten_transaction_came_back(s: Story) -> None:
    """Its coordinator lost it before it had written a marker."""
    _copied_in_an_aborted_transaction(s)


@golden("INVALID", {("aborted-read", "transaction"): (F, 2), **AGAIN})
def copies_of_an_aborted_transaction_came_back(s: Story) -> None:
    """Near miss: its coordinator lost nothing, so the aborted read is held against it."""
    _copied_in_an_aborted_transaction(s)
    s.faults.clear()


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 2), **AGAIN})
def copies_of_two_committed_transactions_are_there(s: Story) -> None:
    """Near miss: the first transaction was committed, too."""
    _copied_in_an_aborted_transaction(s, "ok")
    s.faults.clear()
