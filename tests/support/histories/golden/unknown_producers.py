"""Later batches that a leader took first because it may not have known the producer."""

import json

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.client_epochs import OWN
from tests.support.histories.golden.compacted import compact, end_at
from tests.support.histories.golden.retention import clock_ahead, configs, remove_first
from tests.support.histories.golden.state_losses import taken
from tests.support.histories.story import ALL, PRODUCER, S, Story, v, value

HEAD = "refused at the head of the line"
GAVE_UP = "left its epoch in this partition: MESSAGE_TIMED_OUT; 0 given up that may be there"


GONE_ALL = {("lost-write", "prefix"): (P, 20), ("truncated-read", "prefix"): (P, 20)}


def _a_later_send_came_first(s: Story) -> None:
    s.send(ALL, 97, None, 20.0).update(type="info", complete_ns=None)
    s.send(ALL, 98, 20, 20.2)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.new_epoch(PRODUCER[ALL], 22, 23, HEAD, partition=0, value=v(ALL, 97))


@golden("VALID", {**GONE_ALL, ("refused-head", "overtaken"): (P, 1)})
def retention_makes_a_broker_forget_a_producer(s: Story) -> None:
    """A new leader took the later of two batches in flight first, as the first that it knew."""
    remove_first(s, ALL, 20)
    configs(s, ALL, retention_ms=1000)
    _a_later_send_came_first(s)


@golden("INVALID", {("refused-head", None): (F, 1)})
def broker_takes_a_later_batch_first(s: Story) -> None:
    """Near miss: the log is whole, so the broker knows who has written there."""
    _a_later_send_came_first(s)


def _an_earlier_send_came_again(s: Story, sent_s: float = 20.2, reason: str = HEAD) -> None:
    s.send(ALL, 97, 21, 20.0, complete_ns=23 * S)
    s.send(ALL, 98, 20, sent_s, complete_ns=round((sent_s + 0.1) * S))
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.read_in_the_end(ALL, 21, v(ALL, 97))
    s.new_epoch(PRODUCER[ALL], 22, 22.5, reason, partition=0, value=v(ALL, 97))


SENT_AGAIN = {("refused-head", "overtaken"): (P, 1), ("reordered-send", "overtaken"): (P, 1)}
WRONG = {("refused-head", None): (F, 1), ("reordered-send", None): (F, 1)}


def _forgotten(s: Story, count: int = 20) -> None:
    remove_first(s, ALL, count)
    configs(s, ALL, retention_ms=1000)


def _gone(count: int) -> dict[tuple[str, str | None], tuple[str, int]]:
    return {("lost-write", "prefix"): (P, count), ("truncated-read", "prefix"): (P, count)}


@golden("VALID", {**GONE_ALL, **SENT_AGAIN})
def forgotten_producer_sends_again(s: Story) -> None:
    """A new leader took the later of two batches first, and the earlier one in a new epoch."""
    _forgotten(s)
    _an_earlier_send_came_again(s)


@golden("VALID", {**GONE_ALL, ("reordered-send", "overtaken"): (P, 1)})
def forgotten_producer_gave_up_a_send_and_sends_again(s: Story) -> None:
    """It was refused too, but left its epoch because a send before had timed out."""
    _forgotten(s)
    s.send(ALL, 96, None, 19.9, type="fail")
    _an_earlier_send_came_again(s, reason=GAVE_UP)


@golden("INVALID", {("reordered-send", None): (F, 1)})
def known_producer_gave_up_a_send_and_sends_again(s: Story) -> None:
    """Near miss: the log is whole, so the broker knows who has written there."""
    s.send(ALL, 96, None, 19.9, type="fail")
    _an_earlier_send_came_again(s, reason=GAVE_UP)


@golden("INVALID", {**GONE_ALL, **WRONG})
def earlier_send_came_again_before_the_later_one(s: Story) -> None:
    """Near miss: the later batch was not sent yet when the earlier one was refused."""
    _forgotten(s)
    _an_earlier_send_came_again(s, sent_s=22.2)


@golden("INVALID", {**_gone(19), **WRONG})
def producer_with_one_record_left_sends_again(s: Story) -> None:
    """Near miss: the log still has the last record before, so every leader knows the producer."""
    _forgotten(s, 19)
    _an_earlier_send_came_again(s)


@golden("VALID", {**_gone(19), **SENT_AGAIN})
def producer_sends_again_to_a_replica_that_had_removed_more(s: Story) -> None:
    """The log of node 3, which may have led, begins behind all that the producer had written."""
    _forgotten(s, 19)
    for row in s.replica_ends:
        if (row["node"], row["topic"]) == (3, ALL):
            row["start_offset"] = 20
    _an_earlier_send_came_again(s)


@golden("VALID", {**_gone(19), **SENT_AGAIN})
def producer_sends_again_after_a_replica_lost_its_files(s: Story) -> None:
    """Nobody knows where the log of node 3 began before."""
    _forgotten(s, 19)
    taken(s, 3)
    _an_earlier_send_came_again(s)


