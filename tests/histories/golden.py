"""The golden histories: for every anomaly one run that shows it and near misses that do not.

Each is the healthy run of `story`, bent. `expect` lists everything that must be found, as
{(kind, aspect): (judgement, count)}; the times without acknowledgements, which every run has, are
left out. Nothing else may be found.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.histories.story import (
    ALL,
    NONE,
    ONE,
    PRODUCER,
    S,
    Story,
    healthy,
    v,
    value,
)

Found = Mapping[tuple[str, str | None], tuple[str, int]]
F, P, INFO, U = "forbidden", "permitted", "informational", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """One history: its name, how the healthy run is bent, and what a checker must answer.

    because: a piece of text that one of the verdict's reasons must contain. cause: one that the
    cause of a permitted loss must contain.
    """

    name: str
    bend: Callable[[Story], None]
    outcome: str
    expect: Found = field(default_factory=dict)
    because: str = ""
    cause: str = ""

    def story(self) -> Story:
        """The run."""
        story = healthy()
        self.bend(story)
        return story


ALL_GOLDEN: dict[str, Golden] = {}


def golden(
    outcome: str,
    expect: Found | None = None,
    *,
    because: str = "",
    cause: str = "",
) -> Callable[[Callable[[Story], None]], Callable[[Story], None]]:
    """Register a function that bends the healthy run as a golden history."""

    def register(bend: Callable[[Story], None]) -> Callable[[Story], None]:
        name = bend.__name__
        assert name not in ALL_GOLDEN
        ALL_GOLDEN[name] = Golden(
            name=name,
            bend=bend,
            outcome=outcome,
            expect=expect or {},
            because=because,
            cause=cause,
        )
        return bend

    return register


@golden("VALID")
def nothing_wrong(s: Story) -> None:
    """The healthy run itself."""


# --- lost writes ----------------------------------------------------------------------------


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


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="deposed at 10.000 s by node 2")
def acks_1_loses_what_the_deposed_leader_had(s: Story) -> None:
    """Acknowledged by node 1 just before it was killed; node 2 used the offset again."""
    s.send(ONE, 99, 10, 9.4)


@golden("VALID", {("lost-write", "tail"): (P, 1)}, cause="fault 0 (kill node 1")
def acks_1_loses_a_long_tail(s: Story) -> None:
    """The deposed leader had more than the log ever reached again."""
    s.send(ONE, 99, 25, 9.4)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="it knew by 15.000 s")
def acks_1_loses_to_a_zombie(s: Story) -> None:
    """Node 1 did not know until 15 s that it was deposed, and acknowledged at 14.9 s."""
    s.send(ONE, 99, 12, 14.9)


@golden("INVALID", {("lost-write", "middle"): (F, 1)}, because="no change of leadership")
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
    s.send(ONE, 99, 12, 9.4)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="nobody saw it learn")
def acks_1_loses_and_nobody_saw_the_zombie_learn(s: Story) -> None:
    """Without a view of node 1, its fault's end and the stated slack bound its reach."""
    s.cluster = [r for r in s.cluster if r["kind"] != "view"]
    s.send(ONE, 99, 12, 15.9)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def acks_1_loses_beyond_the_slack(s: Story) -> None:
    """Near miss of a cause: later than the end of the fault and the slack."""
    s.cluster = [r for r in s.cluster if r["kind"] != "view"]
    s.send(ONE, 99, 12, 16.1)


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="in epoch 2 from offset 10")
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
    s.send(ONE, 99, 10, 9.4)


@golden("UNKNOWN", {("lost-write", "middle"): (U, 1)}, because="not in the record")
def acks_1_loses_without_a_record_of_epochs(s: Story) -> None:
    """Whether there was a cause cannot be told."""
    s.cluster = [r for r in s.cluster if r["kind"] != "epoch"]
    s.send(ONE, 99, 10, 9.4)


@golden("VALID", {("lost-write", None): (P, 2)}, cause="deposed at 10.000 s by node 2")
def acks_0_loses_around_a_kill(s: Story) -> None:
    """Counted, with the nearest explanation."""
    s.send(NONE, 98, None, 9.7)
    s.send(NONE, 99, None, 9.8)


