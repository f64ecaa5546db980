"""Golden histories of controllers that lost their disks: a majority of them forgets, fewer do not.

In all of them a write that acks=all had acknowledged at 9.4 s, at offset 10, is gone, though node 3
was in sync and kept everything that it had.
"""

from tests.support.histories.golden.base import INFO, F, P, golden
from tests.support.histories.golden.state_losses import LOST, led, taken
from tests.support.histories.story import ALL, S, Story

CAUSE = "of the voters 1, 2, 3 lacked their disks at the same time, from"


def voters(s: Story, at_s: float, *nodes: int) -> None:
    """Who the voters are from then on."""
    said = {"kind": "quorum", "node": 3, "leader": 3, "leader_epoch": round(at_s)}
    s.cluster.append(said | {"at_ns": round(at_s * S), "isr": list(nodes), "source": "story"})


def forgetful(s: Story) -> None:
    """Node 3 knows better than whoever leads next."""
    s.plan["name"] = "one with a quorum of its own"
    s.faults.clear()
    voters(s, 0, 1, 2, 3)
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (10, 2, 1, (2, 3)), (16, 2, 1, (2, 3, 1)))
    s.send(ALL, 99, 10, 9.4)


@golden("VALID", {LOST: (P, 1)}, cause=CAUSE)
def most_controllers_lose_their_disks(s: Story) -> None:
    """Two of three, at once."""
    forgetful(s)
    taken(s, 1, 2, fault="disk.lost")


@golden("VALID", {LOST: (P, 1)}, cause=CAUSE)
def most_controllers_lose_their_disks_one_after_the_other(s: Story) -> None:
    """The second before anybody took the vote of the first away."""
    forgetful(s)
    s.rows("send", ALL)[-1].update(invoke_ns=round(4.8 * S), complete_ns=round(4.9 * S))
    taken(s, 1, fault="disk.lost", by_s=5)
    taken(s, 2, fault="disk.lost")


@golden("INVALID", {LOST: (F, 1)})
def one_controller_loses_its_disk(s: Story) -> None:
    """Near miss: the two others know all that was decided."""
    forgetful(s)
    taken(s, 1, fault="disk.lost")


@golden("INVALID", {LOST: (F, 1)})
def one_of_the_voters_left_loses_its_disk(s: Story) -> None:
    """Near miss: what two voters had decided since, both had."""
    forgetful(s)
    taken(s, 1, fault="disk.lost", by_s=5)
    voters(s, 6, 2, 3)
    taken(s, 2, fault="disk.lost")


@golden("INVALID", {LOST: (F, 1)})
def controllers_lose_their_disks_far_apart(s: Story) -> None:
    """Near miss: the first was a voter again, on its new disk, before the second lost its own."""
    forgetful(s)
    taken(s, 1, fault="disk.lost", by_s=5)
    voters(s, 6, 2, 3)
    voters(s, 8, 1, 2, 3)
    taken(s, 2, fault="disk.lost")


@golden("INVALID", {LOST: (F, 1)})
def most_controllers_lose_power(s: Story) -> None:
    """Near miss: nothing of the metadata log counts before it is on the disk."""
    forgetful(s)
    s.set_topic(ALL, configs={"flush.messages": "1"})
    taken(s, 1, 2)


@golden("INVALID", {LOST: (F, 1)})
def brokers_lose_their_disks(s: Story) -> None:
    """Near miss: neither of them had a vote."""
    forgetful(s)
    s.cluster = [row for row in s.cluster if row["kind"] != "quorum"]
    voters(s, 0, 3, 4, 5)
    taken(s, 1, 2, fault="disk.lost")


@golden("INVALID", {LOST: (F, 1)})
def what_is_written_after_the_quorum_is_whole_is_kept(s: Story) -> None:
    """Near miss: acknowledged long after the controllers had voters with memories again."""
    forgetful(s)
    s.rows("send", ALL)[-1].update(invoke_ns=19 * S, complete_ns=round(19.1 * S))
    taken(s, 1, 2, fault="disk.lost")
    voters(s, 10, 3)
    voters(s, 12, 1, 2, 3)


@golden("VALID", {LOST: (P, 1), ("watermark-regression", "advanced"): (P, 1),
                  ("uncommitted-read", None): (INFO, 1)}, cause=CAUSE)  # fmt: skip
def end_goes_back_after_most_controllers_lost_their_disks(s: Story) -> None:
    """Who leads may lack whatever was committed, in whichever epoch."""
    _lower_end(s)
    taken(s, 1, 2, fault="disk.lost")


@golden("INVALID", {LOST: (F, 1), ("watermark-regression", "advanced"): (F, 1),
                    ("uncommitted-read", "newest"): (F, 1)})  # fmt: skip
def end_goes_back_after_one_controller_lost_its_disk(s: Story) -> None:
    """Near miss: the controllers still knew who had everything."""
    _lower_end(s)
    taken(s, 1, fault="disk.lost")


def _lower_end(s: Story) -> None:
    """Of the leader of epoch 1, at 18 s; nothing was read before."""
    forgetful(s)
    s.rows("watermark", ALL)[1].update(invoke_ns=20 * S, complete_ns=20 * S, leader_epoch=1)
    s.watermark(ALL, 9.5, 10, leader_epoch=0)
    s.watermark(ALL, 18, 9, leader_epoch=1)
    for row in s.rows("poll", ALL):
        row.update(invoke_ns=19 * S, complete_ns=19 * S)


LEADERS = ("two-leaders", "told")


def _two_lead(s: Story, *, lost_s: float, source: str = "polled") -> None:
    """Nodes 2 and 3 were named as leaders of epoch 1 by 16 s; then the controllers lose disks."""
    s.plan["name"] = "one with a quorum of its own"
    s.faults.clear()
    voters(s, 0, 1, 2, 3)
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (10, 2, 1, (2, 3)), (12, 3, 1, (2, 3)), (16, 2, 1, (2, 3, 1)))
    s.cluster[-2]["source"] = source
    s.cluster = [r for r in s.cluster if r["kind"] != "view" or r["topic"] != ALL]
    taken(s, 1, 2, fault="disk.lost", by_s=lost_s)
    s.faults[-1]["healed_ns"] = round((lost_s + 2) * S)


@golden("INVALID", {LEADERS: (F, 1)})
def two_lead_long_before_most_controllers_lose_their_disks(s: Story) -> None:
    """The controllers have lost nothing yet."""
    _two_lead(s, lost_s=30)


@golden("VALID", {LEADERS: (P, 1)})
def two_lead_after_most_controllers_lost_their_disks(s: Story) -> None:
    """Near miss: the second may have been elected by controllers that knew of no first."""
    _two_lead(s, lost_s=11)


@golden("VALID", {LEADERS: (P, 1)})
def two_lead_in_a_log_that_began_anew(s: Story) -> None:
    """Near miss: the log says so, and its times are not known since the controllers lost it."""
    _two_lead(s, lost_s=30, source="metadata-log")
