"""Golden histories of acks=1 writes that a dead leader cannot have accepted, and the near misses.

Node 1 leads in epoch 0, which it knew at 1 s, and is dead from 9.6 s to 14 s. It is seen to know of
the next leader at 15 s.
"""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.story import ONE, S, Story, v

LOST = ("lost-write", "middle")


def _lose(s: Story) -> None:
    """What was sent and acknowledged at 13 s; nobody says by whom."""
    s.forget(topic=ONE, values={v(ONE, 14)})


def _struck_by(s: Story, fault: str) -> None:
    """The fault of the healthy run is another one."""
    s.faults[0].update(fault=fault, label=f"{fault} node 1")


@golden("INVALID", {LOST: (F, 1)}, because="no new leader that could have removed the write")
def acks_1_loses_what_a_dead_leader_cannot_have_accepted(s: Story) -> None:
    """Node 2 led, and nobody led after it."""
    _lose(s)


@golden("INVALID", {LOST: (F, 1)}, because="no new leader that could have removed the write")
def acks_1_loses_what_came_after_the_start_of_a_dead_leader(s: Story) -> None:
    """A broker that starts again does not go on with a term of before."""
    s.send(ONE, 99, 12, 14.9)


@golden("INVALID", {LOST: (F, 1)}, because="no new leader that could have removed the write")
def acks_1_loses_while_its_leader_has_no_power(s: Story) -> None:
    """The fault ended the process, whatever else it did."""
    _lose(s)
    _struck_by(s, "power-loss")


@golden("VALID", {LOST: (P, 1)}, cause="noticed by 15.000 s")
def acks_1_loses_right_after_its_leader_died(s: Story) -> None:
    """Near miss: at 11.5 s, when that may be a matter of clocks."""
    s.send(ONE, 99, 12, 11.5)


@golden("VALID", {LOST: (P, 1)}, cause="noticed by 15.000 s")
def acks_1_loses_while_its_leader_is_paused(s: Story) -> None:
    """Near miss: the process is there, and may find a request when it goes on."""
    _lose(s)
    _struck_by(s, "pause")


@golden("VALID", {LOST: (P, 1)}, cause="noticed by 15.000 s")
def acks_1_loses_in_a_crash_loop(s: Story) -> None:
    """Near miss: the process is there again and again."""
    _lose(s)
    _struck_by(s, "crash-loop")


@golden("VALID", {LOST: (P, 1)}, cause="noticed by 15.000 s")
def acks_1_loses_to_a_leader_that_began_after_its_kill(s: Story) -> None:
    """Near miss: nobody saw node 1 know of its term before it was killed."""
    for row in s.cluster:
        if (row["kind"], row["topic"], row["leader_epoch"]) == ("view", ONE, 0):
            row["at_ns"] = round(9.7 * S)
    _lose(s)


@golden("VALID", {LOST: (P, 1)}, cause="as leader at 1.000 s (epoch 1)")
def acks_1_loses_to_the_leader_before_the_dead_one(s: Story) -> None:
    """Near miss: node 3 had led before node 1, and was never seen to know of the change."""
    for row in s.cluster:
        if row["topic"] == ONE:
            row["leader_epoch"] += 1
    s.leader(ONE, 0, 3, 0, [1, 2, 3])
    for row in s.cluster:
        if (row["kind"], row["topic"], row["leader_epoch"]) == ("leader", ONE, 1):
            row["at_ns"] = 1 * S
    s.cluster.append({"at_ns": 59 * S, "kind": "epoch", "topic": ONE, "partition": 0,
                      "leader_epoch": 0, "start_offset": 0, "source": "story"})  # fmt: skip
    cut = {"fault_id": 1, "fault": "partition.halves", "label": "partition of node 3"}
    where = {"started_ns": S // 2, "targets": '{"cuts": [[3, 1, 0], [3, 2, 0]]}'}
    s.faults.append(s.faults[0] | cut | where)
    s.file_by_epochs(ONE)
    _lose(s)
