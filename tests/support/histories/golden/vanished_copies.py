"""Copies whose end nobody was told of, and which the output does not have any more.

A group copies three records of ONE to ALL, in one transaction, and commits above them. The commit
of the transaction was not answered.
"""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.internal_topics import lose
from tests.support.histories.golden.retention import BOTH, configs, remove_first
from tests.support.histories.golden.state_losses import LOST, taken, wiped
from tests.support.histories.story import ALL, CONSUMER, ONE, PRODUCER, Story, v

GROUP = "copiers"
UNCOPIED = {("uncopied", None): (F, 3)}


def _copy(s: Story, at_s: float) -> None:
    """The group gets the records, copies them, and commits."""
    s.plan["workload"]["processing"] = "exactly-once"
    where = {"topic": ONE, "partition": 0, "offset": 3, "group": GROUP}
    records = {offset: v(ONE, offset + 1) for offset in range(3)}
    s.poll(ONE, at_s, records, group=GROUP, client=31)
    ended = {"txn": 1, "transactional_id": "copy-0", "type": "info"}
    for sequence, offset in enumerate(records, 50):
        sent = s.send(ALL, sequence, None, at_s + 0.01, group=GROUP, **ended)
        sent["copies"] = records[offset]
    s.row("commit-transaction", PRODUCER[ALL], at_s + 0.02, **ended)
    s.row("final-committed", CONSUMER[ONE], 60, **where)


def _retained(s: Story) -> None:
    """The first five records of the output are removed."""
    remove_first(s, ALL)
    configs(s, ALL, retention_bytes=1500)


@golden("VALID", BOTH)
def retention_removed_copies_of_unknown_outcome(s: Story) -> None:
    """They were sent before the first record that is left."""
    _retained(s)
    _copy(s, 2.1)


@golden("INVALID", {**UNCOPIED, **BOTH})
def retention_left_older_records_than_the_copies(s: Story) -> None:
    """Near miss: a record that was acknowledged before them is still there."""
    _retained(s)
    _copy(s, 3.1)


@golden("INVALID", UNCOPIED)
def copies_of_unknown_outcome_are_not_there(s: Story) -> None:
    """Near miss: the log begins at 0, though nothing that it has was acknowledged before."""
    for row in s.rows("send", ALL)[:5]:
        row["type"] = "info"
    _copy(s, 2.1)


@golden("VALID", {LOST: (P, 1)})
def copies_of_unknown_outcome_went_with_power(s: Story) -> None:
    """The output lost what was written right before."""
    wiped(s)
    taken(s, 1, 2)
    _copy(s, 9.41)


@golden("INVALID", {LOST: (F, 1), **UNCOPIED})
def copies_of_unknown_outcome_were_on_a_replica_that_kept_power(s: Story) -> None:
    """Near miss: one power loss is too few."""
    wiped(s)
    taken(s, 1)
    _copy(s, 9.41)


@golden("INVALID", {LOST: (P, 1), **UNCOPIED})
def copies_of_unknown_outcome_were_sent_after_the_loss_of_power(s: Story) -> None:
    """Near miss: what was lost was older."""
    wiped(s)
    taken(s, 1, 2)
    _copy(s, 17.2)


def _forgotten(s: Story, at_s: float) -> None:
    """The coordinator of the transaction loses what it had decided before 9.6 s."""
    lose(s, "__transaction_state", transaction_state_log_min_isr="1")
    _copy(s, at_s)


@golden("VALID")
def transaction_of_copies_was_forgotten(s: Story) -> None:
    """The offsets had their marker, and the copies got none."""
    _forgotten(s, 9.1)


@golden("INVALID", UNCOPIED)
def transaction_of_copies_began_after_the_loss(s: Story) -> None:
    """Near miss: it was decided in the next epoch."""
    _forgotten(s, 17.2)
