"""Golden histories of power losses and lost disks: what they excuse, and the near misses.

In all of them node 1 leads until 9.6 s, when nodes lose what they had; the next leader's epoch
starts at offset 10. The write that is gone was acknowledged at 9.4 s, at offset 10.
"""

import json
from collections.abc import Sequence

from checkers.history.history import METADATA_TOPIC
from tests.support.histories.golden.base import INFO, F, P, U, golden
from tests.support.histories.story import ALL, ONE, S, Story, v

LOST = ("lost-write", "middle")
OTHER = 99


def taken(
    s: Story,
    *nodes: int,
    fault: str = "power-loss",
    by_s: float = 9.6,
    took: bool = True,
    details: dict[str, str] | None = None,
    damaged: dict[int, list[str]] | None = None,
) -> None:
    """The nodes, and no others, lost what they had in the tenth of a second before `by_s`. damaged:
    the files that the fault changed, by node."""
    number = len(s.faults)
    s.faults.append(
        {
            "fault_id": number,
            "fault": fault,
            "label": f"{fault} of {', '.join(map(str, nodes))}",
            "targets": json.dumps({"nodes": nodes, "details": details or {}}),
            "planned_ms": 9500,
            "started_ns": round((by_s - 0.1) * S),
            "effective_ns": round(by_s * S) if took else None,
            "healed_ns": 14 * S,
            "damaged": None if damaged is None else json.dumps(damaged),
            "took_effect": took,
            "error": None if took else "not injected",
        }
    )


def led(s: Story, topic: str, *isrs: tuple[float, int, int, Sequence[int]]) -> None:
    """What became of the partition: (at, leader, leader epoch, in-sync replicas)."""
    s.cluster = [r for r in s.cluster if not (r["kind"] == "leader" and r["topic"] == topic)]
    for at_s, leader, epoch, isr in isrs:
        s.leader(topic, at_s, leader, epoch, list(isr))
    led_by = {epoch: leader for _, leader, epoch, _ in isrs}
    for row in s.cluster:
        if row["kind"] == "view" and row["topic"] == topic:
            row["leader"] = led_by.get(row["leader_epoch"], row["leader"])


def wiped(s: Story) -> None:
    """Nodes 1 and 2 are the in-sync replicas; node 2 is back first, node 1 follows it."""
    s.faults.clear()
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1, 2)), (10, 2, 1, (2,)), (16, 2, 1, (2, 3, 1)))
    s.send(ALL, 99, 10, 9.4)


def configured(s: Story, **configs: str) -> None:
    """Settings of the topic."""
    s.set_topic(ALL, configs={name.replace("_", "."): value for name, value in configs.items()})


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s, because of fault")
def min_isr_replicas_lose_power_together(s: Story) -> None:
    """As many as min.insync.replicas, and they were all that had it."""
    wiped(s)
    taken(s, 1, 2)


def read_before(s: Story, **more: object) -> None:
    """A reader got the record below those that the power loss took; the final log lacks it."""
    wiped(s)
    taken(s, 1, 2)
    s.forget(topic=ALL, values={v(ALL, 10)})
    s.history = [row for row in s.history if row.get("value") != v(ALL, 99)]
    (sent,) = [row for row in s.rows("send", ALL) if row["value"] == v(ALL, 10)]
    sent.update(more)


@golden("VALID", {LOST: (P, 1)})
def marker_of_a_transaction_goes_with_power(s: Story) -> None:
    """Its record is still there, but nobody knows that it is committed."""
    read_before(s, txn=7, transactional_id="writer")


@golden("INVALID", {LOST: (F, 1)})
def record_without_a_transaction_lay_below_what_power_took(s: Story) -> None:
    """Near miss: no marker was lost that it needs."""
    read_before(s)


@golden("INVALID", {LOST: (F, 1)})
def one_replica_too_few_loses_power(s: Story) -> None:
    """Near miss: node 2 kept its memory, and it leads."""
    wiped(s)
    taken(s, 1)


@golden("INVALID", {LOST: (F, 1)})
def another_node_loses_power(s: Story) -> None:
    """Near miss: node 3 was not in sync, so that what it lacks is no loss."""
    wiped(s)
    taken(s, 1, 3)


@golden("INVALID", {LOST: (F, 1)})
def power_loss_without_effect(s: Story) -> None:
    """Near miss: it was planned, and it is not proven that anything happened."""
    wiped(s)
    taken(s, 1, 2, took=False)


