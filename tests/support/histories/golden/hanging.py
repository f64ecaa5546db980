"""Transactions that stay open although nobody has them open."""

from checkers.history.history import METADATA_TOPIC
from checkers.history.settings import TRANSACTIONS_TOPIC
from tests.support.histories.golden.base import F, P, U, golden
from tests.support.histories.golden.ended_transactions import ID, old_transactions
from tests.support.histories.golden.state_losses import taken
from tests.support.histories.story import ALL, PRODUCER, S, Story

UNREAD = "1 partitions were not read to the end: all-0"
HELD_UP = f"{UNREAD} (readers of committed records stop at offset 20: a transaction is open)"


def hang(s: Story, *, timeout_ms: int = 10_000, begun_s: float = 20) -> None:
    """Two records of transaction 1 are in the log, nobody answered for its end, and the final read
    at read_committed waited before them in vain."""
    s.plan["broker"] = {"min.insync.replicas": "2"}
    s.plan["workload"]["transaction_timeout_ms"] = timeout_ms
    s.row("init-producer", PRODUCER[ALL], 7, transactional_id=ID)
    for number, sequence in enumerate((97, 98)):
        columns = {"txn": 1, "transactional_id": ID, "type": "info"}
        s.send(ALL, sequence, None, begun_s + number / 100, **columns)
    for row in s.rows("final-read", ALL):
        row["isolation"] = 1
    s.rows("final-read-end", ALL)[0].update(type="info", isolation=1, error="timeout")
    for row in s.replica_ends:
        if row["topic"] == ALL:
            row.update(end_offset=22, high_watermark=22)
            batch = {"base_offset": 20, "last_offset": 21, "leader_epoch": 1, "crc": 20}
            batch |= {"digest": "open", "size": 200, "node": row["node"]}
            s.replicas.append(batch | {"topic": ALL, "partition": 0})


def _alone(s: Story) -> None:
    """Name the metadata logs, so that no other story is judged in one run with this one."""
    log = {"topic": METADATA_TOPIC, "partition": 0, "start_offset": 0, "end_offset": 0}
    s.replica_ends += [log | {"high_watermark": 0, "node": node} for node in (1, 2, 3)]


@golden("INVALID", {("hanging-transaction", None): (F, 1)})
def transaction_hangs(s: Story) -> None:
    """Its timeout was over long before the final read."""
    hang(s)


@golden("INVALID", {("hanging-transaction", None): (F, 1)})
def aborted_transaction_hangs(s: Story) -> None:
    """Its abort was acknowledged, and a marker is missing."""
    hang(s, timeout_ms=60_000)
    s.row("abort-transaction", PRODUCER[ALL], 21, txn=1, transactional_id=ID)
    for row in s.rows("send", ALL)[-2:]:
        row["type"] = "fail"


@golden("UNKNOWN", because=HELD_UP)
def transaction_is_open(s: Story) -> None:
    """Near miss: its timeout is not over."""
    hang(s, timeout_ms=60_000)


def _coordinators_log_is_damaged(s: Story, *, leader: int, isr: tuple[int, ...]) -> None:
    """A bit of node 2's log of the states of transactions flips at 25 s. Then only the given nodes
    may lead that partition. No other story has such a fault."""
    hang(s)
    s.leader(TRANSACTIONS_TOPIC, 0.5, 1, 0, [1, 2, 3])
    s.leader(TRANSACTIONS_TOPIC, 27, leader, 1, list(isr))
    log = f"log/{TRANSACTIONS_TOPIC}-0/00000000000000000000.log"
    taken(s, 2, fault="disk.bit-flip", by_s=25, details={"file": "log"}, damaged={2: [log]})
    s.faults[-1]["healed_ns"] = 26 * S
    _alone(s)


@golden("UNKNOWN", because=HELD_UP)
def transaction_is_open_whose_coordinator_has_a_damaged_log(s: Story) -> None:
    """Near miss: node 2 is to lead, and does not with such a log; so nobody ends it."""
    _coordinators_log_is_damaged(s, leader=2, isr=(2,))


@golden("UNKNOWN", because=HELD_UP)
def transaction_is_open_whose_coordinator_has_no_leader_with_a_whole_log(s: Story) -> None:
    """Near miss: nobody leads, and only node 2 may."""
    _coordinators_log_is_damaged(s, leader=-1, isr=(2,))


