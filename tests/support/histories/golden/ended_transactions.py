"""Transactions whose end is recorded: torn ones, and aborted ones that were read."""

import json

from tests.support.histories.golden.base import F, P, U, golden
from tests.support.histories.golden.state_losses import led
from tests.support.histories.story import ALL, ONE, PRODUCER, Row, S, Story, v

ID = "id"


def send_in_transaction(
    s: Story, sequence: int, offset: int | None, at_s: float, **more: object
) -> Row:
    """A send of transaction 1."""
    columns = {"txn": 1, "transactional_id": ID} | more
    return s.send(ALL, sequence, offset, at_s, **columns)


def _transaction(s: Story, end: str, type: str = "ok", *, visible: tuple[int, ...]) -> None:
    """Transaction 1: values 97 and 98, at offsets 20 and 21. The final read returns the values
    `visible`, at read_committed."""
    outcome = {"abort-transaction": "fail"}.get(end, type)
    for number, sequence in enumerate((97, 98)):
        offset = 20 + number if outcome == "ok" else None
        send_in_transaction(s, sequence, offset, 20 + number / 100, type=outcome)
    s.row(end, PRODUCER[ALL], 20.1, type=type, txn=1, transactional_id=ID)
    for row in s.rows("final-read", ALL):
        row["isolation"] = 1
    for sequence in visible:
        s.read_in_the_end(ALL, 20 + sequence - 97, v(ALL, sequence), isolation=1)


def _early_polls(s: Story) -> None:
    """A consumer reads both values at read_uncommitted."""
    s.poll(ALL, 20.05, {20: v(ALL, 97), 21: v(ALL, 98)}, isolation=0)


def _passed_over(s: Story) -> None:
    """A consumer of committed records goes on to offset 22, without the transaction's records."""
    s.send(ALL, 99, 22, 20.2)
    s.poll(ALL, 21, {22: v(ALL, 99)}, isolation=1)
    s.read_in_the_end(ALL, 22, v(ALL, 99), isolation=1)


def old_transactions(s: Story, *, from_s: float = 14, to_s: float = 16, cut: bool = False) -> None:
    """The cluster has transaction version 1, and node 3 was paused, or cut off from the others."""
    s.plan["broker"] = {"transaction.version": "1"}
    started_ns, healed_ns = round(from_s * S), round(to_s * S)
    kind, label = ("partition.isolate-one", "isolate") if cut else ("pause", "pause")
    targets = {"cuts": [[3, 1], [3, 2], [1, 3], [2, 3]]} if cut else {"nodes": [3]}
    s.faults.append(
        s.faults[0]
        | {"fault_id": 1, "fault": kind, "label": f"{label} node 3", "started_ns": started_ns}
        | {"effective_ns": started_ns, "healed_ns": healed_ns, "targets": json.dumps(targets)}
    )


@golden("INVALID", {("torn-transaction", None): (F, 1)})
def committed_transaction_is_torn(s: Story) -> None:
    """The commit was acknowledged, and the log has one half."""
    _transaction(s, "commit-transaction", visible=(97,))


@golden("INVALID", {("torn-transaction", None): (F, 1)})
def transaction_of_unknown_end_is_torn(s: Story) -> None:
    """Nobody answered the commit, and the log has one half."""
    _transaction(s, "commit-transaction", "info", visible=(98,))


@golden("INVALID", {("aborted-read", "transaction"): (F, 1)})
def consumer_passes_over_an_aborted_record_that_is_read_later(s: Story) -> None:
    """It was right to: the record should never have been read."""
    _transaction(s, "abort-transaction", visible=(98,))
    _passed_over(s)


@golden("VALID")
def consumer_passes_over_a_transaction_of_unknown_end(s: Story) -> None:
    """It may have been aborted then. What committed it later is not the consumer's fault."""
    _transaction(s, "commit-transaction", "info", visible=(97, 98))
    _passed_over(s)


@golden("INVALID", {("poll-skip", None): (F, 1)})
def consumer_passes_over_a_committed_record(s: Story) -> None:
    """Near miss of both: the commit was acknowledged."""
    _transaction(s, "commit-transaction", visible=(97, 98))
    _passed_over(s)


@golden("VALID")
def committed_transaction_is_whole(s: Story) -> None:
    """Near miss: the log has both halves."""
    _transaction(s, "commit-transaction", visible=(97, 98))