@golden("INVALID", {LOST: (F, 1)})
def write_came_after_the_power_loss(s: Story) -> None:
    """Near miss: acknowledged when the power was back."""
    wiped(s)
    taken(s, 1, 2, by_s=9.3)


@golden("INVALID", {LOST: (F, 1)})
def write_lies_below_what_was_lost(s: Story) -> None:
    """Near miss: the next leader had everything up to offset 10."""
    wiped(s)
    taken(s, 1, 2)
    s.history = [r for r in s.history if not (r["f"] == "send" and r["value"] == v(ALL, 99))]
    s.forget(topic=ALL, values={v(ALL, 6)})


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def power_is_lost_one_after_the_other(s: Story) -> None:
    """The second goes before the first is in sync again: both lacked the write at once."""
    wiped(s)
    s.rows("send", ALL)[-1].update(invoke_ns=round(8.8 * S), complete_ns=round(8.9 * S))
    taken(s, 1, by_s=9)
    taken(s, 2)


@golden("INVALID", {LOST: (F, 1)})
def power_is_lost_before_and_after_the_write(s: Story) -> None:
    """Near miss: the write came between the losses, so only one of them can have taken it."""
    wiped(s)
    taken(s, 1, by_s=9)
    taken(s, 2)


@golden("INVALID", {LOST: (F, 1)})
def first_was_in_sync_again_before_the_second_lost_power(s: Story) -> None:
    """Near miss: node 1 lost power at 2 s and was in sync again at 4 s."""
    wiped(s)
    led(s, ALL, (0, 1, 0, (1, 2)), (3, 1, 0, (2,)), (4, 1, 0, (1, 2)), (10, 2, 1, (2,)))
    s.leader(ALL, 16, 2, 1, [2, 3, 1])
    taken(s, 1, by_s=2)
    taken(s, 2)


@golden("INVALID", {LOST: (F, 1)})
def flushed_before_the_power_loss(s: Story) -> None:
    """With flush.messages=1 no number of power losses is an excuse."""
    wiped(s)
    configured(s, flush_messages="1")
    taken(s, 1, 2)


@golden("VALID", {LOST: (P, 1)}, cause="No other replica was in sync")
def flush_was_off_for_a_while(s: Story) -> None:
    """A change of the setting counts for what was written while it was in force."""
    wiped(s)
    configured(s, flush_messages="1")
    taken(s, 1, 2)
    details = {"topic": ALL, "name": "flush.messages", "value": "1000"}
    taken(s, fault="config", by_s=9.2, details=details)


@golden("INVALID", {LOST: (F, 1)})
def flush_was_off_in_another_topic(s: Story) -> None:
    """Near miss: the change was another topic's."""
    wiped(s)
    configured(s, flush_messages="1")
    taken(s, 1, 2)
    details = {"topic": ONE, "name": "flush.messages", "value": "1000"}
    taken(s, fault="config", by_s=9.2, details=details)


@golden("INVALID", {LOST: (F, 1)})
def eligible_replica_was_left_standing(s: Story) -> None:
    """The leader alone in sync lost power; node 2 was eligible, but node 1 led again."""
    wiped(s)
    led(s, ALL, (0, 1, 0, (1, 2)), (9.45, 1, 0, (1,)), (10, 1, 1, (1,)), (16, 1, 1, (1, 2, 3)))
    taken(s, 1)


@golden("VALID", {LOST: (P, 1)}, cause="No other replica was in sync")
def last_replica_standing_loses_power(s: Story) -> None:
    """The same with eligible leader replicas off."""
    eligible_replica_was_left_standing(s)
    s.plan["broker"] = {"eligible.leader.replicas.version": 0}


@golden("VALID", {LOST: (P, 1)}, cause="suffered disk loss")
def only_replica_of_min_isr_1_loses_its_disk(s: Story) -> None:
    """With min ISR 1 the leader alone may acknowledge, and its disk was all there was."""
    wiped(s)
    s.set_topic(ALL, min_insync_replicas=1)
    led(s, ALL, (0, 1, 0, (1,)), (10, 1, 1, (1,)), (16, 1, 1, (1, 2, 3)))
    taken(s, 1, fault="disk.lost")


@golden("INVALID", {LOST: (F, 1)})
def disk_is_damaged_and_a_whole_one_is_left(s: Story) -> None:
    """A corrupted disk excuses nothing while an intact in-sync replica exists."""
    wiped(s)
    configured(s, flush_messages="1")
    taken(s, 1, fault="disk.bit-flip", details={"file": "log"})


