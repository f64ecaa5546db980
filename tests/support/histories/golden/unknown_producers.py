"""Later batches that a leader took first because it may not have known the producer."""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.retention import BOTH, clock_ahead, configs, remove_first
from tests.support.histories.story import ALL, PRODUCER, S, Story, v

HEAD = "refused at the head of the line"


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
    """Near miss: the log is whole, so the broker knows every producer."""
    _a_later_send_came_first(s)


def _an_earlier_send_came_again(s: Story, sent_s: float = 20.2) -> None:
    s.send(ALL, 97, 21, 20.0, complete_ns=23 * S)
    s.send(ALL, 98, 20, sent_s, complete_ns=round((sent_s + 0.1) * S))
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.read_in_the_end(ALL, 21, v(ALL, 97))
    s.new_epoch(PRODUCER[ALL], 22, 22.5, HEAD, partition=0, value=v(ALL, 97))


@golden(
    "VALID",
    {**BOTH, ("refused-head", "overtaken"): (P, 1), ("reordered-send", "overtaken"): (P, 1)},
)
def forgotten_producer_sends_again(s: Story) -> None:
    """A new leader took the later of two batches first, and the earlier one in a new epoch."""
    remove_first(s, ALL)
    configs(s, ALL, retention_bytes=1500)
    _an_earlier_send_came_again(s)


@golden("INVALID", {**BOTH, ("refused-head", None): (F, 1), ("reordered-send", None): (F, 1)})
def earlier_send_came_again_before_the_later_one(s: Story) -> None:
    """Near miss: the later batch was not sent yet when the earlier one was refused."""
    remove_first(s, ALL)
    configs(s, ALL, retention_bytes=1500)
    _an_earlier_send_came_again(s, sent_s=22.2)


def _answer_was_lost(s: Story, **more: object) -> None:
    """All records were removed. 98 was sent behind 97, and nobody answered; 97 was refused."""
    remove_first(s, ALL, 20)
    configs(s, ALL, retention_ms=1000)
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


@golden(
    "INVALID",
    {**GONE_ALL, ("refused-head", None): (F, 1), ("duplicate", None): (F, 1)},
)
def refused_send_came_twice(s: Story) -> None:
    """Near miss: the refused batch itself was there, before the one that was sent behind it."""
    _answer_was_lost(s, type="ok", offset=22, complete_ns=23 * S)
    s.read_in_the_end(ALL, 20, v(ALL, 97))
    s.read_in_the_end(ALL, 22, v(ALL, 98))


@golden("INVALID", {("refused-head", None): (F, 1), ("reordered-send", None): (F, 1)})
def remembered_producer_sends_again(s: Story) -> None:
    """Near miss: the log is whole, and brokers remember a producer for longer than the run."""
    s.plan["broker"] = {"producer.id.expiration.ms": "60000"}
    _an_earlier_send_came_again(s)


@golden("VALID", {("refused-head", "overtaken"): (P, 1), ("reordered-send", "overtaken"): (P, 1)})
def expired_producer_sends_again(s: Story) -> None:
    """The log is older than the time for which brokers remember a producer."""
    s.plan["broker"] = {"producer.id.expiration.ms": "10000"}
    _an_earlier_send_came_again(s)


@golden("VALID", {("refused-head", "overtaken"): (P, 1), ("reordered-send", "overtaken"): (P, 1)})
def producer_expired_by_a_fast_clock_sends_again(s: Story) -> None:
    """A broker's clock was an hour ahead: to this broker the producer was idle for too long."""
    s.plan["broker"] = {"producer.id.expiration.ms": "60000"}
    clock_ahead(s, 3_600_000.0)
    _an_earlier_send_came_again(s)


@golden("INVALID", {("refused-head", None): (F, 1), ("reordered-send", None): (F, 1)})
def producer_sends_again_beside_a_clock_that_was_hardly_fast(s: Story) -> None:
    """Near miss: 20 s ahead expire nobody."""
    s.plan["broker"] = {"producer.id.expiration.ms": "60000"}
    clock_ahead(s, 20_000.0)
    _an_earlier_send_came_again(s)


@golden("INVALID", {("refused-head", None): (F, 1), ("reordered-send", None): (F, 1)})
def producer_of_a_whole_log_sends_again(s: Story) -> None:
    """Near miss: the log is whole, so the broker knows every producer."""
    _an_earlier_send_came_again(s)
