"""Golden histories of power losses that are hard to tell from others, and near misses of them.

As in `state_losses`, node 1 leads until 9.6 s, when nodes 1 and 2 lose what they had, and the next
leader's epoch starts at offset 10.
"""

import json

from tests.support.histories.golden.base import F, Found, P, golden
from tests.support.histories.golden.state_losses import (
    LOST,
    configured,
    led,
    read_before,
    taken,
    wiped,
)
from tests.support.histories.story import ALL, ONE, PRODUCER, S, Story, v

ID = "writer"


def changed(s: Story, name: str, value: str, from_s: float, until_s: float) -> None:
    """A setting of the topic with acks=all was another one for a while."""
    details = {"topic": ALL, "name": name, "value": value}
    s.faults.append(
        {
            "fault_id": len(s.faults),
            "fault": "config",
            "label": f"{name}={value}",
            "targets": json.dumps({"nodes": [], "details": details}),
            "planned_ms": round(from_s * 1000),
            "started_ns": round(from_s * S),
            "effective_ns": round(from_s * S),
            "healed_ns": round(until_s * S),
            "took_effect": True,
        }
    )


def _followed_by_another(s: Story, committed_s: float, written_s: float, offset: int) -> None:
    """The record at offset 9 is of a transaction, and is lost. The producer's next one, which it
    aborted, began at `offset`."""
    read_before(s, txn=7, transactional_id=ID)
    client = PRODUCER[ALL]
    s.row("init-producer", client, 0.2, transactional_id=ID)
    s.row("commit-transaction", client, committed_s, txn=7, transactional_id=ID)
    more = {"type": "fail", "txn": 8, "transactional_id": ID}
    s.send(ALL, 77, offset, written_s, **more)
    s.row("abort-transaction", client, written_s + 0.2, txn=8, transactional_id=ID)


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def next_transaction_begins_where_the_lost_marker_was(s: Story) -> None:
    """The next leader wrote it there: its marker ended both."""
    _followed_by_another(s, committed_s=8, written_s=16.2, offset=10)


@golden("INVALID", {LOST: (F, 1)})
def next_transaction_was_there_before_the_power_loss(s: Story) -> None:
    """Near miss: the marker was below it, and so below all that was lost."""
    _followed_by_another(s, committed_s=6, written_s=7, offset=10)


@golden("INVALID", {LOST: (F, 1)})
def next_transaction_begins_below_what_was_lost(s: Story) -> None:
    """Near miss: the loss took nothing below offset 11, whenever the marker was written."""
    _followed_by_another(s, committed_s=8, written_s=9.2, offset=10)
    [_, second] = [r for r in s.cluster if r["kind"] == "epoch" and r["topic"] == ALL]
    second["start_offset"] = 11
    s.file_by_epochs(ALL)


def _dated_too_early(s: Story, at_s: float, behind_ms: float, until_s: float = 12) -> None:
    """The controller's clock was behind from 9 s on, and it dated the next leader to `at_s`. No
    other history is to be judged with these clocks."""
    s.plan["name"] = "clocks"
    wiped(s)
    taken(s, 1, 2)
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (8, 1, 0, (1, 2)), (at_s, 2, 1, (2,)), (16, 2, 1, (2, 3, 1)))
    for clock_s, ahead_ms in ((9, -behind_ms), (until_s, 0.0)):
        s.cluster.append(
            {"at_ns": round(clock_s * S), "kind": "clock", "node": 3, "ahead_ms": ahead_ms}
        )


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def next_leader_is_dated_before_the_power_loss(s: Story) -> None:
    """It was elected at 9.7 s, by a clock that was half a second behind."""
    _dated_too_early(s, 9.2, 500)


@golden("INVALID", {LOST: (F, 1)})
def next_leader_is_dated_earlier_than_the_clock_was_behind(s: Story) -> None:
    """Near miss: the clock was only a fifth of a second behind."""
    _dated_too_early(s, 9.2, 200)


@golden("INVALID", {LOST: (F, 1)})
def next_leader_is_dated_earlier_than_a_recorder_believes(s: Story) -> None:
    """Near miss: the recorder knows better than a clock that is an hour behind."""
    _dated_too_early(s, 7.4, 3_600_000)