def _in_two_topics(s: Story, *, kept: bool) -> None:
    """A committed transaction writes a record to ALL and one to ONE, which the log may lack. Both
    topics have acks=all."""
    s.set_topic(ONE, acks="all")
    for row in s.rows("send", ONE):
        row["acks"] = -1
    send_in_transaction(s, 97, 20, 20)
    send_in_transaction(s, 98, 20, 20.01)["topic"] = ONE
    s.row("commit-transaction", PRODUCER[ALL], 20.1, txn=1, transactional_id=ID)
    s.read_in_the_end(ALL, 20, v(ALL, 97), isolation=1)
    if kept:
        s.read_in_the_end(ONE, 20, v(ALL, 98), isolation=1)


@golden("INVALID", {("torn-transaction", None): (F, 1)}, because="torn-transaction in one-0")
def transaction_is_torn_across_topics(s: Story) -> None:
    """One of its topics has its record, and the other one has not."""
    _in_two_topics(s, kept=False)


@golden("VALID")
def transaction_is_whole_in_both_topics(s: Story) -> None:
    """Near miss: both have it."""
    _in_two_topics(s, kept=True)


@golden("INVALID", {("lost-write", "tail"): (F, 2)})
def committed_transaction_is_lost(s: Story) -> None:
    """Near miss: nothing of it is there, so it is not torn."""
    _transaction(s, "commit-transaction", visible=())


@golden("UNKNOWN", {("unseen", None): (U, 1)})
def half_of_a_transaction_lies_beyond_the_final_read(s: Story) -> None:
    """Near miss: the log was not read to its end."""
    _transaction(s, "commit-transaction", visible=(97,))
    s.rows("final-read-end", ALL)[0].update(type="info", offset=21)


@golden("VALID", {("torn-transaction", None): (P, 1)})
def old_transaction_is_torn_after_a_delay(s: Story) -> None:
    """Before transaction version 2 a delayed request may count for the next transaction."""
    _transaction(s, "commit-transaction", visible=(97,))
    old_transactions(s)


@golden("INVALID", {("torn-transaction", None): (F, 1)})
def new_transaction_is_torn_after_a_delay(s: Story) -> None:
    """Near miss: from version 2 on it may not."""
    _transaction(s, "commit-transaction", visible=(97,))
    old_transactions(s)
    s.plan["broker"] = {"transaction.version": "2"}


@golden("INVALID", {("torn-transaction", None): (F, 1)})
def old_transaction_is_torn_without_a_delay(s: Story) -> None:
    """Near miss: no fault delayed a request."""
    _transaction(s, "commit-transaction", visible=(97,))
    s.plan["broker"] = {"transaction.version": "1"}


@golden("INVALID", {("torn-transaction", None): (F, 1)})
def old_transaction_is_torn_long_after_a_delay(s: Story) -> None:
    """A link was cut for a second. Whatever it held up had arrived long before."""
    _transaction(s, "commit-transaction", visible=(97,))
    old_transactions(s, from_s=1, to_s=2, cut=True)


@golden("VALID", {("torn-transaction", None): (P, 1)})
def old_transaction_is_torn_after_a_long_delay(s: Story) -> None:
    """Near miss: the link was cut for so long that a lost packet may be sent again that late."""
    _transaction(s, "commit-transaction", visible=(97,))
    old_transactions(s, from_s=1, to_s=8, cut=True)


@golden("INVALID", {("torn-transaction", None): (F, 1)})
def old_transaction_is_torn_long_before_a_delay(s: Story) -> None:
    """Nothing of it can have been on its way any more."""
    _transaction(s, "commit-transaction", visible=(97,))
    old_transactions(s, from_s=35, to_s=40)
    s.poll(ALL, 41, {20: v(ALL, 97)}, isolation=1)


@golden("VALID", {("torn-transaction", None): (P, 1)})
def old_transaction_without_an_answer_is_torn_by_a_delay(s: Story) -> None:
    """Near miss: nobody knows when it ended."""
    _transaction(s, "commit-transaction", "info", visible=(97,))
    old_transactions(s, from_s=35, to_s=40)
    s.poll(ALL, 41, {20: v(ALL, 97)}, isolation=1)


@golden("VALID", {("torn-transaction", None): (P, 1)})
def old_transaction_is_torn_after_several_delays(s: Story) -> None:
    """Near miss: a packet that the first cut held up may have been lost in the second one, too."""
    _transaction(s, "commit-transaction", visible=(97,))
    old_transactions(s, from_s=1, to_s=2, cut=True)
    s.faults.append(s.faults[-1] | {"fault_id": 2, "started_ns": 7 * S, "effective_ns": 7 * S})
    s.faults[-1]["healed_ns"] = 8 * S


@golden("INVALID", {("aborted-read", "transaction"): (F, 1)})
def old_transaction_is_read_long_after_a_delay(s: Story) -> None:
    """It was aborted, and nothing of another one can have arrived meanwhile."""
    _transaction(s, "abort-transaction", visible=(97,))
    old_transactions(s, from_s=1, to_s=2, cut=True)


