"""What began after something else was over, and does not show it."""

from tests.support.histories.golden.base import INFO, F, P, U, golden
from tests.support.histories.golden.compacted import end_at
from tests.support.histories.golden.retention import BOTH, GONE, configs, remove_first
from tests.support.histories.golden.state_losses import led, taken
from tests.support.histories.story import ALL, ONE, S, Story, v, value

OTHER = 99
"""A second client."""


def _after_another(s: Story, at_s: float, **more: int) -> None:
    """The topic's producer writes at `at_s` what lands before a write of another client, which
    was acknowledged at 20.001 s."""
    s.row("start", OTHER, 0)
    first = value(OTHER, 1)
    s.send(ALL, 0, 21, 20.0, client=OTHER, value=first, **more)
    s.send(ALL, 97, 20, at_s)
    s.read_in_the_end(ALL, 20, v(ALL, 97))
    s.read_in_the_end(ALL, 21, first)
    s.row("end", OTHER, 61)


@golden("INVALID", {("reordered-ack", None): (F, 1)}, because="1 reordered-ack in all-0")
def write_lands_before_what_was_acknowledged(s: Story) -> None:
    """A log grows at its end, whoever writes."""
    _after_another(s, 20.5)


@golden("INVALID", {("reordered-ack", None): (F, 1)})
def write_lands_before_what_was_just_acknowledged(s: Story) -> None:
    """The same a moment later."""
    _after_another(s, 20.002)


@golden("VALID")
def write_begins_when_the_other_is_acknowledged(s: Story) -> None:
    """Near miss: neither was over when the other began."""
    _after_another(s, 20.001)


@golden("INVALID", {("reordered-ack", None): (F, 1), ("reordered-send", None): (F, 1)})
def one_client_is_reordered_after_the_acknowledgement(s: Story) -> None:
    """A producer's second write lands before its first, which it knew to be written."""
    s.send(ALL, 97, 21, 20.0)
    s.send(ALL, 98, 20, 20.3)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.read_in_the_end(ALL, 21, v(ALL, 97))


@golden("INVALID", {("uncommitted-read", None): (F, 1)})
def consumer_read_beyond_the_high_watermark(s: Story) -> None:
    """Offset 19 was given at 17 s; at 30 s the log is committed up to 15 only."""
    s.row("start", OTHER, 0)
    s.watermark(ALL, 30, 15, client=OTHER)
    s.row("end", OTHER, 61)


@golden("INVALID", {("uncommitted-read", None): (F, 1)}, because="acks=all write is answered")
def lower_end_is_told_than_what_was_acknowledged(s: Story) -> None:
    """With acks=all, up to offset 19 by 16 s. Nobody had read any of it when the end was told."""
    _asked_before_polls(s)
    s.watermark(ALL, 35, 15, client=OTHER)


@golden("INVALID", {("uncommitted-read", None): (F, 1)})
def lower_end_is_told_than_what_was_acknowledged_before_any_leader_change(s: Story) -> None:
    """Offset 9 was acknowledged at 5 s."""
    _asked_before_polls(s)
    s.watermark(ALL, 7, 9, client=OTHER)


@golden("VALID")
def lower_end_is_told_while_a_write_is_acknowledged(s: Story) -> None:
    """Near miss: the answer to the ask may be older than the one to the write."""
    _asked_before_polls(s)
    s.watermark(ALL, 5.0005, 9, client=OTHER)


@golden("VALID")
def lower_end_is_told_than_what_the_leader_alone_acknowledged(s: Story) -> None:
    """Near miss: with acks=1 the leader waits for nobody."""
    _asked_before_polls(s)
    s.watermark(ONE, 35, 15, client=OTHER)


@golden("VALID", {("uncommitted-read", None): (INFO, 1)})
def lower_end_is_told_than_what_was_acknowledged_around_an_election(s: Story) -> None:
    """Near miss: node 1 does not know yet that it is deposed."""
    _asked_before_polls(s)
    s.watermark(ALL, 14.5, 9, client=OTHER)