@golden("VALID", {("lost-write", None): (P, 1)}, cause="no acknowledgement was asked for")
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
            "healed_ns": 31 * S,
            "took_effect": True,
        }
    )
    s.send(NONE, 99, None, 30.5)


@golden("INVALID", {("lost-write", "middle"): (F, 1)}, because="min ISR 1")
def min_isr_1_loses_by_a_clean_election(s: Story) -> None:
    """Near miss of a permission: the ISR was not the leader alone."""
    s.set_topic(ALL, min_insync_replicas=1)
    s.send(ALL, 99, 10, 9.4)


@golden(
    "VALID",
    {("lost-write", "middle"): (P, 1)},
    cause="the old one was the only in-sync replica",
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


@golden("VALID", {("lost-write", "middle"): (P, 1)}, cause="the new leader was not in sync")
def unclean_election_loses(s: Story) -> None:
    """Configured, and it took place."""
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    s.leader(ALL, 8, 1, 0, [1])
    s.send(ALL, 99, 10, 9.4)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def unclean_election_was_on_but_clean(s: Story) -> None:
    """Near miss of a permission: node 2 was in sync when it was elected."""
    s.set_topic(ALL, configs={"unclean.leader.election.enable": "true"})
    s.send(ALL, 99, 10, 9.4)


@golden("UNKNOWN", {("unseen", None): (U, 1)}, because="final reads are complete: no")
def final_read_did_not_get_there(s: Story) -> None:
    """The read ended early: the value may be beyond it."""
    s.forget(topic=ALL, values={v(ALL, 20)})
    (end,) = s.rows("final-read-end", ALL)
    end.update(type="info", offset=19, error="_TIMED_OUT")


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


# --- what was read and then was not ----------------------------------------------------------


@golden("INVALID", {("truncated-read", None): (F, 1), ("lost-write", "tail"): (F, 1)})
def consumer_read_what_was_cut(s: Story) -> None:
    """The consumer was given offset 19, and the final log ends before it."""
    s.forget(topic=ALL, values={v(ALL, 20)}, but_polls=True)


@golden("INVALID", {("truncated-read", None): (F, 1), ("lost-write", "tail"): (P, 1)})
def consumer_read_a_dirty_tail(s: Story) -> None:
    """Losing an acks=1 write may be permitted; showing it to a consumer first is not."""
    s.send(ONE, 99, 20, 9.4)
    s.poll(ONE, 18, {20: v(ONE, 99)})


@golden("UNKNOWN", {("unseen", None): (U, 1)})
def consumer_read_beyond_the_final_read(s: Story) -> None:
    """Near miss: the final read did not get there."""
    s.forget(topic=ALL, values={v(ALL, 20)}, but_polls=True)
    (end,) = s.rows("final-read-end", ALL)
    end.update(type="info")


@golden("INVALID", {("aborted-read", None): (F, 1)})
def failed_send_was_read(s: Story) -> None:
    """The client was told that it surely did not happen."""
    s.send(ALL, 99, None, 20, type="fail", error="MSG_SIZE_TOO_LARGE")
    s.read_in_the_end(ALL, 20, v(ALL, 99))


@golden("VALID")
def failed_send_was_not_read(s: Story) -> None:
    """Near miss: it failed, and that was that."""
    s.send(ALL, 99, None, 20, type="fail", error="MSG_SIZE_TOO_LARGE")


# --- order and offsets -------------------------------------------------------------------------


@golden("VALID", {("duplicate", None): (P, 1)})
def retry_without_idempotence_writes_twice(s: Story) -> None:
    """The answer was lost, the retry landed behind."""
    s.read_in_the_end(ONE, 20, v(ONE, 20))


@golden("INVALID", {("duplicate", None): (F, 1)}, because="1 duplicate in all-0")
def idempotent_producer_writes_twice(s: Story) -> None:
    """The broker must know the batch by its sequence."""
    s.read_in_the_end(ALL, 20, v(ALL, 20))


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
        cause="all-1: it had itself sent ahead of a batch that had failed (NOT_LEADER")  # fmt: skip