@golden("UNKNOWN", {**_gone(19), **SENT_AGAIN})
def producer_with_one_record_left_sends_again_without_files(s: Story) -> None:
    """Nobody knows where the logs of the replicas begin."""
    _forgotten(s, 19)
    s.replicas.clear()
    s.replica_ends.clear()
    _an_earlier_send_came_again(s)


@golden("VALID", SENT_AGAIN)
def producer_of_a_new_epoch_sends_again(s: Story) -> None:
    """It had begun another epoch since its last record, with which it may have another id."""
    s.new_epoch(PRODUCER[ALL], 18, 18.5, OWN, partition=0)
    _an_earlier_send_came_again(s)


@golden("INVALID", WRONG)
def producer_of_an_epoch_that_it_had_written_in_sends_again(s: Story) -> None:
    """Near miss: it had begun that epoch before its last record."""
    s.new_epoch(PRODUCER[ALL], 14, 14.5, OWN, partition=0)
    _an_earlier_send_came_again(s)


def _newcomer(s: Story) -> None:
    newcomer = 99
    s.row("start", newcomer, 0)
    for sequence, offset, at_s in ((2, 20, 20.2), (1, 21, 20.0)):
        held = value(newcomer, sequence)
        s.send(ALL, 0, offset, at_s, client=newcomer, value=held, complete_ns=23 * S)
        s.read_in_the_end(ALL, offset, held)
    s.row("end", newcomer, 61)
    s.new_epoch(newcomer, 22, 22.5, HEAD, partition=0, value=value(newcomer, 1))


@golden("VALID", {("refused-head", "overtaken"): (P, 1)})
def first_batch_of_a_producer_came_second(s: Story) -> None:
    """The first two batches that a producer ever sent were in flight while the leader changed."""
    _newcomer(s)


@golden("VALID", {("refused-head", "overtaken"): (P, 1)})
def first_batch_of_a_producer_of_keys_came_second(s: Story) -> None:
    """The same in a compacted topic."""
    _newcomer(s)
    compact(s)
    end_at(s, 22)


@golden("INVALID", {("refused-head", None): (F, 1)})
def later_batch_of_a_producer_of_keys_came_first(s: Story) -> None:
    """Near miss: the compacted log still has a record of the producer."""
    for sequence, offset, at_s in ((98, 20, 20.2), (97, 21, 20.0)):
        s.send(ALL, sequence, offset, at_s, complete_ns=23 * S)
        s.read_in_the_end(ALL, offset, v(ALL, sequence))
    s.new_epoch(PRODUCER[ALL], 22, 22.5, HEAD, partition=0, value=v(ALL, 97))
    compact(s)
    end_at(s, 22)


def _answer_was_lost(s: Story, **more: object) -> None:
    """All records were removed. 98 was sent behind 97, and nobody answered; 97 was refused."""
    _forgotten(s)
    s.send(ALL, 97, 21, 20.0, complete_ns=23 * S)
    made = s.send(ALL, 98, None, 20.2)
    made.update({"type": "info", "complete_ns": None} | more)
    s.read_in_the_end(ALL, 21, v(ALL, 97))
    s.new_epoch(PRODUCER[ALL], 22, 22, f"{HEAD}: OUT_OF_ORDER", partition=0, value=v(ALL, 97))


@golden("VALID", {**GONE_ALL, ("refused-head", "overtaken"): (P, 1)})
def later_send_came_first_and_its_answer_was_lost(s: Story) -> None:
    """A new leader, which knew nothing of the producer, took it; the log has it."""
    _answer_was_lost(s)
    s.read_in_the_end(ALL, 20, v(ALL, 98))


@golden("INVALID", {**GONE_ALL, ("refused-head", None): (F, 1)})
def later_send_never_came(s: Story) -> None:
    """Near miss: the log does not have it, so nothing came before the refused batch."""
    _answer_was_lost(s)


@golden("INVALID", {**GONE_ALL, ("refused-head", None): (F, 1)})
def later_send_came_behind_what_was_refused(s: Story) -> None:
    """Near miss: the log has it behind the refused batch."""
    _answer_was_lost(s)
    s.read_in_the_end(ALL, 22, v(ALL, 98))


TWICE = {
    **GONE_ALL,
    ("refused-head", "overtaken"): (P, 1),
    ("reordered-send", "overtaken"): (P, 1),
    ("duplicate", "client-epoch"): (P, 1),
}


def _both_came_again(s: Story) -> None:
    """98 came first, 97 was refused; the client sent both again in a new producer epoch."""
    _answer_was_lost(s, type="ok", offset=22, complete_ns=23 * S)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.read_in_the_end(ALL, 22, v(ALL, 98))


@golden("VALID", TWICE, cause="by a leader that may not have known the client")
def later_send_came_first_and_came_again(s: Story) -> None:
    """The client had no answer about it."""
    _both_came_again(s)


@golden("VALID", TWICE)
def later_send_came_first_before_what_is_not_told(s: Story) -> None:
    """librdkafka does not tell which batch was refused."""
    _both_came_again(s)
    s.rows("producer-epoch")[-1]["value"] = None


