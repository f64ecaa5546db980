"""Losses whose causes are in a part of the run that was not recorded: neither held against anybody
nor excused. In the near misses nothing that was not recorded could excuse them, or it is not needed
to excuse them: what is explained by time alone needs to know who led, and not from which offset."""

from tests.support.histories.golden.base import INFO, F, P, U, golden
from tests.support.histories.golden.order import acknowledged_offset_holds_another_value
from tests.support.histories.golden.progress import HEAD
from tests.support.histories.golden.reads import consumer_read_what_was_cut
from tests.support.histories.golden.state_losses import (
    LOST,
    configured,
    taken,
    twice_across_epochs,
    wiped,
)
from tests.support.histories.story import ALL, ONE, PRODUCER, S, Story, v

UNREAD = "the final leader epochs were not read: they were not recorded"
UNLED = "the leaders are not recorded"
MOVED = ("inconsistent-offset", "acknowledged")
BACK = ("reordered-send", "acknowledged")
AGAIN = {MOVED: (U, 1), BACK: (U, 1)}
"""The offset of the lost record was acknowledged for another one: it may have been lost rightly."""
UNCOMMITTED = ("uncommitted-read", None)
RECEDED = ("watermark-regression", None)
OTHER = 99
"""A second client."""


def without_epochs(s: Story) -> None:
    """The run ended before the leaders were asked for the epochs of the last topic."""
    s.cluster = [r for r in s.cluster if (r["kind"], r["topic"]) != ("epoch", ALL)]


def leaderless(s: Story) -> None:
    """In the end nobody led the last topic: it was not read, and not asked for its epochs."""
    without_epochs(s)
    s.rows("final-read-end", ALL)[0].update(type="info", error="NOT_LEADER_OR_FOLLOWER")


def never_led(s: Story) -> None:
    """Nothing at all is recorded of who led the last topic."""
    without_epochs(s)
    s.cluster = [r for r in s.cluster if (r["kind"], r["topic"]) != ("leader", ALL)]


@golden("INVALID", {MOVED: (F, 1)})
def offset_is_used_again_without_a_cause(s: Story) -> None:
    """Near miss: the epochs are there, and none of them begins below the offset."""
    s.set_topic(ALL, min_insync_replicas=1)
    acknowledged_offset_holds_another_value(s)


@golden("UNKNOWN", {MOVED: (U, 1)}, because=UNREAD)
def offset_is_used_again_and_epochs_were_not_read(s: Story) -> None:
    """The only in-sync replica may have been lost."""
    offset_is_used_again_without_a_cause(s)
    without_epochs(s)


@golden("INVALID", {MOVED: (F, 1)})
def offset_is_used_again_whatever_the_epochs(s: Story) -> None:
    """Near miss: with two in-sync replicas, clean elections and no state lost, none excuses it."""
    acknowledged_offset_holds_another_value(s)
    without_epochs(s)


@golden("UNKNOWN", {MOVED: (U, 1)}, because=UNREAD)
def offset_is_used_again_where_records_went_and_nobody_leads_in_the_end(s: Story) -> None:
    """From which offset on they went is not known."""
    wiped(s)
    taken(s, 1, 2)
    s.read_in_the_end(ALL, 20, v(ALL, 99))
    leaderless(s)


@golden("UNKNOWN", {("truncated-read", None): (U, 1), ("lost-write", "tail"): (U, 1)},
        because=UNREAD)  # fmt: skip
def consumer_read_what_an_unclean_leader_may_have_cut(s: Story) -> None:
    """Such elections were allowed."""
    consumer_read_what_was_cut(s)
    configured(s, unclean_leader_election_enable="true")
    without_epochs(s)


def _began_again(s: Story) -> None:
    wiped(s)
    taken(s, 1, 2)
    twice_across_epochs(s)
    leaderless(s)


@golden("UNKNOWN", AGAIN | {("unseen", None): (U, 1), ("duplicate", "client-epoch"): (P, 1)},
        cause="a partition that had lost records with permission")  # fmt: skip
def client_began_again_and_epochs_were_not_read(s: Story) -> None:
    """Who had it together lost it, whichever the offset from which it was gone."""
    _began_again(s)


@golden("UNKNOWN", AGAIN | {("unseen", None): (U, 1), ("duplicate", None): (U, 1)},
        because=UNLED)  # fmt: skip
def client_began_again_and_nobody_was_seen_to_lead(s: Story) -> None:
    """Whether the partition that did not know the producer had lost records cannot be told."""
    _began_again(s)
    never_led(s)


