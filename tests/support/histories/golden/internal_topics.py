"""What coordinators forget because their partition of an internal topic lost it, and near misses.

Node 1 leads the only partition of the internal topic, alone in sync from 8 s on. It loses power by
9.6 s, and leads again from 10 s on.
"""

from checkers.history.settings import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.support.histories.golden.base import INFO, F, P, golden
from tests.support.histories.golden.ended_transactions import ID
from tests.support.histories.golden.groups import FIRST, HERE, SECOND
from tests.support.histories.golden.hanging import hang
from tests.support.histories.golden.state_losses import led, taken
from tests.support.histories.story import ALL, ONE, PRODUCER, Story, v

FORGOTTEN = {("lost-commit", "assigned"): (P, 1)}
HELD_AGAINST = {("lost-commit", "assigned"): (F, 1)}
BECAUSE = "became leader of __consumer_offsets-0"
FORGOTTEN_OPEN = "which its coordinator may have forgotten: __transaction_state-0 lost records)"


def lose(s: Story, topic: str = OFFSETS_TOPIC, **broker: str) -> None:
    """The partition loses what was written to it before 9.6 s."""
    s.plan["broker"] = {name.replace("_", "."): value for name, value in broker.items()}
    led(s, topic, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1,)), (10, 1, 1, (1,)), (16, 1, 1, (1, 2, 3)))
    taken(s, 1)


def _go_on(s: Story, at_s: float) -> None:
    """Another member goes on at 5."""
    s.row("assigned", SECOND, at_s, offset=5, generation=2, **HERE)
    records = {offset: v(ONE, offset + 1) for offset in (5, 6)}
    s.poll(ONE, at_s + 1, records, client=SECOND, group=HERE["group"])


def _commit(s: Story, at_s: float = 9) -> None:
    """The commit of 7 is acknowledged; from 12 s on another member goes on at 5."""
    s.row("offset-commit", FIRST, at_s, offset=7, generation=1, **HERE)
    _go_on(s, 12)


@golden("VALID", FORGOTTEN, cause=BECAUSE)
def commit_was_lost_with_power(s: Story) -> None:
    """The only replica in sync had it in memory."""
    lose(s)
    _commit(s)


@golden("INVALID", HELD_AGAINST)
def commit_came_after_the_loss_of_power(s: Story) -> None:
    """Near miss: it was written in the next epoch."""
    lose(s)
    _commit(s, 11)


@golden("INVALID", HELD_AGAINST)
def commit_was_gone_before_the_loss_of_power(s: Story) -> None:
    """Near miss: the power was lost after the other member had begun."""
    lose(s)
    s.row("offset-commit", FIRST, 5, offset=7, generation=1, **HERE)
    _go_on(s, 7)


@golden("INVALID", HELD_AGAINST)
def commit_was_flushed(s: Story) -> None:
    """Near miss: brokers flush before they acknowledge."""
    lose(s, log_flush_interval_messages="1")
    _commit(s)


@golden("INVALID", HELD_AGAINST)
def commit_was_on_two_replicas(s: Story) -> None:
    """Near miss: min.insync.replicas=2, and one node lost power."""
    lose(s, min_insync_replicas="2")
    _commit(s)


@golden("INVALID", HELD_AGAINST)
def commit_was_lost_without_a_loss_of_power(s: Story) -> None:
    """Near miss: the record shows the leaders of the topic, and nothing that it could have lost."""
    lose(s)
    s.faults.pop()
    _commit(s)


@golden("INVALID", HELD_AGAINST)
def commit_belongs_to_another_partition(s: Story) -> None:
    """Near miss: the topic has two partitions, and the other one lost its records."""
    lose(s)
    other = [
        row | {"partition": 1, "isr": [1, 2, 3]}
        for row in s.cluster
        if row["topic"] == OFFSETS_TOPIC
    ]
    # The group is of partition 0, which has lost nothing.
    for row in s.cluster:
        if row["topic"] == OFFSETS_TOPIC:
            row["partition"] = 1
    s.cluster += [row | {"partition": 0} for row in other]
    _commit(s)