@golden("VALID", {("uncommitted-read", "bereft"): (INFO, 1)},
        cause="The new leader was not in sync")  # fmt: skip
def lower_end_is_told_than_what_an_unclean_election_left_behind(s: Story) -> None:
    """Near miss: at 30 s the log ends below offset 19, which comes back with node 1 later."""
    _taken_and_back(s)
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})


@golden("INVALID", {("uncommitted-read", None): (F, 1)})
def lower_end_is_told_than_what_might_not_be_left_behind(s: Story) -> None:
    """Near miss: without permission the elected node had to have it."""
    _taken_and_back(s)


def _taken_and_back(s: Story) -> None:
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (10, 2, 1, (2, 3)), (18, 2, 1, (2,)), (20, 3, 2, (3,)),
        (40, 2, 3, (2,)), (41, 2, 3, (1, 2, 3)))  # fmt: skip
    _asked_before_polls(s)
    s.watermark(ALL, 30, 15, client=OTHER)


def _asked_before_polls(s: Story) -> None:
    """Nobody is given anything before 50 s, and one more client asks where the log ends."""
    for row in s.rows("poll"):
        row.update(invoke_ns=50 * S, complete_ns=50 * S + 1)
    s.row("start", OTHER, 0)
    s.row("end", OTHER, 61)


@golden("VALID")
def end_was_told_while_the_consumer_read(s: Story) -> None:
    """Near miss: what was asked before the poll was over may not show it."""
    s.row("start", OTHER, 0)
    s.watermark(ONE, 17.0005, 10, client=OTHER)
    s.watermark(ONE, 17.0025, 20, client=OTHER)
    s.row("end", OTHER, 61)


@golden("VALID", {("uncommitted-read", None): (INFO, 1)})
def older_end_is_told_around_an_election(s: Story) -> None:
    """Near miss: node 1 does not know yet that it is deposed."""
    s.row("start", OTHER, 0)
    s.watermark(ALL, 14.5, 9, client=OTHER)
    s.row("end", OTHER, 61)


def _while_node_1_is_down(s: Story, epoch: int) -> None:
    """Node 1 is back at 40 s. Consumers have had up to offset 19 since 17 s."""
    s.faults[0]["healed_ns"] = 40 * S
    for row in s.cluster:
        if row["kind"] == "view" and row["topic"] == ONE and row["leader_epoch"] == 1:
            row["at_ns"] = 41 * S
    s.row("start", OTHER, 0)
    s.watermark(ONE, 35, 10, client=OTHER, node=epoch + 1, leader_epoch=epoch)
    s.row("end", OTHER, 61)


@golden("INVALID", {("uncommitted-read", "newest"): (F, 1)})
def lower_end_is_told_by_the_new_leader(s: Story) -> None:
    """It answers only when it has caught up, whatever the old leader knows."""
    _while_node_1_is_down(s, epoch=1)


@golden("VALID", {("uncommitted-read", "deposed"): (INFO, 1)})
def lower_end_is_told_by_the_old_leader(s: Story) -> None:
    """Near miss: it does not know yet."""
    _while_node_1_is_down(s, epoch=0)


@golden("UNKNOWN", {("uncommitted-read", None): (INFO, 1)})
def lower_end_is_told_by_a_leader_that_was_replaced_later(s: Story) -> None:
    """Near miss: when node 3 began to lead in epoch 2 may have been recorded late."""
    _while_node_1_is_down(s, epoch=1)
    s.leader(ONE, 36, 3, 2, [2, 3])
    told = {"kind": "epoch", "topic": ONE, "partition": 0, "leader_epoch": 2, "start_offset": 20}
    s.cluster.append(told | {"at_ns": 59 * S, "source": "story"})


@golden("VALID", {("uncommitted-read", None): (INFO, 1)}, cause="The new leader was not in sync")
def lower_end_is_told_by_a_new_leader_after_an_unclean_election(s: Story) -> None:
    """Near miss: at 17 s a consumer was given by node 1, which does not know, what node 2 lacks."""
    _while_node_1_is_down(s, epoch=1)
    s.leader(ONE, 8, 1, 0, [1, 3])
    s.set_topic(ONE, configs={"unclean.leader.election.enable": "true"})