@golden("UNKNOWN", AGAIN | {("unseen", None): (U, 1), ("refused-head", "bereft"): (P, 1)})
def broker_refuses_after_its_records_went_and_nobody_leads_in_the_end(s: Story) -> None:
    """Seed 30064: no epoch could be read, and that its records went is in the record all the
    same."""
    _refused(s, 1, 2)


@golden("INVALID", AGAIN | {("unseen", None): (U, 1), ("refused-head", None): (F, 1)})
def broker_refuses_though_one_kept_its_records_and_nobody_leads_in_the_end(s: Story) -> None:
    """Near miss: of the two in sync one kept its power, and led."""
    _refused(s, 1)


@golden("UNKNOWN", AGAIN | {("unseen", None): (U, 1), ("refused-head", None): (U, 1)},
        because=UNLED)  # fmt: skip
def broker_refuses_and_nobody_was_seen_to_lead(s: Story) -> None:
    """The only in-sync replica may have been lost."""
    s.set_topic(ALL, min_insync_replicas=1)
    _refused(s)
    never_led(s)


@golden("INVALID", {("unseen", None): (U, 1), ("refused-head", None): (F, 1),
                    MOVED: (F, 1), BACK: (F, 1)})  # fmt: skip
def broker_refuses_whoever_led(s: Story) -> None:
    """Near miss: with two in-sync replicas, clean elections and no state lost, none excuses it."""
    s.plan["name"] = "one of which nothing tells on whose disks it was"
    _refused(s)
    never_led(s)


@golden("UNKNOWN", AGAIN | {("unseen", None): (U, 1), ("refused-head", None): (U, 1)},
        because="its result is not recorded")  # fmt: skip
def broker_refuses_and_the_harness_died_while_power_was_lost(s: Story) -> None:
    """The journal has the beginning of the fault, and no proof."""
    _refused(s)
    taken(s, 1, 2, took=False)
    s.faults[-1].update(error="the harness ended before the fault did", healed_ns=None)


def _refused(s: Story, *without_power: int) -> None:
    """The next in line, at 22 s; nobody leads in the end."""
    wiped(s)
    if without_power:
        taken(s, *without_power)
    s.new_epoch(PRODUCER[ALL], 22, 23, HEAD, partition=0)
    leaderless(s)


@golden("UNKNOWN",
        AGAIN | {UNCOMMITTED: (INFO, 1), RECEDED: (P, 1), ("unseen", None): (U, 1)})  # fmt: skip
def end_goes_back_where_records_went_and_nobody_leads_in_the_end(s: Story) -> None:
    """Seed 30064: two of two in sync lost their power, and the end is told right after."""
    wiped(s)
    taken(s, 1, 2)
    _told_again(s, 6.1, 10, 12)


@golden("INVALID", {UNCOMMITTED: (F, 1), RECEDED: (F, 1)})
def end_goes_back_long_after_the_leader_changed_and_nobody_leads_in_the_end(s: Story) -> None:
    """Near miss: who led is in the record, and nobody else did when it was told."""
    _told_again(s, 29, 20, 30)


@golden("UNKNOWN", {UNCOMMITTED: (U, 1), RECEDED: (U, 1)}, because=UNLED)
def end_goes_back_and_nobody_was_seen_to_lead(s: Story) -> None:
    """It may be a deposed leader that tells it."""
    _told_again(s, 29, 20, 30)
    never_led(s)


def _told_again(s: Story, first_s: float, end: int, at_s: float) -> None:
    """The end that was told first is then 9; nobody leads in the end."""
    s.row("start", OTHER, 0)
    s.watermark(ALL, first_s, end, client=OTHER)
    s.watermark(ALL, at_s, 9, client=OTHER)
    s.row("end", OTHER, 61)
    leaderless(s)


@golden("UNKNOWN", {LOST: (U, 1)}, because="its result is not recorded")
def harness_died_while_power_was_lost(s: Story) -> None:
    """The journal has the beginning of the fault, and no proof."""
    wiped(s)
    taken(s, 1, 2, took=False)
    s.faults[-1].update(error="the harness ended before the fault did", healed_ns=None)


