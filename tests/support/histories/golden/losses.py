"""Lost writes: permitted only where the record has their cause."""

from tests.support.histories.golden.base import F, P, U, golden
from tests.support.histories.golden.state_losses import taken
from tests.support.histories.story import ALL, NONE, ONE, S, Story, v


@golden("VALID")
def nothing_wrong(s: Story) -> None:
    """The healthy run itself."""


@golden("INVALID", {("lost-write", "middle"): (F, 1)}, because="1 lost-write in all-0")
def acks_all_loses_from_the_middle(s: Story) -> None:
    """A hole in the log: the acknowledged record is nowhere, and nobody ever read it."""
    s.forget(topic=ALL, values={v(ALL, 12)})


@golden("INVALID", {("lost-write", "tail"): (F, 2)})
def acks_all_loses_its_tail(s: Story) -> None:
    """The last two acknowledged records are gone."""
    s.forget(topic=ALL, values={v(ALL, 19), v(ALL, 20)})


@golden("INVALID", {("lost-write", "prefix"): (F, 1)})
def acks_all_loses_its_prefix(s: Story) -> None:
    """The first acknowledged record is gone."""
    s.forget(topic=ALL, values={v(ALL, 1)})


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_all_loses_with_an_election(s: Story) -> None:
    """A clean election explains the loss of an acks=1 write, and never of an acks=all write."""
    s.send(ALL, 99, 10, 9.4)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="replaced node 1 as leader at 10.000 s")
def acks_1_loses_what_the_deposed_leader_had(s: Story) -> None:
    """Acknowledged by node 1 just before it was killed; node 2 used the offset again."""
    s.send(ONE, 99, 10, 9.4)


@golden("VALID", {("lost-write", "tail"): (P, 1)}, cause="fault 0 (kill node 1")
def acks_1_loses_a_long_tail(s: Story) -> None:
    """The deposed leader had more than the log ever reached again."""
    s.send(ONE, 99, 25, 9.4)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="noticed by 15.000 s")
def acks_1_loses_to_a_zombie(s: Story) -> None:
    """Node 1 was paused, acknowledged at 14.9 s, and knew at 15 s that it was deposed."""
    s.faults[0].update(fault="pause", label="pause node 1")
    s.send(ONE, 99, 12, 14.9)


def _two_more_elections(s: Story) -> None:
    """Node 3 led from 11 s on, when node 1 did not know that it was deposed; node 2 again from 12 s
    and offset 13 on, which node 3 knew at 13 s."""
    s.leader(ONE, 11, 3, 2, [2, 3])
    s.leader(ONE, 12, 2, 3, [2, 3])
    s.leader(ONE, 16, 2, 3, [1, 2, 3])
    [_, first] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == ONE]
    s.cluster.append(first | {"leader_epoch": 3, "start_offset": 13})
    [*_, view] = [r for r in s.cluster if r["kind"] == "view" and r["topic"] == ONE]
    s.cluster.append(view | {"node": 3, "leader": 2, "leader_epoch": 3, "at_ns": 13 * S})
    s.file_by_epochs(ONE)


@golden(
    "VALID",
    {("lost-write", "middle"): (P, 1)},
    cause="replaced node 3 as leader at 12.000 s",
)
def acks_1_loses_to_the_second_of_two_zombies(s: Story) -> None:
    """The election that ended the reign of who had accepted it is its cause, and no earlier one."""
    _two_more_elections(s)
    s.send(ONE, 99, 14, 12.5, node=3)


@golden(
    "INVALID",
    {("lost-write", "middle"): (F, 1)},
    because="no new leader that could have removed the write",
)
def acks_1_loses_while_another_zombie_is_left(s: Story) -> None:
    """Near miss: node 1 still did not know, but node 3, which accepted it, did."""
    _two_more_elections(s)
    s.send(ONE, 99, 14, 14.5, node=3)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="noticed by 15.000 s")
def acks_1_loses_to_a_leader_that_nobody_saw(s: Story) -> None:
    """An epoch is missing in the record: node 3 may have led in it, and nobody saw when it knew."""
    for row in s.cluster:
        if row["topic"] == ONE and row["kind"] in ("leader", "view", "epoch"):
            row["leader_epoch"] *= 2
    s.file_by_epochs(ONE)
    s.send(ONE, 99, 12, 14.5, node=3)


@golden(
    "INVALID",
    {("lost-write", "middle"): (F, 1)},
    because="no new leader that could have removed the write",
)
def acks_1_loses_to_one_that_never_led(s: Story) -> None:
    """Near miss: no epoch is missing."""
    s.send(ONE, 99, 12, 14.5, node=3)