def client_wrote_twice_across_its_own_epochs(s: Story) -> None:
    """The client had sent ahead of a failed batch elsewhere, and began again with everything."""
    _twice_around_a_new_epoch(s, OWN)


@golden("VALID", {("duplicate", "client-epoch"): (P, 1)},
        cause="it had itself given up 7 message(s) timed out on all [1]")  # fmt: skip
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


@golden("INVALID", {("duplicate", None): (F, 1)}, cause="message sequence gap")
def client_wrote_twice_because_the_head_of_line_was_refused(s: Story) -> None:
    """Near miss: the broker refused what it should have known."""
    _twice_around_a_new_epoch(s, "refused at the head of the line", "message sequence gap")


@golden("INVALID", {("duplicate", None): (F, 1)}, cause="and 1 more reasons")
def client_wrote_twice_for_reasons_not_all_its_own(s: Story) -> None:
    """Near miss: beside its own doing a broker refused what it should have known."""
    _twice_around_a_new_epoch(s, OWN, OWN, "message sequence gap", "unknown producer id")


@golden("INVALID", {("duplicate", None): (F, 1)}, cause="sent ahead of a batch")
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


@golden("VALID")
def two_consumers_read_the_same(s: Story) -> None:
    """Near miss of a duplicate: one record, read by two."""
    s.row("start", 99, 0)
    s.poll(ALL, 20, {o: v(ALL, o + 1) for o in range(20)}, client=99)
    s.row("end", 99, 61)


@golden("INVALID", {("inconsistent-offset", "read"): (F, 1), ("truncated-read", None): (F, 1),
                    ("duplicate", None): (P, 1)})  # fmt: skip
def two_reads_of_one_offset_differ(s: Story) -> None:
    """One consumer was given another value at offset 10 than the log holds in the end."""
    s.row("start", 99, 0)
    s.poll(ONE, 11, {10: v(ONE, 20)}, client=99)
    s.row("end", 99, 61)


@golden("INVALID", {("inconsistent-offset", "acknowledged"): (F, 1)})
def acknowledged_offset_holds_another_value(s: Story) -> None:
    """Acknowledged at 15, found at 20."""
    s.send(ALL, 99, 15, 21)
    s.read_in_the_end(ALL, 20, v(ALL, 99))


@golden("VALID", {("inconsistent-offset", "acknowledged"): (P, 1)})
def acknowledged_copy_was_cut_and_another_lives(s: Story) -> None:
    """acks=1: the acknowledged copy went with the deposed leader's tail; the retry's lives."""
    s.send(ONE, 99, 12, 9.4)
    s.read_in_the_end(ONE, 20, v(ONE, 99))


@golden("VALID", {("duplicate", None): (P, 1)})
def acknowledged_offset_is_one_of_two(s: Story) -> None:
    """Near miss of an inconsistent offset: the value is where it was acknowledged, and again."""
    s.read_in_the_end(ONE, 20, v(ONE, 3))


@golden("VALID", {("reordered-send", None): (P, 1)})
def later_batch_overtakes(s: Story) -> None:
    """Without idempotence and with more than one in flight, a retry lands behind."""
    s.send(ONE, 97, 21, 20.0)
    s.send(ONE, 98, 20, 20.1)
    s.read_in_the_end(ONE, 20, v(ONE, 98))
    s.read_in_the_end(ONE, 21, v(ONE, 97))


@golden("INVALID", {("reordered-send", None): (F, 1)})
def later_batch_overtakes_though_idempotent(s: Story) -> None:
    """The broker must refuse a batch whose predecessor it lacks."""
    s.send(ALL, 97, 21, 20.0)
    s.send(ALL, 98, 20, 20.1)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.read_in_the_end(ALL, 21, v(ALL, 97))


@golden("INVALID", {("reordered-send", None): (F, 1)})
def one_in_flight_and_still_reordered(s: Story) -> None:
    """Where the next batch leaves only after the answer, nothing can overtake."""
    s.plan["workload"]["max_in_flight"] = 1
    later_batch_overtakes(s)