@golden("VALID", FORGOTTEN, cause="node 2 replaced node 1 as leader")
def commit_was_lost_by_an_unclean_election(s: Story) -> None:
    """Node 2 was not in sync."""
    lose(s, unclean_leader_election_enable="true")
    s.faults.pop()
    led(s, OFFSETS_TOPIC, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1,)), (10, 2, 1, (2,)))
    _commit(s)


@golden("INVALID", HELD_AGAINST)
def commit_was_lost_by_a_clean_election(s: Story) -> None:
    """Near miss: node 2 was in sync."""
    lose(s, unclean_leader_election_enable="true")
    s.faults.pop()
    led(s, OFFSETS_TOPIC, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1, 2)), (10, 2, 1, (2,)))
    _commit(s)


@golden("VALID", FORGOTTEN, cause="became leader of __transaction_state-0")
def commit_was_lost_with_its_transaction(s: Story) -> None:
    """Nobody knows any more that its transaction was committed."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    _commit(s)
    (commit,) = s.rows("offset-commit")
    commit.update(txn=1, transactional_id=ID)


def _went_back(s: Story) -> None:
    """The second member has the partition in generation 2, then the first one in generation 1."""
    s.row("assigned", SECOND, 9, offset=0, generation=2, **HERE)
    s.row("assigned", FIRST, 20, offset=0, generation=1, **HERE)
    s.poll(ONE, 20.5, {0: v(ONE, 1)}, client=FIRST, group=HERE["group"])
    s.row("offset-commit", FIRST, 21, offset=1, generation=1, **HERE)


@golden(
    "VALID",
    {("stale-commit", "generation-went-back"): (P, 1), ("two-owners", None): (INFO, 1)},
    cause=BECAUSE,
)
def generation_was_lost_with_power(s: Story) -> None:
    """The coordinator has an older one."""
    lose(s)
    _went_back(s)


@golden(
    "INVALID",
    {("stale-commit", "generation-went-back"): (F, 1), ("two-owners", None): (INFO, 1)},
)
def generation_went_back_without_a_loss(s: Story) -> None:
    """Near miss: the record shows the leaders of the topic, and nothing that it could have lost."""
    lose(s)
    s.faults.pop()
    _went_back(s)


@golden("UNKNOWN", {("hanging-transaction", None): (P, 1)}, because=FORGOTTEN_OPEN)
def transaction_hangs_after_its_state_was_lost(s: Story) -> None:
    """Its coordinator has forgotten it, so nobody ends it."""
    hang(s, begun_s=9)
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")


@golden("INVALID", {("hanging-transaction", None): (F, 1)})
def transaction_hangs_that_began_after_the_loss(s: Story) -> None:
    """Near miss: its coordinator had it in the next epoch."""
    hang(s)
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")


@golden("INVALID", {("hanging-transaction", None): (F, 1)})
def transaction_hangs_though_two_replicas_had_its_state(s: Story) -> None:
    """Near miss: transaction.state.log.min.isr is 2 by default, and one node lost power."""
    hang(s, begun_s=9)
    lose(s, TRANSACTIONS_TOPIC)


def _end(s: Story, end: str, outcome: str, *, begun_s: float = 9.0, read: bool = False) -> None:
    """A transaction of one record whose end is answered at 12 s."""
    columns = {"txn": 1, "transactional_id": ID, "type": outcome}
    sent = s.send(ALL, 99, 20 if outcome == "ok" else None, begun_s, **columns)
    sent["complete_ns"] = 12_000_000_000
    s.row(end, PRODUCER[ALL], 12, type=outcome, txn=1, transactional_id=ID)
    if read:
        s.read_in_the_end(ALL, 20, v(ALL, 99), isolation=1)


@golden("VALID", {("lost-write", "tail"): (P, 1)}, cause="__transaction_state-0")
def committed_transaction_was_forgotten(s: Story) -> None:
    """The decision was lost before a marker was written."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    _end(s, "commit-transaction", "ok")


