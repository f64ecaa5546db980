"""Values twice because their client began a new producer epoch, and the near misses."""

from typing import Any

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.story import ALL, ONE, PRODUCER, S, Story, v

OWN = "skipped-ahead: NOT_LEADER_FOR_PARTITION"


def _twice_around_a_new_epoch(
    s: Story, *reasons: str, completes_s: float = 30, topic: str = ALL, **more: Any
) -> None:
    """A value invoked at 21 s is in the log twice; its client was between epochs at 22..23 s."""
    s.send(topic, 99, 20, 21, complete_ns=round(completes_s * S))
    s.read_in_the_end(topic, 20, v(topic, 99))
    s.read_in_the_end(topic, 21, v(topic, 99))
    s.new_epoch(more.pop("client", PRODUCER[topic]), 22, 23, *reasons, **more)


@golden("VALID", {("duplicate", "client-epoch"): (P, 1)},
        cause="all-1: the client had sent more behind a batch that failed (NOT_LEADER")  # fmt: skip
def client_wrote_twice_across_its_own_epochs(s: Story) -> None:
    """The client had sent ahead of a failed batch elsewhere, and began again with everything."""
    _twice_around_a_new_epoch(s, OWN)


@golden("VALID", {("duplicate", "client-epoch"): (P, 1)},
        cause="the client had given up 7 message(s) timed out on all [1]")  # fmt: skip
def client_wrote_twice_after_it_had_given_others_up(s: Story) -> None:
    """The client's own time-out took sequences away; it began again with what was in flight."""
    given_up = "timed-out: 7 message(s) timed out on all [1]"
    _twice_around_a_new_epoch(s, given_up, partition=None)


@golden("VALID", {("duplicate", "client-epoch"): (P, 1)})
def client_wrote_twice_and_never_heard(s: Story) -> None:
    """The write had no outcome when the client ended, and the end of its old epoch was not seen."""
    _twice_around_a_new_epoch(s, OWN, type="info", complete_ns=None)
    s.rows("send", ALL)[-1].update(type="info", complete_ns=None, offset=None)


@golden("VALID", {("duplicate", "client-epoch"): (P, 1)}, cause="at 22.000 s")
def client_left_two_epochs_one_by_its_own_doing(s: Story) -> None:
    """In flight at two bumps, the first of them a broker's fault: the second explains it too."""
    _twice_around_a_new_epoch(s, OWN)
    s.new_epoch(PRODUCER[ALL], 21.2, 21.4, "message sequence gap")


@golden("INVALID", {("duplicate", None): (F, 1), ("refused-head", None): (F, 1)},
        cause="message sequence gap")  # fmt: skip
def client_wrote_twice_because_the_head_of_line_was_refused(s: Story) -> None:
    """Near miss: the broker refused what it should have known."""
    _twice_around_a_new_epoch(s, "refused at the head of the line", "message sequence gap")


@golden("INVALID", {("duplicate", None): (F, 1)}, cause="and 1 more reasons")
def client_wrote_twice_for_reasons_not_all_its_own(s: Story) -> None:
    """Near miss: beside its own doing a broker refused what it should have known."""
    _twice_around_a_new_epoch(s, OWN, OWN, "message sequence gap", "unknown producer id")


@golden("INVALID", {("duplicate", None): (F, 1)}, cause="sent more behind a batch")
def client_wrote_twice_where_it_was_refused(s: Story) -> None:
    """Near miss: a broker that holds the batch was wrong to refuse the one behind it."""
    _twice_around_a_new_epoch(s, OWN, partition=0, value=v(ALL, 99))


@golden("INVALID", {("duplicate", None): (F, 1)})
def client_wrote_twice_behind_where_it_was_refused(s: Story) -> None:
    """Near miss: nor could it hold what came behind."""
    _twice_around_a_new_epoch(s, OWN, partition=0, value=v(ALL, 98))


@golden("INVALID", {("duplicate", None): (F, 1)})
def client_wrote_twice_where_it_is_not_known_what_was_lacking(s: Story) -> None:
    """Near miss: without the batch that had failed nothing of the partition is excused."""
    _twice_around_a_new_epoch(s, OWN, partition=0)


@golden("VALID", {("duplicate", "client-epoch"): (P, 1)})
def client_wrote_twice_before_where_it_was_refused(s: Story) -> None:
    """What was in flight before the failed batch may have been appended by the old leader."""
    _twice_around_a_new_epoch(s, OWN, partition=0, value=v(ALL, 100))


@golden("INVALID", {("duplicate", None): (F, 1)})
def another_client_left_its_epoch(s: Story) -> None:
    """Near miss: a client's epochs are its own."""
    _twice_around_a_new_epoch(s, OWN, client=PRODUCER[ONE])


@golden("INVALID", {("duplicate", None): (F, 1)})
def sent_after_the_old_epoch(s: Story) -> None:
    """Near miss: invoked at 22.5 s, when nothing was sent under the old epoch any more."""
    _twice_around_a_new_epoch(s, OWN)
    s.rows("send", ALL)[-1]["invoke_ns"] = round(22.5 * S)


@golden("INVALID", {("duplicate", None): (F, 1)})
def acknowledged_before_the_new_epoch(s: Story) -> None:
    """Near miss: what was acknowledged at 22.5 s is not sent again at 23 s."""
    _twice_around_a_new_epoch(s, OWN, completes_s=22.5)


@golden("VALID", {("duplicate", None): (P, 1)})
def without_idempotence_there_are_no_epochs(s: Story) -> None:
    """Near miss: permitted anyway, and not for the sake of an epoch of the other topic's client."""
    _twice_around_a_new_epoch(s, OWN, topic=ONE, client=PRODUCER[ALL])


@golden("VALID")
def client_left_its_epoch_and_nothing_came_of_it(s: Story) -> None:
    """A bump by itself is no anomaly."""
    s.new_epoch(PRODUCER[ALL], 22, 23, OWN)
