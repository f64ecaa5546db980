"""Positions and end offsets as clients see them."""

from tests.support.histories.golden.base import INFO, F, P, golden
from tests.support.histories.golden.compacted import end_at
from tests.support.histories.golden.state_losses import led, taken
from tests.support.histories.story import ALL, NONE, ONE, S, Story, v


@golden("INVALID", {("poll-skip", None): (F, 1)})
def consumer_skips_a_record(s: Story) -> None:
    """The consumer never got offset 4, which holds a record."""
    s.history = [
        r for r in s.history if not (r["f"] == "poll" and r["topic"] == ALL and r["offset"] == 4)
    ]


@golden("INVALID", {("poll-skip", None): (F, 1)})
def consumer_skips_a_record_between_polls(s: Story) -> None:
    """The second poll starts one too high."""
    s.history = [
        r for r in s.history if not (r["f"] == "poll" and r["topic"] == ALL and r["offset"] == 10)
    ]


@golden("VALID")
def consumer_steps_over_a_gap(s: Story) -> None:
    """Near miss of a skip: offset 20 holds no record that anyone was ever given."""
    s.send(ALL, 99, 21, 20)
    s.poll(ALL, 21, {21: v(ALL, 99)})
    s.read_in_the_end(ALL, 21, v(ALL, 99))


@golden("INVALID", {("poll-skip", None): (F, 1), ("truncated-read", None): (F, 1)})
def consumer_skips_what_another_one_was_given(s: Story) -> None:
    """The other consumer got offsets 20 and 21."""
    _reader_of_a_record_that_is_gone(s)


@golden("INVALID", {("truncated-read", None): (F, 1)})
def consumer_steps_over_what_the_log_held_before_it_was_cut(s: Story) -> None:
    """Near miss: the other consumer got offset 20 of the old log. Then it was assigned anew."""
    _reader_of_a_record_that_is_gone(s, assigned=True)


def _reader_of_a_record_that_is_gone(s: Story, *, assigned: bool = False) -> None:
    other = 98
    s.send(ALL, 98, None, 20, type="info")
    s.send(ALL, 99, 21, 22)
    s.row("start", other, 0)
    s.poll(ALL, 20.5, {20: v(ALL, 98)}, client=other)
    if assigned:
        s.row("assign", other, 21, topic=ALL, partition=0, offset=19)
        s.poll(ALL, 22, {19: v(ALL, 20)}, client=other)
    s.poll(ALL, 23, {21: v(ALL, 99)}, client=other)
    s.row("end", other, 61)
    s.poll(ALL, 23, {21: v(ALL, 99)})
    s.read_in_the_end(ALL, 21, v(ALL, 99))


@golden("VALID")
def consumer_is_assigned_elsewhere(s: Story) -> None:
    """Near miss of a skip and of a step back: it was told to go there."""
    s.assign(ALL, 18, 3)
    s.poll(ALL, 19, {3: v(ALL, 4), 4: v(ALL, 5)})
    s.assign(ALL, 20, 9)
    s.poll(ALL, 21, {9: v(ALL, 10)})
    s.assign(ALL, 22, -1)
    s.poll(ALL, 23, {15: v(ALL, 16)})


@golden("INVALID", {("poll-skip", None): (F, 1)})
def consumer_skips_from_where_it_was_assigned(s: Story) -> None:
    """Assigned at 3, given 5."""
    s.assign(ALL, 18, 3)
    s.poll(ALL, 19, {5: v(ALL, 6)})


@golden("INVALID", {("nonmonotonic-poll", None): (F, 1)})
def consumer_goes_back(s: Story) -> None:
    """After offset 19 it is given 18 again, and nobody told it to go there."""
    s.poll(ALL, 18, {18: v(ALL, 19), 19: v(ALL, 20)})


@golden("INVALID", {("nonmonotonic-poll", None): (F, 1)})
def one_poll_returns_a_record_twice(s: Story) -> None:
    """The same offset twice inside one poll."""
    last = s.rows("poll", ALL)[-1]
    s.history.append(dict(last))


@golden("INVALID", {("watermark-regression", None): (F, 1), ("uncommitted-read", None): (F, 1)})
def end_offset_goes_back(s: Story) -> None:
    """One client asked twice, long after everything was quiet."""
    s.watermark(ALL, 40, 20)
    s.watermark(ALL, 41, 19)


@golden("INVALID", {("watermark-regression", "advanced"): (F, 1),
                    ("uncommitted-read", "newest"): (F, 1)})  # fmt: skip
def end_offset_goes_back_with_the_new_leader(s: Story) -> None:
    """The new leader told its end before it had caught up with what was committed."""
    s.rows("watermark", ALL)[1].update(invoke_ns=20 * S, complete_ns=20 * S, leader_epoch=1)
    s.watermark(ALL, 10.5, 10, leader_epoch=0)
    s.watermark(ALL, 11.2, 9, leader_epoch=1)


@golden("VALID", {("watermark-regression", "advanced"): (P, 1)},
        cause="The new leader was not in sync")  # fmt: skip
def end_offset_goes_back_over_an_unclean_election(s: Story) -> None:
    """It is not long before the second answer that who was asked lost its records, but between."""
    s.set_topic(ONE, configs={"unclean.leader.election.enable": "true"})
    _lower_end_of_who_was_not_in_sync(s)


@golden("VALID", {("watermark-regression", "advanced"): (P, 1)},
        cause="The new leader was not in sync")  # fmt: skip