def _left_open(s: Story, client: str) -> None:
    """The producer wrote value 97, and nobody ended its transaction; a link was slow. The final
    read returns the value at read_committed."""
    send_in_transaction(s, 97, None, 20, type="fail")
    for row in s.rows("final-read", ALL):
        row["isolation"] = 1
    s.read_in_the_end(ALL, 20, v(ALL, 97), isolation=1)
    old_transactions(s)
    s.plan["broker"] = {}
    s.plan["more_workloads"] = [{"kind": "transactions", "client": client}]


@golden("VALID", {("aborted-read", "transaction"): (P, 1)})
def open_transaction_of_an_old_client_was_read_after_a_delay(s: Story) -> None:
    """A delayed commit of the transaction before it committed it, too: the client does not know
    transaction version 2, which the cluster has."""
    _left_open(s, "aiokafka")


@golden("INVALID", {("aborted-read", "transaction"): (F, 1)})
def open_transaction_of_a_new_client_was_read_after_a_delay(s: Story) -> None:
    """Near miss: the client knows version 2."""
    _left_open(s, "own")


@golden("INVALID", {("aborted-read", "transaction"): (F, 1)})
def aborted_transaction_was_read(s: Story) -> None:
    """One of its records is in the log at read_committed."""
    _transaction(s, "abort-transaction", visible=(97,))


@golden("VALID", {("aborted-read", "read-uncommitted"): (P, 2)})
def aborted_transaction_was_read_at_read_uncommitted(s: Story) -> None:
    """The consumer asked for such records."""
    _transaction(s, "abort-transaction", visible=())
    _early_polls(s)


@golden("VALID")
def open_transaction_was_read_at_read_uncommitted(s: Story) -> None:
    """Near miss: its outcome is unknown, and it was aborted later. The read proves no commit."""
    _transaction(s, "commit-transaction", "info", visible=())
    _early_polls(s)


def _offset_used_again(s: Story, end: str, type: str, at_s: float = 20.05) -> None:
    """The transaction does not become visible, and value 99 is at offset 20 in the end."""
    _transaction(s, end, type, visible=())
    s.row("start", 99, 0)
    s.poll(ALL, at_s, {20: v(ALL, 97)}, client=99, isolation=0)
    s.row("end", 99, 61)
    s.send(ALL, 99, 20, 22)
    s.read_in_the_end(ALL, 20, v(ALL, 99), isolation=1)


@golden("INVALID", {("inconsistent-offset", "read"): (F, 1),
                    ("aborted-read", "read-uncommitted"): (P, 1)})  # fmt: skip
def offset_of_an_aborted_transaction_is_used_again(s: Story) -> None:
    """An aborted record keeps its offset, and a reader had been given it there."""
    _offset_used_again(s, "abort-transaction", "ok")


@golden("INVALID", {("inconsistent-offset", "read"): (F, 1)})
def offset_of_an_open_transaction_is_used_again(s: Story) -> None:
    """Whether it was committed or not."""
    _offset_used_again(s, "commit-transaction", "info")


@golden("INVALID", {("inconsistent-offset", "read"): (F, 1)})
def readers_of_open_transactions_are_given_different_records(s: Story) -> None:
    """The final read passes over both."""
    _transaction(s, "commit-transaction", "info", visible=())
    for client, sequence in ((99, 97), (98, 98)):
        s.row("start", client, 0)
        s.poll(ALL, 20.05, {20: v(ALL, sequence)}, client=client, isolation=0)
        s.row("end", client, 61)


@golden("VALID", {("inconsistent-offset", "read"): (P, 1)},
        cause="The new leader was not in sync")  # fmt: skip
def offset_of_an_open_transaction_is_used_again_after_an_unclean_election(s: Story) -> None:
    """Near miss: what the reader had been given was lost with permission."""
    _offset_used_again(s, "commit-transaction", "info", at_s=9.5)
    for row in s.rows("send", ALL):
        if row.get("txn"):
            row.update(invoke_ns=9 * S, complete_ns=10 * S)
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1, 3)), (10, 2, 1, (2,)), (16, 2, 1, (2, 3, 1)))
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})


def _read_at(s: Story, at_s: float) -> None:
    """A consumer of committed records reads both values then."""
    s.poll(ALL, at_s, {20: v(ALL, 97), 21: v(ALL, 98)}, isolation=1)


@golden("INVALID", {("aborted-read", "open"): (F, 2)})
def open_transaction_was_read_at_read_committed(s: Story) -> None:
    """The commit began after the read, and succeeded."""
    _transaction(s, "commit-transaction", visible=(97, 98))
    _read_at(s, 20.05)