@golden("VALID", {("reordered-send", None): (P, 1)})
def unacknowledged_sends_reordered(s: Story) -> None:
    """acks=0 acknowledges no offsets; the log's order tells."""
    s.send(NONE, 97, None, 20.0)
    s.send(NONE, 98, None, 20.1)
    s.read_in_the_end(NONE, 20, v(NONE, 98))
    s.read_in_the_end(NONE, 21, v(NONE, 97))


@golden("VALID")
def two_producers_interleave(s: Story) -> None:
    """Near miss of a reordering: order holds per producer only."""
    s.row("start", 99, 0)
    s.send(ALL, 0, 21, 20.0, client=99, value=value(99, 1))
    s.send(ALL, 97, 20, 20.1)
    s.read_in_the_end(ALL, 20, v(ALL, 97))
    s.read_in_the_end(ALL, 21, value(99, 1))
    s.row("end", 99, 61)


@golden("VALID", {("lost-write", "tail"): (P, 1)})
def lost_send_had_a_higher_offset(s: Story) -> None:
    """Near miss of a reordering: the earlier send has no place in the log any more."""
    s.send(ONE, 98, 24, 14.5)
    s.send(ONE, 99, 20, 20.0)
    s.read_in_the_end(ONE, 20, v(ONE, 99))


# --- consumers ------------------------------------------------------------------------------------


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


@golden("INVALID", {("watermark-regression", None): (F, 1)})
def end_offset_goes_back(s: Story) -> None:
    """One client asked twice, long after everything was quiet."""
    s.watermark(ALL, 40, 20)
    s.watermark(ALL, 41, 19)


@golden("INVALID", {("watermark-regression", "advanced"): (F, 1)})
def end_offset_goes_back_with_the_new_leader(s: Story) -> None:
    """The new leader told its end before it had caught up with what was committed."""
    s.rows("watermark", ALL)[1].update(invoke_ns=20 * S, complete_ns=20 * S, leader_epoch=1)
    s.watermark(ALL, 10.5, 10, leader_epoch=0)
    s.watermark(ALL, 11.2, 9, leader_epoch=1)


@golden("VALID", {("watermark-regression", "deposed"): (INFO, 1)})
def end_offset_of_a_deposed_leader(s: Story) -> None:
    """Near miss: the lower end is an older leader's."""
    s.watermark(ALL, 40, 20, leader_epoch=1)
    s.watermark(ALL, 41, 19, leader_epoch=0)


@golden("VALID", {("watermark-regression", None): (INFO, 1)})
def end_offset_goes_back_around_an_election(s: Story) -> None:
    """A deposed leader that does not know it may still answer."""
    s.rows("watermark", ALL)[1].update(invoke_ns=12 * S, complete_ns=12 * S)
    s.watermark(ALL, 14.5, 10)
    s.watermark(ALL, 41, 20)


@golden("VALID")
def end_offsets_of_concurrent_asks(s: Story) -> None:
    """Near miss of a regression: the asks overlap, or are of two clients."""
    s.row("start", 98, 0)
    s.watermark(ALL, 40, 20, complete_ns=42 * S)
    s.watermark(ALL, 41, 19, complete_ns=43 * S)
    s.watermark(ALL, 44, 18, client=98)
    s.row("end", 98, 61)


# --- records from nowhere ------------------------------------------------------------------------


@golden("INVALID", {("phantom", "unsent"): (F, 1)})
def record_that_nobody_sent(s: Story) -> None:
    """A well-formed value of a client that recorded all it did."""
    s.read_in_the_end(ALL, 20, v(ALL, 77))


@golden("INVALID", {("phantom", "checksum"): (F, 1)})
def record_whose_checksum_is_wrong(s: Story) -> None:
    """Corruption."""
    s.read_in_the_end(ALL, 20, None, error="checksum")


@golden("INVALID", {("phantom", "foreign"): (F, 1)})
def record_of_another_run(s: Story) -> None:
    """No payload of this run."""
    s.read_in_the_end(ALL, 20, None, error="foreign")


@golden("INVALID", {("phantom", "unsent"): (F, 1), ("lost-write", "tail"): (F, 1)})
def record_in_the_wrong_topic(s: Story) -> None:
    """It was sent, but to another topic."""
    s.forget(topic=ALL, values={v(ALL, 20)})
    s.read_in_the_end(ONE, 20, v(ALL, 20))