@golden(
    "UNKNOWN",
    {("divergent-replicas", "bytes"): (U, 1)},
    because="may still have records that the cluster has lost",
)
def replica_differs_that_never_came_back(s: Story) -> None:
    """Node 1 was never in sync again: what it has may be what a permitted loss took elsewhere."""
    s.set_topic(ALL, min_insync_replicas=1)
    replica_differs_that_must_not(s)


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replica_differs_that_must_not(s: Story) -> None:
    """Near miss: nothing that was committed may ever be lost."""
    s.plan["name"] = "one that did not settle"
    rows = [r for r in s.replicas if (r["topic"], r["base_offset"]) == (ALL, 5)]
    rows[-1]["digest"] = "something else"
    s.cluster = [
        r for r in s.cluster if (r["topic"], r["kind"], r["at_ns"]) != (ALL, "leader", 16 * S)
    ]


def _stops_before_the_end(s: Story, offset: int, sent_s: float, *without_power: int) -> None:
    """Another client was given a value at `offset`; nodes lost power at 9.6 s. Its producer, which
    had got no answer, sent it again to offset 12. The final read stops at a damaged batch."""
    wiped(s)
    s.history.pop()
    taken(s, *without_power)
    [replaced] = [row for row in s.rows("send", ALL) if row["offset"] == 12]
    s.history.remove(replaced)
    for row in s.rows("poll", ALL) + s.rows("final-read", ALL):
        row["value"] = v(ALL, 98) if row["offset"] == 12 else row["value"]
    s.send(ALL, 98, 12, sent_s, client=PRODUCER[ONE], complete_ns=13 * S)
    s.row("start", OTHER, 0)
    s.poll(ALL, sent_s + 0.1, {offset: v(ALL, 98)}, client=OTHER)
    s.row("end", OTHER, sent_s + 0.2)
    _stops(s)


def _stops(s: Story) -> None:
    beyond = [row for at, row in s.final(ALL).items() if at >= 18]
    s.history = [row for row in s.history if row not in beyond]
    s.rows("final-read-end", ALL)[0].update(type="info", error="CORRUPT_MESSAGE", offset=18)


READ = ("inconsistent-offset", "read")
TWICE = ("duplicate", None)


@golden("UNKNOWN", {("unseen", None): (U, 2), UNCOMMITTED: (INFO, 1)})
def what_was_read_is_written_again_and_the_final_read_stops(s: Story) -> None:
    """No duplicate: power took the first copy."""
    _stops_before_the_end(s, 20, 9.2, 1, 2)


@golden("INVALID", {TWICE: (F, 1), ("unseen", None): (U, 2), UNCOMMITTED: (INFO, 1)})
def what_was_read_is_there_twice_and_the_final_read_stops(s: Story) -> None:
    """Near miss: one power loss is too few, so nothing took the first copy."""
    _stops_before_the_end(s, 20, 9.2, 1)


@golden("INVALID", {TWICE: (F, 1), ("unseen", None): (U, 2), UNCOMMITTED: (INFO, 1)})
def what_was_read_after_the_loss_is_there_twice_and_the_final_read_stops(s: Story) -> None:
    """Near miss: it was sent when the power was gone already."""
    _stops_before_the_end(s, 20, 9.7, 1, 2)


@golden("UNKNOWN", {READ: (P, 1), MOVED: (P, 1), ("unseen", None): (U, 2)},
        cause="lost power by 9.600 s")  # fmt: skip
def offset_of_what_was_read_is_used_again_and_the_final_read_stops(s: Story) -> None:
    """The acknowledged value came after the loss of the other one."""
    _stops_before_the_end(s, 10, 9.2, 1, 2)


@golden("INVALID", {TWICE: (F, 1), READ: (F, 1), MOVED: (F, 1), ("unseen", None): (U, 2)})
def offset_of_what_was_read_is_used_twice_and_the_final_read_stops(s: Story) -> None:
    """Near miss: one power loss is too few, so nothing took what was read."""
    _stops_before_the_end(s, 10, 9.2, 1)


@golden("UNKNOWN", {MOVED: (P, 1), BACK: (P, 1), ("unseen", None): (U, 3)},
        cause="lost power by 9.600 s")  # fmt: skip
def acknowledged_value_is_lost_and_the_next_one_is_read_before_the_final_read_stops(
    s: Story,
) -> None:
    """The next one was read soon after a clean election, which took neither."""
    wiped(s)
    taken(s, 1, 2)
    s.row("start", OTHER, 0)
    s.poll(ALL, 12, {10: v(ALL, 11)}, client=OTHER)
    s.poll(ALL, 30, {11: v(ALL, 12)}, client=OTHER)
    s.row("end", OTHER, 61)
    _stops(s)