@golden("INVALID", {("lost-write", "tail"): (F, 1)})
def committed_transaction_was_lost_after_the_loss(s: Story) -> None:
    """Near miss: it began in the next epoch."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    _end(s, "commit-transaction", "ok", begun_s=11)


def _in_transaction(s: Story, number: int, at_s: float, offset: int, *, kept: bool = False) -> None:
    """A committed transaction of one record."""
    columns = {"txn": number, "transactional_id": ID}
    s.send(ALL, 95 + number, offset, at_s, **columns)
    s.row("commit-transaction", PRODUCER[ALL], at_s + 1, **columns)
    if kept:
        s.read_in_the_end(ALL, offset, v(ALL, 95 + number), isolation=1)


def _aborted_before(s: Story, at_s: float) -> None:
    """A transaction is aborted; its write got no answer. The coordinator loses its state."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    columns = {"txn": 1, "transactional_id": ID}
    s.send(ALL, 96, None, at_s, type="fail", error="INVALID_PRODUCER_EPOCH", **columns)


@golden("VALID", {("lost-write", "tail"): (P, 1)}, cause="__transaction_state-0")
def epoch_of_a_transaction_came_again(s: Story) -> None:
    """The broker took the write for the one that it had of this epoch."""
    _aborted_before(s, 9)
    _in_transaction(s, 2, 30, 20)


@golden("INVALID", {("lost-write", "tail"): (F, 1)})
def epoch_of_a_transaction_was_of_after_the_loss(s: Story) -> None:
    """Near miss: the first transaction began after the loss, too."""
    _aborted_before(s, 11)
    _in_transaction(s, 2, 30, 20)


@golden("INVALID", {("lost-write", "tail"): (F, 1)})
def write_of_a_later_epoch_was_appended(s: Story) -> None:
    """Near miss: a transaction in between is in the log, so the epochs are new ones."""
    _aborted_before(s, 9)
    _in_transaction(s, 2, 30, 20, kept=True)
    _in_transaction(s, 3, 33, 21)


@golden("VALID", {("false-abort", None): (P, 1), ("aborted-read", "transaction"): (P, 1)})
def refused_commit_had_been_decided(s: Story) -> None:
    """The producer asked again, and the coordinator did not know the transaction any more."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    _end(s, "commit-transaction", "fail", read=True)


def _fence(s: Story, init_s: float = 9) -> None:
    """Another producer takes the transactional id, and then the first one writes."""
    s.row("init-producer", PRODUCER[ALL], 1, transactional_id=ID)
    s.row("init-producer", PRODUCER[ONE], init_s, transactional_id=ID)
    columns = {"txn": 1, "transactional_id": ID}
    s.send(ALL, 99, 20, 20, **columns)
    s.row("commit-transaction", PRODUCER[ALL], 20.5, **columns)
    s.read_in_the_end(ALL, 20, v(ALL, 99), isolation=1)


@golden("VALID", {("zombie-write", None): (P, 1)}, cause="__transaction_state-0")
def epoch_of_a_producer_was_forgotten(s: Story) -> None:
    """The coordinator does not know that it fenced the first producer."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    _fence(s)


@golden("INVALID", {("zombie-write", None): (F, 1)})
def producer_was_fenced_after_the_loss(s: Story) -> None:
    """Near miss: the coordinator wrote the epoch afterwards."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    _fence(s, 11)


def _commit_late(s: Story, init_s: float = 9) -> None:
    """The same, and the first one had written before."""
    s.row("init-producer", PRODUCER[ALL], 1, transactional_id=ID)
    columns = {"txn": 1, "transactional_id": ID}
    s.send(ALL, 99, 20, 8, **columns)["complete_ns"] = 20_500_000_000
    s.row("init-producer", PRODUCER[ONE], init_s, transactional_id=ID)
    s.row("commit-transaction", PRODUCER[ALL], 20.5, **columns)
    s.read_in_the_end(ALL, 20, v(ALL, 99), isolation=1)


@golden("VALID", {("zombie-write", "commit"): (P, 1)}, cause="__transaction_state-0")
def fenced_producer_was_forgotten_before_its_commit(s: Story) -> None:
    """The coordinator knows its open transaction, and not that another producer has its id."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    _commit_late(s)


@golden("INVALID", {("zombie-write", "commit"): (F, 1)})
def committing_producer_was_fenced_after_the_loss(s: Story) -> None:
    """Near miss: the coordinator wrote the epoch afterwards."""
    lose(s, TRANSACTIONS_TOPIC, transaction_state_log_min_isr="1")
    _commit_late(s, 11)