@golden("INVALID", {("hanging-transaction", None): (F, 1)})
def transaction_hangs_although_its_coordinator_has_a_whole_log(s: Story) -> None:
    """Only a follower's log was damaged."""
    _coordinators_log_is_damaged(s, leader=1, isr=(1, 2))


def _clock(s: Story, *, ahead_ms: float, from_s: int = 18, to_s: int = 30) -> None:
    """The wall clock of node 2 was wrong for some seconds. No other story has its clocks."""
    for at_s, set_ms in ((from_s, ahead_ms), (to_s, 0.0)):
        s.cluster.append({"at_ns": at_s * S, "kind": "clock", "node": 2, "ahead_ms": set_ms})
    _alone(s)


@golden("UNKNOWN", because=HELD_UP)
def transaction_was_begun_by_a_clock_that_was_ahead(s: Story) -> None:
    """Near miss: to the coordinator it began an hour later, so it times out an hour later."""
    hang(s)
    _clock(s, ahead_ms=3_600_000)


@golden("UNKNOWN", because=HELD_UP)
def transaction_is_open_by_a_clock_that_is_behind(s: Story) -> None:
    """Near miss: the clock was set back while the transaction was open."""
    hang(s)
    _clock(s, ahead_ms=-3_600_000, from_s=25, to_s=58)


@golden("INVALID", {("hanging-transaction", None): (F, 1)})
def transaction_hangs_longer_than_a_clock_was_wrong(s: Story) -> None:
    """The clock was ahead by less than what is left until the final read."""
    hang(s)
    _clock(s, ahead_ms=15_000)


@golden("UNKNOWN", because=UNREAD)
def transaction_of_a_cut_producer_was_begun_by_a_clock_that_was_ahead(s: Story) -> None:
    """Near miss: the record of another producer ends long before the final read."""
    hang(s)
    s.row("abort-transaction", PRODUCER[ALL], 20.5, txn=1, transactional_id=ID)
    for row in s.rows("send", ALL)[-2:]:
        row["type"] = "fail"
    s.row("start", 51, 18)
    s.row("init-producer", 51, 19, transactional_id="other")
    _clock(s, ahead_ms=3_600_000)


@golden("UNKNOWN", because=UNREAD)
def transaction_ended_just_now(s: Story) -> None:
    """Near miss: the coordinator may still be writing its markers."""
    hang(s)
    s.row("commit-transaction", PRODUCER[ALL], 59, txn=1, transactional_id=ID)


@golden("UNKNOWN", because=UNREAD)
def final_read_had_another_trouble(s: Story) -> None:
    """Near miss: the read did not wait for a transaction."""
    hang(s)
    s.rows("final-read-end", ALL)[0]["error"] = "_TRANSPORT"


@golden("UNKNOWN", because=UNREAD)
def cut_producer_may_have_a_transaction_open(s: Story) -> None:
    """Near miss: the record of another producer ends shortly before the final read."""
    hang(s)
    s.row("start", 51, 18)
    s.row("init-producer", 51, 50, transactional_id="other")
    _alone(s)


@golden("UNKNOWN", {("hanging-transaction", None): (U, 1)})
def transaction_of_a_risky_topic_hangs(s: Story) -> None:
    """The internal topic has min.insync.replicas=1, and may have lost the transaction."""
    hang(s)
    s.plan["broker"] = {"transaction.state.log.min.isr": "1"}


@golden("UNKNOWN", {("hanging-transaction", None): (P, 1)}, because=HELD_UP)
def old_transaction_hangs_after_a_delay(s: Story) -> None:
    """Before transaction version 2 a late request opens a transaction that nobody ends."""
    hang(s)
    old_transactions(s)


@golden("INVALID", {("hanging-transaction", None): (F, 1)})
def old_transaction_hangs_long_after_a_delay(s: Story) -> None:
    """Near miss: what was late had arrived before the first transaction."""
    hang(s)
    old_transactions(s, from_s=1, to_s=2)


@golden("VALID")
def aborted_transaction_is_at_the_end_of_the_log(s: Story) -> None:
    """Near miss: the read came to the end, behind the records and the marker."""
    hang(s)
    s.row("abort-transaction", PRODUCER[ALL], 21, txn=1, transactional_id=ID)
    for row in s.rows("send", ALL)[-2:]:
        row["type"] = "fail"
    s.rows("final-read-end", ALL)[0].update(type="ok", error=None, offset=22)