@golden("INVALID", {("refused-head", None): (F, 1)})
def what_is_not_told_was_refused_in_a_whole_log(s: Story) -> None:
    """Near miss: nothing came first that was not acknowledged before."""
    s.new_epoch(PRODUCER[ALL], 22, 22.5, HEAD, partition=0)


@golden(
    "INVALID",
    {**GONE_ALL, ("refused-head", None): (F, 1), ("duplicate", None): (F, 1)},
)
def refused_send_came_twice(s: Story) -> None:
    """Near miss: the refused batch itself was there, before the one that was sent behind it."""
    _answer_was_lost(s, type="ok", offset=22, complete_ns=23 * S)
    s.read_in_the_end(ALL, 20, v(ALL, 97))
    s.read_in_the_end(ALL, 22, v(ALL, 98))


@golden("INVALID", WRONG)
def remembered_producer_sends_again(s: Story) -> None:
    """Near miss: the log is whole, and brokers remember a producer for longer than the run."""
    s.plan["broker"] = {"producer.id.expiration.ms": "60000"}
    _an_earlier_send_came_again(s)


@golden("VALID", SENT_AGAIN)
def expired_producer_sends_again(s: Story) -> None:
    """It had written nothing for as long as brokers remember a producer."""
    s.plan["broker"] = {"producer.id.expiration.ms": "6000"}
    _an_earlier_send_came_again(s)


@golden("INVALID", WRONG)
def producer_of_an_old_log_sends_again(s: Story) -> None:
    """Near miss: the log is old enough, but the producer had written 6 s before."""
    s.plan["broker"] = {"producer.id.expiration.ms": "10000"}
    _an_earlier_send_came_again(s)


@golden("VALID", SENT_AGAIN)
def producer_expired_by_a_fast_clock_sends_again(s: Story) -> None:
    """A broker's clock was an hour ahead: to this broker the producer was idle for too long."""
    s.plan["broker"] = {"producer.id.expiration.ms": "60000"}
    clock_ahead(s, 3_600_000.0)
    _an_earlier_send_came_again(s)


@golden("INVALID", WRONG)
def producer_sends_again_beside_a_clock_that_was_hardly_fast(s: Story) -> None:
    """Near miss: 20 s ahead expire nobody."""
    s.plan["broker"] = {"producer.id.expiration.ms": "60000"}
    clock_ahead(s, 20_000.0)
    _an_earlier_send_came_again(s)


@golden("INVALID", WRONG)
def producer_of_a_whole_log_sends_again(s: Story) -> None:
    """Near miss: the log is whole, so the broker knows every producer."""
    _an_earlier_send_came_again(s)


def _sent_for_8_s(s: Story, expiration_ms: int, **more: object) -> None:
    """A send that was repeated for 8 s, twice in the log."""
    s.plan["broker"] = {"producer.id.expiration.ms": str(expiration_ms)}
    s.send(ALL, 99, 21, 30.0, complete_ns=38 * S).update(more)
    for offset in (20, 21):
        s.read_in_the_end(ALL, offset, v(ALL, 99))


@golden("VALID", {("duplicate", "outlasted"): (P, 1)})
def producer_expires_while_it_sends_a_batch_again(s: Story) -> None:
    """The broker had forgotten it after 5 s, and took the batch for a new one."""
    _sent_for_8_s(s, 5_000)


@golden("INVALID", {("duplicate", None): (F, 1)})
def producer_sends_a_batch_again_before_it_expires(s: Story) -> None:
    """Near miss: brokers remember it for more than a second longer than the send lasted."""
    _sent_for_8_s(s, 9_001)


def _paused_at(s: Story, from_s: int) -> None:
    """Node 3 is paused for 2 s."""
    pause = {"fault_id": 1, "fault": "pause", "label": "pause node 3"}
    at_ns = {"started_ns": from_s * S, "effective_ns": from_s * S, "healed_ns": (from_s + 2) * S}
    s.faults.append(s.faults[0] | pause | at_ns | {"targets": json.dumps({"nodes": [3]})})


@golden("VALID", {("duplicate", "outlasted"): (P, 1)})
def request_held_up_by_a_fault_arrives_after_its_producer_expired(s: Story) -> None:
    """The send was over sooner, but one of its requests may have come at any time later."""
    _sent_for_8_s(s, 20_000)
    _paused_at(s, 32)


@golden("INVALID", {("duplicate", None): (F, 1)})
def fault_after_a_send_holds_up_none_of_its_requests(s: Story) -> None:
    """Near miss: the send was answered before."""
    _sent_for_8_s(s, 20_000)
    _paused_at(s, 42)


@golden("VALID", {("duplicate", "outlasted"): (P, 1)})
def producer_expires_by_a_fast_clock_while_it_sends_a_batch_again(s: Story) -> None:
    """A broker's clock was an hour ahead."""
    _sent_for_8_s(s, 60_000)
    clock_ahead(s, 3_600_000.0)


@golden("VALID", {("duplicate", "outlasted"): (P, 1)})
def request_of_unknown_outcome_arrives_after_its_producer_expired(s: Story) -> None:
    """The client had given it up; nobody knows when it came."""
    _sent_for_8_s(s, 20_000, type="info", offset=None)