def _led_again_before(s: Story) -> None:
    """Node 1 had led again from 7 s on, in epoch 1 from offset 5, and should not have: it was not
    eligible. So node 2 leads in epoch 2."""
    for row in s.cluster:
        if row["topic"] == ONE and row["leader_epoch"] == 1:
            row["leader_epoch"] = 2
    s.leader(ONE, 6, -1, 0, [])
    s.cluster[-1]["elr"] = [2, 3]
    s.leader(ONE, 7, 1, 1, [1])
    s.leader(ONE, 8, 1, 1, [1, 2, 3])
    [first, _] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == ONE]
    s.cluster.append(first | {"leader_epoch": 1, "start_offset": 5})
    s.file_by_epochs(ONE)


@golden(
    "VALID",
    {("lost-write", "middle"): (P, 1)},
    cause="node 2 replaced node 1 as leader at 10.000 s",
)
def acks_1_loses_what_may_have_come_after_its_leader_led_again(s: Story) -> None:
    """It was under way for long, and acknowledged shortly before a clean election."""
    _led_again_before(s)
    s.send(ONE, 99, 12, 5, complete_ns=round(9.5 * S))


@golden(
    "INVALID",
    {("lost-write", "middle"): (F, 1)},
    because="no new leader that could have removed the write",
)
def acks_1_loses_what_came_before_its_leader_led_again(s: Story) -> None:
    """Near miss: the leader had it when it led again, and was alone with it to lose it."""
    _led_again_before(s)
    s.send(ONE, 99, 12, 5)


@golden(
    "INVALID",
    {("lost-write", "middle"): (F, 1)},
    because="no new leader that could have removed the write",
)
def acks_1_loses_after_the_deposed_leader_knew(s: Story) -> None:
    """Near miss of a cause: at 15.5 s node 1 had known for half a second."""
    s.send(ONE, 99, 12, 15.5)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_1_loses_below_the_new_epoch(s: Story) -> None:
    """Near miss of a cause: epoch 1 starts at 10, so the election cut nothing at offset 5."""
    s.send(ONE, 99, 5, 9.4)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_1_loses_in_the_reign_of_the_new_leader(s: Story) -> None:
    """Near miss of a cause: the record says that the write was acknowledged in epoch 1 itself."""
    s.send(ONE, 99, 12, 14.9, leader_epoch=1)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_1_loses_though_the_same_node_leads_on(s: Story) -> None:
    """Near miss of a cause: a new epoch of the old leader is no change of leadership."""
    for row in s.cluster:
        if row["kind"] == "leader" and row["topic"] == ONE:
            row.update(leader=1, isr=[1, 2, 3])
        if row["kind"] == "view" and row["topic"] == ONE:
            row["leader"] = 1
    s.send(ONE, 99, 12, 9.4)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="was not seen to notice")
def acks_1_loses_and_nobody_saw_the_zombie_learn(s: Story) -> None:
    """Without a view of node 1, its fault's end and the stated slack bound its reach."""
    s.cluster = [r for r in s.cluster if r["kind"] != "view"]
    s.send(ONE, 99, 12, 15.9)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_1_loses_beyond_the_slack(s: Story) -> None:
    """Near miss of a cause: later than the end of the fault and the slack."""
    s.cluster = [r for r in s.cluster if r["kind"] != "view"]
    s.send(ONE, 99, 12, 16.1)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_1_loses_while_a_clock_is_wrong(s: Story) -> None:
    """Near miss of a cause: that a leader's clock was set keeps no news from it."""
    acks_1_loses_beyond_the_slack(s)
    clock = {"fault_id": 1, "fault": "clock.jump", "label": "clock.jump node 1"}
    s.faults.append(s.faults[0] | clock | {"healed_ns": 30 * S})


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="(epoch 2). Writes from offset 10 on")
def acks_1_loses_to_an_epoch_without_records(s: Story) -> None:
    """Nothing was written in epoch 2, so it starts where epoch 4 does; node 3 led only then."""
    s.cluster = [r for r in s.cluster if r["topic"] != ONE]
    s.leader(ONE, 0, 1, 0, [1, 2, 3])
    s.leader(ONE, 10, 3, 2, [2, 3])
    s.leader(ONE, 10.5, -1, 3, [3])
    s.leader(ONE, 16, 1, 4, [1, 2, 3])
    for epoch, start_offset in ((0, 0), (4, 10)):
        s.cluster.append(
            {
                "at_ns": 59 * S,
                "kind": "epoch",
                "topic": ONE,
                "partition": 0,
                "leader_epoch": epoch,
                "start_offset": start_offset,
            }
        )
    s.file_by_epochs(ONE)
    s.send(ONE, 99, 10, 9.4)


