"""Losses whose causes are in a part of the run that was not recorded: neither held against anybody
nor excused. In the near misses nothing that was not recorded could excuse them."""

from tests.histories.golden.base import F, U, golden
from tests.histories.golden.order import acknowledged_offset_holds_another_value
from tests.histories.golden.reads import consumer_read_what_was_cut
from tests.histories.golden.state_losses import LOST, configured, taken, twice_across_epochs, wiped
from tests.histories.story import ALL, S, Story

UNREAD = "the leaders' epochs at the end were not read: nobody recorded them"
MOVED = ("inconsistent-offset", "acknowledged")


def without_epochs(s: Story) -> None:
    """The run ended before the leaders were asked for the epochs of the last topic."""
    s.cluster = [r for r in s.cluster if (r["kind"], r["topic"]) != ("epoch", ALL)]


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


@golden("UNKNOWN", {("truncated-read", None): (U, 1), ("lost-write", "tail"): (U, 1)},
        because=UNREAD)  # fmt: skip
def consumer_read_what_an_unclean_leader_may_have_cut(s: Story) -> None:
    """Such elections were allowed."""
    consumer_read_what_was_cut(s)
    configured(s, unclean_leader_election_enable="true")
    without_epochs(s)


@golden("UNKNOWN", {("unseen", None): (U, 1), ("duplicate", None): (U, 1)}, because=UNREAD)
def client_began_again_and_epochs_were_not_read(s: Story) -> None:
    """Whether the partition that did not know the producer had lost records cannot be told."""
    wiped(s)
    taken(s, 1, 2)
    twice_across_epochs(s)
    without_epochs(s)
    s.rows("final-read-end", ALL)[0].update(type="info", error="timeout")


@golden("UNKNOWN", {LOST: (U, 1)}, because="what it took is not in the record")
def harness_died_while_power_was_lost(s: Story) -> None:
    """The journal has the beginning of the fault, and no proof."""
    wiped(s)
    taken(s, 1, 2, took=False)
    s.faults[-1].update(error="the harness ended before the fault did", healed_ns=None)


@golden("UNKNOWN", {("divergent-replicas", "bytes"): (U, 1)}, because="may have kept what was lost")
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