def _refused(
    s: Story,
    *,
    error: str = "OFFSET_OUT_OF_RANGE",
    read_s: float = 25,
    moved_to: int | None = None,
) -> None:
    """At 30 s a consumer that was given all of the log at `read_s` is told that its position is not
    there, after it may have moved."""
    s.row("start", OTHER, 0)
    records = {offset: v(ALL, offset + 1) for offset in range(20)}
    s.poll(ALL, read_s, records, client=OTHER)
    if moved_to is not None:
        s.row("assign", OTHER, 26, topic=ALL, partition=0, offset=moved_to)
    s.row("assign", OTHER, 30, topic=ALL, partition=0, offset=0, error=error)
    s.poll(ALL, 31, records, client=OTHER)
    s.row("end", OTHER, 61)


@golden("INVALID", {("uncommitted-read", None): (F, 1)}, because="1 uncommitted-read in all-0")
def consumer_is_told_that_its_position_is_not_in_the_log(s: Story) -> None:
    """It is: the log had 20 records since 16 s, and nothing removed any."""
    _refused(s)


@golden("VALID")
def consumer_moves_for_a_reason_of_its_own(s: Story) -> None:
    """Near miss: no broker said that its position is not there."""
    _refused(s, error="_AUTO_OFFSET_RESET")


@golden("VALID", {("uncommitted-read", None): (INFO, 1)})
def consumer_is_told_that_its_position_is_not_in_the_log_around_an_election(s: Story) -> None:
    """Near miss: node 1 may not know yet that it is deposed, however long the answer took."""
    s.faults[0]["healed_ns"] = 40 * S
    for row in s.cluster:
        if row["kind"] == "view" and row["topic"] == ALL and row["leader_epoch"] == 1:
            row["at_ns"] = 26 * S
    _refused(s)


@golden("VALID", {("uncommitted-read", None): (INFO, 1)})
def consumer_is_told_that_its_position_is_not_in_the_log_while_it_was_lost(s: Story) -> None:
    """Near miss: after an unclean election the log ends below it, until node 1 is back."""
    _taken_and_back(s)
    s.rows("watermark", ALL)[-1]["offset"] = 20
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    _refused(s, read_s=17)


@golden("VALID", BOTH | {("truncated-read", "prefix"): (P, 3 * GONE)})
def consumer_is_told_that_its_position_is_not_in_a_log_whose_start_moved(s: Story) -> None:
    """Near miss: one replica's log may have begun above it, and another replica led later."""
    remove_first(s, ALL)
    configs(s, ALL, retention_bytes=1500)
    _refused(s)


@golden("VALID")
def consumer_is_told_that_a_place_that_it_was_given_is_not_in_the_log(s: Story) -> None:
    """Near miss: it moved before, so its position is not one behind the last record."""
    _refused(s, moved_to=25)


@golden("VALID", {("truncated-read", None): (P, 1), ("lost-write", "tail"): (P, 1)})
def lower_end_is_told_long_after_what_was_read_was_lost(s: Story) -> None:
    """Near miss: what had been read at offset 20 was taken back, as an unclean election may."""
    _read_then_lost(s)
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})


@golden("INVALID", {("truncated-read", None): (F, 1), ("lost-write", "tail"): (F, 1)})
def lower_end_is_told_after_what_was_read_was_lost_though_it_might_not_be(s: Story) -> None:
    """The record is held against the cluster once, by what it lost."""
    _read_then_lost(s)


@golden("INVALID", {("truncated-read", None): (P, 1), ("lost-write", "tail"): (P, 1),
                    ("uncommitted-read", None): (F, 1)})  # fmt: skip
def lower_end_is_told_than_what_was_kept(s: Story) -> None:
    """It is below offset 19 too, which nobody took back."""
    lower_end_is_told_long_after_what_was_read_was_lost(s)
    s.rows("watermark", ALL)[-1]["offset"] = 19


UNSEEN = {("unseen", None): (U, 1)}