@golden("INVALID", {("aborted-read", "open"): (F, 2)})
def open_transaction_of_unknown_end_was_read_at_read_committed(s: Story) -> None:
    """Nobody answered the commit. When it began, the records had been read."""
    _transaction(s, "commit-transaction", "info", visible=(97, 98))
    _read_at(s, 20.05)


@golden("VALID")
def transaction_was_read_while_its_commit_was_on_the_way(s: Story) -> None:
    """Near miss: the read ended when the commit began."""
    _transaction(s, "commit-transaction", visible=(97, 98))
    _read_at(s, 20.099)


@golden("VALID", {("aborted-read", "open"): (P, 2)})
def open_old_transaction_was_read_after_a_delay(s: Story) -> None:
    """A delayed commit of the transaction before it committed it, too."""
    _transaction(s, "commit-transaction", visible=(97, 98))
    _read_at(s, 20.05)
    old_transactions(s)


@golden("INVALID", {("aborted-read", "open"): (F, 2)})
def open_old_transaction_was_read_long_after_a_delay(s: Story) -> None:
    """Near miss: nothing of another one can have arrived meanwhile."""
    open_old_transaction_was_read_after_a_delay(s)
    s.faults.pop()
    old_transactions(s, from_s=1, to_s=2)


def _passed_by(
    s: Story, ended_s: float, type: str = "ok", *, isolation: int = 1, kept: bool = True
) -> None:
    """A transaction writes value 97 to offset 20, another send value 98 to offset 21. A consumer is
    given 98 at 22 s, without 97. The commit is asked for at `ended_s`."""
    send_in_transaction(s, 97, 20 if type == "ok" else None, 20, type=type)
    s.send(ALL, 98, 21, 20.1)
    s.assign(ALL, 21, 21)
    s.poll(ALL, 22, {21: v(ALL, 98)}, isolation=isolation)
    s.row("commit-transaction", PRODUCER[ALL], ended_s, type=type, txn=1, transactional_id=ID)
    for row in s.rows("final-read", ALL):
        row["isolation"] = 1
    for offset in (20, 21)[not kept :]:
        s.read_in_the_end(ALL, offset, v(ALL, 77 + offset), isolation=1)


@golden("INVALID", {("aborted-read", "behind-open"): (F, 1)})
def record_behind_an_open_transaction_was_read(s: Story) -> None:
    """When it was read, the record of the transaction lay before it, and nobody had ended it."""
    _passed_by(s, 25)


@golden("INVALID", {("aborted-read", "behind-open"): (F, 1)})
def consumer_passes_over_an_open_transaction_of_unknown_end(s: Story) -> None:
    """It was not aborted then: nobody asked for its commit before 25 s, and it was committed."""
    _passed_by(s, 25, "info")
    s.history = [r for r in s.history if r["f"] != "assign" or r["offset"] != 21]


@golden("VALID")
def record_behind_a_transaction_was_read_while_its_commit_was_on_the_way(s: Story) -> None:
    """Near miss: the read ended when the commit began."""
    _passed_by(s, 22.001)


@golden("VALID")
def record_behind_an_open_transaction_was_read_at_read_uncommitted(s: Story) -> None:
    """Near miss: such readers get what lies behind it, too."""
    _passed_by(s, 25, isolation=0)


@golden("VALID")
def record_behind_a_transaction_that_timed_out_was_read(s: Story) -> None:
    """Near miss: its coordinator had aborted it by then."""
    _passed_by(s, 25, "info", kept=False)


@golden("VALID", {("aborted-read", "behind-open"): (P, 1)})
def record_behind_an_open_old_transaction_was_read_after_a_delay(s: Story) -> None:
    """A delayed commit of the transaction before it committed it, too."""
    _passed_by(s, 25)
    old_transactions(s)


@golden("VALID")
def committed_transaction_was_read_at_read_uncommitted(s: Story) -> None:
    """Near miss: it was committed later."""
    _transaction(s, "commit-transaction", visible=(97, 98))
    _early_polls(s)


@golden("INVALID", {("false-abort", None): (F, 1), ("aborted-read", "transaction"): (F, 2)})
def transaction_was_committed_and_said_to_be_aborted(s: Story) -> None:
    """All of it is in the log."""
    _transaction(s, "abort-transaction", visible=(97, 98))


@golden("INVALID", {("false-abort", None): (F, 1), ("aborted-read", "transaction"): (F, 2)})
def transaction_was_committed_and_the_commit_refused(s: Story) -> None:
    """So the client may do its work again."""
    _transaction(s, "commit-transaction", "fail", visible=(97, 98))


@golden("VALID")
def transaction_was_aborted(s: Story) -> None:
    """Near miss: nothing of it is in the log."""
    _transaction(s, "abort-transaction", visible=())
