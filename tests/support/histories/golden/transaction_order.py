"""What transactional producers write twice, or out of order, in a topic whose plan does not promise
idempotence: a transactional producer is always idempotent."""

from tests.support.histories.golden.base import F, P, U, golden
from tests.support.histories.golden.client_epochs import OWN
from tests.support.histories.golden.ended_transactions import ID
from tests.support.histories.story import ALL, PRODUCER, S, Story, v


def _transaction(s: Story, txn: int, at_s: float, offsets: dict[int, int]) -> None:
    """A committed transaction, with the offset of each sequence."""
    s.set_topic(ALL, idempotence=False)
    columns = {"txn": txn, "transactional_id": ID, "complete_ns": round((at_s + 0.101) * S)}
    for number, (sequence, offset) in enumerate(offsets.items()):
        s.send(ALL, sequence, offset, at_s + number / 100, **columns)
        s.read_in_the_end(ALL, offset, v(ALL, sequence), isolation=1)
    s.row("commit-transaction", PRODUCER[ALL], at_s + 0.1, txn=txn, transactional_id=ID)


def _without_transactions(s: Story) -> None:
    """The same sends, by a producer that makes no transactions."""
    s.history = [row for row in s.history if row["f"] != "commit-transaction"]
    for row in s.history:
        row.pop("txn", None)
        row.pop("transactional_id", None)


@golden("INVALID", {("duplicate", "transaction"): (F, 1)})
def record_of_a_transaction_was_written_twice(s: Story) -> None:
    """The broker must know the batch by its sequence."""
    _transaction(s, 1, 20, {97: 20, 98: 21})
    s.read_in_the_end(ALL, 22, v(ALL, 97), isolation=1)


@golden("VALID", {("duplicate", None): (P, 1)})
def record_outside_of_transactions_was_written_twice(s: Story) -> None:
    """Near miss: the producer is not idempotent."""
    record_of_a_transaction_was_written_twice(s)
    _without_transactions(s)


@golden("UNKNOWN", {("duplicate", "sent twice"): (U, 2)})
def record_was_sent_again_in_another_transaction(s: Story) -> None:
    """Near miss: two sends, which reads do not tell apart."""
    _transaction(s, 1, 20, {97: 20})
    _transaction(s, 2, 21, {97: 21})


@golden("INVALID", {("reordered-send", "transaction"): (F, 1)})
def transaction_was_written_out_of_order(s: Story) -> None:
    """The broker must refuse a batch whose predecessor it lacks."""
    _transaction(s, 1, 20, {97: 21, 98: 20})


def _unanswered(s: Story) -> None:
    """Nobody answered for the end of any transaction."""
    for row in s.history:
        if row["f"] == "commit-transaction" or row.get("txn") is not None:
            row.update(type="info", **({"offset": None} if row["f"] == "send" else {}))


@golden("INVALID", {("reordered-send", "transaction"): (F, 1)})
def transaction_of_unknown_end_was_written_out_of_order(s: Story) -> None:
    """All of it is in the log, so it was committed, and it has one producer epoch."""
    transaction_was_written_out_of_order(s)
    _unanswered(s)


@golden("INVALID", {("duplicate", "transaction"): (F, 1)})
def record_of_a_transaction_of_unknown_end_was_written_twice(s: Story) -> None:
    """Which of both copies was sent in which order is not known, and they are forbidden anyway."""
    transaction_of_unknown_end_was_written_out_of_order(s)
    s.read_in_the_end(ALL, 22, v(ALL, 97), isolation=1)


@golden("VALID")
def transactions_of_unknown_end_were_written_out_of_order(s: Story) -> None:
    """Near miss: two transactions. What is late may arrive in a later one."""
    _transaction(s, 1, 20, {97: 21})
    _transaction(s, 2, 21, {98: 20})
    _unanswered(s)


@golden("VALID")
def epoch_was_left_in_a_transaction_of_unknown_end(s: Story) -> None:
    """Near miss: whatever its client did then, it is not known what has which epoch."""
    transaction_of_unknown_end_was_written_out_of_order(s)
    s.new_epoch(PRODUCER[ALL], 20.05, 20.06, OWN, partition=0)


@golden("VALID", {("reordered-send", None): (P, 1)})
def sends_outside_of_transactions_were_written_out_of_order(s: Story) -> None:
    """Near miss: the first one was sent again, by a producer that is not idempotent."""
    transaction_was_written_out_of_order(s)
    _without_transactions(s)