def _reign_between(s: Story, *, kept: bool) -> None:
    """Node 3 leads in epoch 1, from its end at offset 8 on, for half a second; node 2, which has
    an older tail up to offset 10, leads next in epoch 2. kept: node 2 had a record of epoch 1."""
    s.cluster = [r for r in s.cluster if r["topic"] != ONE]
    s.leader(ONE, 0, 1, 0, [1, 2, 3])
    s.leader(ONE, 9.6, 3, 1, [2, 3])
    s.leader(ONE, 10.1, 2, 2, [2])
    s.leader(ONE, 16, 2, 2, [1, 2, 3])
    common = {"at_ns": 59 * S, "kind": "epoch", "topic": ONE, "partition": 0}
    starts = {0: 0, 1: 9, 2: 10} if kept else {0: 0, 2: 10}
    for epoch, start_offset in starts.items():
        s.cluster.append(common | {"leader_epoch": epoch, "start_offset": start_offset})
    s.file_by_epochs(ONE)
    for at_s, node, leader, epoch in ((9.7, 3, 3, 1), (10.4, 3, 2, 2), (15, 1, 2, 2)):
        s.cluster.append({"at_ns": round(at_s * S), "kind": "view", "topic": ONE, "partition": 0,
                          "node": node, "leader": leader, "leader_epoch": epoch})  # fmt: skip


@golden(
    "VALID",
    {("lost-write", "middle"): (P, 1)},
    cause="node 2 replaced node 3 as leader at 10.100 s (epoch 2). Writes from offset 10 on",
)
def acks_1_loses_a_reign_of_which_nothing_is_left(s: Story) -> None:
    """Node 3 was cut to where node 2 and it agreed, below where the next epoch starts."""
    _reign_between(s, kept=False)
    s.send(ONE, 99, 8, 9.9)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_1_loses_a_part_of_a_reign(s: Story) -> None:
    """Near miss: of node 3's reign something is left, and the write lies below what was cut."""
    _reign_between(s, kept=True)
    s.send(ONE, 99, 8, 9.9)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_1_loses_what_was_written_before_the_vanished_reign(s: Story) -> None:
    """Near miss: acknowledged before node 3 led, at an offset that the next leader had."""
    _reign_between(s, kept=False)
    s.send(ONE, 99, 8, 9.4)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_all_loses_in_a_vanished_reign(s: Story) -> None:
    """Near miss: no reign excuses the loss of what acks=all acknowledged."""
    _reign_between(s, kept=False)
    s.set_topic(ONE, acks="all")
    s.send(ONE, 99, 8, 9.9, acks=-1)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="lost power by 10.050 s")
def acks_all_loses_a_reign_that_went_with_power(s: Story) -> None:
    """What was written in the reign was not on a disk, and the older tail was (seed 104911)."""
    acks_all_loses_in_a_vanished_reign(s)
    taken(s, 2, 3, by_s=10.05)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_all_loses_a_reign_though_one_kept_power(s: Story) -> None:
    """Near miss: the next leader had been in sync, and kept what it had."""
    acks_all_loses_in_a_vanished_reign(s)
    taken(s, 3, by_s=10.05)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_all_loses_a_part_of_a_reign_that_went_with_power(s: Story) -> None:
    """Near miss: of the reign something is left, and the write lies below what was lost."""
    _reign_between(s, kept=True)
    s.set_topic(ONE, acks="all")
    s.send(ONE, 99, 8, 9.9, acks=-1)
    taken(s, 2, 3, by_s=10.05)


@golden("UNKNOWN", {("lost-write", "middle"): (U, 1)}, because="the record cannot show it")
def acks_1_loses_without_a_record_of_epochs(s: Story) -> None:
    """Whether there was a cause cannot be told."""
    s.cluster = [r for r in s.cluster if r["kind"] != "epoch"]
    s.send(ONE, 99, 10, 9.4)


@golden(
    "VALID",
    {("lost-write", None): (P, 2)},
    cause="node 2 replaced node 1 as leader at 10.000 s",
)
def acks_0_loses_around_a_kill(s: Story) -> None:
    """Counted, with the nearest explanation."""
    s.send(NONE, 98, None, 9.7)
    s.send(NONE, 99, None, 9.8)