@golden("VALID", {LOST: (P, 1)}, cause="suffered disk loss or damage")
def all_disks_are_damaged(s: Story) -> None:
    """Nor does a flush help, where no whole disk is left."""
    wiped(s)
    configured(s, flush_messages="1")
    taken(s, 1, 2, fault="disk.cut-tail", details={"file": "log"})


def log_file(topic: str) -> str:
    """The path of the first segment of partition 0."""
    return f"log/{topic}-0/00000000000000000000.log"


@golden("VALID", {LOST: (P, 1)}, cause="suffered disk loss or damage")
def logs_of_the_partition_are_damaged(s: Story) -> None:
    """Of one node it is known which files the fault changed, of the other it is not."""
    wiped(s)
    damaged = {1: [log_file(ONE), log_file(ALL)]}
    taken(s, 1, 2, fault="disk.misdirected", details={"file": "log"}, damaged=damaged)


@golden("INVALID", {LOST: (F, 1)})
def log_of_another_partition_is_damaged(s: Story) -> None:
    """Near miss: only of one of the two nodes the damage was in this partition's log."""
    wiped(s)
    damaged = {1: [log_file(ALL)], 2: [log_file(ONE)]}
    taken(s, 1, 2, fault="disk.misdirected", details={"file": "log"}, damaged=damaged)


@golden("INVALID", {LOST: (F, 1)})
def all_indexes_are_damaged(s: Story) -> None:
    """Near miss: an index holds no records."""
    wiped(s)
    taken(s, 1, 2, fault="disk.cut-tail", details={"file": "index"})


def _after_a_clean_election(s: Story) -> None:
    """Node 1 has led since 5 s, from offset 8 on; node 3, which led before, never heard of it."""
    wiped(s)
    led(s, ALL, (0, 3, 0, (1, 2, 3)), (5, 1, 1, (1, 2)), (10, 2, 2, (2,)), (16, 2, 2, (2, 3, 1)))
    [first, second] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == ALL]
    first["end_offset"] = 8
    s.cluster.append(second | {"leader_epoch": 2})
    second.update(start_offset=8, end_offset=10)
    s.file_by_epochs(ALL)
    s.cluster = [r for r in s.cluster if r["kind"] != "view" or r["topic"] != ALL]


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def power_takes_what_an_earlier_leader_might_have_answered(s: Story) -> None:
    """A deposed leader acknowledges nothing under acks=all: its deposition explains no loss."""
    _after_a_clean_election(s)
    taken(s, 1, 2)


@golden("INVALID", {LOST: (F, 1)}, cause="in sync, kept all records")
def too_few_lose_power_after_a_clean_election(s: Story) -> None:
    """Near miss: the one that leads next kept its memory."""
    _after_a_clean_election(s)
    taken(s, 1)


@golden(
    "VALID",
    {LOST: (P, 1)},
    cause="(epoch 1), without the records that were lost from offset 10 on",
)
def acks_1_leader_loses_power_and_leads_again(s: Story) -> None:
    """The leader alone had it for sure, and no other was elected."""
    s.faults.clear()
    led(s, ONE, (0, 1, 0, (1, 2, 3)), (10, 1, 1, (1, 2, 3)))
    s.send(ONE, 99, 10, 9.4)
    taken(s, 1)


@golden("VALID", {LOST: (P, 1)}, cause="No other replica was in sync")
def acks_1_last_replica_standing_loses_power_and_leads_again(s: Story) -> None:
    """Nobody was in sync or eligible, so it was elected as the last that had led (KIP-966)."""
    s.faults.clear()
    led(s, ONE, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1,)), (9.8, -1, 0, ()), (10, 1, 1, (1,)))
    s.cluster[-2]["elr"] = []
    s.leader(ONE, 16, 1, 1, [1, 2, 3])
    s.send(ONE, 99, 10, 9.4)
    taken(s, 1)


@golden("INVALID", {LOST: (F, 1)})
def acks_1_follower_loses_power(s: Story) -> None:
    """Near miss: the leader kept its power, and leads on in a new epoch."""
    s.faults.clear()
    led(s, ONE, (0, 1, 0, (1, 2, 3)), (10, 1, 1, (1, 3)), (16, 1, 1, (1, 2, 3)))
    s.send(ONE, 99, 10, 9.4)
    taken(s, 2)