@golden("UNKNOWN", UNSEEN | {("uncommitted-read", "bereft"): (INFO, 1)},
        cause="The new leader was not in sync")  # fmt: skip
def lower_end_is_told_long_after_a_loss_and_the_log_was_not_read_to_its_end(s: Story) -> None:
    """Seed 80019: that the record at offset 20 was taken back, nobody saw; that it might be, they
    did."""
    lower_end_is_told_long_after_what_was_read_was_lost(s)
    _not_read_to_its_end(s)


@golden("INVALID", UNSEEN | {("uncommitted-read", None): (F, 1)})
def lower_end_is_told_though_nothing_might_be_lost_and_the_log_was_not_read(s: Story) -> None:
    """Near miss: without permission the elected node had to have the record."""
    _read_then_lost(s)
    _not_read_to_its_end(s)


@golden("INVALID", {("unseen", None): (U, 2), ("uncommitted-read", None): (F, 1)})
def lower_end_is_told_than_what_was_read_after_a_loss(s: Story) -> None:
    """Near miss: at 19 s a consumer was given offset 21, which was written after the loss."""
    lower_end_is_told_long_after_a_loss_and_the_log_was_not_read_to_its_end(s)
    s.send(ALL, 98, 21, 18)
    s.poll(ALL, 19, {21: v(ALL, 98)})


@golden("INVALID", UNSEEN | {("uncommitted-read", None): (F, 1)})
def lower_end_is_told_long_before_a_loss(s: Story) -> None:
    """Near miss: at 30 s everything was still there that an unclean election took at 40 s."""
    _read_then_lost(s, lost_s=40)
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    _not_read_to_its_end(s)


@golden("UNKNOWN", UNSEEN | {("uncommitted-read", "bereft"): (INFO, 1)})
def lower_end_is_told_long_after_an_unclean_election_was_asked_for(s: Story) -> None:
    """What counts is what was permitted when the record was lost, not when the end was told."""
    lower_end_is_told_though_nothing_might_be_lost_and_the_log_was_not_read(s)
    taken(s, fault="elect", details={"kind": "unclean", "topic": ALL})


def _not_read_to_its_end(s: Story) -> None:
    s.rows("watermark", ALL)[1].update(invoke_ns=9 * S, complete_ns=9 * S)
    s.rows("final-read-end", ALL)[0].update(type="info", error="timeout")


def _read_then_lost(s: Story, lost_s: float = 10) -> None:
    """Node 2, which is not in sync, leads from `lost_s` on; at 30 s the log is committed up to
    20."""
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1, 3)), (lost_s, 2, 1, (2,)),
        (lost_s + 6, 2, 1, (2, 3, 1)))  # fmt: skip
    s.send(ALL, 99, 20, 9.4)
    s.poll(ALL, 9.5, {20: v(ALL, 99)})
    s.row("start", OTHER, 0)
    s.watermark(ALL, 30, 20, client=OTHER)
    s.row("end", OTHER, 61)


def _late_poll(s: Story, most_ms: int) -> None:
    """Acknowledged at 16.401 s, and the poll at 17 s ends short of it."""
    s.plan["expect"] = [f"stale_ms <= {most_ms}"]
    s.send(ALL, 98, 20, 16.4)
    s.rows("watermark", ALL)[-1]["offset"] = 21
    end_at(s, 21)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.poll(ALL, 18, {20: v(ALL, 98)})


@golden("VALID", expectation="failed")
def poll_ends_short_of_what_was_committed(s: Story) -> None:
    """For 0.6 s; expected is half a second at most."""
    _late_poll(s, 500)


@golden("VALID", expectation="passed")
def poll_ends_short_for_a_while(s: Story) -> None:
    """Near miss: expected are 0.7 s at most."""
    _late_poll(s, 700)


@golden("VALID", expectation="passed")
def poll_ends_before_anything_was_behind_it(s: Story) -> None:
    """Near miss: the next record was acknowledged after the poll had begun."""
    s.plan["expect"] = ["stale_ms <= 1"]
    s.send(ALL, 98, 20, 17.0005)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.poll(ALL, 18, {20: v(ALL, 98)})