@golden("UNKNOWN", {("unrecorded", None): (INFO, 1)}, because="history ended in order: no")
def record_of_a_client_that_was_cut(s: Story) -> None:
    """Near miss of a phantom: the send was in flight when its recorder was killed."""
    s.history = [r for r in s.history if (r["f"], r["client"]) != ("end", PRODUCER[ALL])]
    s.read_in_the_end(ALL, 20, v(ALL, 21))


@golden("INVALID", {("phantom", "unsent"): (F, 1)})
def old_record_of_a_client_that_was_cut(s: Story) -> None:
    """Near miss of an excuse: its neighbours' sends were recorded long before the cut."""
    s.history = [r for r in s.history if (r["f"], r["client"]) != ("end", PRODUCER[ALL])]
    s.send(ALL, 30, 21, 55)
    s.read_in_the_end(ALL, 20, v(ALL, 0))
    s.read_in_the_end(ALL, 21, v(ALL, 30))


# --- replicas -------------------------------------------------------------------------------------


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replica_has_other_bytes(s: Story) -> None:
    """Same offset, other batch, below the HW."""
    s.replicas[5]["digest"] = "something else"


def _flipped(s: Story, node: int, file: str = "log") -> None:
    s.replicas[-1]["digest"] = "other"
    s.faults.append(
        s.faults[0]
        | {
            "fault_id": 77,
            "fault": "disk.bit-flip",
            "label": f"disk.bit-flip node {node}",
            "targets": json.dumps({"nodes": [node], "details": {"file": file}}),
            "took_effect": True,
            "error": None,
        }
    )


@golden("VALID", {("divergent-replicas", "damaged"): (P, 1)})
def replicas_differ_by_a_flipped_bit(s: Story) -> None:
    """Nobody has read the batch since: the broker could not know."""
    _flipped(s, s.replicas[-1]["node"])


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replicas_differ_and_bits_flipped_elsewhere(s: Story) -> None:
    """Near miss: the damage was in another kind of file."""
    _flipped(s, s.replicas[-1]["node"], file="checkpoint")


@golden("INVALID", {("divergent-replicas", "missing"): (F, 1)})
def replica_lacks_a_batch(s: Story) -> None:
    """Node 3 has a hole."""
    s.replicas = [r for r in s.replicas if (r["node"], r["topic"], r["base_offset"]) != (3, ALL, 5)]


@golden("INVALID", {("divergent-replicas", "extra"): (F, 1)})
def replica_has_a_batch_of_its_own(s: Story) -> None:
    """The reference, node 1, has a hole; the two others have what it lacks... one is enough."""
    s.replicas = [r for r in s.replicas if (r["node"], r["topic"], r["base_offset"]) != (1, ALL, 5)]
    s.replica_ends = [r for r in s.replica_ends if (r["node"], r["topic"]) != (3, ALL)]


@golden("INVALID", {("divergent-replicas", "short"): (F, 1)})
def replica_ends_below_the_high_watermark(s: Story) -> None:
    """All were in sync, yet node 3 lacks the end."""
    s.replicas = [
        r for r in s.replicas if (r["node"], r["topic"], r["base_offset"]) != (3, ALL, 15)
    ]
    _end_of(s, 3, ALL).update(end_offset=15, high_watermark=15)


@golden("VALID", {("unequal-ends", None): (INFO, 2)})
def replica_lags_beyond_the_high_watermark(s: Story) -> None:
    """Near miss: the leader has a batch that nobody knows to be committed."""
    s.replicas.append({**s.replicas[-1], "node": 1, "topic": ALL, "base_offset": 20,
                       "last_offset": 20, "digest": "new"})  # fmt: skip
    _end_of(s, 1, ALL).update(end_offset=21)


@golden("VALID")
def tails_differ_above_the_replicas_own_high_watermark(s: Story) -> None:
    """Near miss: node 3 does not know offset 15 to be committed, so its tail may be cut yet."""
    for row in s.replicas:
        if (row["node"], row["topic"], row["base_offset"]) == (3, ALL, 15):
            row["digest"] = "not truncated yet"
    _end_of(s, 3, ALL).update(high_watermark=15)