@golden("VALID", {("lost-write", None): (P, 1)}, cause="asked for no acknowledgement")
def acks_0_loses_out_of_the_blue(s: Story) -> None:
    """Nothing happened near it; acks=0 promises nothing."""
    s.send(NONE, 99, None, 40)


@golden("VALID", {("lost-write", None): (P, 1)}, cause="(pause node 2")
def acks_0_loses_to_a_pause(s: Story) -> None:
    """A pause of the leader deposes nobody, but explains the loss."""
    s.faults.append(
        {
            "fault_id": 1,
            "fault": "pause",
            "label": "pause node 2",
            "targets": "[2]",
            "started_ns": 30 * S,
            "effective_ns": 30 * S,
            "healed_ns": 31 * S,
            "took_effect": True,
        }
    )
    s.send(NONE, 99, None, 30.5)


@golden("INVALID", {("lost-write", "middle"): (F, 1)}, because="min.insync.replicas=1")
def min_isr_1_loses_by_a_clean_election(s: Story) -> None:
    """Near miss of a permission: the ISR was not the leader alone."""
    s.set_topic(ALL, min_insync_replicas=1)
    s.send(ALL, 99, 10, 9.4)


@golden(
    "VALID",
    {("lost-write", "middle"): (P, 1)},
    cause="Node 1 was the only in-sync replica",
)
def min_isr_1_loses_its_only_replica(s: Story) -> None:
    """The ISR was node 1 alone, and node 2 was elected all the same."""
    s.set_topic(ALL, min_insync_replicas=1)
    s.leader(ALL, 8, 1, 0, [1])
    s.send(ALL, 99, 10, 9.4)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def min_isr_2_loses_its_only_replica(s: Story) -> None:
    """Near miss of a permission: with min ISR 2 nothing may be acknowledged by one alone."""
    s.leader(ALL, 8, 1, 0, [1])
    s.send(ALL, 99, 10, 9.4)


@golden("UNKNOWN", {("unseen", None): (U, 1)}, because="failed check: final reads are complete")
def final_read_did_not_get_there(s: Story) -> None:
    """The read ended early: the value may be beyond it."""
    s.forget(topic=ALL, values={v(ALL, 20)})
    (end,) = s.rows("final-read-end", ALL)
    end.update(type="info", offset=19, error="_TIMED_OUT")


@golden("INVALID", {("lost-write", "middle"): (F, 1), ("unseen", None): (U, 1)})
def final_read_passed_over_it(s: Story) -> None:
    """It did not reach the end, but whatever lies before where it came to was there to be read."""
    s.forget(topic=ALL, values={v(ALL, 12), v(ALL, 20)})
    (end,) = s.rows("final-read-end", ALL)
    end.update(type="info", offset=19)


def _log_ends(s: Story, topic: str, end_offset: int) -> None:
    """As its leader says, with the last of the epochs."""
    last = max(
        (r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == topic),
        key=lambda row: row["leader_epoch"],
    )
    last["end_offset"] = end_offset


def _read_short(s: Story) -> None:
    s.forget(topic=ONE, values={v(ONE, 20)})
    (end,) = s.rows("final-read-end", ONE)
    end["offset"] = 19


@golden("UNKNOWN", {("unseen", None): (U, 1)}, because="failed check: final reads are complete")
def what_is_not_committed_yet_is_not_lost(s: Story) -> None:
    """It was acknowledged by its leader alone, whose log goes on above the high watermark."""
    _read_short(s)
    _log_ends(s, ONE, 20)


@golden("INVALID", {("lost-write", "tail"): (F, 1)})
def what_the_leaders_log_ends_before_is_lost(s: Story) -> None:
    """Near miss of that: nothing lies above the high watermark."""
    _read_short(s)
    _log_ends(s, ONE, 19)


@golden("VALID")
def sends_without_an_answer(s: Story) -> None:
    """Near miss of a loss: nobody acknowledged them; one of them is in the log."""
    s.send(ALL, 98, None, 9.4, type="info", complete_ns=None)
    s.send(ALL, 97, None, 20, type="info")
    s.read_in_the_end(ALL, 20, v(ALL, 97))


@golden("INVALID", {("lost-write", "tail"): (F, 1)})
def acks_1_loses_its_tail_before_a_shutdown(s: Story) -> None:
    """Near miss of a cause: the election at the shutdown came after the loss had been read."""
    s.forget(topic=ONE, values={v(ONE, 20)})
    (end,) = s.rows("final-read-end", ONE)
    end["offset"] = 19
    s.leader(ONE, 62, 3, 2, [3])