def _leads_three_epochs(s: Story) -> None:
    """Of node 1's epochs the second has no record in the final log: it begins where the third does.
    Node 2 lost its disk before the second."""
    s.faults.clear()
    led(s, ONE, (0, 1, 0, (1, 2, 3)), (10, 1, 1, (1,)), (13, 1, 2, (1,)), (16, 1, 2, (1, 2, 3)))
    [second] = [r for r in s.cluster if (r["kind"], r["topic"]) == ("epoch", ONE)][1:]
    s.cluster.append(second | {"leader_epoch": 2})
    s.file_by_epochs(ONE)
    s.send(ONE, 99, 10, 9.4)
    taken(s, 2, fault="disk.lost")


@golden(
    "VALID",
    {LOST: (P, 1)},
    cause="(epoch 2), without the records that were lost from offset 10 on",
)
def acks_1_leader_loses_its_disk_after_a_follower(s: Story) -> None:
    """What a later loss of the leader's own took tells nothing of an earlier one."""
    _leads_three_epochs(s)
    taken(s, 1, fault="disk.lost", by_s=12.5)


@golden("INVALID", {LOST: (F, 1)}, cause="in sync, kept all records")
def acks_1_leader_keeps_its_disk_and_a_follower_loses_another(s: Story) -> None:
    """Near miss: no disk of the leader's was lost."""
    _leads_three_epochs(s)
    taken(s, 2, fault="disk.lost", by_s=12.5)


@golden("UNKNOWN", {LOST: (U, 1)}, because="the record cannot show it")
def power_loss_without_a_record_of_epochs(s: Story) -> None:
    """Who was in sync cannot be told."""
    wiped(s)
    s.cluster = [r for r in s.cluster if r["kind"] != "epoch"]
    taken(s, 1, 2)


@golden("VALID", {("truncated-read", None): (P, 1), ("lost-write", "tail"): (P, 1)})
def consumer_read_what_then_lost_power(s: Story) -> None:
    """It was below the high watermark, in the memory of all in-sync replicas."""
    wiped(s)
    s.history = [r for r in s.history if not (r["f"] == "send" and r["value"] == v(ALL, 99))]
    s.send(ALL, 99, 20, 9.4)
    s.poll(ALL, 9.5, {20: v(ALL, 99)})
    taken(s, 1, 2)


def _read_in_between(s: Story, written_s: float) -> None:
    """Node 1 loses power at 9 s, node 2 at 9.6 s; a consumer reads what was written from node 2."""
    wiped(s)
    s.history = [r for r in s.history if not (r["f"] == "send" and r["value"] == v(ALL, 99))]
    s.send(ALL, 99, 20, written_s)
    s.poll(ALL, 9.4, {20: v(ALL, 99)})
    taken(s, 1, by_s=9)
    taken(s, 2)


@golden("VALID", {("truncated-read", None): (P, 1), ("lost-write", "tail"): (P, 1)})
def consumer_read_between_the_losses_what_was_written_before_them(s: Story) -> None:
    """One had lost it already, the other lost it after it was read."""
    _read_in_between(s, 8.8)


@golden("INVALID", {("truncated-read", None): (F, 1), ("lost-write", "tail"): (F, 1)})
def consumer_read_between_the_losses_what_was_written_there(s: Story) -> None:
    """Near miss: only the second can have taken it."""
    _read_in_between(s, 9.2)


@golden("VALID", {("truncated-read", None): (P, 1), ("lost-write", "tail"): (P, 1)})
def end_is_told_long_after_what_was_read_had_lost_power(s: Story) -> None:
    """Nobody could be asked in between: the change lies between the read and the answer."""
    consumer_read_what_then_lost_power(s)
    s.row("start", OTHER, 0)
    s.watermark(ALL, 40, 20, client=OTHER)
    s.row("end", OTHER, 61)


def twice_across_epochs(s: Story) -> None:
    """A value of the acks=1 topic's partition 0 is there twice: its client began a new epoch since
    partition 0 of the other topic did not know it."""
    s.set_topic(ONE, acks="all", idempotence=True)
    s.send(ONE, 98, 20, 21, client=3, value=v(ALL, 98), complete_ns=30 * S)
    s.read_in_the_end(ONE, 20, v(ALL, 98))
    s.read_in_the_end(ONE, 21, v(ALL, 98))
    s.new_epoch(3, 22, 23, "unknown producer id", partition=0)