def end_offset_goes_back_after_an_unclean_election_was_asked_for(s: Story) -> None:
    """It was allowed then, and is not any more when the lower end is told."""
    _lower_end_of_who_was_not_in_sync(s)
    taken(s, fault="elect", details={"kind": "unclean", "topic": ONE})


@golden("INVALID", {("watermark-regression", "advanced"): (F, 1)})
def end_offset_goes_back_before_unclean_elections_were_allowed(s: Story) -> None:
    """Near miss: one was asked for at 30 s."""
    _lower_end_of_who_was_not_in_sync(s)
    taken(s, fault="elect", by_s=30, details={"kind": "unclean", "topic": ONE})
    s.faults[-1]["healed_ns"] = 31 * S


def _lower_end_of_who_was_not_in_sync(s: Story) -> None:
    s.leader(ONE, 8, 1, 0, [1])
    s.rows("watermark", ONE)[1].update(invoke_ns=20 * S, complete_ns=20 * S, leader_epoch=1)
    s.watermark(ONE, 9.5, 10, leader_epoch=0)
    s.watermark(ONE, 18, 9, leader_epoch=1)
    for row in s.rows("poll", ONE):
        row.update(invoke_ns=19 * S, complete_ns=19 * S)


@golden("INVALID", {("watermark-regression", "final"): (F, 1)})
def log_ends_below_an_end_that_was_told(s: Story) -> None:
    """Nobody read or acknowledged what was below 25."""
    s.watermark(ALL, 40, 25)


@golden("UNKNOWN", {("unequal-ends", None): (INFO, 1)})
def file_goes_on_up_to_an_end_that_was_told(s: Story) -> None:
    """Near miss: the file of one replica has all of it; files are another rule's concern."""
    s.watermark(NONE, 40, 25)
    s.replica_ends[2]["end_offset"] = 25


@golden("VALID")
def log_ends_below_an_end_that_was_told_after_it_was_read(s: Story) -> None:
    """Near miss: the coordinator may have aborted a transaction after the final reads."""
    s.watermark(ALL, 60.5, 21)


@golden("VALID")
def log_ends_below_an_end_that_was_told_before_a_checkpoint_was_damaged(s: Story) -> None:
    """Near miss: with other digits in it a leader may begin at a high watermark that never was."""
    s.watermark(ALL, 40, 25)
    taken(s, 2, fault="disk.bit-flip", details={"file": "checkpoint"})


@golden("INVALID", {("watermark-regression", "final"): (F, 1)})
def later_epoch_begins_below_an_end_that_was_told(s: Story) -> None:
    """Offsets 10 to 12 have records of epoch 1. Nothing was acknowledged there in epoch 0."""
    s.watermark(ONE, 9.4, 13, leader_epoch=0)


@golden("VALID", {("watermark-regression", "final"): (P, 1)},
        cause="The new leader was not in sync")  # fmt: skip
def later_epoch_begins_below_an_end_after_an_unclean_election(s: Story) -> None:
    """Near miss: the elected replica may lack what was committed."""
    later_epoch_begins_below_an_end_that_was_told(s)
    s.leader(ONE, 8, 1, 0, [1])
    s.set_topic(ONE, configs={"unclean.leader.election.enable": "true"})


@golden("VALID", {("watermark-regression", "final"): (P, 1)})
def later_epoch_begins_below_an_end_of_a_leader_alone(s: Story) -> None:
    """Near miss: with min.insync.replicas=1 it needed nobody else."""
    later_epoch_begins_below_an_end_that_was_told(s)
    s.leader(ONE, 8, 1, 0, [1])
    s.set_topic(ONE, min_insync_replicas=1)


@golden("VALID", {("watermark-regression", "final"): (P, 1)}, cause="lost power")
def later_epoch_begins_below_an_end_after_a_loss_of_power(s: Story) -> None:
    """Near miss: node 1 and 2, the in-sync replicas, had these records only in memory."""
    later_epoch_begins_below_an_end_that_was_told(s)
    s.faults.clear()
    led(s, ONE, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1, 2)), (10, 2, 1, (2,)), (16, 2, 1, (2, 3, 1)))
    taken(s, 1, 2)


@golden("VALID")
def later_epoch_begins_at_an_end_that_was_told(s: Story) -> None:
    """Near miss: all of it stayed."""
    s.watermark(ONE, 9.4, 10, leader_epoch=0)


@golden("VALID", {("watermark-regression", "deposed"): (INFO, 1),
                  ("uncommitted-read", "deposed"): (INFO, 1)})  # fmt: skip
def end_offset_of_a_deposed_leader(s: Story) -> None:
    """Near miss: the lower end is an older leader's."""
    s.watermark(ALL, 40, 20, leader_epoch=1)
    s.watermark(ALL, 41, 9, leader_epoch=0)


@golden("VALID", {("watermark-regression", None): (INFO, 1), ("uncommitted-read", None): (INFO, 1)})
def end_offset_goes_back_around_an_election(s: Story) -> None:
    """A deposed leader that does not know it may still answer."""
    s.rows("watermark", ALL)[1].update(invoke_ns=12 * S, complete_ns=12 * S)
    s.watermark(ALL, 14.5, 10)
    s.watermark(ALL, 41, 20)


@golden("VALID")
def end_offsets_of_concurrent_asks(s: Story) -> None:
    """Near miss of a regression: the asks overlap, or are of two clients."""
    s.row("start", 98, 0)
    end_at(s, 22)
    s.watermark(ALL, 40, 22, complete_ns=42 * S)
    s.watermark(ALL, 41, 21, complete_ns=43 * S)
    s.watermark(ALL, 44, 20, client=98)
    s.row("end", 98, 61)
