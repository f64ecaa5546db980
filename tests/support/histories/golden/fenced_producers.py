"""Transactional producers that were fenced: what they wrote, and what they committed."""

from checkers.history.settings import TRANSACTIONS_TOPIC
from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.ended_transactions import (
    ID,
    old_transactions,
    send_in_transaction,
)
from tests.support.histories.golden.state_losses import led, taken
from tests.support.histories.story import ALL, ONE, PRODUCER, S, Story, v


def _taken_over(s: Story, at_s: float, sent_s: float, **other: object) -> None:
    """Another producer takes over the transactional id; the first one sends value 97."""
    s.row("init-producer", PRODUCER[ALL], 18, transactional_id=ID)
    s.row("init-producer", PRODUCER[ONE], at_s, transactional_id=ID, **other)
    send_in_transaction(s, 97, 20, sent_s)
    s.read_in_the_end(ALL, 20, v(ALL, 97), isolation=1)


@golden("INVALID", {("zombie-write", None): (F, 1)})
def fenced_producer_wrote(s: Story) -> None:
    """It sent after another producer had taken over its transactional id."""
    _taken_over(s, 19, 20)


@golden("VALID")
def producer_wrote_before_it_was_fenced(s: Story) -> None:
    """Near miss: the take-over was not over when it sent."""
    _taken_over(s, 20, 20)


@golden("VALID")
def take_over_failed(s: Story) -> None:
    """Near miss: nobody was fenced."""
    _taken_over(s, 19, 20, type="fail")


@golden("VALID")
def fenced_producer_came_back(s: Story) -> None:
    """Near miss: it took the transactional id back before it sent."""
    s.row("init-producer", PRODUCER[ALL], 19.5, transactional_id=ID)
    _taken_over(s, 19, 20)


@golden("VALID")
def fenced_producer_may_have_come_back(s: Story) -> None:
    """Near miss: nobody knows which of the two took the transactional id last."""
    s.row("init-producer", PRODUCER[ALL], 18.999, transactional_id=ID, complete_ns=21 * S)
    _taken_over(s, 19, 20)


def _committed_late(s: Story, asked_s: float, type: str = "ok", take_over: str = "ok") -> None:
    """A producer sends value 97. Another one takes over its transactional id at 20.2 s. The first
    one asks for the commit at `asked_s`, and the value is in the final log. The topic with the
    states of transactions lost nothing."""
    led(s, TRANSACTIONS_TOPIC, (0, 3, 0, (1, 2, 3)), (16, 3, 0, (1, 2, 3)))
    s.row("init-producer", PRODUCER[ALL], 18, transactional_id=ID)
    send_in_transaction(s, 97, 20 if type == "ok" else None, 20, type=type)
    s.row("init-producer", PRODUCER[ONE], 20.2, transactional_id=ID, type=take_over)
    s.row("commit-transaction", PRODUCER[ALL], asked_s, type=type, txn=1, transactional_id=ID)
    s.read_in_the_end(ALL, 20, v(ALL, 97), isolation=1)


@golden("INVALID", {("zombie-write", "commit"): (F, 1)})
def fenced_producer_committed(s: Story) -> None:
    """It asked for the commit after the other one had taken over, and was told that it is done."""
    _committed_late(s, 20.5)


@golden("INVALID", {("zombie-write", "commit-unanswered"): (F, 1)})
def commit_of_a_fenced_producer_took_effect(s: Story) -> None:
    """Nobody answered, but the record was read."""
    _committed_late(s, 20.5, "info")


@golden("VALID")
def producer_asked_for_its_commit_before_it_was_fenced(s: Story) -> None:
    """Near miss: the take-over was not over then."""
    _committed_late(s, 20.2)


@golden("VALID")
def take_over_of_a_committing_producer_may_have_failed(s: Story) -> None:
    """Near miss: nobody knows whether it was fenced."""
    _committed_late(s, 20.5, take_over="info")


@golden("VALID")
def fenced_producer_came_back_before_its_commit(s: Story) -> None:
    """Near miss: it may have taken the transactional id back."""
    s.row("init-producer", PRODUCER[ALL], 20.3, transactional_id=ID)
    _committed_late(s, 20.5)


@golden("VALID")
def commit_of_a_fenced_producer_was_refused(s: Story) -> None:
    """Near miss: its transaction had been aborted."""
    _committed_late(s, 20.5, "fail")
    s.forget(topic=ALL, values={v(ALL, 97)})


@golden("VALID")
def coordinator_of_a_fenced_producer_may_have_lost_power(s: Story) -> None:
    """Near miss: the record does not show who led the topic with the states of transactions."""
    _committed_late(s, 20.5)
    led(s, TRANSACTIONS_TOPIC)
    taken(s, 3)


@golden("VALID", {("zombie-write", "commit-unanswered"): (P, 1)})
def late_commit_of_an_old_producer_took_effect_after_a_delay(s: Story) -> None:
    """A delayed commit of the transaction before it committed it, before it was fenced."""
    _committed_late(s, 20.5, "info")
    old_transactions(s)


@golden("INVALID", {("zombie-write", "commit"): (F, 1)})
def late_commit_of_an_old_producer_was_acknowledged(s: Story) -> None:
    """Near miss: no delayed request makes a coordinator answer a fenced producer so."""
    _committed_late(s, 20.5)
    old_transactions(s)


@golden("VALID")
def fenced_producer_wrote_in_vain(s: Story) -> None:
    """Near miss: its record is in no log."""
    _taken_over(s, 19, 20)
    s.forget(topic=ALL, values={v(ALL, 97)})
    s.rows("send", ALL)[-1].update(type="fail", offset=None)