@golden("INVALID", {LOST: (F, 1)})
def next_leader_is_dated_before_the_power_loss_by_a_right_clock(s: Story) -> None:
    """Near miss: the clock was right again before the power was lost."""
    _dated_too_early(s, 9.2, 500, until_s=9.3)


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def next_leader_is_dated_before_the_power_loss_until_the_clock_is_right(s: Story) -> None:
    """The clock was behind until right after the power was lost."""
    _dated_too_early(s, 9.2, 500, until_s=9.55)


@golden("VALID", {LOST: (P, 1)}, cause="lost power by 9.600 s")
def acks_1_leader_is_dated_to_lead_again_before_its_power_loss(s: Story) -> None:
    """It answered a moment before its loss: after the date of its next term."""
    _dated_too_early(s, 9.2, 500)
    s.history.pop()
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (10, 2, 1, (2,)), (16, 2, 1, (2, 3, 1)))
    led(s, ONE, (0, 1, 0, (1, 2, 3)), (9.2, 1, 1, (1, 2, 3)))
    s.send(ONE, 99, 10, 9.4, node=1)


def _flushed_since(s: Story, healed_s: float, written_s: float) -> None:
    """flush.messages was 1 but for some seconds. A consumer reads at 9.4 s what power then
    takes."""
    wiped(s)
    s.history.pop()
    configured(s, flush_messages="1")
    s.send(ALL, 99, 20, written_s)
    s.poll(ALL, 9.4, {20: v(ALL, 99)})
    taken(s, 1, 2)
    changed(s, "flush.messages", "1000", 4, healed_s)


READ = ("truncated-read", None)
UNFLUSHED: Found = {READ: (P, 1), ("lost-write", "tail"): (P, 1)}
FLUSHED: Found = {READ: (F, 1), ("lost-write", "tail"): (F, 1)}


@golden("VALID", UNFLUSHED, cause="lost power by 9.600 s")
def read_since_flush_was_on_again_was_written_before(s: Story) -> None:
    """Nothing flushed it since."""
    _flushed_since(s, healed_s=6, written_s=5.5)


@golden("VALID", UNFLUSHED, cause="lost power by 9.600 s")
def written_before_all_brokers_knew_that_flush_is_on_again(s: Story) -> None:
    """A follower goes on as before until it hears of it."""
    _flushed_since(s, healed_s=6, written_s=7.5)


@golden("INVALID", FLUSHED)
def written_when_all_brokers_knew_that_flush_is_on_again(s: Story) -> None:
    """Near miss: it was on the disks."""
    _flushed_since(s, healed_s=6, written_s=8.5)


def _read_from_an_earlier_leader(s: Story, *known_at_s: float) -> None:
    """Node 1 was deposed at 8 s, node 2 at 10.5 s, which they know at `known_at_s`. Power takes
    from nodes 2 and 3 what was written before; a consumer reads it at 17.5 s."""
    wiped(s)
    s.history.pop()
    led(s, ALL, (0, 1, 0, (1, 2, 3)), (8, 2, 1, (2, 3)), (10.5, 3, 2, (3,)), (16, 3, 2, (2, 3, 1)))
    [_, last] = [r for r in s.cluster if (r["kind"], r["topic"]) == ("epoch", ALL)]
    last["leader_epoch"] = 2
    s.file_by_epochs(ALL)
    s.cluster = [r for r in s.cluster if (r["kind"], r["topic"]) != ("view", ALL)]
    view = {"kind": "view", "topic": ALL, "partition": 0, "source": "story", "leader": 3}
    for node, at_s in enumerate(known_at_s, 1):
        s.cluster.append(view | {"node": node, "leader_epoch": 2, "at_ns": round(at_s * S)})
    taken(s, 2, 3)
    s.send(ALL, 99, 20, 7.5)
    s.poll(ALL, 17.5, {20: v(ALL, 99)})


@golden("VALID", UNFLUSHED, cause="lost power by 9.600 s")
def read_from_an_earlier_leader_after_a_power_loss(s: Story) -> None:
    """It kept its power, and answers readers."""
    _read_from_an_earlier_leader(s, 30, 15)


@golden("INVALID", {READ: (F, 1), ("lost-write", "tail"): (P, 1)})
def read_when_the_earlier_leader_had_lost_its_power(s: Story) -> None:
    """Near miss: node 2 did not know for long, but it had lost its power."""
    _read_from_an_earlier_leader(s, 15, 30)