def _end_of(s: Story, node: int, topic: str) -> dict[str, int]:
    (found,) = [r for r in s.replica_ends if (r["node"], r["topic"]) == (node, topic)]
    return found


# --- liveness and assumptions ------------------------------------------------------------------


@golden("INVALID", {("unavailable", None): (F, 2)}, because="longer than the plan allows")
def nobody_could_write_for_too_long(s: Story) -> None:
    """From 5.0 s to 11.5 s there was no acknowledgement; the plan allows 5 s."""
    s.plan["bounds"]["unavailable_ms"] = 5_000


@golden("VALID")
def nobody_could_write_for_a_while(s: Story) -> None:
    """Near miss: the plan allows 7 s."""
    s.plan["bounds"]["unavailable_ms"] = 7_000


@golden("INVALID", {("unavailable", None): (F, 2)})
def never_recovers(s: Story) -> None:
    """The last sends were never answered."""
    s.plan["bounds"]["unavailable_ms"] = 7_000
    for topic in (ONE, ALL):
        s.send(topic, 30, None, 30, type="info", complete_ns=None)


@golden("UNKNOWN", because="sent once")
def value_was_sent_twice(s: Story) -> None:
    """The workload broke its promise, so duplicates prove nothing."""
    s.send(ALL, 20, 19, 16.5)


@golden("UNKNOWN", because="clocks were monotonic: no")
def clock_went_back(s: Story) -> None:
    """An operation that ends before it begins."""
    s.rows("send", ALL)[0]["complete_ns"] = 0


@golden("UNKNOWN", because="a planned fault took effect: no")
def no_fault_took_effect(s: Story) -> None:
    """Nothing was tested."""
    s.faults[0].update(took_effect=False, error="no such process")


@golden("VALID")
def one_fault_of_two_took_effect(s: Story) -> None:
    """Near miss: reported, but something was tested."""
    s.faults.append({**s.faults[0], "fault_id": 1, "took_effect": False})


@golden("UNKNOWN", because="every fault took effect: no")
def one_step_of_a_script_did_nothing(s: Story) -> None:
    """What the script was to show was not put to the test."""
    s.plan["nemesis"] = {"events": [{"fault": "kill"}, {"fault": "kill"}]}
    s.faults.append({**s.faults[0], "fault_id": 1, "took_effect": False, "error": "not injected"})


@golden("VALID")
def every_step_of_a_script_was_taken(s: Story) -> None:
    """Near miss: both did what they were to do."""
    s.plan["nemesis"] = {"events": [{"fault": "kill"}, {"fault": "kill"}]}
    s.faults.append({**s.faults[0], "fault_id": 1})


@golden("VALID")
def no_fault_was_planned(s: Story) -> None:
    """Near miss: a run without a nemesis may be valid."""
    s.faults.clear()
    s.plan["nemesis"]["faults"] = []


@golden("UNKNOWN", because="the cluster settled: no")
def cluster_did_not_settle(s: Story) -> None:
    """Node 1 never came back into the ISR."""
    s.cluster = [
        r
        for r in s.cluster
        if not (r["topic"] == ALL and r["kind"] == "leader" and r["at_ns"] == 16 * S)
    ]


@golden("UNKNOWN", because="none in all")
def nothing_acknowledged_in_a_topic(s: Story) -> None:
    """Two topics worked, the third did not."""
    for row in s.rows("send", ALL):
        row["type"] = "info"


@golden("UNKNOWN", because="consumers read: no")
def nobody_read_while_it_ran(s: Story) -> None:
    """Consumers were planned, and none returned a record."""
    s.history = [r for r in s.history if r["f"] != "poll"]


@golden("UNKNOWN", because="divergent-replicas nothing-to-judge")
def replicas_were_not_collected(s: Story) -> None:
    """The files of our own broker can be read, so their absence is a gap."""
    s.replicas.clear()
    s.replica_ends.clear()


@golden("UNKNOWN", because="no acknowledged write")
def empty_history(s: Story) -> None:
    """A run that was killed before it did anything."""
    s.history.clear()
    s.cluster.clear()
    s.faults.clear()
    s.replicas.clear()
    s.replica_ends.clear()