@golden("VALID", {LOST: (P, 1), ("duplicate", "client-epoch"): (P, 1)},
        cause="a partition that had lost records with permission")  # fmt: skip
def client_began_again_since_a_partition_lost_power(s: Story) -> None:
    """What the partition knew of the producer went with its records."""
    wiped(s)
    taken(s, 1, 2)
    twice_across_epochs(s)


@golden("INVALID", {LOST: (F, 1), ("duplicate", None): (F, 1)})
def client_began_again_though_the_partition_kept_its_records(s: Story) -> None:
    """Near miss: one power loss is too few, so the broker should have known the producer."""
    wiped(s)
    taken(s, 1)
    twice_across_epochs(s)


@golden("VALID", {LOST: (P, 1), ("truncated-read", None): (P, 1),
                  ("inconsistent-offset", "read"): (P, 1)})  # fmt: skip
def what_was_read_is_written_again_after_a_power_loss(s: Story) -> None:
    """No duplicate: a consumer had the first copy, which then was lost; no log holds both."""
    wiped(s)
    taken(s, 1, 2)
    s.send(ALL, 98, 20, 9.3, complete_ns=20 * S)
    s.row("start", OTHER, 0)
    s.poll(ALL, 9.5, {11: v(ALL, 98)}, client=OTHER)
    s.poll(ALL, 30, {12: v(ALL, 13)}, client=OTHER)
    s.row("end", OTHER, 61)
    s.read_in_the_end(ALL, 20, v(ALL, 98))


@golden("VALID", {("lost-write", "tail"): (P, 1), ("truncated-read", None): (P, 1),
                  ("uncommitted-read", None): (INFO, 1)})  # fmt: skip
def offsets_are_used_again_after_a_power_loss(s: Story) -> None:
    """What was sent later has an earlier offset than what was lost: nothing was reordered."""
    wiped(s)
    s.rows("send", ALL)[-1].update(offset=21)
    s.send(ALL, 98, 20, 20)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.poll(ALL, 9.5, {20: v(ALL, 98), 21: v(ALL, 99)})
    taken(s, 1, 2)


@golden("VALID", {("lost-write", None): (P, 1)}, cause="lost power by 9.600 s")
def power_takes_a_write_that_was_acknowledged_without_its_offset(s: Story) -> None:
    """Its leader had known the batch already, long before."""
    wiped(s)
    s.rows("send", ALL)[-1].update(offset=None, invoke_ns=4 * S, complete_ns=5 * S)
    taken(s, 1, 2)


@golden("INVALID", {("lost-write", None): (F, 1)})
def write_without_its_offset_came_after_the_power_loss(s: Story) -> None:
    """Near miss: it was written when the power was back."""
    wiped(s)
    s.rows("send", ALL)[-1].update(offset=None, invoke_ns=11 * S, complete_ns=12 * S)
    taken(s, 1, 2)


def metadata_logs(s: Story, *extents: tuple[int, int]) -> None:
    """Where the nodes' copies of the metadata log start and end."""
    s.replica_ends += [
        {
            "node": node, "topic": METADATA_TOPIC, "partition": 0, "start_offset": start,
            "end_offset": end, "high_watermark": end,
        }
        for node, (start, end) in enumerate(extents, 1)
    ]  # fmt: skip


@golden("UNKNOWN", {LOST: (U, 1)}, because="a snapshot replaced the metadata log below offset 40")
def snapshot_hides_what_led_to_a_loss(s: Story) -> None:
    """Only node 1 lost power, which excuses nothing; but who was in sync before is not known."""
    taken(s, 1)
    s.send(ALL, OTHER, 10, 9.4)
    metadata_logs(s, (40, 90), (50, 90), (60, 90))


@golden("INVALID", {LOST: (F, 1)})
def snapshot_hides_nothing_that_another_node_still_has(s: Story) -> None:
    """Node 3 has the log from the beginning."""
    taken(s, 1)
    s.send(ALL, OTHER, 10, 9.4)
    metadata_logs(s, (40, 90), (50, 90), (0, 90))


@golden("INVALID", {LOST: (F, 1)})
def snapshot_without_any_lost_state(s: Story) -> None:
    """Nothing could have excused the loss."""
    s.send(ALL, OTHER, 10, 9.4)
    metadata_logs(s, (40, 90), (50, 90), (60, 90))
